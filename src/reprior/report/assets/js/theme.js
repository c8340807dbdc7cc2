// Light and dark, for the page and for the figures.
(function (R) {
  "use strict";

  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const LINES = {
    light: ["#1f5fbf", "#b45309", "#0f7a53", "#8b3fc7", "#be2f6b", "#0e7490"],
    dark: ["#7fb0ff", "#f5a95b", "#5fd39b", "#c59bff", "#ff8fbd", "#6bd3e6"],
  };
  const SCALES = {
    light: [[0, "#ffffff"], [0.02, "#eef3fb"], [0.25, "#b9d0f2"], [0.6, "#5f93dd"], [1, "#123f86"]],
    dark: [[0, "#1b1f27"], [0.02, "#222c3e"], [0.25, "#2f4a78"], [0.6, "#5a8ad6"], [1, "#cfe0ff"]],
  };
  let printing = false;

  R.theme = () => (printing ? "light" : root.dataset.theme || (system.matches ? "dark" : "light"));
  R.lines = () => LINES[R.theme()];
  R.scale = () => SCALES[R.theme()];
  R.color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // A figure's layout in the page's colours; `more` overrides entry by entry.
  R.layout = function (more) {
    const ink = R.color("ink"), line = R.color("line");
    const axis = {
      gridcolor: line, linecolor: line, zerolinecolor: line, automargin: true, fixedrange: true,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
      margin: { l: 52, r: 12, t: 10, b: 44 },
      hoverlabel: { bgcolor: R.color("card"), bordercolor: line, font: { color: ink } },
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
    };
  };

  // Names that do not fit side by side, slanted so that each ends at its tick.
  R.slanted = function (names) {
    const letters = names.reduce((sum, name) => sum + name.length + 2, 0);
    return letters > 60 ? { tickangle: -35, ticklabeloverflow: "allow" } : { tickangle: 0, ticklabeloverflow: "allow" };
  };

  // Draws anew or changes what is there.
  R.draw = function (id, traces, layout) {
    if (layout.showlegend) legend(id, traces);
    return Plotly.react(R.byId(id), traces, R.layout({ ...layout, showlegend: false }), {
      displayModeBar: false, responsive: true, showTips: false,
    });
  };

  // Above the figure, where it wraps like text on a narrow screen.
  const SIGNS = { diamond: "◆", square: "□", "circle-open": "○" };
  function legend(id, traces) {
    const figure = R.byId(id);
    let list = figure.previousElementSibling;
    if (!list || !list.matches("ul.legend")) figure.before(list = R.el("ul", { class: "legend" }));
    list.replaceChildren(...traces.filter((trace) => trace.showlegend !== false).map((trace) => {
      const marker = trace.marker || {};
      const line = trace.mode && trace.mode.includes("lines");
      const sign = R.el("span", { "aria-hidden": "true" },
        line ? "━" : trace.type === "bar" ? "■" : SIGNS[marker.symbol] || (trace.hollow ? "○" : "●"));
      const hollow = marker.symbol === "square" && R.color("before");
      const color = line ? trace.line.color : trace.hollow || hollow || marker.color;
      sign.style.color = typeof color === "string" ? color : R.color("soft");
      return R.el("li", {}, sign, ` ${trace.label || trace.name}`);
    }));
  }

  R.initTheme = function (redraw) {
    const button = R.byId("theme");
    const name = () => { button.textContent = R.theme() === "dark" ? "Light" : "Dark"; };
    const changed = () => { name(); redraw(); };
    button.addEventListener("click", () => {
      root.dataset.theme = R.theme() === "dark" ? "light" : "dark";
      changed();
    });
    system.addEventListener("change", () => { if (!root.dataset.theme) changed(); });
    window.addEventListener("beforeprint", () => { printing = true; redraw(true); });
    window.addEventListener("afterprint", () => { printing = false; redraw(); });
    name();
  };
})(window.Reprior);
