// Tables: cells, and headers that sort.
(function (R) {
  "use strict";

  // before → now, with the exact value for whoever wants to read it.
  R.changeCell = function (before, now, format) {
    const cell = R.el("td", { "data-before": before, "data-value": now });
    if (before === null && now === null) return cell.append("–"), cell;
    cell.append(R.el("span", { class: "from" }, format(before)),
      R.el("span", { class: "arrow" }, "→"), format(now));
    return cell;
  };
  R.numberCell = (value, format) => R.el("td", { "data-value": value }, format(value));
  R.deltaCell = (before, now) => {
    const change = before === null || now === null ? null : now - before;
    return R.el("td", { class: R.direction(change), "data-value": change }, R.points(change));
  };
  R.textCell = (text, extra = "") => R.el("td", { class: `text ${extra}`.trim(), title: text }, text);

  R.rowHead = (text, extra = "") => R.el("th", { scope: "row", class: `text ${extra}`.trim(), title: text }, text);

  R.fillTable = function (id, caption, headers, rows) {
    const head = R.el("tr", {}, ...headers.map((header) => (
      header instanceof Node ? header : R.el("th", { scope: "col" }, header))));
    R.byId(id).replaceChildren(
      R.el("caption", {}, R.el("span", { class: "hidden" }, caption)),
      R.el("thead", {}, head), R.el("tbody", {}, ...rows),
    );
  };

  // A header with a button; `state` is {key, down} of the present order.
  R.sortHeader = function (label, key, state, choose, text) {
    const now = state.key === key ? (state.down ? "descending" : "ascending") : "none";
    const button = R.el("button", { type: "button", "data-sort": key }, label);
    button.addEventListener("click", () => choose(key));
    return R.el("th", { scope: "col", "aria-sort": now, class: text ? "text" : null }, button);
  };
})(window.Reprior);
