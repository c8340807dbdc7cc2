// Source prior, target prior, the labels' mix, and the mix that is predicted.
(function (R) {
  "use strict";

  const WHOLE = 40, BINS = 60;

  R.renderPriors = function ({ set, strength }) {
    const { source, target } = R.data.classes;
    const share = (values) => {
      let total = 0;
      for (let k = 0; k < R.K; k++) total += values[k];
      return (k) => values[k] / total;
    };
    const kinds = [
      { name: "source prior", of: (k) => source[k], color: R.lines()[4] },
      { name: "target prior", of: (k) => target[k], color: R.lines()[1] },
      { name: "labels", of: share(set.support), color: R.color("before") },
      { name: "predicted before", of: share(set.before.predicted), color: R.lines()[2] },
      { name: "predicted at λ", of: share(set.counts(strength).predicted), color: R.lines()[0] },
    ];
    const few = R.K <= WHOLE;
    const parts = few ? R.byFrequency.map((k) => [k]) : R.bins(R.byFrequency, BINS);
    const x = parts.map((_, i) => i);
    let rank = 1;
    const labels = parts.map((part) => {
      const first = rank;
      rank += part.length;
      return few ? R.plotText(R.names[part[0]], 14) : `${R.number(first)}–${R.number(rank - 1)}`;
    });
    const traces = kinds.map(({ name, of, color }) => {
      const mean = parts.map((part) => part.reduce((sum, k) => sum + of(k), 0) / part.length);
      const y = mean.map((value) => (value > 0 ? value : null));
      const shared = { x, y, name, customdata: labels, hovertemplate: `%{customdata}: %{y:.3%}<extra>${name}</extra>` };
      const now = name === "predicted at λ";
      return few && R.K <= 12 ? { ...shared, type: "bar", marker: { color } }
        : { ...shared, mode: "lines+markers", line: { color, width: now ? 3 : 1.6 }, marker: { size: now ? 6 : 4, color } };
    });
    const every = few ? 1 : Math.ceil(x.length / 8);
    R.draw("priors-figure", traces, {
      barmode: "group", bargap: 0.25, hovermode: "closest", showlegend: true,
      xaxis: { automargin: true, tickvals: x.filter((i) => i % every === 0), ticktext: labels.filter((_, i) => i % every === 0), showgrid: false, zeroline: false, ...R.slanted(few ? labels : [], "priors-figure"), title: { text: "classes, most frequent first" } },
      yaxis: R.K <= 12 ? { tickformat: ".0%" } : { type: "log", tickformat: ".1~p", nticks: 7, title: { text: "share per class" } },
    });
    R.say("priors-note", "Classes are in the order of their frequency in training. What the model saw then, what it is corrected to, how the labels of this set are mixed, and what is predicted.",
      few ? "" : `With ${R.number(R.K)} classes, every point is the mean share of about ${Math.round(R.K / BINS)} classes of like frequency.`,
      R.K > 12 ? "The scale is logarithmic; shares of 0 are not drawn." : "");
  };
})(window.Reprior);
