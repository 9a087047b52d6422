// Moving the cards of a workflow: by pointer (SortableJS) and by keyboard. The server says whether a card may stand there.
(function () {
  "use strict";
  var still = window.matchMedia("(prefers-reduced-motion: reduce)");
  var narrow = window.matchMedia("(max-width: 640px)"); // lanes stand beneath each other
  var HEAD = 56;     // pixels of a lane
  var held = null;   // what is picked up by keyboard: its grip, the list item that moves, and where that was
  var dragged = null;  // where the card was that is being dragged
  var focusAfter = ""; // id of the grip that gets the focus when the board has come back
  var sent = null;   // where the card was that the server is being asked about

  function words(name, values) {
    var text = document.getElementById("spoken").dataset[name] || "";
    return text.replace(/\{(\w+)\}/g, function (_all, key) { return values && key in values ? values[key] : ""; });
  }
  function say(text) { document.getElementById("spoken").textContent = text; }
  function isChain(list) { return list.classList.contains("nw-chain"); }
  function lanes() { return Array.from(document.querySelectorAll("#lanes > .nw-lane")); }
  function chainOf(lane) { return lane.querySelector(":scope > .nw-chain"); }
  function hasChain(lane) { var chain = chainOf(lane); return Boolean(chain && chain.firstElementChild); }
  function where(item) { return { parent: item.parentElement, next: item.nextElementSibling }; }
  function putBack(item, place) { place.parent.insertBefore(item, place.next); }
  function nameOf(item) { return item.querySelector(".wb-grip").dataset.name; }
  function equals(item) {
    return lanes().filter(function (lane) { return lane.dataset.priority === item.dataset.priority; });
  }

  // -- to the server
  function fields(item) {
    var list = item.parentElement;
    var values = { master: isChain(list) ? list.dataset.master : "", revision: document.getElementById("board").dataset.revision };
    var next = item.nextElementSibling, previous = item.previousElementSibling;
    var fits = function (other) { return other && (isChain(list) || other.dataset.priority === item.dataset.priority); };
    if (next && (fits(next) || !fits(previous))) { values.before = next.dataset.node; }
    else if (previous) { values.after = previous.dataset.node; }
    return values;
  }
  function waiting(asked) { // one question at a time: the answer is a new board
    sent = asked;
    document.body.classList.toggle("wb-waiting", Boolean(asked));
  }
  function send(item, origin) {
    waiting({ item: item, origin: origin });
    htmx.ajax("POST", item.querySelector(".wb-grip").dataset.place, { target: "#board", swap: "morph:outerHTML", values: fields(item) });
  }
  function isPlace(event) { return /\/place$/.test(event.detail.pathInfo ? event.detail.pathInfo.requestPath : event.detail.path || ""); }
  function failed(event) {
    if (!sent || !isPlace(event)) { return; }
    putBack(sent.item, sent.origin);
    waiting(null);
    say(words("failed"));
    document.dispatchEvent(new CustomEvent("said", { detail: { text: words("failed"), tone: "red" } }));
  }
  document.addEventListener("htmx:responseError", failed);
  document.addEventListener("htmx:sendError", failed);
  document.addEventListener("htmx:timeout", failed);
  document.addEventListener("htmx:configRequest", function (event) {
    if (isPlace(event)) { delete event.detail.headers["X-Digest"]; } // the card stands elsewhere than the digest says
  });

  // -- the board holds still while a card is in a hand
  function ofBoard(event) { return event.detail.target && event.detail.target.id === "board" && event.detail.requestConfig.verb === "get"; }
  document.addEventListener("htmx:beforeRequest", function (event) {
    if ((held || dragged || sent) && ofBoard(event)) { event.preventDefault(); }
  });
  document.addEventListener("htmx:beforeSwap", function (event) {
    if ((held || dragged || sent) && ofBoard(event)) { event.detail.shouldSwap = false; }
  });

  // -- by pointer
  function mayPass(event, pointer) { // a master that could go into a chain passes others only along their heads
    if (event.to.id !== "lanes" || hasChain(event.dragged)) { return true; }
    var at = pointer.touches ? pointer.touches[0] : pointer;
    return at.clientY < event.related.getBoundingClientRect().top + HEAD;
  }
  function options(list) {
    var chain = isChain(list);
    return {
      handle: ".wb-grip", draggable: ">li", forceFallback: true, fallbackTolerance: 4, fallbackOnBody: true,
      direction: function () { return chain || narrow.matches ? "vertical" : "horizontal"; },
      onMove: function (event, pointer) { return mayPass(event, pointer); },
      swapThreshold: .6, emptyInsertThreshold: 24, animation: still.matches ? 0 : 140, scroll: true,
      group: {
        name: chain ? "chains" : "lanes",
        put: chain && function (to, from, item) { return !to.el.closest("[data-node='" + item.dataset.node + "']") && (isChain(from.el) || !hasChain(item)); }
      },
      onStart: function (event) {
        dragged = { parent: event.from, next: event.item.nextElementSibling };
        document.body.classList.add("wb-dragging");
      },
      onEnd: function (event) {
        var origin = dragged;
        dragged = null;
        document.body.classList.remove("wb-dragging");
        if (event.from !== event.to || event.oldIndex !== event.newIndex) { send(event.item, origin); }
      }
    };
  }
  function ready() {
    if (!window.Sortable) { return; }
    document.querySelectorAll("#lanes, .nw-chain[data-master]").forEach(function (list) {
      if (!Sortable.get(list) && document.querySelector(".wb-grip")) { Sortable.create(list, options(list)); }
    });
  }
  document.addEventListener("htmx:afterSettle", function (event) {
    if (!event.detail.target || event.detail.target.id !== "board") { return; }
    waiting(null);
    ready();
    var grip = focusAfter && document.getElementById(focusAfter);
    focusAfter = "";
    if (grip) { grip.focus(); }
  });

  // -- by keyboard
  function place() {
    var item = held.item, list = item.parentElement;
    var all = isChain(list) ? Array.from(list.children) : equals(item);
    var values = { name: nameOf(item), place: all.indexOf(item) + 1, count: all.length };
    if (isChain(list)) { values.master = list.closest(".nw-lane").querySelector(".wb-grip").dataset.name; }
    say(words(isChain(list) ? "inChain" : "among", values));
  }
  function move(work) {
    held.moving = true;
    work();
    held.grip.focus();
    held.grip.scrollIntoView({ block: "nearest", inline: "nearest" });
    held.moving = false;
    place();
  }
  function along(step) { // to another lane
    var item = held.item, list = item.parentElement;
    if (!isChain(list)) {
      var all = equals(item), other = all[all.indexOf(item) + step];
      if (!other) { say(words("noFurther")); return; }
      move(function () { list.insertBefore(item, step < 0 ? other : other.nextElementSibling); });
      return;
    }
    var places = lanes(), next = places[places.indexOf(list.closest("#lanes > .nw-lane")) + step];
    if (!next) { say(words("noFurther")); return; }
    var index = Array.from(list.children).indexOf(item), chain = chainOf(next);
    move(function () { chain.insertBefore(item, chain.children[index] || null); });
  }
  function down(step) { // within a chain, into one, and back out of it
    var item = held.item, list = item.parentElement;
    if (isChain(list)) {
      var other = step < 0 ? item.previousElementSibling : item.nextElementSibling;
      if (other) { move(function () { list.insertBefore(item, step < 0 ? other : other.nextElementSibling); }); }
      else if (step < 0 && !isChain(held.origin.parent)) { move(function () { putBack(item, held.origin); }); }
      else { say(words(step < 0 ? "needsClock" : "noFurther")); }
      return;
    }
    var all = lanes(), at = all.indexOf(item), into = all[at - 1] || all[at + 1];
    if (hasChain(item)) { say(words("hasChain")); return; }
    if (step < 0 || !into) { say(words("noFurther")); return; }
    move(function () { chainOf(into).append(item); });
  }
  function pick(grip) {
    var item = grip.closest("li[data-node]");
    held = { grip: grip, item: item, origin: where(item), moving: false };
    grip.setAttribute("aria-pressed", "true");
    item.classList.add("is-held");
    document.body.classList.add("wb-dragging");
    say(words("picked", { name: nameOf(item) }));
  }
  function release() {
    var was = held;
    held = null;
    was.grip.setAttribute("aria-pressed", "false");
    was.item.classList.remove("is-held");
    document.body.classList.remove("wb-dragging");
    return was;
  }
  function drop() {
    var was = release(), now = where(was.item), same = now.parent === was.origin.parent && now.next === was.origin.next;
    say(words(same ? "putBack" : "dropped", { name: nameOf(was.item) }));
    if (same) { return; }
    focusAfter = was.grip.id;
    send(was.item, was.origin);
  }
  function escape() {
    var was = release();
    putBack(was.item, was.origin);
    was.grip.focus();
    say(words("putBack", { name: nameOf(was.item) }));
  }
  var MOVES = {
    ArrowUp: function () { down(-1); }, ArrowDown: function () { down(1); },
    ArrowLeft: function () { along(-1); }, ArrowRight: function () { along(1); },
    Escape: escape, " ": drop, Enter: drop
  };
  document.addEventListener("keydown", function (event) {
    var grip = event.target.closest(".wb-grip");
    if (!grip) { return; }
    if (held && MOVES[event.key]) { event.preventDefault(); MOVES[event.key](); }
    else if (!held && !sent && (event.key === " " || event.key === "Enter")) { event.preventDefault(); pick(grip); }
  });
  document.addEventListener("keyup", function (event) { // a button's own click
    if (event.key === " " && event.target.closest(".wb-grip")) { event.preventDefault(); }
  });
  document.addEventListener("focusout", function (event) {
    if (!held || held.moving || event.target !== held.grip) { return; }
    setTimeout(function () { if (held && document.activeElement !== held.grip) { var was = release(); putBack(was.item, was.origin); } }, 0);
  });
  ready();
})();
