"""Mean IoU and mean accuracy along the strength, on held-out and on test frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reprior.experiments.figures import FAINT, INK, TUNED, new_figure, save_figure, style
from reprior.experiments.synthia.correction import CURVE, NetworkCorrection
from reprior.experiments.synthia.frame_counts import METRICS
from reprior.experiments.synthia.plan import LABELS
from reprior.experiments.synthia.rgb_tables import CORRECTED, HEADS, RgbResult
from reprior.experiments.synthia.sources import CLEAR, HELD_OUT
from reprior.report.plots.drawing import AFTER, CYCLE

__all__ = ["write_curves"]

#: A colour for a metric; test frames have a full line, held-out ones a broken one.
_COLOURS = {"mean_iou": CYCLE[1], "balanced_accuracy": AFTER}
_LINES: dict[str, tuple[str, Any]] = {
    CLEAR: ("test frames", "-"),
    HELD_OUT: ("held-out frames", (0, (4, 1.6))),
}

#: The strength that was tuned, and the one that keeps mean IoU.
_MARKS: dict[str, dict[str, Any]] = {
    "tuned": {"marker": "D", "markerfacecolor": "white", "markeredgecolor": TUNED},
    "kept": {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK},
}
#: Strengths that are drawn, more where one was chosen beyond: from there on curves only fall.
USUAL = 1.5

_MARK_NAMES = {"tuned": "λ for mACC", "kept": "λ for mACC,\nmIoU kept"}


def write_curves(results: Mapping[str, RgbResult], folder: Path) -> tuple[Path, ...]:
    """Write ``synthia-curves``: a panel for each network that the paper corrects.

    Values are exact at strengths 0.02 apart; the marks are where λ was tuned, on the held-out
    frames, and what it gives on both parts.
    """
    shown = [loss for loss in CORRECTED if loss in results]
    if not shown:
        return ()
    with style():
        figure = new_figure(4.6 * len(shown) + 1.9, 3.8)
        panels = np.atleast_1d(figure.subplots(1, len(shown), sharey=True))
        for panel, loss in zip(panels, shown, strict=True):
            _panel(panel, results[loss].correction)
            panel.set_title(f"{LABELS[loss]}, RGB")
        panels[0].set_ylabel("per cent")
        lines = {line.get_label(): line for line in panels[0].get_lines()}
        named = {name: line for name, line in lines.items() if not name.startswith("_")}
        figure.legend(named.values(), named.keys(), loc="outside right center")
        return save_figure(figure, folder, "synthia-curves")


def _panel(panel: Any, found: NetworkCorrection) -> None:
    chosen = {way: found.raw[way].strength for way in _MARKS}
    n = CURVE.index(USUAL) + 1 if max(chosen.values()) <= USUAL else len(CURVE)
    strengths = CURVE[:n]
    for metric in METRICS:
        for part, (words, dashes) in _LINES.items():
            values = 100.0 * np.asarray(found.curves[part][metric])[:n]
            colour, label = _COLOURS[metric], f"{HEADS[metric]}, {words}"
            panel.plot(
                strengths, values, color=colour, linestyle=dashes, linewidth=1.8, label=label
            )
            for way, at in chosen.items():
                if at <= strengths[-1]:
                    panel.plot(
                        at, np.interp(at, strengths, values), linestyle="none", markersize=5.5,
                        markeredgewidth=1.5, zorder=4, clip_on=False, **_MARKS[way],
                    )  # fmt: skip
    for way, look in _MARKS.items():
        panel.plot(
            [], [], linestyle="none", markersize=5.5, markeredgewidth=1.5, label=_MARK_NAMES[way],
            **look,
        )  # fmt: skip
    panel.axvline(1.0, color=FAINT, linewidth=1.0, zorder=1)
    panel.set(xlim=(0.0, strengths[-1]), xlabel="strength λ")
    panel.grid(True)
