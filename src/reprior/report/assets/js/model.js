// What a set of samples does at a strength: exact counts, replayed from the switches.
(function (R) {
  "use strict";

  function table(packed) {
    const result = { size: packed.size };
    for (const name of ["position", "label", "before", "after", "count", "weight"]) {
      result[name] = R.unpack(packed[name]);
    }
    return result;
  }

  // Weight, or number, of the samples of a row.
  const mass = (rows, i) => (rows.weight ? rows.weight[i] : rows.count ? rows.count[i] : 1);

  // Sums of weights leave rounding behind where nobody is left.
  const ROUNDING = 1e-9;
  const cleaned = (values) => values.map((v) => (Math.abs(v) < ROUNDING ? 0 : v));

  // gain·TP / (a·S + b·P + c·TP) of a class or, for a complement, of all samples but the class's.
  function ratio(metric, tp, predicted, support, total) {
    if (metric.complement) {
      tp = total - support - predicted + tp;
      predicted = total - predicted;
      support = total - support;
    }
    const below = metric.support * support + metric.predicted * predicted + metric.truePositive * tp;
    return below > 0 ? (metric.gain * tp) / below : 0;
  }

  // Matthews' correlation and Cohen's kappa; 0 where all labels or predictions are of one class.
  const LEAST_DISAGREEMENT = 2 ** -40;
  function agreement(metric, { tp, predicted, support }, total) {
    let hits = 0, chance = 0, predictions = 1, labels = 1;
    for (let k = 0; k < R.K; k++) {
      const p = predicted[k] / total, s = support[k] / total;
      hits += tp[k] / total;
      chance += p * s;
      predictions -= p * p;
      labels -= s * s;
    }
    if (metric.mean === "kappa") {
      return 1 - chance < LEAST_DISAGREEMENT ? 0 : (hits - chance) / (1 - chance);
    }
    if (labels < LEAST_DISAGREEMENT || predictions < LEAST_DISAGREEMENT) return 0;
    return (hits - chance) / (Math.sqrt(labels) * Math.sqrt(predictions));
  }

  const MEANS = {
    arithmetic: (values) => values.reduce((a, b) => a + b, 0) / values.length,
    geometric: (values) => Math.exp(MEANS.arithmetic(values.map(Math.log))),
    harmonic: (values) => 1 / MEANS.arithmetic(values.map((v) => 1 / v)),
    least: (values) => values.reduce((a, b) => Math.min(a, b), Infinity),
  };

  R.dot = (weights, values) => weights.reduce((sum, w, k) => sum + (w === 0 ? 0 : w * values[k]), 0);

  // A metric of counts, by the rules of reprior.metrics.CountMetric.
  R.metricValue = function (metric, counts) {
    if (metric.weights) {
      const weights = metric.weights(counts);
      return weights && R.dot(weights, counts.tp);
    }
    if (metric.alongCurve) return counts.alongCurve(metric);
    const { tp, predicted, nPredicted, support, labelled } = counts;
    let total = 0, hits = 0, all = 0;
    for (let k = 0; k < R.K; k++) { total += support[k]; hits += tp[k]; all += predicted[k]; }
    if (metric.mean === "mcc" || metric.mean === "kappa") {
      return total > 0 ? agreement(metric, counts, total) : null;
    }
    if (metric.average === "pooled") return ratio(metric, hits, all, total, total);
    const chosen = metric.average === "one" ? [metric.ofClass] : metric.classes;
    const values = [];
    let weight = 0, weighted = 0;
    for (let k = 0; k < R.K; k++) {
      if (chosen && !chosen.includes(k)) continue;
      if (!labelled[k] && !(metric.average === "seen" && nPredicted[k] > 0)) continue;
      const value = ratio(metric, tp[k], predicted[k], support[k], total);
      values.push(value);
      weight += support[k];
      weighted += support[k] * value;
    }
    if (!values.length) return null;
    const mean = metric.average === "weighted" ? weighted / weight : MEANS[metric.mean](values);
    return (mean - metric.chance) / (1 - metric.chance);
  };

  // Recall, precision and IoU of one class; null where there is nothing to divide by.
  R.classRatios = function (counts, k) {
    const tp = counts.tp[k], predicted = counts.predicted[k], support = counts.support[k];
    const seen = counts.labelled[k] || counts.nPredicted[k] > 0;
    return {
      recall: counts.labelled[k] ? tp / support : null,
      precision: counts.nPredicted[k] > 0 ? tp / predicted : counts.labelled[k] ? 0 : null,
      iou: seen ? tp / (support + predicted - tp) : null,
    };
  };

  class SampleSet {
    constructor(raw) {
      this.raw = raw;
      this.name = raw.name;
      this.cache = new Map();
    }

    get support() { return (this._support ??= R.unpack(this.raw.support)); }
    get labelled() { return (this._labelled ??= R.unpack(this.raw.labelled)); }
    get joint() { return (this._joint ??= table(this.raw.joint)); }
    get switches() { return (this._switches ??= table(this.raw.switches)); }
    get before() { return (this._before ??= this._count(0)); }

    // A metric that counts per class do not determine; null where the set does not know it.
    alongCurve(metric, strength) {
      const curve = this.raw.curves[metric.name];
      if (!curve) return null;
      this._curves ??= new Map();
      if (!this._curves.has(metric.name)) {
        this._curves.set(metric.name, { x: R.unpack(curve.x), y: R.unpack(curve.y) });
      }
      const { x, y } = this._curves.get(metric.name);
      return R.stepAt(x, y, strength);
    }

    // How many of the table's switches have happened.
    passed(strength) { return R.countUpTo(this.switches.position, strength); }

    counts(strength) {
      if (strength === 0) return this.before;
      if (!this.cache.has(strength)) {
        if (this.cache.size > 8) this.cache.clear();
        this.cache.set(strength, this._count(strength));
      }
      return this.cache.get(strength);
    }

    _count(strength) {
      const size = R.K + 1; // entry K takes what belongs to no class
      const tp = new Float64Array(size), predicted = new Float64Array(size);
      const nPredicted = new Float64Array(size);
      const move = (rows, klass, i, sign) => {
        const moved = sign * mass(rows, i);
        predicted[klass] += moved;
        nPredicted[klass] += sign * (rows.count ? rows.count[i] : 1);
        if (rows.label[i] === klass) tp[klass] += moved;
      };
      for (let i = 0; i < this.joint.size; i++) move(this.joint, this.joint.after[i], i, 1);
      const rows = this.switches, n = this.passed(strength);
      for (let i = 0; i < n; i++) {
        move(rows, rows.before[i], i, -1);
        move(rows, rows.after[i], i, 1);
      }
      for (let k = 0; k < R.K; k++) {
        if (!(nPredicted[k] > 0)) tp[k] = predicted[k] = 0; // rounding again
      }
      const alongCurve = (metric) => this.alongCurve(metric, strength);
      return { tp, predicted, nPredicted, support: this.support, labelled: this.labelled, alongCurve };
    }

    // Every row of the switches in order: from class `before` to class `after`, K for no class.
    eachSwitch(visit) {
      const rows = this.switches;
      for (let i = 0; i < rows.size; i++) visit(rows.position[i], rows.label[i], rows.before[i], rows.after[i], mass(rows, i));
    }

    // The confusion table of the cells (classes, or groups of classes), row by row.
    cells(strength) {
      const n = R.data.classes.cellNames.length;
      const own = this.raw.cells;
      this._cellTables ??= own
        ? [table(own.joint), table(own.switches)] : [this.joint, this.switches];
      const [joint, switches] = this._cellTables;
      const cell = own ? (k) => k : (k) => R.data.classes.cell[k];
      const result = new Float64Array(n * n);
      for (let i = 0; i < joint.size; i++) {
        result[cell(joint.label[i]) * n + cell(joint.after[i])] += mass(joint, i);
      }
      const until = R.countUpTo(switches.position, strength);
      for (let i = 0; i < until; i++) {
        const row = cell(switches.label[i]) * n, v = mass(switches, i);
        result[row + cell(switches.before[i])] -= v;
        result[row + cell(switches.after[i])] += v;
      }
      return cleaned(result);
    }

    // Confusions (label, prediction) with the most samples at a strength or before it.
    flows(strength, most) {
      if (this.raw.perClass) return null;
      const index = (this._pairs ??= pairIndex(this));
      const now = index.counts(strength), then = (index.then ??= index.counts(0));
      const order = [];
      for (let i = 0; i < index.key.length; i++) {
        const size = Math.max(now[i], then[i]);
        if (index.wrong[i] && size > 0) order.push(i);
      }
      order.sort((a, b) => Math.max(now[b], then[b]) - Math.max(now[a], then[a])
        || index.key[a] - index.key[b]);
      return order.slice(0, most).map((i) => ({
        label: Math.floor(index.key[i] / R.K), predicted: index.key[i] % R.K,
        before: then[i], now: now[i],
      }));
    }
  }

  // A place for every pair (label, class) that ever occurs: far fewer than K².
  function pairIndex(set) {
    const { joint, switches } = set;
    const places = new Map();
    const place = (label, klass) => {
      const key = label * R.K + klass;
      let i = places.get(key);
      if (i === undefined) places.set(key, (i = places.size));
      return i;
    };
    const base = new Uint32Array(joint.size);
    const from = new Uint32Array(switches.size), to = new Uint32Array(switches.size);
    for (let i = 0; i < joint.size; i++) base[i] = place(joint.label[i], joint.after[i]);
    for (let i = 0; i < switches.size; i++) {
      from[i] = place(switches.label[i], switches.before[i]);
      to[i] = place(switches.label[i], switches.after[i]);
    }
    const key = Float64Array.from(places.keys());
    const wrong = Uint8Array.from(key, (pair) => Math.floor(pair / R.K) !== pair % R.K);
    const counts = (strength) => {
      const result = new Float64Array(key.length);
      for (let i = 0; i < joint.size; i++) result[base[i]] += mass(joint, i);
      const n = set.passed(strength);
      for (let i = 0; i < n; i++) {
        const v = mass(switches, i);
        result[from[i]] -= v;
        result[to[i]] += v;
      }
      return cleaned(result);
    };
    return { key, wrong, counts };
  }

  R.sets = R.data.sets.map((raw) => new SampleSet(raw));

  // A step function: the value that holds at x.
  R.stepAt = (x, y, at) => y[Math.max(R.countUpTo(x, at) - 1, 0)];
})(window.Reprior);
