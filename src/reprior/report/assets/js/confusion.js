// The confusion table before and at λ, and the pairs of classes that are confused most.
(function (R) {
  "use strict";

  const MOST = 15;

  function heat(id, cells) {
    const { cellNames, whole } = R.data.classes;
    const n = cellNames.length;
    const names = cellNames.map((name) => R.plotText(name, 12));
    const full = cellNames.map((name) => R.plotText(name, 60));
    const share = [], text = [], inside = [];
    for (let i = 0; i < n; i++) {
      const row = Array.from(cells.subarray(i * n, (i + 1) * n));
      const total = row.reduce((a, b) => a + b, 0);
      share.push(row.map((v) => (total > 0 ? v / total : null)));
      text.push(row.map((v, j) => `${full[i]} → ${full[j]}: ${R.number(v)}${total > 0 ? ` (${R.percent(v / total)})` : ""}`));
      inside.push(row.map((v) => (n <= 10 && total > 0 && v / total >= 0.005 ? `${Math.round((100 * v) / total)}` : "")));
    }
    const x = names.map((_, i) => i);
    const small = { size: n > 14 ? 9 : 11 };
    R.draw(id, [{
      type: "heatmap", x, y: x, z: share, customdata: text, text: inside, texttemplate: "%{text}", textfont: { color: R.color("ink") },
      zmin: 0, zmax: 1, colorscale: R.scale(), showscale: false, xgap: 1, ygap: 1,
      hovertemplate: "%{customdata}<extra></extra>",
    }], {
      margin: { l: 40, r: 6, t: 6, b: 40 },
      xaxis: { automargin: true, tickvals: x, ticktext: names, title: { text: whole ? "predicted" : "predicted, rank of the classes", standoff: 8 }, tickangle: names.some((name) => name.length > 3) ? -45 : 0, ticklabeloverflow: "allow", showgrid: false, zeroline: false, tickfont: small, constrain: "domain" },
      yaxis: { automargin: true, tickvals: x, ticktext: names, title: { text: whole ? "label" : "label, rank of the classes", standoff: 8 }, autorange: "reversed", showgrid: false, zeroline: false, tickfont: small },
    });
  }

  R.renderConfusion = function ({ set, strength }) {
    heat("confusion-before", set.cells(0));
    heat("confusion-after", set.cells(strength));
    R.say("confusion-title", `At λ = ${R.strength(strength)}`);
    const flows = set.flows(strength, MOST);
    if (flows === null) {
      R.say("flows-note", "There are too many pairs of classes to keep in the page: only the table of groups above follows λ.");
      R.byId("flow-table").replaceChildren();
      return;
    }
    const unit = set.raw.weighted ? "weight" : "samples";
    R.say("flows-note", flows.length ? `The ${flows.length} pairs with the most ${unit}, before or at λ.` : "Nothing is confused.");
    R.fillTable("flow-table", "Pairs of classes that are confused most, before and at λ", ["Label", R.el("th", { scope: "col", class: "text" }, "taken for"), unit, "change"], flows.map((flow) => R.el("tr", {},
      R.rowHead(R.names[flow.label], "name"), R.textCell(R.names[flow.predicted], "name"),
      R.changeCell(flow.before, flow.now, R.number),
      R.el("td", { class: R.direction(flow.before - flow.now) }, (flow.now > flow.before ? "+" : flow.now < flow.before ? "−" : "±") + R.number(Math.abs(flow.now - flow.before))))));
  };
})(window.Reprior);
