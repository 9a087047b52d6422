// The decision log while it is followed: new rows are marked once, and never move what somebody reads further down.
(function () {
  "use strict";
  var MARKED = 4000; // ms that a new row is marked
  var toggle = document.querySelector("[data-follow]");
  var bar = document.getElementById("log_new");
  var newest = bar ? bar.dataset.newest : "";  // the newest decision that what is shown is built from
  var marked = new Map();                      // id of a row → until when it is marked
  var top = 0;                                 // the greatest number among the rows that are shown

  document.addEventListener("keydown", function (event) {
    if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (event.target.closest("input, textarea, select, [contenteditable], dialog")) { return; }
    event.preventDefault();
    toggle.click();
  });
  if (!bar) { return; }
  var button = bar.querySelector("button");

  function live() { return document.getElementById("log_live"); }
  function numbers(rows) { return Array.from(rows, function (row) { return Number(row.id.slice(1)); }); }
  function rows() { return live().querySelectorAll("tbody > tr"); }
  function reads() {
    return live().getBoundingClientRect().top < 0 || live().querySelector("details[open]") !== null;
  }
  function tell(found) {
    var count = found.filter(function (number) { return number > top; }).length;
    var words = count === 1 ? bar.dataset.one : count === found.length ? bar.dataset.more : bar.dataset.many;
    var text = words.replace("{}", count);
    var told = button.querySelector("span");
    if (told.textContent !== text) { told.textContent = text; }
    button.hidden = count === 0;
  }
  function mark() {
    var now = Date.now();
    rows().forEach(function (row) { row.classList.toggle("is-new", (marked.get(row.id) || 0) > now); });
    marked.forEach(function (until, id) { if (until <= now) { marked.delete(id); } });
  }

  document.addEventListener("htmx:configRequest", function (event) {
    if (event.detail.target === live() && newest) { event.detail.headers["X-Newest"] = newest; }
  });
  // Before live.js, which would take the rows as shown.
  document.addEventListener("htmx:beforeSwap", function (event) {
    var detail = event.detail;
    if (detail.target !== live() || !detail.shouldSwap) { return; }
    if (!reads()) {
      newest = detail.xhr.getResponseHeader("X-Newest") || "";
      return;
    }
    detail.shouldSwap = false;
    tell(numbers(new DOMParser().parseFromString(detail.xhr.responseText, "text/html").querySelectorAll("tbody > tr")));
  }, true);
  document.addEventListener("htmx:afterSwap", function (event) {
    if (event.detail.target.id !== "log_live") { return; }
    var fresh = numbers(rows()).filter(function (number) { return number > top; });
    fresh.forEach(function (number) { marked.set("d" + number, Date.now() + MARKED); });
    top = Math.max.apply(null, fresh.concat(top));
    button.hidden = true;
    mark();
    setTimeout(mark, MARKED + 50);
  });
  button.addEventListener("click", function () {
    live().querySelectorAll("details[open]").forEach(function (one) { one.open = false; });
    window.scrollTo(0, 0);
    newest = "";
    button.hidden = true;
    toggle.focus({ preventScroll: true });
    document.body.dispatchEvent(new CustomEvent("wake"));
  });
  top = Math.max.apply(null, numbers(rows()).concat(0));
})();
