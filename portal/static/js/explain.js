// Links marked data-explain (also inside an SVG) show their explanation in a dialog instead of leading to its page.
(function () {
  "use strict";
  var dialog = document.getElementById("explain");
  if (!dialog) { return; }
  var body = dialog.querySelector("#explain_body");
  document.addEventListener("click", function (event) {
    var link = event.target.closest ? event.target.closest("[data-explain]") : null;
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) { return; }
    event.preventDefault();
    document.getElementById("explain-title").textContent = link.getAttribute("data-explain") || link.textContent;
    body.textContent = "…";
    dialog.showModal();
    htmx.ajax("GET", link.getAttribute("href"), { target: "#explain_body", swap: "outerHTML" }).then(function () {
      body = dialog.querySelector("#explain_body");
      if (body.textContent === "…") { body.textContent = dialog.dataset.lost; }
    });
  });

  // -- where the timeline is wider than its place it begins at now, not an hour ago
  var strip = document.querySelector("#tl-scroll[data-now]");
  if (strip) { strip.scrollLeft = Number(strip.dataset.now) * strip.scrollWidth - strip.clientWidth * 0.7; }

  // -- what a shape of the timeline says, for those who reach it by keyboard: a pointer shows its <title>
  var tip = document.createElement("div");
  tip.className = "tl-tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true"); // the shape's own label is read
  document.body.appendChild(tip);
  document.addEventListener("focusin", function (event) {
    var link = event.target.closest ? event.target.closest(".tl-link:focus-visible") : null;
    tip.hidden = !link;
    if (!link) { return; }
    tip.textContent = link.getAttribute("aria-label");
    var box = link.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(box.left, window.innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.min(box.bottom + 6, window.innerHeight - tip.offsetHeight - 8) + "px";
  });
  document.addEventListener("focusout", function () { tip.hidden = true; });
})();
