// A button that puts a text into the clipboard; what was copied is said on it. Also without HTTPS, where there is no API.
(function () {
  "use strict";
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("[data-copy]") : null;
    if (!button) { return; }
    var field = document.getElementById(button.dataset.copy);
    var said = button.querySelector("span");
    function done() { said.textContent = field.dataset.copied; }
    function byHand() { field.focus(); field.select(); if (document.execCommand("copy")) { done(); } }
    if (navigator.clipboard) { navigator.clipboard.writeText(field.value).then(done, byHand); } else { byHand(); }
  });
  document.addEventListener("focusin", function (event) {
    if (event.target.matches && event.target.matches("input[readonly][data-copied]")) { event.target.select(); }
  });
})();
