// Two metrics against each other along λ, and where neither improves without the other's loss.
(function (R) {
  "use strict";

  const DEFAULT = ["balanced_accuracy", "macro_precision"];

  function front(set, a, b) {
    const found = set.raw.fronts.find((f) => (f.a === a && f.b === b) || (f.a === b && f.b === a));
    if (!found) return null;
    const [x, y] = found.a === a ? [found.valuesA, found.valuesB] : [found.valuesB, found.valuesA];
    return { x: R.unpack(x), y: R.unpack(y), strengths: R.unpack(found.strengths), size: found.size };
  }

  R.renderTradeoff = function ({ set, strength }) {
    const [a, b] = ["metric-a", "metric-b"].map((id) => R.data.metrics.find((m) => m.name === R.byId(id).value));
    const across = R.curve(set, a.name), up = R.curve(set, b.name);
    if (!across || !up) return R.say("tradeoff-note", "This set has no labels of the class that the metric is about.");
    const at = Float64Array.from(new Set([...across.x, ...up.x])).sort();
    const along = (curve) => Array.from(at, (x) => R.stepAt(curve.x, curve.y, x));
    const point = (where, name, marker) => {
      const counts = set.counts(where);
      return { x: [R.metricValue(a, counts)], y: [R.metricValue(b, counts)], mode: "markers", name, marker,
        hovertemplate: `%{x:.2%}, %{y:.2%}<extra>${name}</extra>` };
    };
    const best = a === b ? null : front(set, a.name, b.name);
    R.draw("tradeoff-figure", [
      { x: along(across), y: along(up), customdata: Array.from(at), mode: "lines", name: "all strengths",
        line: { color: R.color("before"), width: 1.5 }, hovertemplate: "%{x:.2%}, %{y:.2%} at λ = %{customdata:.4g}<extra></extra>" },
      ...(best ? [{ x: Array.from(best.x), y: Array.from(best.y), customdata: Array.from(best.strengths), mode: "lines+markers", name: "Pareto front",
        line: { color: R.lines()[2], width: 2.5 }, marker: { size: 5 },
        hovertemplate: "%{x:.2%}, %{y:.2%} at λ = %{customdata:.4g}<extra>Pareto front</extra>" }] : []),
      point(0, "uncorrected", { symbol: "square", size: 11, color: R.color("card"), line: { width: 2, color: R.color("before") } }),
      point(R.data.strength, "chosen", { symbol: "diamond", size: 12, color: R.color("accent") }),
      point(strength, "at λ", { symbol: "circle-open", size: 17, color: R.color("ink"), line: { width: 2.5 } }),
    ], {
      xaxis: { title: { text: R.plotText(a.label, 40) }, tickformat: ".1%" }, yaxis: { title: { text: R.plotText(b.label, 40) }, tickformat: ".1%" },
      hovermode: "closest", showlegend: true,
    });
    R.say("tradeoff-note", best ? `On the front, no other strength is better in one of the two without being worse in the other: ${R.number(best.size)} strengths${best.size > best.x.length ? `, ${best.x.length} of them drawn` : ""}.` : "Choose two different metrics to see their Pareto front.",
      "Balanced accuracy is macro recall.");
  };

  R.initTradeoff = function (redraw) {
    ["metric-a", "metric-b"].forEach((id, i) => {
      const select = R.byId(id);
      select.append(...R.data.metrics.map((metric) => R.el("option", { value: metric.name }, metric.label)));
      select.value = DEFAULT[i];
      select.addEventListener("change", redraw);
    });
  };
})(window.Reprior);
