// What is in view follows λ at once; the rest when it comes into view, or is printed.
(function (R) {
  "use strict";

  const checked = document.querySelector("#sets input:checked");
  const state = { set: R.sets[checked ? Number(checked.value) : 0], strength: R.data.strength };
  const parts = [
    { id: "verdict", render: R.renderVerdict },
    { id: "metric-cards", render: R.renderMetrics },
    { id: "curves-figure", render: R.renderCurves },
    { id: "optimum-table", render: R.renderOptima },
    { id: "classes", render: R.renderClasses },
    { id: "confusion", render: R.renderConfusion },
    { id: "tradeoff", render: R.renderTradeoff },
    { id: "reliability", render: R.renderReliability },
    { id: "priors", render: R.renderPriors },
  ].map((part) => ({ ...part, element: R.byId(part.id), seen: false, stale: true }));
  let waiting = false;

  // `data-strength` tells what a part shows now; it has none while that is out of date.
  function outdate() {
    for (const part of parts) {
      part.stale = true;
      delete part.element.dataset.strength;
    }
  }

  function render(part) {
    part.stale = false;
    part.render(state);
    part.element.dataset.strength = state.strength;
    part.element.dataset.set = state.set.name;
  }

  function renderStale(all) {
    waiting = false;
    for (const part of parts) if (part.stale && (all || part.seen)) render(part);
  }

  function changed() {
    outdate();
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => renderStale(false));
    }
  }

  // In print everything is drawn, at once, in the width of the paper.
  function redraw(all = false) {
    outdate();
    renderStale(all);
  }

  function firstFigure() {
    R.loadPlotly();
    outdate();
    render(byId("curves-figure"));
    performance.mark("first-figure");
    renderStale(false);
    document.documentElement.dataset.ready = "true";
  }

  const byId = (id) => parts.find((part) => part.id === id);
  const again = (id) => () => render(byId(id));
  R.initControls(state, changed);
  R.initClasses(again("classes"));
  R.initTradeoff(again("tradeoff"));
  R.initTheme(redraw);
  R.state = state;

  const sentences = R.sets.filter((set) => set.raw.resolution !== null).map((set) => (
    `The ${R.number(set.raw.switchCount)} switches of the ${set.name} set are more than a page can hold: they are summed at multiples of ${set.raw.resolution}${set.raw.perClass ? ", per class" : ""}.`));
  const { cutTo } = R.data.classes;
  if (cutTo) sentences.push(`Names of classes are cut to ${cutTo} letters, so that the page stays below 15 MB.`);
  if (!R.data.calibrator) sentences.push("The calibrator has too many classes to be downloaded from the page.");
  R.say("thinning-note", ...sentences);

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const part = parts.find((each) => each.element === entry.target);
      part.seen = entry.isIntersecting;
      if (part.seen && part.stale) render(part);
    }
  }, { rootMargin: "200px 0px" });
  for (const part of parts) observer.observe(part.element);

  render(byId("verdict"));
  render(byId("metric-cards"));
  performance.mark("first-numbers");
  // After the next frame, in which the numbers are painted.
  requestAnimationFrame(() => setTimeout(firstFigure));
})(window.Reprior);
