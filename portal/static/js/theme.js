// Sets theme and row height before the first paint; kept per browser. Nothing else.
(function () {
  "use strict";
  var root = document.documentElement;
  var media = window.matchMedia("(prefers-color-scheme: dark)");

  function read(key) {
    try { return localStorage.getItem(key); } catch (e) { return null; }
  }
  function apply() {
    var choice = read("facho-theme") || "auto";
    var dark = choice === "dark" || (choice === "auto" && media.matches);
    root.setAttribute("data-bs-theme", dark ? "dark" : "light");
    root.setAttribute("data-theme-chosen", choice);
    root.classList.toggle("fx-dense", read("facho-dense") === "1");
  }
  media.addEventListener("change", apply);
  window.fachoTheme = {
    set: function (key, value) {
      try { localStorage.setItem(key, value); } catch (e) { /* private window: lasts until the page is left */ }
      apply();
    },
    read: read
  };
  root.classList.add("fx-js"); // what only works with scripts is hidden without
  apply();
})();
