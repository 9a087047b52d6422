// Lists whose rows can be ticked: how many are, all at once, a range with Shift, Enter leads to the bar. Sends nothing.
(function () {
  "use strict";
  var bar = document.getElementById("bulk");
  if (!bar) { return; }
  var told = bar.querySelector("[data-one]");
  var last = null; // the box ticked before, where a range begins

  function boxes() { return Array.from(document.querySelectorAll("[data-pick]")); }
  function count() {
    var all = boxes();
    var on = all.filter(function (box) { return box.checked; }).length;
    var text = (on === 1 ? told.dataset.one : told.dataset.many).replace("{}", on);
    if (on && told.textContent !== text) { told.textContent = text; }
    var head = document.getElementById("pick-all");
    if (head) {
      head.checked = on > 0 && on === all.length;
      head.indeterminate = on > 0 && on < all.length;
    }
  }
  function range(box, on) {
    var all = boxes();
    var ends = [all.indexOf(box), all.findIndex(function (one) { return one.id === last; })].sort(function (a, b) { return a - b; });
    if (ends[0] >= 0) { all.slice(ends[0], ends[1] + 1).forEach(function (one) { one.checked = on; }); }
  }
  document.addEventListener("click", function (event) {
    var box = event.target;
    if (!box.matches || !box.matches("[data-pick]")) { return; }
    if (event.shiftKey && last) { range(box, box.checked); }
    last = box.id;
    count();
  });
  document.addEventListener("change", function (event) {
    if (event.target.id === "pick-all") {
      boxes().forEach(function (box) { box.checked = event.target.checked; });
    }
    count();
  });
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !event.target.matches("[data-pick], #pick-all")) { return; }
    event.preventDefault();
    var first = bar.querySelector("button");
    if (first.offsetParent) { first.focus(); }
  });
  bar.addEventListener("reset", function () { setTimeout(count); });
  document.addEventListener("htmx:afterSwap", count);
  count();
})();
