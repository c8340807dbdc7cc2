// Light and dark, for the page and for the figures.
(function (R) {
  "use strict";

  const root = document.documentElement;
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  // As reprior.report.plots draws: Okabe and Ito, two of them darker, to be seen on white.
  const LINES = {
    light: ["#0072b2", "#009e73", "#cc79a7", "#8a6100", "#d55e00", "#1a1a1a"],
    dark: ["#7fb0ff", "#4fd0a5", "#e0a3c6", "#d9b44a", "#ffab66", "#e8eaf0"],
  };
  // No further than the page's ink can be read on.
  const SCALES = {
    light: [[0, "#ffffff"], [0.02, "#eef3fb"], [0.3, "#c3d7f5"], [1, "#6f9de6"]],
    dark: [[0, "#1b1f27"], [0.02, "#222c3e"], [0.3, "#2b4572"], [1, "#3c66ad"]],
  };
  let printing = false;

  R.theme = () => (printing ? "light" : root.dataset.theme || (system.matches ? "dark" : "light"));
  R.lines = () => LINES[R.theme()];
  R.scale = () => SCALES[R.theme()];
  R.color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // A figure's layout in the page's colours; `more` overrides entry by entry. Margins that make
  // room for long names (`automargin`) draw twice: only figures whose ticks are names ask for them.
  R.layout = function (more) {
    const ink = R.color("ink"), line = R.color("line");
    const axis = {
      gridcolor: line, linecolor: line, zerolinecolor: line, fixedrange: true,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: ink },
      margin: { l: 68, r: 14, t: 10, b: 46 },
      hoverlabel: { bgcolor: R.color("card"), bordercolor: line, font: { color: ink } },
      ...more,
      xaxis: { ...axis, ...more.xaxis },
      yaxis: { ...axis, ...more.yaxis },
      ...(more.yaxis2 ? { yaxis2: { ...axis, ...more.yaxis2 } } : {}),
    };
  };

  // Names that do not fit side by side under a figure, slanted so that each ends at its tick.
  const LETTER = 7; // pixels, with room between names
  R.slanted = function (names, id) {
    const longest = Math.max(0, ...names.map((name) => name.length + 1));
    const fits = longest * names.length * LETTER < R.byId(id).clientWidth;
    return { tickangle: fits ? 0 : -35, ticklabeloverflow: "allow" };
  };

  // Plotly is most of the page to read in: it waits as text until words and tables are there.
  R.loadPlotly = function () {
    const source = R.byId("plotly-source");
    if (!source) return;
    document.head.append(R.el("script", {}, source.textContent));
    source.remove();
  };

  // Draws anew or changes what is there; nothing before Plotly is loaded.
  R.draw = function (id, traces, layout) {
    if (layout.showlegend) legend(id, traces);
    if (!window.Plotly) return;
    Plotly.react(R.byId(id), traces, R.layout({ ...layout, showlegend: false }), {
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
    window.addEventListener("beforeprint", () => { printing = true; R.loadPlotly(); redraw(true); });
    window.addEventListener("afterprint", () => { printing = false; redraw(); });
    name();
  };
})(window.Reprior);
