// Which columns of a table are shown: kept per browser, and hidden before the first paint by a style sheet of our own.
// A column is known by its place from the end, since the first ones differ between people. Fetches nothing.
(function () {
  "use strict";
  var KEY = "facho-columns";
  var sheet = new CSSStyleSheet();
  var hidden = read(); // name of a table → places from the end, 1 = the last column

  function read() {
    try { return JSON.parse(localStorage.getItem(KEY)) || {}; } catch (e) { return {}; }
  }
  function places(name) {
    var found = Array.isArray(hidden[name]) ? hidden[name] : [];
    return found.filter(function (place) { return Number.isInteger(place) && place > 0 && place < 100; });
  }
  // In the head a cell of no width follows, in which the menu stands; the last head that is shown makes room for it.
  function rules(name) {
    var table = 'table[data-columns="' + name + '"] > ';
    var out = places(name).map(function (place) {
      return table + "tbody > tr > :nth-last-child(" + place + "), " + table + "thead > tr > :nth-last-child(" + (place + 1) + ") { display: none; }";
    });
    var last = 1;
    while (places(name).indexOf(last) >= 0) { last += 1; }
    out.push(table + "thead > tr > :nth-last-child(" + (last + 1) + ") { padding-right: 44px; }");
    return out.join(" ");
  }
  function apply() {
    var names = Object.keys(hidden).filter(function (name) { return /^[a-z_]+$/.test(name); });
    sheet.replaceSync("@media (min-width: 641px) { " + names.map(rules).join(" ") + " }");
  }
  function paint() {
    document.querySelectorAll("[data-column]").forEach(function (box) {
      box.checked = places(nameOf(box)).indexOf(Number(box.dataset.column)) < 0;
    });
  }
  function nameOf(part) { return part.closest("[data-columns]").dataset.columns; }
  function keep(name, found) {
    if (found.length) { hidden[name] = found; } else { delete hidden[name]; }
    try { localStorage.setItem(KEY, JSON.stringify(hidden)); } catch (e) { /* private window: lasts until the page is left */ }
    apply();
    paint();
  }

  document.addEventListener("change", function (event) {
    if (!event.target.matches("[data-column]")) { return; }
    var name = nameOf(event.target);
    var place = Number(event.target.dataset.column);
    var others = places(name).filter(function (one) { return one !== place; });
    keep(name, event.target.checked ? others : others.concat(place));
  });
  document.addEventListener("click", function (event) {
    var reset = event.target.closest ? event.target.closest("[data-columns-reset]") : null;
    if (reset) { keep(nameOf(reset), []); }
  });
  window.addEventListener("storage", function (event) {
    if (event.key === KEY) { hidden = read(); apply(); paint(); }
  });
  document.addEventListener("DOMContentLoaded", paint);
  document.addEventListener("htmx:afterSwap", paint);
  document.adoptedStyleSheets = Array.from(document.adoptedStyleSheets).concat(sheet);
  apply();
})();
