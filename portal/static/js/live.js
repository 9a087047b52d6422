// Live fragments: ticking times, digests, silence in hidden tabs, the banner for a lost server. No page's own logic.
(function () {
  "use strict";
  var root = document.documentElement;
  var meta = function (name) {
    var tag = document.querySelector('meta[name="' + name + '"]');
    return tag ? tag.content : "";
  };
  var skew = Number(meta("clock")) - Date.now(); // the server's clock counts, not the visitor's
  var digests = new Map();                       // element id → digest of what it shows

  // -- times in words; the same rules as portal/web/formatting.py (coarse, age_words)
  var THIN = "\u202f";
  function units(parts) {
    return parts.filter(function (p) { return p[0]; }).map(function (p) { return p[0] + THIN + p[1]; }).join(" ");
  }
  function coarse(seconds) {
    var s = Math.max(0, Math.floor(seconds));
    if (s < 60) { return s + THIN + "s"; }
    if (s < 3600) { return units([[Math.floor(s / 60), "min"]]); }
    if (s < 48 * 3600) { return units([[Math.floor(s / 3600), "h"], [Math.floor(s % 3600 / 60), "min"]]); }
    return units([[Math.floor(s / 86400), "d"]]);
  }
  function words(kind, seconds) {
    if (kind === "elapsed") { return coarse(seconds); }
    if (seconds > -1 && seconds < 1) { return root.dataset.now || ""; }
    var pattern = seconds < 0 ? root.dataset.in : root.dataset.ago;
    return (pattern || "{}").replace("{}", coarse(Math.abs(seconds)));
  }
  function tick() {
    if (document.hidden) { return; }
    var now = Date.now() + skew;
    document.querySelectorAll("time[data-tick]").forEach(function (tag) {
      var text = words(tag.dataset.tick, (now - Date.parse(tag.dateTime)) / 1000);
      if (tag.textContent !== text) { tag.textContent = text; }
    });
  }

  // -- polling
  function busy(element) {
    if (document.querySelector("dialog[open]")) { return true; }
    if (element.querySelector(".dropdown-menu.show")) { return true; }
    var selection = window.getSelection();
    return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
  }
  document.addEventListener("htmx:beforeRequest", function (event) {
    var element = event.detail.elt;
    if (element.hasAttribute("data-live") && event.detail.requestConfig.verb === "get" && (document.hidden || busy(element))) {
      event.preventDefault();
    }
  });
  // What a person sends shows its effect: the answer to a poll that was under way then is older, and is not shown.
  var sent = 0;
  document.addEventListener("htmx:beforeRequest", function (event) {
    if (event.detail.requestConfig.verb !== "get") { sent += 1; }
    event.detail.xhr.fachoSent = sent;
  });
  document.addEventListener("visibilitychange", function () {
    if (document.hidden) { return; }
    tick();
    document.body.dispatchEvent(new CustomEvent("wake"));
  });
  document.addEventListener("htmx:configRequest", function (event) {
    var detail = event.detail;
    if (detail.verb !== "get") { detail.headers["X-CSRFToken"] = meta("csrf-token"); }
    var known = detail.target && digests.get(detail.target.id);
    if (known) { detail.headers["X-Digest"] = known; }
  });

  // -- what a person has changed in a fragment stays: a tick, a number being typed, a table that was opened
  function changed(name, node) {
    if (name === "open") { return node.tagName === "DETAILS"; }
    if (name === "checked") { return node.checked !== node.defaultChecked; }
    if (name === "selected") { return node.selected !== node.defaultSelected; }
    if (name !== "value" || !/^(INPUT|TEXTAREA)$/.test(node.tagName)) { return false; }
    return node === document.activeElement || node.value !== node.defaultValue;
  }
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = function (name, node) { return !changed(name, node); };

  // -- a part inside a fragment that refreshes itself (data-own): an empty one in the answer leaves it as it is
  Idiomorph.defaults.callbacks.beforeNodeMorphed = function (here, fresh) {
    return !(here.nodeType === 1 && here.hasAttribute("data-own") && fresh.nodeType === 1 && !fresh.firstElementChild);
  };

  // -- a fragment arrives: remember its digest, let changed numbers fade once, rename the tab
  var before = new Map();
  document.addEventListener("htmx:beforeSwap", function (event) {
    var target = event.detail.target;
    before.clear();
    var polled = event.detail.requestConfig.verb === "get" && target.hasAttribute("data-live");
    if (polled && (event.detail.xhr.fachoSent < sent || busy(target))) { event.detail.shouldSwap = false; }
    if (!event.detail.shouldSwap) { return; }
    // A fragment is made for many people: its forms get the token of this page.
    event.detail.serverResponse = event.detail.serverResponse.replace(/ name="csrf_token" value=""/g, function () {
      return ' name="csrf_token" value="' + meta("csrf-token") + '"';
    });
    var mark = event.detail.xhr.getResponseHeader("X-Digest");
    if (mark && target.id) { digests.set(target.id, mark); }
    target.querySelectorAll(".num").forEach(function (tag) { before.set(tag, tag.textContent); });
  });
  document.addEventListener("htmx:afterSettle", function (event) {
    tick();
    before.forEach(function (text, tag) {
      if (tag.isConnected && tag.textContent !== text && !tag.querySelector("time")) { tag.classList.add("fx-changed"); }
    });
    before.clear();
    var title = event.detail.elt && event.detail.elt.dataset && event.detail.elt.dataset.title;
    if (title) { document.title = title + " · Facho Deluxe"; }
  });
  document.addEventListener("animationend", function (event) {
    if (event.animationName === "fx-fade") { event.target.classList.remove("fx-changed"); }
  });

  // -- the server is lost, and found again
  var banner = document.getElementById("lost");
  function lose() {
    if (!banner || !banner.hidden) { return; }
    var since = new Date(Date.now() + skew).toLocaleTimeString("en-GB", {
      hour: "2-digit", minute: "2-digit", timeZone: root.dataset.zone
    });
    banner.querySelector("span").textContent = banner.dataset.text.replace("{}", since);
    banner.hidden = false;
    root.classList.add("fx-is-lost");
  }
  function find() {
    if (!banner || banner.hidden) { return; }
    banner.hidden = true;
    root.classList.remove("fx-is-lost");
  }
  document.addEventListener("htmx:sendError", lose);
  document.addEventListener("htmx:timeout", lose);
  document.addEventListener("htmx:responseError", function (event) { if (event.detail.xhr.status >= 500) { lose(); } });
  document.addEventListener("htmx:afterRequest", function (event) { if (event.detail.successful) { find(); } });

  setInterval(tick, 1000);
  tick();
})();
