// The OID of a node as a searchable list of the catalogue: made of the field and the list beneath it (workflows/_oids.html).
(function () {
  "use strict";
  var number = 0;

  function last(input) { return input.value.slice(input.value.lastIndexOf(",") + 1).trim(); }
  function option(source, id) {
    var made = document.createElement("li");
    made.id = id;
    made.setAttribute("role", "option");
    made.dataset.value = source.querySelector("[data-value]").dataset.value;
    made.dataset.text = source.dataset.text.toLowerCase();
    var key = document.createElement("span");
    key.className = "fx-mono";
    key.textContent = made.dataset.value;
    made.append(key);
    Array.from(source.childNodes).slice(1).forEach(function (node) {
      if (node.nodeName !== "BUTTON") { made.append(node.cloneNode(true)); }
    });
    return made;
  }
  function enhance(input) {
    var details = input.form && input.form.querySelector("[data-catalogue]");
    if (!details || input.getAttribute("role") === "combobox") { return; }
    number += 1;
    var list = document.createElement("ul"), none = document.createElement("li"), at = -1;
    list.id = "oids-" + number;
    list.className = "wb-options";
    list.hidden = true;
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", details.dataset.label);
    none.className = "fx-note";
    none.setAttribute("role", "option");
    none.setAttribute("aria-disabled", "true");
    none.textContent = details.dataset.none;
    var all = Array.from(details.querySelectorAll("li")).map(function (source, index) { return option(source, list.id + "-" + index); });
    list.append.apply(list, all.concat([none]));
    input.after(list);
    input.removeAttribute("list");
    input.setAttribute("role", "combobox");
    input.setAttribute("aria-autocomplete", "list");
    input.setAttribute("aria-controls", list.id);
    details.hidden = true;

    function shown() { return all.filter(function (item) { return !item.hidden; }); }
    function activate(index) {
      var items = shown();
      at = items.length ? (index + items.length) % items.length : -1;
      all.forEach(function (item) { item.setAttribute("aria-selected", String(item === items[at])); });
      if (at < 0) { input.removeAttribute("aria-activedescendant"); return; }
      input.setAttribute("aria-activedescendant", items[at].id);
      items[at].scrollIntoView({ block: "nearest" });
    }
    function close() {
      list.hidden = true;
      at = -1;
      input.setAttribute("aria-expanded", "false");
      input.removeAttribute("aria-activedescendant");
    }
    function open(every) {
      var wanted = every ? [] : last(input).toLowerCase().split(/\s+/);
      all.forEach(function (item) {
        item.hidden = !wanted.every(function (word) { return item.dataset.text.indexOf(word) >= 0; });
        item.setAttribute("aria-selected", "false");
      });
      none.hidden = shown().length > 0;
      at = -1;
      list.hidden = false;
      input.setAttribute("aria-expanded", "true");
    }
    function choose(item) {
      var comma = input.value.lastIndexOf(",");
      input.value = (comma < 0 ? "" : input.value.slice(0, comma + 1)) + item.dataset.value;
      input.dispatchEvent(new Event("change", { bubbles: true }));
      close();
    }
    close();
    input.addEventListener("input", function () { open(false); });
    input.addEventListener("click", function () { if (list.hidden) { open(true); } });
    input.addEventListener("blur", close);
    input.addEventListener("keydown", function (event) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        if (list.hidden) { open(true); }
        activate(at < 0 && event.key === "ArrowUp" ? -1 : at + (event.key === "ArrowDown" ? 1 : -1));
      } else if (event.key === "Enter" && !list.hidden && at >= 0) {
        event.preventDefault();
        choose(shown()[at]);
      } else if (event.key === "Escape" && !list.hidden) {
        event.preventDefault();
        close();
      }
    });
    list.addEventListener("mousedown", function (event) { event.preventDefault(); }); // the field keeps the focus
    list.addEventListener("click", function (event) {
      var item = event.target.closest("[data-value]");
      if (item) { choose(item); }
    });
  }
  function ready() { document.querySelectorAll("[data-oid]").forEach(enhance); }
  document.addEventListener("htmx:afterSwap", ready);
  ready();
})();
