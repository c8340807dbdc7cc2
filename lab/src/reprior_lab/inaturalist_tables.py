"""iNaturalist as tables (Table 3 and the strengths behind it) and as the λ-curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from reprior.report.plots import AFTER, CYCLE
from reprior_lab.figures import FAINT, INK, TUNED, draw_steps, new_figure, style
from reprior_lab.inaturalist_results import (
    FULL,
    N_FOLDS,
    ROWS,
    Corrected,
    Curve,
    MethodResult,
    value_at,
)
from reprior_lab.inaturalist_stand_in import COLUMN
from reprior_lab.paper import paper_columns, paper_note, paper_rows, paper_value
from reprior_lab.tables import Cell, Table

__all__ = ["Results", "draw", "error_table", "strength_table", "title_of"]

PAPER, SPREAD = "inaturalist", "inaturalist_spread"

#: Results by row and column, both by their short names.
Results: TypeAlias = Mapping[tuple[str, str], MethodResult]

_TITLES = {
    "ce": "CE", "focal": "Focal", "ldam": "LDAM", "bbn": "BBN", "inception_v3": "Inception v3",
    "resnet50": "ResNet-50", COLUMN: "Stand-in",
}  # fmt: skip

#: Blocks of rows: what stands behind the method, and whether it is with the effective prior.
_BLOCKS = (
    ("", False),
    ("-IC", False),
    ("-IC, effective prior", True),
    (", λ = 1", False),
    (", λ = 1, effective prior", True),
)

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


def title_of(name: str) -> str:
    """Return what a method or a network is called.

    Examples
    --------
    >>> title_of("ce-drw"), title_of("resnet50"), title_of("resnet101")
    ('CE-DRW', 'ResNet-50', 'resnet101')
    """
    method, _, schedule = name.partition("-")
    if schedule == "drw":
        return f"{_TITLES[method]}-DRW"
    return _TITLES.get(name, name)


def error_table(name: str, results: Results) -> Table:
    """Return Table 3: top-1 errors before and after the correction.

    The stand-in's column has no figure of the paper in it: the paper's stand in columns of their
    own, as errors on other data.
    """
    rows, columns = _axes(results)
    simulated = COLUMN in columns
    beside = paper_columns(PAPER) if simulated else ()
    heads = [title_of(column) for column in columns]
    heads += [f"{title_of(column)} on the images" for column in beside]
    lines: list[tuple[str, tuple[Cell, ...]]] = []
    for suffix, effective in _BLOCKS:
        for row in rows:
            own = [results.get((row, column)) for column in columns]
            if effective and not any(each is not None and each.effective for each in own):
                continue
            cells = [
                _cell(row, suffix, column, each, effective)
                for column, each in zip(columns, own, strict=True)
            ]
            cells += [_of_paper(row, suffix, column) for column in beside]
            lines.append((f"{title_of(row)}{suffix}", tuple(cells)))
    title = "Top-1 validation error (%) on iNaturalist 2018: the paper's Table 3"
    if simulated:
        title = "Top-1 validation error (%) on a stand-in for iNaturalist 2018, as in Table 3"
    notes = _notes(results, simulated=simulated)
    return Table(name, title, tuple(heads), tuple(lines), notes, corner="method", best="min")


def strength_table(name: str, results: Results) -> Table:
    """Return the strengths, and top-1 and top-5 errors of all validation samples at the best."""
    rows, columns = _axes(results)
    heads = (
        "λ of each fold", "λ of all samples", "top-1", "top-1 at λ", "top-5", "top-5 at λ",
    )  # fmt: skip
    lines = tuple(
        (f"{title_of(row)}, {title_of(column)}", _strengths(results[row, column]))
        for column in columns
        for row in rows
        if (row, column) in results
    )
    notes = (
        "Source prior: the training counts. Errors are of all validation samples, at the strength "
        "that is best for top-1 on these same samples: tuned and judged on the same labels.",
        "Every strength is the exact optimum; both curves of the figure are exact, too.",
    )
    title = "Strengths, and errors (%) of all validation samples"
    return Table(name, title, heads, lines, notes, corner="method")


def _axes(results: Results) -> tuple[list[str], list[str]]:
    rows = [row for row in ROWS if any(row == each for each, _ in results)]
    return rows, list(dict.fromkeys(column for _, column in results))


def _cell(row: str, suffix: str, column: str, result: MethodResult | None, effective: bool) -> Cell:
    paper = _of_paper(row, suffix, column)
    found = None if result is None else result.effective if effective else result.raw
    if result is None or found is None:
        return paper
    beside, note = paper.paper, paper.note
    if not suffix:
        return Cell(100 * result.error, paper=beside, note=note)
    if "λ = 1" in suffix:
        return Cell(100 * found.bayes, paper=beside, note=note)
    said = "; ".join(filter(None, (f"λ {_mean(found):.2f}", note)))
    folds = found.folds
    return Cell(100 * folds.mean, beside, 100 * folds.std, len(folds.errors), said)


def _of_paper(row: str, suffix: str, column: str) -> Cell:
    """The paper's figure alone, with what stands behind its ±."""
    key = {"": row, "-IC": f"{row}-ic"}.get(suffix)
    if key is None or key not in paper_rows(PAPER) or column not in paper_columns(PAPER):
        return Cell()
    spread = paper_value(SPREAD, key, column)
    behind = "" if spread is None else f"paper ± {spread:.2f}"
    note = "; ".join(filter(None, (behind, paper_note(PAPER, key, column))))
    return Cell(paper=paper_value(PAPER, key, column), note=note)


def _mean(found: Corrected) -> float:
    return sum(found.folds.strengths) / len(found.folds.strengths)


def _strengths(result: MethodResult) -> tuple[Cell, ...]:
    raw = result.raw
    errors = (result.error, raw.error, result.top5_error, raw.top5_error)
    return (
        Cell(text=", ".join(f"{strength:.2f}" for strength in raw.folds.strengths)),
        Cell(text=f"{raw.strength:.4f} ({raw.interval[0]:.4f} to {raw.interval[1]:.4f})"),
        *(Cell(100 * error) for error in errors),
    )


def _notes(results: Results, *, simulated: bool) -> tuple[str, ...]:
    n, n_classes = next((each.n_samples, each.n_classes) for each in results.values())
    found = [
        f"IC: λ is tuned on two thirds of the {n:,} validation samples of {n_classes:,} classes "
        f"and tested on the rest, {N_FOLDS} folds with as many of each class; mean ± standard "
        f"deviation of the folds (n − 1), and the mean of their λ. The search is exact, from 0 to "
        f"2, up to 8 where the best lies at the bound.",
        "Source prior: the training counts, as in the paper; effective prior: counts times the "
        "weights of the loss, of DRW those of its last epochs; of BBN it is uniform. Where both "
        "are the same there is one row.",
        "λ = 1 is the plain correction by the rule of Bayes: nothing is tuned.",
    ]
    if simulated:
        found.append(
            "The stand-in has the true class counts and made-up features, and a linear softmax "
            "classifier in place of the network. Its noise was chosen for CE to err about as often "
            "as the networks do: that error is no result. The columns beside it are the paper's, "
            "on the images."
        )
    return tuple(found)


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
    from matplotlib import lines

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
