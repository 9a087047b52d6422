// The board of a workflow: a node's form beside it, and what is said above it. Moving cards: cards.js.
(function () {
  "use strict";
  var wide = window.matchMedia("(min-width: 1000px)");
  var opener = "";   // id of the card, or "", that the form belongs to
  var pending = null; // what to do when leaving a changed form was confirmed
  var fresh = false;  // the form was asked for by a click and not by its own sending

  function panel() { return document.getElementById("panel"); }

  // -- the form beside the board
  function changed() {
    var form = panel() && panel().querySelector(".nw-form");
    return Boolean(form) && Array.from(form.elements).some(function (field) {
      if (!field.name || field.type === "hidden") { return false; }
      if (field.type === "checkbox") { return field.checked !== field.defaultChecked; }
      if (field.tagName === "SELECT") {
        var initial = Array.from(field.options).findIndex(function (option) { return option.defaultSelected; });
        return field.selectedIndex !== Math.max(initial, 0);
      }
      return field.value !== field.defaultValue;
    });
  }
  function leaving(work) {
    if (!changed()) { work(); return; }
    pending = work;
    document.getElementById("leave").requestSubmit();
  }
  function mark() {
    document.querySelectorAll("#board .nw-node").forEach(function (card) {
      card.classList.toggle("is-chosen", opener !== "" && card.id === "node-" + opener);
    });
  }
  function close() {
    var title = opener && document.querySelector('[data-card="' + opener + '"]');
    opener = "";
    panel().replaceChildren();
    panel().hidden = true;
    mark();
    if (title) { title.focus(); }
  }
  function open(link) {
    fresh = true;
    htmx.ajax("GET", link.getAttribute("href"), { target: "#panel", swap: "innerHTML" });
    if (link.dataset.card) { opener = link.dataset.card; } else if (!link.closest("#panel")) { opener = ""; }
    mark();
  }
  document.addEventListener("click", function (event) {
    var link = event.target.closest("[data-panel]");
    if (link && panel() && wide.matches && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      leaving(function () { open(link); });
    } else if (event.target.closest("[data-panel-close]") && panel()) {
      event.preventDefault();
      leaving(close);
    }
  });
  document.addEventListener("submit", function (event) {
    if (event.target.id !== "leave") { return; }
    event.preventDefault();
    if (pending) { pending(); }
    pending = null;
  });
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape" && !event.defaultPrevented && panel() && panel().contains(event.target)) { leaving(close); }
  });
  document.addEventListener("htmx:configRequest", function (event) {
    var target = event.detail.target;
    if (target && target.id === "panel") { delete event.detail.headers["X-Digest"]; } // what is asked for is shown
  });
  document.addEventListener("htmx:afterSwap", function (event) {
    if (event.detail.target.id !== "panel") { mark(); return; }
    panel().hidden = false;
    (panel().querySelector("[data-focus]") || panel()).focus({ preventScroll: !fresh });
    panel().scrollTop = 0;
    fresh = false;
  });
  document.addEventListener("chosen", function (event) {
    opener = String(event.detail.node);
    mark();
  });

  // -- what is said above the board
  document.addEventListener("said", function (event) {
    var place = document.getElementById("said");
    if (!place) { return; }
    var notice = document.createElement("div");
    var text = document.createElement("strong");
    var button = document.createElement("button");
    notice.className = "fx-notice fx-" + event.detail.tone;
    notice.dataset.flash = "";
    text.textContent = event.detail.text;
    button.type = "button";
    button.className = "btn-close";
    button.dataset.dismiss = "";
    button.setAttribute("aria-label", place.dataset.close);
    notice.append(document.createElement("div"), button);
    notice.firstChild.append(text);
    place.replaceChildren(notice);
    if (event.detail.tone === "green") { setTimeout(function () { notice.remove(); }, 8000); }
  });
})();
