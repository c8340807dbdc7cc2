// Numbers and elements as the page shows them. Names are text, never markup.
(function (R) {
  "use strict";

  const isNumber = (x) => x !== null && x !== undefined && !Number.isNaN(x);
  const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const some = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

  R.percent = (x, digits = 1) => (isNumber(x) ? `${(100 * x).toFixed(digits)} %` : "–");
  R.bare = (x) => (isNumber(x) ? (100 * x).toFixed(1) : "–"); // where the header says %
  R.number = (x) => (!isNumber(x) ? "–" : Number.isInteger(x) ? whole.format(x) : some.format(x));
  // As reprior.calibrator.summary.strength_text: four decimals, more only for what is near 0.
  R.strength = (x) => (x === 0 || Math.abs(x) >= 0.001 ? x.toFixed(4).replace(/\.?0+$/, "") : String(Number(x.toPrecision(2))));
  // Both ends with as many digits as it takes to tell them apart.
  R.interval = function (a, b) {
    for (let digits = 4; digits < 12; digits++) {
      const [from, to] = [a, b].map((x) => String(Number(x.toFixed(digits))));
      if (from !== to) return `${from} to ${to}`;
    }
    return String(a);
  };
  // A cost, or another value that is no fraction.
  R.plain = (x) => (isNumber(x) ? String(Number(x.toPrecision(4))) : "–");
  R.plainChange = (x) => (isNumber(x) ? (x > 0 ? "+" : x < 0 ? "−" : "±") + R.plain(Math.abs(x)) : "–");
  R.points = function (x) {
    if (!isNumber(x)) return "–";
    const text = Math.abs(100 * x).toFixed(1);
    return text === "0.0" ? "±0.0" : (x > 0 ? "+" : "−") + text;
  };
  // A metric's value in words; how its axis has it, and a mark on it.
  R.shown = (metric, value, digits = 1) => (metric.fraction ? R.percent(value, digits) : R.plain(value));
  R.tick = (metric, fraction) => (metric.fraction ? { tickformat: fraction } : {});
  R.mark = (metric, axis) => (metric.fraction ? `%{${axis}:.2%}` : `%{${axis}:.4~g}`);
  R.direction = (x) => (Math.abs(100 * x) < 0.05 || !isNumber(x) ? "" : x > 0 ? "up" : "down");

  // Plotly reads some tags in text: here "<" is a sign like any other.
  R.plotText = function (text, length = 26) {
    const short = text.length > length ? `${text.slice(0, length - 1)}…` : text;
    return short.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  };

  // An element with classes, attributes and children (elements or text).
  R.el = function (tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  R.byId = (id) => document.getElementById(id);
  R.say = (id, ...sentences) => { R.byId(id).textContent = sentences.filter(Boolean).join(" "); };
})(window.Reprior);
