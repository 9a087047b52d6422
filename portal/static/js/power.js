// The power chart of an ONU: steps in the portal's time, the good zone shaded, gaps left open. Draws what power.json says.
(function () {
  "use strict";
  var box = document.getElementById("power");
  if (!box || !window.uPlot) { return; }
  var root = document.documentElement;
  var plot = document.getElementById("power_plot");
  var zone = root.dataset.zone;
  var words = root.lang;
  var HEIGHT = 216, GOOD = [-25, -10], EVERY = 60000;
  var FONT = "12px Inter, system-ui, sans-serif";
  var span = box.dataset.span;
  var chart = null, shown = null, hint = null, asked = 0, drawnAt = 0;

  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function clock(options) {
    options.timeZone = zone;
    options.hourCycle = "h23";
    return new Intl.DateTimeFormat(words, options);
  }
  var hour = clock({ hour: "2-digit", minute: "2-digit" });
  var day = clock({ day: "numeric", month: "short" });
  var whole = clock({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  var decimals = new Intl.NumberFormat(words, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  function number(value) { return decimals.format(value).replace("-", "\u2212"); }
  function at(format, seconds) { return format.format(new Date(seconds * 1000)).replace(/\./g, ""); }

  // -- what stands still: zone, marks of events, names at the lines' ends
  function shade(u) {
    var top = Math.max(u.valToPos(GOOD[1], "y", true), u.bbox.top);
    var bottom = Math.min(u.valToPos(GOOD[0], "y", true), u.bbox.top + u.bbox.height);
    if (bottom <= top) { return; }
    u.ctx.fillStyle = colour("--fx-green-soft");
    u.ctx.fillRect(u.bbox.left, top, u.bbox.width, bottom - top);
  }
  function mark(u, one) {
    var x = Math.round(u.valToPos(one.t, "x", true)), ratio = uPlot.pxRatio, size = 5 * ratio;
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) { return; }
    var dark = one.look === "dark", y = dark ? u.bbox.top + u.bbox.height - 1 : u.bbox.top + 1, to = dark ? -1 : 1;
    u.ctx.fillStyle = u.ctx.strokeStyle = colour(dark ? "--fx-red-fill" : "--fx-green-fill");
    u.ctx.setLineDash([2 * ratio, 3 * ratio]);
    u.ctx.lineWidth = ratio;
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.setLineDash([]);
    u.ctx.beginPath(); // a light that went points down, one that came back up
    u.ctx.moveTo(x - size, y + to * size * 1.6);
    u.ctx.lineTo(x + size, y + to * size * 1.6);
    u.ctx.lineTo(x, y);
    u.ctx.closePath();
    u.ctx.fill();
  }
  function last(values) {
    for (var i = values.length - 1; i >= 0; i -= 1) { if (values[i] !== null) { return values[i]; } }
    return null;
  }
  function names(u) {
    var ratio = uPlot.pxRatio, ends = [];
    shown.series.forEach(function (one, n) {
      var value = last(one.y);
      if (value !== null) { ends.push({ n: n, y: u.valToPos(value, "y", true), text: number(value), label: one.label }); }
    });
    ends.sort(function (a, b) { return a.y - b.y; });
    if (ends.length > 1 && ends[1].y - ends[0].y < 30 * ratio) { // side by side: neither is written over
      var middle = (ends[0].y + ends[1].y) / 2;
      ends[0].y = middle - 15 * ratio;
      ends[1].y = middle + 15 * ratio;
    }
    u.ctx.textAlign = "left";
    u.ctx.textBaseline = "middle";
    ends.forEach(function (end) {
      var left = u.bbox.left + u.bbox.width + 6 * ratio;
      u.ctx.font = "600 " + 12 * ratio + "px Inter, system-ui, sans-serif";
      u.ctx.fillStyle = colour("--fx-text");
      u.ctx.fillText(end.text, left, end.y - (ends.length > 1 ? 7 * ratio : 0));
      if (ends.length < 2) { return; }
      u.ctx.font = 11 * ratio + "px Inter, system-ui, sans-serif";
      u.ctx.fillStyle = colour(end.n ? "--fx-dim" : "--fx-blue");
      u.ctx.fillText(end.label, left, end.y + 7 * ratio);
    });
  }

  // -- what the pointer is on
  function line(text, value) {
    var row = document.createElement("div");
    [text, value].forEach(function (part) { row.appendChild(document.createElement("span")).textContent = part; });
    return row;
  }
  function heldAt(x, seconds) { // index of the last step until then
    var low = -1, high = x.length - 1;
    while (low < high) {
      var middle = Math.ceil((low + high) / 2);
      if (x[middle] <= seconds) { low = middle; } else { high = middle - 1; }
    }
    return low;
  }
  function follow(u) {
    var left = u.cursor.left;
    if (left === undefined || left < 0 || !shown.x.length) { hint.hidden = true; return; }
    var seconds = u.posToVal(left, "x"), place = heldAt(shown.x, seconds);
    hint.textContent = "";
    hint.appendChild(document.createElement("b")).textContent = at(whole, seconds);
    shown.series.forEach(function (one) {
      var value = place < 0 ? null : one.y[place];
      hint.appendChild(line(one.label, value === null ? box.dataset.none : number(value) + "\u202fdBm"));
      if (value !== null && one.least[place] < one.most[place]) {
        hint.appendChild(line("", number(one.least[place]) + " … " + number(one.most[place]) + "\u202fdBm"));
      }
    });
    shown.marks.forEach(function (one) {
      if (Math.abs(u.valToPos(one.t, "x") - left) < 6) { hint.appendChild(line(one.text, at(hour, one.t))); }
    });
    hint.hidden = false;
    var x = u.over.offsetLeft + left, room = plot.clientWidth - hint.offsetWidth;
    hint.style.transform = "translate(" + Math.max(0, x + 14 > room ? Math.min(x - 14 - hint.offsetWidth, room) : x + 14) + "px, 8px)";
  }

  // -- the chart itself
  function ticks(u, splits, axis, space, step) {
    return splits.map(function (seconds) {
      var time = at(hour, seconds);
      return step >= 86400 || time === "00:00" ? at(day, seconds) : time;
    });
  }
  function vertical() {
    var low = -28, high = -8;
    shown.series.forEach(function (one) {
      one.least.concat(one.most).forEach(function (value) {
        if (value !== null) { low = Math.min(low, Math.floor(value) - 1); high = Math.max(high, Math.ceil(value) + 1); }
      });
    });
    return [low, high];
  }
  function axis(more) {
    return Object.assign({
      stroke: function () { return colour("--fx-dim"); }, font: FONT,
      grid: { stroke: function () { return colour("--fx-line"); }, width: 1 }, ticks: { show: false }
    }, more);
  }
  function options() { // of each series three rows: the value, and the edges of the hour's range, which is shaded
    var series = [], bands = [];
    shown.series.forEach(function (one) {
      var edge = { label: one.label, spanGaps: false, points: { show: false }, width: 0, paths: uPlot.paths.stepped({ align: 1 }) };
      var name = one.kind === "olt" ? "--fx-grey-fill" : "--fx-blue-fill";
      series.push(Object.assign({}, edge, {
        width: 1.75, dash: one.kind === "olt" ? [5, 3] : undefined, stroke: function () { return colour(name); }
      }), edge, Object.assign({}, edge));
      bands.push({ series: [series.length, series.length - 1], fill: function () { return colour(name) + "55"; } });
    });
    return {
      bands: bands,
      width: plot.clientWidth, height: HEIGHT, padding: [8, shown.series.length > 1 ? 88 : 44, 0, 0],
      legend: { show: false }, tzDate: function (seconds) { return uPlot.tzDate(new Date(seconds * 1000), zone); },
      cursor: { y: false, drag: { setScale: false, x: false, y: false }, points: { show: false } },
      scales: {
        x: { time: true, range: function () { return [shown.from, shown.to]; } },
        y: { range: vertical }
      },
      series: [{}].concat(series),
      axes: [
        axis({ values: ticks, space: 64, size: 28, incrs: [3600, 7200, 10800, 14400, 21600, 43200, 86400, 172800, 432000] }),
        axis({ size: 44, incrs: [2, 4, 5, 10], values: function (u, splits) { return splits.map(function (v) { return number(v).replace(/[.,]0$/, ""); }); } })
      ],
      hooks: {
        drawClear: [shade],
        draw: [function (u) {
          u.ctx.save();
          shown.marks.forEach(function (one) { if (one.look) { mark(u, one); } });
          names(u);
          u.ctx.restore();
        }],
        setCursor: [follow]
      }
    };
  }
  function rows() {
    return shown.series.reduce(function (all, one) { return all.concat([one.y, one.least, one.most]); }, [shown.x]);
  }
  function kinds(data) { return data.series.map(function (one) { return one.kind; }).join(); }

  function draw(data) {
    var same = chart && shown && kinds(shown) === kinds(data);
    shown = data;
    drawnAt = Date.now();
    if (same) { chart.setData(rows()); return; }
    if (chart) { chart.destroy(); chart = null; }
    plot.textContent = "";
    if (!data.series.length) {
      var none = plot.appendChild(document.createElement("p"));
      none.className = "fx-note on-none";
      none.textContent = box.dataset.empty;
      return;
    }
    chart = new uPlot(options(), rows(), plot);
    chart.root.setAttribute("role", "img");
    chart.root.setAttribute("aria-label", data.series.map(function (one) {
      var value = last(one.y);
      return one.label + ": " + (value === null ? box.dataset.none : number(value) + "\u202fdBm");
    }).join("; "));
    hint = plot.appendChild(document.createElement("div"));
    hint.className = "on-hint";
    hint.hidden = true;
    box.classList.add("on-drawn");
  }

  function load() {
    var mine = asked += 1, url = box.dataset.url + "?span=" + span;
    return fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" })
      .then(function (answer) { return answer.ok ? answer.json() : null; })
      .then(function (data) { if (data && mine === asked) { draw(data); } })
      .catch(function () { /* lost server: what is shown stays, the banner says so */ });
  }

  function choose(word) {
    span = word;
    box.querySelectorAll("[data-span]").forEach(function (link) {
      if (link.dataset.span === word) { link.setAttribute("aria-current", "true"); } else { link.removeAttribute("aria-current"); }
    });
    load();
  }
  box.addEventListener("click", function (event) {
    var link = event.target.closest("a[data-span]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) { return; }
    event.preventDefault();
    history.replaceState(history.state, "", link.href);
    choose(link.dataset.span);
  });

  new MutationObserver(function () { if (chart) { chart.redraw(false, true); } })
    .observe(root, { attributes: true, attributeFilter: ["data-bs-theme"] });
  new ResizeObserver(function () {
    if (chart && plot.clientWidth && plot.clientWidth !== chart.width) { chart.setSize({ width: plot.clientWidth, height: HEIGHT }); }
  }).observe(plot);
  setInterval(function () { if (!document.hidden) { load(); } }, EVERY);
  document.addEventListener("visibilitychange", function () {
    if (!document.hidden && Date.now() - drawnAt > EVERY) { load(); }
  });
  load();
})();
