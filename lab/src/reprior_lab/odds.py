"""``reprior reproduce odds-ratio``: the ratio of two priors to the power of the strength."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import reprior as rp
from reprior_lab.figures import (
    FAINT,
    INK,
    drawn_with,
    new_figure,
    save_figure,
    sequence,
    style,
)
from reprior_lab.reproduction import Progress, Reproduction
from reprior_lab.tables import Cell, Table, write_table
from reprior_lab.training.runfile import installed_versions, write_json

__all__ = ["LEFT", "RIGHT", "factor", "reproduce"]

NAME, FORMAT_VERSION = "odds-ratio", 1

#: Strengths of the two panels: up to the full correction, and beyond it.
LEFT, RIGHT = (0.0, 0.25, 0.5, 0.75, 1.0), (1.0, 1.25, 1.5, 1.75, 2.0)

#: Prior ratios are drawn from the inverse of this number to this number.
WIDEST = 100.0

#: Points of a line: an odd number, so that the ratio 1 is one of them.
POINTS = 201

#: Ratios of the table.
RATIOS = (0.01, 0.1, 1.0, 10.0, 100.0)

#: The inset, on linear scales, goes up to here.
LINEAR = 3.0

#: The strength that both panels show, for comparison.
FULL = 1.0

#: The source prior ratio, as a formula.
RATIO = r"P_s(c_i)\,/\,P_s(c_{gt})"


def reproduce(folder: Path, *, progress: Progress | None = None) -> Reproduction:
    r"""Draw the prior's factor in the odds of a class, and write figure, table and run file.

    .. math:: \left(P_s(c_i) / P_s(c_{gt})\right)^{λ}

    where P_s is the source prior, c_gt the true class, c_i another, and λ the strength: the factor
    of the correction in the odds of the true class. See :func:`reprior.odds_ratio`.

    Parameters
    ----------
    folder : path
        Gets ``odds-ratio.png``, ``.svg``, ``.md``, ``.tex``, ``.json`` and ``.run.json``.
    progress : callable, optional
        Receives the progress.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Eq. 8 and its figure.
    """
    folder = Path(folder)
    if progress is not None:
        progress("drawing", 0, 1)
    table = _table()
    files = (*save_figure(_draw(), folder, NAME), *write_table(table, folder))
    path = folder / f"{NAME}.run.json"
    write_json(path, _document())
    if progress is not None:
        progress("drawing", 1, 1)
    return Reproduction((table,), (*files, path), table.notes)


def factor(ratio: Any, strength: float) -> Any:
    """Return the odds that even odds become, which is the prior's factor alone.

    Examples
    --------
    >>> factor(100.0, 0.5)
    10.0
    """
    return rp.odds_ratio(1.0, ratio, strength=strength)


def _ratios() -> Any:
    return np.geomspace(1 / WIDEST, WIDEST, POINTS)


def _table() -> Table:
    rows = tuple(
        (f"λ = {strength:g}", tuple(_cell(factor(ratio, strength)) for ratio in RATIOS))
        for strength in (*LEFT, *RIGHT[1:])
    )
    return Table(
        NAME,
        "What the correction multiplies the odds of the true class with",
        tuple(f"ratio {ratio:g}" for ratio in RATIOS),
        rows,
        (
            "The ratio is the source prior of another class over that of the true class: above 1 "
            "where the true class is the smaller.",
            "λ = 0 leaves the odds as they are, λ = 1 is the full correction; the target prior is "
            "uniform. Nothing here is measured.",
        ),
        corner="strength",
    )


def _cell(value: float) -> Cell:
    """Return a cell with four significant digits."""
    return Cell(value, text=f"{value:,.0f}" if value >= 1000 else f"{value:.4g}")


def _document() -> dict[str, Any]:
    ratios = _ratios()
    return {
        "format_version": FORMAT_VERSION,
        "experiment": NAME,
        "versions": installed_versions(1) | drawn_with(),
        "panels": {"left": list(LEFT), "right": list(RIGHT)},
        "ratios": {"first": 1 / WIDEST, "last": WIDEST, "points": POINTS, "spacing": "geometric"},
        "factors": {
            f"{strength:g}": {f"{r:g}": float(factor(r, strength)) for r in ratios[::25]}
            for strength in (*LEFT, *RIGHT[1:])
        },
    }


def _draw() -> Any:
    """Return the figure of two panels."""
    with style():
        figure = new_figure(9.6, 5.2)
        left, right = figure.subplots(1, 2, sharey=True)
        _panel(left, LEFT, "λ ≤ 1: the ratio counts for less")
        _panel(right, RIGHT, "λ > 1: the ratio counts for more")
        figure.get_layout_engine().set(wspace=0.05)  # the panels' last and first tick would meet
        left.set_ylabel(rf"the ratio to the power of $\lambda$:  $({RATIO})^\lambda$")
    return figure


def _panel(ax: Any, strengths: Sequence[float], title: str) -> None:
    """Draw lines through the point (1, 1): on these scales λ is their slope."""
    ax.set(
        xscale="log",
        yscale="log",
        aspect="equal",
        xlim=(1 / WIDEST, WIDEST),
        ylim=(1 / WIDEST, WIDEST),
        xticks=RATIOS,
        yticks=RATIOS,
    )
    ax.set_xticklabels([f"{ratio:g}" for ratio in RATIOS])
    ax.set_yticklabels([f"{ratio:g}" for ratio in RATIOS])
    ax.minorticks_off()
    ax.grid(True)
    for middle in (ax.axvline, ax.axhline):
        middle(1.0, color=FAINT, linewidth=1.0, zorder=1)
    _lines(ax, _ratios(), strengths, 2.0)
    ax.set_xlabel(
        f"source prior ratio  ${RATIO}$\n"
        "← $c_{gt}$ is the larger class        $c_{gt}$ is the smaller class →"
    )
    ax.set_title(title)
    lines, names = ax.get_legend_handles_labels()
    ax.legend(lines[::-1], names[::-1], loc="upper left")  # as they lie above each other
    _inset(ax.inset_axes((0.635, 0.09, 0.34, 0.34)), strengths)


def _inset(ax: Any, strengths: Sequence[float]) -> None:
    """Draw the same on linear scales, which show growth above or below linear."""
    _lines(ax, np.linspace(0, LINEAR, POINTS)[1:], strengths, 1.3)
    ax.set(xlim=(0, LINEAR), ylim=(0, LINEAR), xticks=range(4), yticks=range(4))
    ax.tick_params(labelsize=8, length=2)
    ax.set_title("on linear scales", fontsize=8.5, fontweight="normal", pad=3)


def _lines(ax: Any, ratios: Any, strengths: Sequence[float], width: float) -> None:
    others = [strength for strength in strengths if strength != FULL]
    colours = dict(zip(others, sequence(len(others)), strict=True))
    for strength in strengths:
        full = strength == FULL
        ax.plot(
            ratios,
            factor(ratios, strength),
            linewidth=width,
            linestyle="--" if full else "-",
            color=INK if full else colours[strength],
            label=f"λ = {strength:g}{': the ratio itself' if full else ''}",
        )
