// Every count metric over the strength.
(function (R) {
  "use strict";

  R.curve = function (set, name) {
    const curve = set.raw.curves[name];
    if (!curve) return R.linearCurve(set, name);
    return { x: R.unpack(curve.x), y: R.unpack(curve.y), exact: curve.exact };
  };

  // A line at λ, a dashed one at the chosen strength, a band over its interval.
  R.marks = function (strength) {
    const [a, b] = R.data.interval;
    const upright = (x, color, dash) => ({
      type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1,
      line: { color, width: 1.5, dash },
    });
    return [
      { type: "rect", xref: "x", yref: "paper", x0: a, x1: b, y0: 0, y1: 1, layer: "below",
        line: { width: 0 }, fillcolor: R.color("accent"), opacity: 0.13 },
      upright(R.data.strength, R.color("accent"), "dash"),
      upright(strength, R.color("ink"), "solid"),
    ];
  };

  // A figure over the strength: the pointer shows every line's value there, a click sets λ.
  R.pickStrength = function (id, linesAt) {
    const figure = R.byId(id);
    figure.linesAt = linesAt; // of the latest drawing
    if (figure.tip) return;
    const tip = (figure.tip = R.el("div", { class: "tip", "aria-hidden": "true" }));
    tip.hidden = true;
    figure.after(tip);
    const strengthAt = (event) => {
      const axis = figure._fullLayout && figure._fullLayout.xaxis;
      if (!axis) return null;
      const inside = event.clientX - figure.getBoundingClientRect().left - axis._offset;
      const [low, high] = R.data.bounds;
      return inside < -4 || inside > axis._length + 4 ? null : Math.min(high, Math.max(low, axis.p2d(inside)));
    };
    figure.addEventListener("pointermove", (event) => {
      const at = strengthAt(event);
      tip.hidden = at === null || event.pointerType === "touch";
      if (tip.hidden) return;
      tip.replaceChildren(R.el("div", {}, `λ = ${R.strength(at)}`), ...figure.linesAt(at).map((line) => {
        const sign = R.el("span", { "aria-hidden": "true" }, "━ ");
        sign.style.color = line.color;
        return R.el("div", {}, sign, `${line.label} ${line.value}`);
      }));
      const box = figure.getBoundingClientRect(), left = event.clientX - box.left;
      tip.style.top = `${figure.offsetTop + 14}px`;
      tip.style.left = `${figure.offsetLeft + (left > box.width / 2 ? left - tip.offsetWidth - 16 : left + 16)}px`;
    });
    figure.addEventListener("pointerleave", () => { tip.hidden = true; });
    figure.addEventListener("click", (event) => {
      const at = strengthAt(event);
      if (at !== null) R.setStrength(Number(at.toFixed(4)));
    });
  };

  const axisOf = (metric) => (metric.fraction ? {} : { yaxis: "y2" });

  R.renderCurves = function ({ set, strength }) {
    const counts = set.counts(strength);
    const traces = [];
    const drawn = R.data.metrics.filter((metric) => set.raw.curves[metric.name]);
    drawn.forEach((metric) => {
      const i = R.data.metrics.indexOf(metric);
      const { x, y } = R.curve(set, metric.name);
      const end = R.data.bounds[1];
      traces.push({
        x: [...x, end], y: [...y, y[y.length - 1]], name: R.plotText(metric.label, 40), label: metric.label, mode: "lines",
        line: { shape: "hv", color: R.lines()[i % 6], width: i === 0 ? 3 : 1.7 },
        legendgroup: metric.name, hoverinfo: "none", ...axisOf(metric),
      });
    });
    // Marks of what is no fraction stand on their own axis, and once in the legend.
    const plain = drawn.filter((metric) => !metric.fraction);
    [drawn.filter((metric) => metric.fraction), plain].filter((some) => some.length).forEach((some, part) => {
      const colors = some.map((metric) => R.lines()[R.data.metrics.indexOf(metric) % 6]);
      const shared = { mode: "markers", hoverinfo: "none", showlegend: part === 0, ...axisOf(some[0]) };
      traces.push({
        x: some.map((metric) => set.raw.best[metric.name].strength),
        y: some.map((metric) => set.raw.best[metric.name].value),
        name: "best value", ...shared,
        marker: { symbol: "diamond", size: 9, color: colors, line: { width: 1, color: R.color("card") } },
      });
      traces.push({
        x: some.map(() => strength), y: some.map((metric) => R.metricValue(metric, counts)),
        name: "at λ", ...shared,
        marker: { size: 8, color: colors, line: { width: 1.5, color: R.color("ink") } },
      });
    });
    const second = { overlaying: "y", side: "right", showgrid: false, title: { text: R.plotText(plain.map((metric) => metric.label).join(", "), 40) } };
    R.draw("curves-figure", traces, {
      xaxis: { title: { text: "strength λ" }, range: R.data.bounds },
      yaxis: { tickformat: ".0%" }, ...(plain.length ? { yaxis2: second, margin: { l: 68, r: 68, t: 10, b: 46 } } : {}), shapes: R.marks(strength), hovermode: false,
      showlegend: true,
    });
    R.pickStrength("curves-figure", (at) => drawn.map((metric) => {
      const { x, y } = R.curve(set, metric.name);
      return { label: metric.label, color: R.lines()[R.data.metrics.indexOf(metric) % 6], value: R.shown(metric, R.stepAt(x, y, at), 2) };
    }));
    const all = drawn.every((metric) => R.curve(set, metric.name).exact);
    const bin = set.raw.profileResolution, most = R.number(R.data.curvePoints);
    R.say("curves-note", "Click the figure to set λ. Solid upright line: λ now. Dashed: the chosen λ; the band around it holds the strengths that tied in tuning.",
      bin === null ? "Diamonds: the best value of each metric, over all λ, exactly."
        : `Diamonds: the best value of each metric; with so many samples, curves and diamonds know λ to ${bin}.`,
      all ? "" : `Curves with more than ${most} steps are drawn at ${most} even strengths; the marks on them are exact.`);
  };
})(window.Reprior);
