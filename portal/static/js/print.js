// Buttons marked data-print, and the moment of printing in the head of the paper.
(function () {
  "use strict";
  var clock = document.querySelector('meta[name="clock"]');
  var skew = clock ? Number(clock.content) - Date.now() : 0; // the server's clock counts, not the visitor's
  // Parts that load themselves after the page are waited for, five seconds at most.
  function print(tries) {
    if (tries && document.querySelector('main [aria-busy="true"]')) {
      setTimeout(function () { print(tries - 1); }, 100);
    } else {
      window.print();
    }
  }
  document.addEventListener("click", function (event) {
    var button = event.target.closest ? event.target.closest("[data-print]") : null;
    if (button) { print(50); }
  });
  window.addEventListener("beforeprint", function () {
    var told = document.querySelector("[data-printed]");
    var zone = document.documentElement.dataset.zone;
    if (told) { told.textContent = new Date(Date.now() + skew).toLocaleString("sv-SE", { timeZone: zone }) + " " + zone; }
  });
})();
