// Reliability and its error on a grid of strengths.
(function (R) {
  "use strict";

  function unpack(raw) {
    const result = {};
    for (const key of Object.keys(raw)) result[key] = R.unpack(raw[key]);
    return result;
  }

  R.nearest = function (grid, strength) {
    let best = 0;
    for (let g = 1; g < grid.length; g++) {
      if (Math.abs(grid[g] - strength) < Math.abs(grid[best] - strength)) best = g;
    }
    return best;
  };

  function diagram(id, table, g, color) {
    const n = R.data.bins;
    const x = [], y = [], confidence = [], weight = [], text = [];
    let total = 0;
    for (let b = 0; b < n; b++) total += table.weight[g * n + b];
    for (let b = 0; b < n; b++) {
      const w = table.weight[g * n + b];
      x.push((b + 0.5) / n);
      y.push(w > 0 ? table.hits[g * n + b] / w : null);
      confidence.push(w > 0 ? table.confidence[g * n + b] / w : null);
      weight.push(w);
      text.push(w > 0 ? `confidence ${R.percent(confidence[b])}, right ${R.percent(y[b])}, ${R.percent(w / total)} of the samples` : "");
    }
    const size = weight.map((w) => 5 + 13 * Math.sqrt(w / total));
    R.draw(id, [
      { type: "bar", x, y, width: 0.94 / n, marker: { color, opacity: 0.55 }, customdata: text, hovertemplate: "%{customdata}<extra></extra>", name: "right" },
      { x: confidence, y, mode: "markers", marker: { color, size, line: { color: R.color("card"), width: 1.5 } }, customdata: text, hovertemplate: "%{customdata}<extra></extra>", name: "mean confidence" },
      { x: [0, 1], y: [0, 1], mode: "lines", line: { color: R.color("soft"), width: 1.2, dash: "dot" }, hoverinfo: "skip", name: "perfect" },
    ], {
      xaxis: { range: [0, 1.02], title: { text: "confidence in the predicted class" }, tickformat: ".0%" },
      yaxis: { range: [0, 1.04], title: { text: "share that is right" }, tickformat: ".0%" },
      showlegend: false, hovermode: "closest",
    });
  }

  R.renderReliability = function ({ set, strength }) {
    const grid = (set.grid ??= unpack(set.raw.reliability));
    const before = (set.gridBefore ??= unpack(set.raw.reliabilityBefore));
    const g = R.nearest(grid.strengths, strength), at = grid.strengths[g];
    const loss = (x) => (Number.isFinite(x) ? x.toFixed(3) : "∞");
    const signed = (x) => (Number.isFinite(x) ? (x >= 0 ? "+" : "−") + Math.abs(x).toFixed(3) : "");
    R.byId("reliability-cards").replaceChildren(
      R.card({ key: "ece", label: "expected calibration error", falls: true }, grid.ece[g], before.ece[0], (x) => R.percent(x, 2), R.points, true),
      R.card({ key: "log_loss", label: "log-loss", falls: true }, grid.logLoss[g], before.logLoss[0], loss, signed, false),
    );
    R.say("reliability-note", `Probabilities are judged on a grid: ${R.data.gridSize} even strengths, 0 and the chosen one. Shown at λ = ${R.strength(at)}, the nearest of them to λ = ${R.strength(strength)}.`,
      R.data.temperature === 1 ? "" : (R.data.strength === 0 ? "Before is the uncorrected model, at temperature 1; at λ" : "Before and λ = 0 are the uncorrected model, at temperature 1; at any other λ")
        + ` the temperature is ${R.strength(R.data.temperature)}.`,
      set.raw.otherMix ? `These figures are measured on the ${set.name} set's own class mix, while the probabilities are made for the target prior.` : "",
      "Larger dots hold more samples; the dotted line is perfect calibration.");
    R.say("reliability-title", `At λ = ${R.strength(at)}`);
    diagram("reliability-before", before, 0, R.color("before"));
    diagram("reliability-after", grid, g, R.color("accent"));
    R.draw("ece-figure", [
      { x: Array.from(grid.strengths), y: Array.from(grid.ece), mode: "lines+markers", marker: { size: 5 }, line: { color: R.color("accent"), width: 2 },
        hovertemplate: "ECE %{y:.2%} at λ = %{x:.4g}<extra></extra>" },
      { x: [at], y: [grid.ece[g]], mode: "markers", marker: { size: 11, color: R.color("accent"), line: { color: R.color("ink"), width: 2 } }, hoverinfo: "skip" },
    ], {
      xaxis: { title: { text: "strength λ (grid)" }, range: R.data.bounds },
      yaxis: { title: { text: "ECE" }, tickformat: ".1%", rangemode: "tozero" },
      shapes: R.marks(strength), showlegend: false, hovermode: false,
    });
    R.pickStrength("ece-figure", (where) => {
      const nearest = R.nearest(grid.strengths, where);
      return [{ label: `ECE at grid point ${R.strength(grid.strengths[nearest])}`, color: R.color("accent"), value: R.percent(grid.ece[nearest], 2) }];
    });
  };
})(window.Reprior);
