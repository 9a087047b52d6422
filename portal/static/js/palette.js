// The palette (Ctrl-K): opens, keeps one hit marked, Enter follows it. What it holds is fetched by htmx as one types.
(function () {
  "use strict";
  var dialog = document.getElementById("palette");
  if (!dialog) { return; }
  var field = dialog.querySelector("input");

  function hits() { return Array.from(dialog.querySelectorAll('[role="option"]')); }
  function mark(one) {
    hits().forEach(function (hit) { hit.setAttribute("aria-selected", String(hit === one)); });
    if (one) { field.setAttribute("aria-activedescendant", one.id); one.scrollIntoView({ block: "nearest" }); }
    else { field.removeAttribute("aria-activedescendant"); }
  }
  function marked() { return hits().find(function (hit) { return hit.getAttribute("aria-selected") === "true"; }); }
  function move(step) {
    var all = hits();
    if (all.length) { mark(all[(all.indexOf(marked()) + step + all.length) % all.length]); }
  }
  function open() {
    if (document.querySelector("dialog[open]")) { return; }
    dialog.showModal();
    field.value = "";
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
    mark(hits()[0]);
  }

  document.addEventListener("keydown", function (event) {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      if (dialog.open) { dialog.close("no"); } else { open(); }
    }
  });
  document.addEventListener("click", function (event) {
    var at = event.target.closest ? event.target.closest("[data-palette]") : null;
    if (at && !event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); open(); }
  });
  field.addEventListener("keydown", function (event) {
    if (event.key === "ArrowDown") { event.preventDefault(); move(1); }
    else if (event.key === "ArrowUp") { event.preventDefault(); move(-1); }
    else if (event.key === "Escape") { event.preventDefault(); dialog.close("no"); } // else it would empty the field first
    else if (event.key === "Enter") {
      event.preventDefault();
      var hit = marked();
      if (!hit) { return; }
      if (event.ctrlKey || event.metaKey) { window.open(hit.href); } else { window.location.assign(hit.href); }
    }
  });
  document.addEventListener("htmx:afterSettle", function (event) {
    if (event.detail.target && event.detail.target.id === "palette_found") { mark(hits()[0]); }
  });
})();
