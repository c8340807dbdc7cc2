// λ from a slider, a number or a button; which set is shown.
(function (R) {
  "use strict";

  // The calibrator's file, with another strength where λ is not the chosen one.
  R.calibratorAt = function (strength) {
    const fields = R.data.calibrator;
    if (strength === R.data.strength) return fields;
    const { promise, ...others } = fields; // made for the chosen strength alone
    return { ...others, strength, strength_interval: [strength, strength], strength_outside_interval: false, best_score: null };
  };

  function save(strength) {
    const text = `${JSON.stringify(R.calibratorAt(strength), null, 2)}\n`;
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = R.el("a", { href: url, download: `calibrator-${R.strength(strength)}.json` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  R.initControls = function (state, changed) {
    const [low, high] = R.data.bounds;
    const slider = R.byId("strength-slider"), number = R.byId("strength-number");
    slider.min = low;
    slider.max = high;
    slider.step = Math.max((high - low) / 2000, 1e-9);
    number.min = low;
    number.max = high;

    function show(from) {
      if (from !== slider) slider.value = state.strength;
      if (from !== number) number.value = Number(state.strength.toPrecision(6));
      slider.setAttribute("aria-valuetext", `λ = ${R.strength(state.strength)}`);
      R.byId("to-uncorrected").setAttribute("aria-pressed", state.strength === 0);
      R.byId("to-chosen").setAttribute("aria-pressed", state.strength === R.data.strength);
      R.say("print-state", `Shown at strength λ = ${R.strength(state.strength)}, on the ${state.set.name} set.`);
    }

    function set(strength, from) {
      if (!Number.isFinite(strength)) return;
      state.strength = Math.min(high, Math.max(low, strength));
      show(from);
      changed();
    }

    slider.addEventListener("input", () => set(slider.valueAsNumber, slider));
    number.addEventListener("input", () => set(number.valueAsNumber, number));
    number.addEventListener("change", () => show(null));
    const download = R.byId("download");
    download.disabled = !R.data.calibrator;
    download.addEventListener("click", () => save(state.strength));
    R.byId("to-uncorrected").addEventListener("click", () => set(0));
    R.byId("to-chosen").addEventListener("click", () => set(R.data.strength));
    for (const radio of document.querySelectorAll('#sets input')) {
      radio.addEventListener("change", () => {
        state.set = R.sets[Number(radio.value)];
        show(null);
        changed();
      });
    }
    R.setStrength = set;
    show(null);
  };
})(window.Reprior);
