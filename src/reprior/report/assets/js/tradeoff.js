// Two metrics against each other along λ, and where neither improves without the other's loss.
(function (R) {
  "use strict";

  // Where both groups exist; else two metrics of all classes.
  const GROUPS = ["recall-frequent", "recall-rare"], OTHERWISE = ["balanced_accuracy", "macro_precision"];

  // Points of two curves that no other one beats in both, best first in a.
  function frontOf(at, x, y, signs) {
    const [better, other] = [x, y].map((values, i) => values.map((value) => signs[i] * value));
    const order = Array.from(at, (_, i) => i).sort((i, j) => better[j] - better[i] || other[j] - other[i]);
    let best = -Infinity;
    const kept = order.filter((i) => other[i] > best && ((best = other[i]), true));
    return { x: kept.map((i) => x[i]), y: kept.map((i) => y[i]), strengths: kept.map((i) => at[i]), size: kept.length };
  }

  function front(set, a, b) {
    const found = set.raw.fronts.find((f) => (f.a === a && f.b === b) || (f.a === b && f.b === a));
    if (!found) return null;
    const [x, y] = found.a === a ? [found.valuesA, found.valuesB] : [found.valuesB, found.valuesA];
    return { x: R.unpack(x), y: R.unpack(y), strengths: R.unpack(found.strengths), size: found.size };
  }

  R.renderTradeoff = function ({ set, strength }) {
    const [a, b] = ["metric-a", "metric-b"].map((id) => R.metricNamed(R.byId(id).value));
    const across = R.curve(set, a.name), up = R.curve(set, b.name);
    if (!across || !up) return R.say("tradeoff-note", "This set has no labels of the class that the metric is about.");
    const at = Float64Array.from(new Set([...across.x, ...up.x])).sort();
    const along = (curve) => Array.from(at, (x) => R.stepAt(curve.x, curve.y, x));
    const pair = `${R.mark(a, "x")}, ${R.mark(b, "y")}`;
    const point = (where, name, marker) => {
      const counts = set.counts(where);
      return { x: [R.metricValue(a, counts)], y: [R.metricValue(b, counts)], mode: "markers", name, marker,
        hovertemplate: `${pair}<extra>${name}</extra>` };
    };
    const best = a === b ? null : front(set, a.name, b.name) || frontOf(at, along(across), along(up), [a, b].map((metric) => (metric.greaterIsBetter === false ? -1 : 1)));
    R.draw("tradeoff-figure", [
      { x: along(across), y: along(up), customdata: Array.from(at), mode: "lines", name: "all strengths",
        line: { color: R.color("before"), width: 1.5 }, hovertemplate: `${pair} at λ = %{customdata:.4g}<extra></extra>` },
      ...(best ? [{ x: Array.from(best.x), y: Array.from(best.y), customdata: Array.from(best.strengths), mode: "lines+markers", name: "Pareto front",
        line: { color: R.lines()[1], width: 2.5 }, marker: { size: 5 },
        hovertemplate: `${pair} at λ = %{customdata:.4g}<extra>Pareto front</extra>` }] : []),
      point(0, "uncorrected", { symbol: "square", size: 11, color: R.color("card"), line: { width: 2, color: R.color("before") } }),
      point(R.data.strength, "chosen", { symbol: "diamond", size: 12, color: R.color("accent") }),
      point(strength, "at λ", { symbol: "circle-open", size: 17, color: R.color("ink"), line: { width: 2.5 } }),
    ], {
      xaxis: { title: { text: R.plotText(a.label, 40) }, ...R.tick(a, ".1%") }, yaxis: { title: { text: R.plotText(b.label, 40) }, ...R.tick(b, ".1%") },
      hovermode: "closest", showlegend: true,
    });
    const figure = R.byId("tradeoff-figure");
    if (figure.on && !figure.picks) {
      figure.picks = true;
      figure.on("plotly_click", ({ points }) => {
        const at = points.map((p) => p.customdata).find(Number.isFinite);
        if (at !== undefined) R.setStrength(at);
      });
    }
    R.say("tradeoff-note", best ? `On the front, no other strength is better in one of the two without being worse in the other: ${R.number(best.size)} strengths${best.size > best.x.length ? `, ${best.x.length} of them drawn` : ""}.` : "Choose two different metrics to see their Pareto front.",
      "Click a point to set its λ. Balanced accuracy is macro recall.");
  };

  R.initTradeoff = function (redraw) {
    ["metric-a", "metric-b"].forEach((id, i) => {
      const select = R.byId(id);
      select.append(...[...R.data.metrics, ...R.linear].map((metric) => R.el("option", { value: metric.name }, metric.label)));
      select.value = (R.metricNamed(GROUPS[1]) && R.sets.every((set) => GROUPS.every((name) => R.curve(set, name))) ? GROUPS : OTHERWISE)[i];
      select.addEventListener("change", redraw);
    });
  };
})(window.Reprior);
