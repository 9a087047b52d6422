// The wizard's list of what can be read: the search hides what does not match; typing an OID chooses it. Sends nothing.
(function () {
  "use strict";
  function folded(text) { return text.toLowerCase().normalize("NFD").replace(/[\u0300-\u036f]/g, ""); }

  document.querySelectorAll("[data-filter]").forEach(function (box) {
    var find = box.querySelector("[data-find]"), rows = Array.from(box.querySelectorAll("li"));
    find.addEventListener("input", function () {
      var words = folded(find.value).split(/\s+/).filter(Boolean);
      rows.forEach(function (row) {
        var keep = row.querySelector("input").checked || row.querySelector("[value=other]");
        row.hidden = !keep && !words.every(function (word) { return folded(row.textContent).includes(word); });
      });
    });
    find.addEventListener("keydown", function (event) { if (event.key === "Enter") { event.preventDefault(); } });
  });
  document.addEventListener("input", function (event) {
    var other = document.querySelector("[name=oid][value=other]");
    if (other && event.target.id === "f-other" && event.target.value) { other.checked = true; }
  });
})();
