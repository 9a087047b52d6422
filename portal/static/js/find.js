// The search box of ONUs: the list, its title, chips and file follow while somebody types. Enter still sends the form.
(function () {
  "use strict";
  var box = document.querySelector("[data-search]");
  if (!box || !document.getElementById("onus_live")) { return; }
  var PAUSE = 200; // ms without a key
  var asked = box.value.trim(), timer = 0;

  function look() {
    var text = box.value.trim(), list = document.getElementById("onus_live"), url = new URL(window.location.href);
    if (text === asked || !list) { return; }
    asked = text;
    if (text) { url.searchParams.set("q", text); } else { url.searchParams.delete("q"); }
    url.searchParams.delete("before");
    url.searchParams.delete("after");
    history.replaceState(history.state, "", url);
    list.setAttribute("hx-get", url.pathname + url.search); // the refreshes ask for it too, from now on
    htmx.process(list);
    htmx.ajax("GET", url.pathname + url.search, { source: list, target: list, swap: "morph:outerHTML" });
  }
  box.addEventListener("input", function () {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
})();
