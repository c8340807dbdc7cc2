// Metrics in large numbers, and where each would be best.
(function (R) {
  "use strict";

  function card(name, value, before, format, delta, main) {
    return R.el("div", { class: main ? "card main" : "card", "data-metric": name.key },
      R.el("div", { class: "name" }, name.label),
      R.el("div", { class: "value", "data-value": value }, format(value)),
      R.el("div", { class: "was" }, `before ${format(before)} `,
        delta ? R.el("span", { class: R.direction(name.falls ? before - value : value - before) }, delta(value - before)) : ""));
  }
  R.card = card;

  R.renderMetrics = function ({ set, strength }) {
    const now = set.counts(strength), before = set.before;
    const mix = R.linear.filter((metric) => metric.name === "training-mix" && R.curve(set, metric.name));
    const cards = [...R.data.metrics, ...mix].map((metric, i) => card(
      { key: metric.name, label: metric.label, falls: metric.greaterIsBetter === false },
      R.metricValue(metric, now), R.metricValue(metric, before),
      metric.fraction ? R.percent : R.plain, metric.fraction ? R.points : R.plainChange, i === 0,
    ));
    const right = (counts) => counts.tp.subarray(0, R.K).reduce((a, b) => a + b, 0);
    const difference = (x) => (x > 0 ? "+" : x < 0 ? "−" : "±") + R.number(Math.abs(x));
    cards.push(card({ key: "correct", label: set.raw.weighted ? "weight of right predictions" : "right predictions" },
      right(now), right(before), R.number, difference, false));
    R.byId("metric-cards").replaceChildren(...cards);
    const total = set.raw.switchCount;
    R.say("metrics-note", `On the ${set.name} set, ${R.number(set.raw.samples)} samples, at λ = ${R.strength(strength)}.`,
      `Predictions change at ${R.number(total)} exact points between λ = ${R.strength(R.data.bounds[0])} and ${R.strength(R.data.bounds[1])}.`,
      set.raw.resolution === null ? "Counts, metrics and confusion are exact at every λ."
        : `Counts, metrics and confusion are exact at multiples of ${set.raw.resolution}, at 0 and at the chosen λ; in between those of the next smaller one are shown.`);
  };

  R.renderOptima = function ({ set, strength }) {
    const now = set.counts(strength), chosen = set.counts(R.data.strength);
    const rows = R.data.metrics.filter((metric) => set.raw.best[metric.name]).map((metric) => {
      const best = set.raw.best[metric.name], shown = metric.fraction ? R.percent : R.plain;
      return R.el("tr", {}, R.rowHead(metric.label),
        R.numberCell(R.metricValue(metric, set.before), shown),
        R.numberCell(R.metricValue(metric, now), shown),
        R.numberCell(R.metricValue(metric, chosen), shown),
        R.numberCell(best.value, shown),
        R.numberCell(best.strength, R.strength),
        R.el("td", {}, `${R.interval(...best.interval)}${best.atBound ? " (at the bound)" : ""}`));
    });
    R.fillTable("optimum-table", "Every metric before, at λ, as chosen and at its best", ["Metric", "before", `at λ = ${R.strength(strength)}`,
      `chosen, λ = ${R.strength(R.data.strength)}`, "best on this set", "there λ is", "ties"], rows);
  };
})(window.Reprior);
