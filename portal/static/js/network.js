// Forms of OLTs and nodes: a button that fills a field with what the catalogue or a connection test proposes.
(function () {
  "use strict";
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-fill]");
    if (!button) { return; }
    var field = document.getElementById(button.dataset.fill);
    if (!field) { return; }
    if (field.type === "checkbox") { field.checked = Boolean(button.dataset.value); } else { field.value = button.dataset.value; }
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
  });
})();
