// Metrics beside those of the list that are sums over classes of a weight times true positives.
(function (R) {
  "use strict";

  const { groupNames, group, source } = R.data.classes;

  // Mean recall of a group of classes, over those with labels.
  function groupRecall(g) {
    return ({ support, labelled }) => {
      const inside = R.byFrequency.filter((k) => group[k] === g && labelled[k] && support[k] > 0);
      const weights = new Float64Array(R.K);
      for (const k of inside) weights[k] = 1 / (support[k] * inside.length);
      return inside.length ? weights : null;
    };
  }

  // Accuracy, were the classes with labels as frequent as in training.
  function trainingMix({ support, labelled }) {
    const weights = new Float64Array(R.K);
    let total = 0;
    for (let k = 0; k < R.K; k++) {
      if (!labelled[k] || !(support[k] > 0)) continue;
      weights[k] = source[k] / support[k];
      total += source[k];
    }
    return total > 0 ? weights.map((w) => w / total) : null;
  }

  const used = groupNames.map((_, g) => g).filter((g) => group.includes(g));
  R.linear = [
    { name: "training-mix", label: "accuracy in the training mix", fraction: true, weights: trainingMix },
    ...(used.length > 1 ? [used[0], used[used.length - 1]] : []).map((g, i) => (
      { name: i === 0 ? "recall-frequent" : "recall-rare", label: `mean recall, ${groupNames[g]}`, fraction: true, weights: groupRecall(g) })),
  ];
  R.allMetrics = (set) => [...R.data.metrics, ...R.linear].filter((metric) => R.curve(set, metric.name));
  R.metricNamed = (name) => [...R.data.metrics, ...R.linear].find((metric) => metric.name === name);

  // The value over the strength: at its steps, or at even strengths where there are too many.
  R.linearCurve = function (set, name) {
    set._linear ??= new Map();
    if (!set._linear.has(name)) set._linear.set(name, swept(set, R.metricNamed(name)));
    return set._linear.get(name);
  };

  function swept(set, metric) {
    const weights = metric && metric.weights && metric.weights(set.before);
    if (!weights) return null;
    const low = R.data.bounds[0];
    let value = R.dot(weights, set.counts(low).tp);
    const x = [low], y = [value];
    set.eachSwitch((position, label, before, after, mass) => {
      const change = (after === label ? mass : 0) - (before === label ? mass : 0);
      if (change === 0 || label >= R.K || weights[label] === 0 || position <= low) return;
      value += weights[label] * change;
      if (position === x[x.length - 1]) y[y.length - 1] = value;
      else { x.push(position); y.push(value); }
    });
    const most = R.data.curvePoints;
    if (x.length <= most) return { x: Float64Array.from(x), y: Float64Array.from(y), exact: true };
    const high = R.data.bounds[1];
    const even = Float64Array.from(new Set([...Array.from({ length: most }, (_, i) => low + ((high - low) * i) / (most - 1)), 0, R.data.strength])).sort();
    return { x: even, y: even.map((at) => R.stepAt(x, y, at)), exact: false };
  }
})(window.Reprior);
