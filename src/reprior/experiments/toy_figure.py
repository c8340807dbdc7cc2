"""The figure of the toy sets: boundaries for several strengths, and accuracy over the strength."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import require
from reprior.experiments.figures import (
    FAINT,
    INK,
    LARGER,
    SMALLER,
    TUNED,
    draw_steps,
    new_figure,
    sequence,
    style,
)
from reprior.report.plots.drawing import LEGEND

if TYPE_CHECKING:
    from reprior.experiments.toy import ToySet

__all__ = ["draw"]

#: Titles of the rows.
TITLES = {"circles": "Circles", "moons": "Two moons"}

#: How samples are drawn: size, and how much of them covers what is below. There are nine times as
#: many of the larger class.
LARGER_POINTS, SMALLER_POINTS = (5.0, 0.32), (9.0, 0.75)

BOUNDARY = {"linewidth": 1.9}

#: Room for the legend below the curves, and for marks above, in heights of the curves.
BELOW, ABOVE = 0.8, 0.1


def draw(sets: Sequence[ToySet], strengths: Sequence[float]) -> Any:
    """Return the figure: a row for each set, boundaries left and curves right.

    Parameters
    ----------
    sets : sequence of ToySet
        From top to bottom.
    strengths : sequence of float
        Whose boundaries are drawn, ascending.

    Returns
    -------
    matplotlib Figure
    """
    with style():
        figure = new_figure(9.6, 7.2)
        rows = figure.subplots(len(sets), 2, squeeze=False, width_ratios=[1, 1.06])
        for one, (left, right) in zip(sets, rows, strict=True):
            _boundaries(left, one, strengths)
            _curves(right, one, strengths)
        _key(figure, sets[0], strengths)
    return figure


def _boundaries(ax: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw the training samples, and the decision boundary of every strength."""
    data, plane = one.data, one.plane
    kinds = ((LARGER, LARGER_POINTS), (SMALLER, SMALLER_POINTS))
    for label, (colour, (size, alpha)) in enumerate(kinds):
        points = data.train_images[data.train_labels == label]
        ax.scatter(*points.T, s=size, color=colour, alpha=alpha, linewidths=0, rasterized=True)
    for strength, colour in zip(strengths, sequence(len(strengths)), strict=True):
        if plane.strengths.min() < strength < plane.strengths.max():  # else one class has it all
            ax.contour(
                plane.x, plane.y, plane.strengths, levels=[strength], colors=[colour],
                linewidths=BOUNDARY["linewidth"],
            )  # fmt: skip
    ax.set(
        xlim=(plane.x[0], plane.x[-1]), ylim=(plane.y[0], plane.y[-1]), aspect="equal",
        xticks=[], yticks=[],
    )  # fmt: skip
    ax.spines[:].set_visible(True)
    ax.set_title(f"{TITLES[one.name]}: decision boundaries")


def _curves(ax: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Draw accuracy over the strength, exactly, and mark what it is without and with tuning."""
    upper = one.bounds[1]
    validation, test = _per_cent(one.validation), _per_cent(one.test)
    draw_steps(ax, test, upper, color=INK, label="test samples: judged")
    draw_steps(
        ax, validation, upper, color=FAINT, linewidth=1.3, label="validation samples: tuned on"
    ).set_zorder(1.9)
    low, high = (
        pick([pick(values) for _, values in (validation, test)]) for pick in (np.min, np.max)
    )
    _marks(ax, one, dict(zip(strengths, sequence(len(strengths)), strict=True)), low)
    room = high - low
    ax.set(
        xlim=one.bounds, ylim=(low - BELOW * room, high + ABOVE * room),
        xticks=np.arange(0, upper + 0.25, 0.5 if upper <= 2 else 1),
        xlabel="strength λ", ylabel="accuracy (%)",
    )  # fmt: skip
    ax.grid(True)
    ax.legend(loc="lower center", **LEGEND)
    ax.set_title(f"{TITLES[one.name]}: accuracy on balanced samples")


def _marks(ax: Any, one: ToySet, colours: Mapping[float, str], low: float) -> None:
    """Mark the strengths on the test curve: all small, those of the table large and in words."""
    strengths, values = _per_cent(one.test)
    for strength, colour in colours.items():
        value = values[np.searchsorted(strengths, strength, side="right") - 1]
        ax.plot(strength, value, "o", color=colour, markersize=5, clip_on=False, zorder=3)
    for each in one.judgements:
        tuned, value = each.name == "tuned", 100 * each.balanced_accuracy
        what = f"λ = {each.strength:.3f}, tuned" if tuned else f"λ = {each.strength:g}"
        colour = TUNED if tuned else colours.get(each.strength, INK)
        if tuned:
            ax.vlines(each.strength, low, value, color=colour, linewidth=1.2, linestyle="--")
        # The tuned mark fits into the ring at 1, where it often lies.
        ax.plot(
            each.strength, value, "D" if tuned else "o", markersize=4.5 if tuned else 10,
            markerfacecolor=colour if tuned else "white", markeredgecolor=colour,
            markeredgewidth=0 if tuned else 2, linestyle="none", clip_on=False,
            label=f"{what}: {value:.2f} %", zorder=5 if tuned else 4,
        )  # fmt: skip


def _key(figure: Any, one: ToySet, strengths: Sequence[float]) -> None:
    """Say above all panels what points and boundaries are."""
    lines: Any = require("matplotlib.lines", extra="plots", purpose="To draw a figure")
    classes = zip(("larger", "smaller"), one.run.class_counts, (LARGER, SMALLER), strict=True)
    entries = [
        (
            lines.Line2D([], [], marker="o", markersize=5, linestyle="none", color=colour),
            f"{name} class ({count:,})",
        )
        for name, count, colour in classes
    ]
    entries += [
        (lines.Line2D([], [], color=colour, **BOUNDARY), f"{'' if i else 'boundary at '}λ = {at:g}")
        for i, (at, colour) in enumerate(zip(strengths, sequence(len(strengths)), strict=True))
    ]
    figure.legend(
        *zip(*entries, strict=True), loc="outside upper left", ncols=len(entries),
        columnspacing=1.4, handlelength=1.6,
    )  # fmt: skip


def _per_cent(curve: Any) -> Any:
    return curve[0], 100 * curve[1]
