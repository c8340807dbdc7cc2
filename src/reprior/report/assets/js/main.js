// What is in view follows λ at once; the rest when it comes into view, or is printed.
(function (R) {
  "use strict";

  const checked = document.querySelector("#sets input:checked");
  const state = { set: R.sets[checked ? Number(checked.value) : 0], strength: R.data.strength };
  const parts = [
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
    for (const part of parts) part.stale = true;
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => renderStale(false));
    }
  }

  // In print everything is drawn, at once, in the width of the paper.
  function redraw(all = false) {
    for (const part of parts) part.stale = true;
    renderStale(all === true);
  }

  const again = (id) => () => render(parts.find((part) => part.id === id));
  R.initControls(state, changed);
  R.initClasses(again("classes"));
  R.initTradeoff(again("tradeoff"));
  R.initTheme(redraw);
  R.state = state;

  const thin = R.sets.filter((set) => set.raw.resolution !== null).map((set) => (
    `The ${R.number(set.raw.switchCount)} switches of the ${set.name} set are more than a page can hold: they are summed at multiples of ${set.raw.resolution}${set.raw.perClass ? ", per class" : ""}.`));
  R.say("thinning-note", ...thin);

  renderStale(false);
  render(parts[0]);
  render(parts[1]);
  performance.mark("first-figure");
  document.documentElement.dataset.ready = "true";

  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const part = parts.find((each) => each.element === entry.target);
      part.seen = entry.isIntersecting;
      if (part.seen && part.stale) render(part);
    }
  }, { rootMargin: "200px 0px" });
  for (const part of parts) observer.observe(part.element);
})(window.Reprior);
