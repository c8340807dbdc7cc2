// Per class: groups, a figure, and a table to sort, search and page through.
(function (R) {
  "use strict";

  const PAGE = 25, WHOLE = 40, BINS = 40;
  const RATIOS = { recall: "recall", precision: "precision", iou: "IoU" };
  const view = { key: "rank", down: false, page: 0, search: "", group: "" };

  const mean = (values) => {
    const kept = values.filter((value) => value !== null);
    return kept.length ? kept.reduce((a, b) => a + b, 0) / kept.length : null;
  };
  const difference = (a, b) => (a === null || b === null ? null : b - a);

  R.classEntries = function ({ set, strength }) {
    const now = set.counts(strength), before = set.before;
    const { counts, group } = R.data.classes;
    return R.byFrequency.map((k, rank) => {
      const a = R.classRatios(before, k), b = R.classRatios(now, k);
      return {
        k, rank, name: R.names[k], group: group[k], count: counts ? counts[k] : R.data.classes.source[k],
        labels: set.support[k], predictedBefore: before.predicted[k], predicted: now.predicted[k],
        recallBefore: a.recall, recall: b.recall, change: difference(a.recall, b.recall),
        precisionBefore: a.precision, precision: b.precision, precisionChange: difference(a.precision, b.precision),
        iouBefore: a.iou, iou: b.iou,
      };
    });
  };

  function renderGroups(rows) {
    const { groupNames } = R.data.classes;
    const lines = groupNames.map((name, g) => ({ name, rows: rows.filter((row) => row.group === g) }))
      .filter((group) => group.rows.length)
      .map((group) => {
        const of = (key) => mean(group.rows.map((row) => row[key]));
        return R.el("tr", { "data-group": group.name }, R.rowHead(group.name),
          R.numberCell(group.rows.length, R.number),
          R.changeCell(of("recallBefore"), of("recall"), R.bare),
          R.deltaCell(of("recallBefore"), of("recall")),
          R.changeCell(of("precisionBefore"), of("precision"), R.bare),
          R.deltaCell(of("precisionBefore"), of("precision")),
          R.changeCell(of("iouBefore"), of("iou"), R.bare));
      });
    R.fillTable("group-table", "Means over groups of classes, before and at λ", ["Group", "classes", "mean recall, %", "change", "mean precision, %", "change", "mean IoU, %"], lines);
  }

  function renderFigure(rows) {
    const key = R.byId("class-ratio").value;
    const few = rows.length <= WHOLE;
    const parts = few ? rows.map((row) => [row]) : bins(rows, BINS);
    const labels = few ? parts.map(([row]) => R.plotText(row.name, 14))
      : parts.map((part) => `${part[0].rank + 1}–${part[part.length - 1].rank + 1}`);
    const x = parts.map((_, i) => i);
    const before = parts.map((part) => mean(part.map((row) => row[`${key}Before`])));
    const now = parts.map((part) => mean(part.map((row) => row[key])));
    const stems = [["up", "good"], ["down", "bad"]].map(([way, color]) => {
      const line = { x: [], y: [], color };
      x.forEach((i) => {
        if (before[i] === null || now[i] === null || (now[i] < before[i]) !== (way === "down")) return;
        line.x.push(i, i, null);
        line.y.push(before[i], now[i], null);
      });
      return line;
    });
    const hover = (label) => `%{customdata}: %{y:.1%}<extra>${label}</extra>`;
    const every = few ? 1 : Math.ceil(x.length / 8);
    R.draw("classes-figure", [
      ...stems.map((stem) => ({ x: stem.x, y: stem.y, mode: "lines", name: stem.color === "good" ? "gain" : "loss",
        line: { color: R.color(stem.color), width: few ? 5 : 3 }, opacity: 0.6, hoverinfo: "skip", showlegend: stem.x.length > 0 })),
      { x, y: before, customdata: labels, mode: "markers", cliponaxis: false, name: "before", hollow: R.color("before"), hovertemplate: hover("before"),
        marker: { color: R.color("card"), size: few ? 9 : 6, line: { color: R.color("before"), width: 2 } } },
      { x, y: now, customdata: labels, mode: "markers", cliponaxis: false, name: "at λ", hovertemplate: hover("at λ"),
        marker: { color: R.color("accent"), size: few ? 9 : 7 } },
    ], {
      xaxis: { automargin: true, tickvals: x.filter((i) => i % every === 0), ticktext: labels.filter((_, i) => i % every === 0),
        range: [-0.6, x.length - 0.4], showgrid: false, zeroline: false, ...R.slanted(few ? labels : [], "classes-figure"), title: { text: "classes, most frequent first" } },
      yaxis: { tickformat: ".0%", rangemode: "tozero", title: { text: RATIOS[key] } }, hovermode: "closest", showlegend: true,
    });
    R.say("classes-note", few ? "" : `With ${R.number(rows.length)} classes, every mark is the mean of about ${Math.round(rows.length / BINS)} classes of like frequency; the table below has each one.`);
  }

  function bins(rows, n) {
    const edges = Array.from({ length: n + 1 }, (_, i) => Math.round((i * rows.length) / n));
    return edges.slice(0, -1).map((from, i) => rows.slice(from, edges[i + 1]));
  }
  R.bins = bins;

  function chosen(rows) {
    const wanted = view.search.toLowerCase();
    const kept = rows.filter((row) => (view.group === "" || row.group === Number(view.group))
      && (!wanted || row.name.toLowerCase().includes(wanted)));
    const sign = view.down ? -1 : 1;
    const value = (row) => row[view.key];
    return kept.sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null) || a.rank - b.rank;
      const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return sign * order || a.rank - b.rank;
    });
  }

  function renderTable(rows, again) {
    const kept = chosen(rows);
    const pages = Math.max(1, Math.ceil(kept.length / PAGE));
    view.page = Math.min(view.page, pages - 1);
    const shown = kept.slice(view.page * PAGE, (view.page + 1) * PAGE);
    const { counts, groupNames } = R.data.classes;
    const choose = (key) => {
      const text = key === "name" || key === "rank";
      view.down = view.key === key ? !view.down : !text;
      view.key = key;
      view.page = 0;
      again();
      R.byId("class-table").querySelector(`[data-sort="${key}"]`).focus();
    };
    const header = (label, key, text) => R.sortHeader(label, key, view, choose, text);
    const heads = [header("Class", "name", true), header(counts ? "training count" : "source prior", "count"),
      header("Group", "group", true), header("labels", "labels"), header("predicted", "predicted"),
      header("recall, %", "recall"), header("change", "change"), header("precision, %", "precision"), header("change", "precisionChange"), header("IoU, %", "iou")];
    R.fillTable("class-table", "Every class, before and at λ", heads, shown.map((row) => R.el("tr", { "data-class": row.k },
      R.rowHead(row.name, "name"), R.numberCell(row.count, counts ? R.number : (x) => R.percent(x, 2)),
      R.textCell(groupNames[row.group].replace(/ \(.*/, "")), R.numberCell(row.labels, R.number),
      R.changeCell(row.predictedBefore, row.predicted, R.number),
      R.changeCell(row.recallBefore, row.recall, R.bare), R.deltaCell(row.recallBefore, row.recall),
      R.changeCell(row.precisionBefore, row.precision, R.bare), R.deltaCell(row.precisionBefore, row.precision),
      R.changeCell(row.iouBefore, row.iou, R.bare))));
    R.say("class-count", kept.length === rows.length ? `${R.number(rows.length)} classes` : `${R.number(kept.length)} of ${R.number(rows.length)} classes`);
    R.say("page-state", `Page ${view.page + 1} of ${R.number(pages)}`);
    R.byId("page-previous").disabled = view.page === 0;
    R.byId("page-next").disabled = view.page >= pages - 1;
  }

  R.renderClasses = function (state) {
    const rows = R.classEntries(state);
    renderGroups(rows);
    renderFigure(rows);
    const again = () => renderTable(R.classEntries(state), again);
    renderTable(rows.slice(), again);
  };

  R.initClasses = function (redraw) {
    R.byId("class-group").append(R.el("option", { value: "" }, "all"),
      ...R.data.classes.groupNames.map((name, g) => R.el("option", { value: g }, name)));
    const on = (id, event, change) => R.byId(id).addEventListener(event, (e) => { change(e.target); redraw(); });
    on("class-search", "input", (input) => { view.search = input.value; view.page = 0; });
    on("class-group", "change", (input) => { view.group = input.value; view.page = 0; });
    on("class-ratio", "change", () => {});
    on("page-previous", "click", () => { view.page -= 1; });
    on("page-next", "click", () => { view.page += 1; });
  };
})(window.Reprior);
