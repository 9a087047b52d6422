// Two lists: a tick moves a row from the one to the other; the search hides what does not match. Sends nothing.
(function () {
  "use strict";
  function folded(text) { return text.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, ""); }
  function rows(list) { return Array.from(list.children); }

  document.querySelectorAll("[data-dual]").forEach(function (box) {
    var from = box.querySelector("[data-from]"), to = box.querySelector("[data-to]"), find = box.querySelector("[data-find]");
    var all = rows(from).concat(rows(to)).sort(function (a, b) { return name(a).localeCompare(name(b)); });
    var order = new Map(all.map(function (row, place) { return [row, place]; }));
    var texts = new Map(all.map(function (row) { return [row, folded(row.textContent)]; }));

    function name(row) { return row.querySelector("b").textContent; }
    function count() {
      [from, to].forEach(function (list) {
        list.parentElement.querySelector("[data-count]").textContent = String(list.children.length);
      });
    }
    function put(list, moved) {
      rows(list).concat(moved).sort(function (a, b) { return order.get(a) - order.get(b); }).forEach(function (row) {
        list.appendChild(row);
      });
    }
    function show() {
      var words = folded(find.value).split(/\s+/).filter(Boolean);
      all.forEach(function (row) {
        row.hidden = row.parentElement === from && !words.every(function (word) { return texts.get(row).includes(word); });
      });
    }
    function move(moved, on) {
      moved.forEach(function (row) { row.querySelector("input").checked = on; });
      put(on ? to : from, moved);
      show();
      count();
    }
    function neighbour(row) { // where the focus goes once the row has left its list
      var shown = rows(row.parentElement).filter(function (one) { return !one.hidden; });
      var place = shown.indexOf(row);
      return shown[place + 1] || shown[place - 1] || null;
    }
    box.addEventListener("change", function (event) {
      if (event.target.name !== "olt") { return; }
      var row = event.target.closest("li"), next = neighbour(row), list = row.parentElement;
      move([row], event.target.checked);
      if (next) { next.querySelector("input").focus(); } else { list.focus(); }
      box.dispatchEvent(new CustomEvent("chosen", { bubbles: true }));
    });
    box.addEventListener("click", function (event) {
      if (event.target.closest("[data-all]")) { move(rows(from).filter(function (row) { return !row.hidden; }), true); }
      if (event.target.closest("[data-none]")) { move(rows(to), false); }
      if (event.target.closest("[data-all], [data-none]")) { box.dispatchEvent(new CustomEvent("chosen", { bubbles: true })); }
    });
    find.addEventListener("input", show);
    find.addEventListener("keydown", function (event) { if (event.key === "Enter") { event.preventDefault(); } });
    move(all.filter(function (row) { return row.parentElement === from && row.querySelector("input").checked; }), true);
  });

  // choosing an OLT means "those chosen"
  document.addEventListener("chosen", function (event) {
    var form = event.target.closest("form"), choice = form && form.querySelector("[name=whom][value=chosen]");
    if (choice) { choice.checked = true; }
  });
})();
