"""The λ-curve of iNaturalist: top-1 and top-5 accuracy over the strength."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprior.exceptions import require
from reprior.experiments.figures import FAINT, INK, TUNED, draw_steps, new_figure, style
from reprior.experiments.inaturalist_cells import ROWS
from reprior.experiments.inaturalist_results import FULL, Curve, MethodResult, value_at
from reprior.experiments.inaturalist_tables import Results, title_of
from reprior.report.plots.drawing import AFTER, CYCLE

__all__ = ["draw"]

#: One colour for a loss; DRW has its line broken.
_COLOURS = {"ce": AFTER, "focal": CYCLE[1], "ldam": CYCLE[2], "bbn": CYCLE[5]}
_BROKEN = (0, (4, 1.6))

#: The classifier as it is, and at the strength that is best for top-1.
_AS_IT_IS: dict[str, Any] = {"marker": "o", "markersize": 5, "linestyle": "none"}
_BEST: dict[str, Any] = {
    "marker": "D", "markersize": 6, "markeredgewidth": 1.8, "linestyle": "none",
    "markerfacecolor": "white", "markeredgecolor": TUNED,
}  # fmt: skip

#: A curve of more steps is drawn at so many strengths, its values there exact: more than a print
#: has dots, and a file that is not megabytes of steps nobody sees.
MOST_STEPS = 1000

#: Room below and above the curves, in their own heights.
BELOW, ABOVE = 0.06, 0.1


def draw(results: Results) -> Any:
    """Return the figure: a row for each network, top-1 left and top-5 right.

    Returns
    -------
    matplotlib Figure
    """
    columns = list(dict.fromkeys(column for _, column in results))
    with style():
        figure = new_figure(9.6, 0.9 + 3.6 * len(columns))
        panels = figure.subplots(len(columns), 2, squeeze=False)
        for column, (left, right) in zip(columns, panels, strict=True):
            own = {row: results[row, column] for row in ROWS if (row, column) in results}
            _panel(left, own, "top1", f"{title_of(column)}: top-1 accuracy")
            _panel(right, own, "top5", f"{title_of(column)}: top-5 accuracy")
            left.set_ylabel("validation accuracy (%)")
        _key(figure, [row for row in ROWS if any(row == each for each, _ in results)])
    return figure


def _panel(ax: Any, own: dict[str, MethodResult], which: str, title: str) -> None:
    """Draw one curve for each method, exactly."""
    upper = max(result.bounds[1] for result in own.values())
    low, high = np.inf, -np.inf
    for row, result in own.items():
        strengths, values = getattr(result, which)
        curve: Curve = (strengths, 100 * values)
        colour, linestyle = _look(row)
        seen = _thinned(curve, result.bounds)
        draw_steps(ax, seen, result.bounds[1], color=colour).set_linestyle(linestyle)
        best = result.raw.strength
        ax.plot(0, value_at(curve, 0.0), color=colour, clip_on=False, zorder=3, **_AS_IT_IS)
        ax.plot(best, value_at(curve, best), clip_on=False, zorder=4, **_BEST)
        low, high = min(low, curve[1].min()), max(high, curve[1].max())
    ax.axvline(FULL, color=FAINT, linewidth=1.0, zorder=1)
    room = high - low if high > low else 1.0  # flat curves have no height of their own
    ax.set(
        xlim=(0, upper), ylim=(low - BELOW * room, high + ABOVE * room), xlabel="strength λ",
        xticks=np.arange(0, upper + 0.25, 0.5 if upper <= 2 else 1),
    )  # fmt: skip
    ax.grid(True)
    ax.set_title(title)


def _thinned(curve: Curve, bounds: tuple[float, float]) -> Curve:
    """The curve, or its values at evenly spaced strengths where it has more steps than are seen."""
    strengths, values = curve
    if strengths.size <= MOST_STEPS:
        return curve
    at = np.linspace(*bounds, MOST_STEPS)
    return at, values[np.searchsorted(strengths, at, side="right") - 1]


def _look(row: str) -> tuple[str, Any]:
    loss, _, schedule = row.partition("-")
    return _COLOURS[loss], _BROKEN if schedule else "-"


def _key(figure: Any, rows: list[str]) -> None:
    """Say above all panels what lines and marks are."""
    lines: Any = require("matplotlib.lines", extra="plots", purpose="To draw a figure")
    entries = []
    for row in rows:
        colour, linestyle = _look(row)
        line = lines.Line2D([], [], color=colour, linestyle=linestyle, linewidth=1.8)
        entries.append((line, title_of(row)))
    entries.append((lines.Line2D([], [], color=INK, **_AS_IT_IS), "as trained"))
    entries.append((lines.Line2D([], [], **_BEST), "best λ for top-1"))
    figure.legend(
        *zip(*entries, strict=True), loc="outside upper left", ncols=min(len(entries), 6),
        columnspacing=1.4, handlelength=2.2,
    )  # fmt: skip
