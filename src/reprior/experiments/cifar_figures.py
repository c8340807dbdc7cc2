"""The error along the strength, for the cells of each CIFAR column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.experiments.cells import COLUMNS, METHODS
from reprior.experiments.cifar_tables import LABELS
from reprior.experiments.figures import new_figure, save_figure, style
from reprior.report.plots.drawing import AFTER, CYCLE

if TYPE_CHECKING:
    from reprior.experiments.cifar import CellResult

__all__ = ["write_curves"]

#: Panels beside each other.
PER_ROW = 2

#: One colour for a loss; class-balanced ones are dotted, DRW is broken.
_COLOURS = {
    "ce": AFTER, "focal": CYCLE[1], "ldam": CYCLE[2], "bbn": CYCLE[5], "logit_adjusted": CYCLE[3],
}  # fmt: skip


def write_curves(results: Mapping[str, CellResult], folder: Path) -> tuple[Path, ...]:
    """Write ``cifar-curves``: a panel for each column, a line for each method."""
    from reprior.experiments.cifar import CURVE

    columns = [c for c in COLUMNS if any(name.startswith(f"{c}/") for name in results)]
    rows = -(-len(columns) // PER_ROW)
    wide = min(PER_ROW, len(columns))
    with style():
        figure = new_figure(5.4 * wide + 1.6, 3.6 * rows)
        panels = np.atleast_1d(figure.subplots(rows, wide, sharex=True)).ravel()
        for panel, column in zip(panels, columns, strict=False):
            _panel(panel, results, column, np.asarray(CURVE))
        for unused in panels[len(columns) :]:
            unused.set_axis_off()
        for panel in panels[max(0, len(columns) - wide) : len(columns)]:
            panel.set_xlabel("strength λ")
        lines = {
            line.get_label(): line for panel in panels for line in panel.get_lines()
            if not line.get_label().startswith("_")
        }  # fmt: skip
        figure.legend(lines.values(), lines.keys(), loc="outside right center")
        return save_figure(figure, folder, "cifar-curves")


def _panel(panel: Any, results: Mapping[str, CellResult], column: str, strengths: Any) -> None:
    for method in METHODS:
        cells = [c for name, c in results.items() if name.startswith(f"{column}/{method}/")]
        if not cells:
            continue
        error = 100.0 * np.mean([cell.curve for cell in cells], axis=0)
        colour = _COLOURS[method.removeprefix("cb_").removesuffix("-drw")]
        dashes = "--" if method.endswith("-drw") else ":" if method.startswith("cb_") else "-"
        panel.plot(strengths, error, dashes, color=colour, label=LABELS[method])
        tuned = [cell.raw.paper for cell in cells]
        best = fmean(each.strengths[0] for each in tuned), 100.0 * fmean(e.error for e in tuned)
        panel.plot(*best, "o", color=colour, markersize=4)
    panel.plot([], [], "o", color="black", markersize=4, label="best on these\nsame images")
    panel.axvline(1.0, color="#bbbbbb", linewidth=0.8, zorder=0)
    panel.set_title(column)
    panel.set_ylabel("top-1 error (%)")
    panel.grid(axis="y")
