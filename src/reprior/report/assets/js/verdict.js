// What to deploy and what it costs: words, four numbers, and a cheaper strength if there is one.
(function (R) {
  "use strict";

  const NOTICEABLE = 0.005; // half a point
  const LISTED = 3;

  // Every metric's change, of those that the set defines; the tuned one is the first.
  function changes(set, strength) {
    const now = set.counts(strength);
    return R.allMetrics(set).map((metric) => {
      const before = R.metricValue(metric, set.before), after = R.metricValue(metric, now);
      const change = after - before;
      return { metric, before, after, change, better: metric.greaterIsBetter === false ? -change : change };
    }).filter((each) => Number.isFinite(each.change));
  }

  // The interval of the tuned metric's gain: by the calibrator on its own data, else by the page.
  R.gainInterval = function (set, strength) {
    const own = R.data.uncertainty;
    if (own && set.raw.tunedOn && strength === R.data.strength) {
      return { low: own.gain[0], high: own.gain[1], confidence: own.confidence,
        how: "by the calibrator, which takes off what choosing λ on these labels adds" };
    }
    const { gain } = set.raw;
    if (!gain) return null;
    const grid = R.unpack(gain.strengths);
    const at = (name) => interpolated(grid, R.unpack(gain[name]), strength);
    return { low: at("low"), high: at("high"), confidence: R.data.confidence,
      how: `by a bootstrap of the ${R.number(gain.units)} ${gain.unit}` };
  };

  function interpolated(x, y, at) {
    const i = Math.min(Math.max(R.countUpTo(x, at), 1), x.length - 1);
    const share = Math.min(1, Math.max(0, (at - x[i - 1]) / (x[i] - x[i - 1])));
    return y[i - 1] + share * (y[i] - y[i - 1]);
  }

  // The class with the most false alarms for each of its labels.
  R.worstAlarms = function (set, strength) {
    const now = set.counts(strength), before = set.before;
    let worst = null;
    for (let k = 0; k < R.K; k++) {
      const alarms = now.predicted[k] - now.tp[k];
      if (!(alarms > 0) || !now.labelled[k]) continue;
      const rate = alarms / set.support[k];
      if (!worst || rate > worst.rate) {
        worst = { k, rate, alarms, predicted: now.predicted[k], right: now.tp[k],
          labels: set.support[k], predictedBefore: before.predicted[k] };
      }
    }
    return worst;
  };

  // A strength with a good part of the gain of the chosen one at a smaller part of its cost.
  R.cheaper = function (set) {
    if (set._cheaper !== undefined) return set._cheaper;
    set._cheaper = null;
    const chosen = R.data.strength;
    const [main, ...others] = changes(set, chosen);
    const cost = others.reduce((a, b) => (a && a.better <= b.better ? a : b), null);
    if (!main || main.metric !== R.data.metrics[0] || !cost) return null;
    if (main.better < NOTICEABLE || cost.better > -2 * NOTICEABLE || chosen <= 0) return null;
    const gainCurve = R.curve(set, main.metric.name), costCurve = R.curve(set, cost.metric.name);
    const x = Float64Array.from(new Set([...gainCurve.x, ...costCurve.x])).sort().filter((at) => at > 0 && at < chosen);
    let best = null;
    for (let i = 0; i < x.length; i++) {
      const strength = (x[i] + (i + 1 < x.length ? x[i + 1] : chosen)) / 2; // inside of a step
      const kept = (R.stepAt(gainCurve.x, gainCurve.y, strength) - main.before) / main.change;
      const paid = Math.max(0, (R.stepAt(costCurve.x, costCurve.y, strength) - cost.before) / cost.change);
      if (kept < 0.4 || kept - paid < 0.25 || (best && best.kept - best.paid >= kept - paid)) continue;
      best = { strength: Number(strength.toFixed(4)), kept, paid };
    }
    if (!best) return null;
    const counts = set.counts(best.strength); // at the rounded strength that is offered
    const change = (each) => R.metricValue(each.metric, counts) - each.before;
    set._cheaper = { ...best, main, cost, gain: change(main), loss: change(cost) };
    set._cheaper.kept = set._cheaper.gain / main.change;
    set._cheaper.paid = Math.max(0, set._cheaper.loss / cost.change);
    return set._cheaper;
  };

  // A metric's value and change: percent and points, or plain numbers of what is no share.
  const shown = (metric, value) => (metric.fraction ? R.percent : R.plain)(value);
  const changed = (metric, change) => (metric.fraction ? `${R.points(change)} points` : R.plainChange(change));

  function judgement(main, interval, cost) {
    const price = cost ? `, at a cost: ${cost.metric.label} ${changed(cost.metric, cost.change)}` : ", at no noticeable cost";
    if (main.better < -NOTICEABLE) return "Worse than the uncorrected model.";
    if (main.better < NOTICEABLE) return "Hardly any difference to the uncorrected model.";
    if (interval && (main.better === main.change ? interval.low > 0 : interval.high < 0)) return `A clear gain${price}.`;
    return (interval ? "A gain that may be chance" : "A gain") + `${price}.`;
  }

  function figure(key, name, value, more, direction = "") {
    return R.el("div", { class: "card", "data-verdict": key }, R.el("div", { class: "name" }, name),
      R.el("div", { class: `value ${direction}`.trim() }, value), R.el("div", { class: "was" }, more));
  }

  function classList(title, rows) {
    return R.el("div", {}, R.el("h3", {}, title), rows.length ? R.el("ul", {}, ...rows.map((row) => R.el("li", { "data-class": row.k },
      R.el("strong", {}, row.name), ` recall ${R.bare(row.recallBefore)} → ${R.percent(row.recall)} `,
      R.el("span", { class: R.direction(row.change) }, `(${R.points(row.change)})`), `, ${R.number(row.labels)} labels`))) : R.el("p", { class: "note" }, "None."));
  }

  R.renderVerdict = function ({ set, strength }) {
    const [main, ...others] = changes(set, strength);
    const title = R.byId("verdict-words"), box = R.byId("verdict-cards");
    R.say("h-verdict", strength === R.data.strength ? "Verdict on the chosen strength" : `Verdict on λ = ${R.strength(strength)}`);
    if (!main || main.metric !== R.data.metrics[0]) {
      title.textContent = `The ${set.name} set has no labels for ${R.data.metrics[0].label}, which the strength was tuned for.`;
      box.replaceChildren();
      return;
    }
    const interval = R.gainInterval(set, strength);
    const loss = others.reduce((a, b) => (a && a.better <= b.better ? a : b), null);
    const cost = loss && loss.better <= -NOTICEABLE ? loss : null;
    const alarms = R.worstAlarms(set, strength);
    const from = (each) => `${shown(each.metric, each.before)} → ${shown(each.metric, each.after)}`;
    title.textContent = strength === 0 ? "λ = 0 is the model as it is." : judgement(main, interval, cost);
    box.replaceChildren(
      figure("gain", `Gain: ${main.metric.label}`, changed(main.metric, main.change), from(main), R.direction(main.better)),
      cost ? figure("cost", `Largest cost: ${cost.metric.label}`, changed(cost.metric, cost.change), from(cost), "down")
        : figure("cost", "Largest cost", "none", "No metric loses half a point."),
      alarms ? figure("alarms", `Most false alarms: ${R.names[alarms.k]}`, `${R.number(alarms.predicted)} for ${R.number(alarms.labels)}`,
        `predicted so often for so many labels; ${R.number(alarms.right)} of them right; predicted ${R.number(alarms.predictedBefore)} times before`)
        : figure("alarms", "False alarms", "none", "Every prediction of a class with labels is right."),
      interval && strength !== 0 ? figure("sure", `How sure: ${Math.round(100 * interval.confidence)} % interval of the gain`,
        [interval.low, interval.high].map(main.metric.fraction ? R.points : R.plainChange).join(" to "), interval.how)
        : figure("sure", "How sure", "–", strength === 0 ? "There is no gain to be sure of." : set.raw.noGain || ""),
    );
    const rows = R.classEntries({ set, strength }).filter((row) => Math.abs(row.change) > 1e-12);
    const order = rows.slice().sort((a, b) => a.change - b.change || a.rank - b.rank);
    R.byId("verdict-classes").replaceChildren(
      classList("Classes that lose most", order.filter((row) => row.change < 0).slice(0, LISTED)),
      classList("Classes that gain most", order.filter((row) => row.change > 0).reverse().slice(0, LISTED)));
    renderCheaper(set);
    R.say("verdict-note", `On the ${set.name} set.`, set.raw.tunedOn ? "The strength was tuned on these labels: expect less on others." : "",
      others.some((each) => each.metric.name === "training-mix") ? "“Accuracy in the training mix” weights every class as it was frequent in training; “accuracy” counts this set's own mix." : "");
  };

  function renderCheaper(set) {
    const found = R.cheaper(set), box = R.byId("verdict-cheaper");
    box.replaceChildren();
    if (!found) return;
    const button = R.el("button", { type: "button", id: "to-cheaper" }, `Show λ = ${R.strength(found.strength)}`);
    button.addEventListener("click", () => R.setStrength(found.strength));
    box.append(`Cheaper: λ = ${R.strength(found.strength)} has ${Math.round(100 * found.kept)} % of the gain at ${Math.round(100 * found.paid)} % of the cost `
      + `(${found.main.metric.label} ${changed(found.main.metric, found.gain)}, ${found.cost.metric.label} ${changed(found.cost.metric, found.loss)}). Judge it on other data before you use it. `, button);
  }
})(window.Reprior);
