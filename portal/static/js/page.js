// What every page offers by keyboard and pointer: theme, confirm, filters, rows that open, keys. No fetching.
(function () {
  "use strict";
  var root = document.documentElement;

  function paintChoices() {
    document.querySelectorAll("[data-theme-choice]").forEach(function (button) {
      var on = button.dataset.themeChoice === root.getAttribute("data-theme-chosen");
      button.classList.toggle("active", on);
      button.setAttribute("aria-pressed", String(on));
    });
    document.querySelectorAll("[data-dense]").forEach(function (button) {
      var on = root.classList.contains("fx-dense");
      button.classList.toggle("active", on);
      button.setAttribute("aria-pressed", String(on));
    });
  }

  // -- a question before a form is sent
  var dialog = document.getElementById("confirm");
  var waiting = null;
  function ask(form) {
    waiting = form;
    dialog.querySelector("p").textContent = form.dataset.confirm;
    var yes = dialog.querySelector("[data-yes]");
    yes.textContent = form.dataset.confirmButton || "OK";
    yes.className = "btn " + (form.hasAttribute("data-confirm-danger") ? "btn-danger" : "btn-primary");
    dialog.returnValue = "no";
    dialog.showModal();
  }
  if (dialog) {
    dialog.addEventListener("close", function () {
      var form = waiting;
      waiting = null;
      if (!form || dialog.returnValue !== "yes") { return; }
      form.dataset.confirmed = "1";
      form.requestSubmit();
    });
  }
  document.addEventListener("submit", function (event) {
    var form = event.target;
    if (!dialog || !form.dataset || !form.dataset.confirm) { return; }
    if (form.dataset.confirmed) { delete form.dataset.confirmed; return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    ask(form);
  }, true);

  // -- filters apply themselves; empty ones stay out of the URL
  function tidy(form) {
    Array.from(form.elements).forEach(function (field) { if (field.name && !field.value) { field.disabled = true; } });
  }
  document.addEventListener("change", function (event) {
    var form = event.target.form;
    if (form && form.hasAttribute("data-autosubmit") && event.target.tagName === "SELECT") { form.requestSubmit(); }
  });
  document.addEventListener("submit", function (event) {
    if (event.target.hasAttribute("data-autosubmit")) { tidy(event.target); }
  });
  window.addEventListener("pageshow", function () {
    document.querySelectorAll("form[data-autosubmit] :disabled").forEach(function (field) { field.disabled = false; });
  });

  document.addEventListener("click", function (event) {
    var at = event.target.closest ? event.target : event.target.parentElement;
    var choice = at.closest("[data-theme-choice]");
    if (choice) { window.fachoTheme.set("facho-theme", choice.dataset.themeChoice); paintChoices(); return; }
    if (at.closest("[data-dense]")) {
      window.fachoTheme.set("facho-dense", root.classList.contains("fx-dense") ? "0" : "1"); paintChoices(); return;
    }
    var opener = at.closest("[data-open]");
    if (opener) { document.getElementById(opener.dataset.open).showModal(); return; }
    var closer = at.closest("[data-dismiss]");
    if (closer) { closer.closest("[data-flash]").remove(); return; }
    if (at.tagName === "DIALOG") { at.close("no"); return; }
    var row = at.closest("tr[data-href]");
    var selected = window.getSelection();
    if (row && !at.closest("a, button, input, label, select, .dropdown") && (!selected || selected.isCollapsed)) {
      if (event.ctrlKey || event.metaKey) { window.open(row.dataset.href); } else { window.location.assign(row.dataset.href); }
    }
  });

  // -- keys: / searches, g and a letter goes to a page, ? shows them
  var goes = 0;
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, [contenteditable], dialog")) { return; }
    if (event.key === "/") {
      var search = document.querySelector("[data-search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "?") {
      var keys = document.getElementById("keys");
      if (keys) { keys.showModal(); }
    } else if (event.key === "g") {
      goes = event.timeStamp;
    } else if (goes && event.timeStamp - goes < 1500) {
      goes = 0;
      var link = document.querySelector('.fx-rail [data-key="' + CSS.escape(event.key) + '"]');
      if (link) { link.click(); }
    }
  });

  var first = document.querySelector("[data-focus]");
  if (first) { first.focus(); }
  paintChoices();
})();
