"""The CIFAR cells as tables (Table 2, strengths, gains, every way to correct) and curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, TypeAlias

import numpy as np

from reprior.report.plots import AFTER, CYCLE
from reprior_lab.cifar import COLUMNS, CURVE, TABLE_SETTINGS, CellResult
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.correction import Judged
from reprior_lab.figures import new_figure, save_figure, style
from reprior_lab.paper import paper_note, paper_value
from reprior_lab.tables import Cell, Table

__all__ = ["LABELS", "make_tables", "write_curves"]

#: How rows are printed.
LABELS = {
    "ce": "CE",
    "focal": "Focal",
    "ldam": "LDAM",
    "cb_ce": "CB CE",
    "cb_focal": "CB Focal",
    "ce-drw": "CE-DRW",
    "focal-drw": "Focal-DRW",
    "ldam-drw": "LDAM-DRW",
    "bbn": "BBN",
    "logit_adjusted": "Logit-adjusted",
}

Results: TypeAlias = Mapping[str, "CellResult"]
Reading: TypeAlias = Callable[["CellResult"], float]

#: Every way to correct a row: its head, and its error.
WAYS: dict[str, Reading] = {
    "as trained": lambda cell: cell.raw.error,
    "IC, honest split": lambda cell: cell.raw.honest.error,
    "IC, tuned on the test labels": lambda cell: cell.raw.paper.error,
    "λ = 1": lambda cell: cell.raw.bayes.error,
    "IC, honest split, effective prior": lambda cell: cell.effective.honest.error,
    "λ = 1, effective prior": lambda cell: cell.effective.bayes.error,
}

HONEST = (
    "IC rows are judged honestly: the strength is tuned on one half of the test images and judged "
    "on the other, both ways. The paper tuned and reported on the same images."
)
SPREAD = "± is the standard deviation over seeds, where there are several."
CHOSEN_ON = (
    "The compact protocol was chosen among five by the test error of CE, not corrected, on "
    "cifar10-exp100; nothing was chosen by what the correction does."
)

#: Panels beside each other.
PER_ROW = 2

#: One colour for a loss; class-balanced ones are dotted, DRW is broken.
_COLOURS = {
    "ce": AFTER, "focal": CYCLE[1], "ldam": CYCLE[2], "bbn": CYCLE[5], "logit_adjusted": CYCLE[3],
}  # fmt: skip


def make_tables(results: Results, missing: Sequence[str] = ()) -> tuple[Table, ...]:
    """Return all tables of some finished cells, by name COLUMN/ROW/sSEED.

    Rows and columns of cells that are missing are there too, and Table 2 says which these are.
    """
    columns, methods = _there([*results, *missing])
    made = [
        _table_two(results, columns, methods, missing),
        _gains(results, columns, methods),
        _strengths(results, columns, methods),
    ]
    made += [_ways(results, column, methods) for column in columns]
    return tuple(made)


def _there(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns and the rows that cells have, in the table's order."""
    columns, methods = ({name.split("/")[i] for name in names} for i in (0, 1))
    return [c for c in COLUMNS if c in columns], [m for m in METHODS if m in methods]


def _of(results: Results, column: str, method: str) -> list[CellResult]:
    """Return the cells of all seeds."""
    return [cell for name, cell in results.items() if name.startswith(f"{column}/{method}/")]


def _percent(cells: Sequence[CellResult], reading: Reading, paper: float | None = None) -> Cell:
    """Return the mean over seeds in per cent."""
    values = [100.0 * reading(cell) for cell in cells]
    if not values:
        return Cell(paper=paper)
    spread = stdev(values) if len(values) > 1 else None
    return Cell(fmean(values), paper=paper, spread=spread, n=len(values))


def _table_two(
    results: Results, columns: list[str], methods: list[str], missing: Sequence[str]
) -> Table:
    rows = [
        _row(results, columns, method, suffix, reading)
        for suffix, reading in (("", WAYS["as trained"]), ("-ic", WAYS["IC, honest split"]))
        for method in methods
    ]
    ran = _protocol_of(results)
    return Table(
        "cifar-table2",
        f"Top-1 error (%) on imbalanced CIFAR, {ran}",
        (*columns, "average"),
        tuple(rows),
        notes=(
            HONEST,
            *_spread_note(results),
            _average_note(columns),
            *_protocol_notes(results),
            *_paper_notes(columns, methods),
            *_missing_note(missing, len(results) + len(missing)),
        ),
        corner="method",
        best="min",
    )


def _row(
    results: Results, columns: list[str], method: str, suffix: str, reading: Reading
) -> tuple[str, tuple[Cell, ...]]:
    row = f"{method}{suffix}"
    cells = [
        _percent(_of(results, column, method), reading, paper_value("cifar", row, column))
        for column in columns
    ]
    return f"{LABELS[method]}{suffix.upper()}", (*cells, _average(cells))


def _average(cells: Sequence[Cell]) -> Cell:
    """Return the mean over columns, ours and the paper's, where all are there."""
    ours = [cell.value for cell in cells if cell.value is not None]
    theirs = [cell.paper for cell in cells if cell.paper is not None]
    whole = len(cells)
    return Cell(
        fmean(ours) if len(ours) == whole else None,
        paper=fmean(theirs) if len(theirs) == whole else None,
    )


def _average_note(columns: Sequence[str]) -> str:
    if len(columns) == len(COLUMNS):
        return "Averages of the paper's figures are computed anew: some are misprinted."
    over = f"the {len(columns)} columns" if len(columns) > 1 else "the one column"
    return (
        f"Averages are over {over} shown, the paper's too. Columns without a "
        f"cell are left out: {', '.join(c for c in COLUMNS if c not in columns)}."
    )


def _spread_note(results: Results) -> list[str]:
    several = any(not name.endswith("/s0") for name in results)
    return [SPREAD] if several else []


def _protocol_notes(results: Results) -> list[str]:
    configs = [cell.run.config for cell in results.values()]
    compact = any(each.protocol == "compact" and not _changed(each) for each in configs)
    return [CHOSEN_ON] if compact else []


def _changed(config: RunConfig) -> dict[str, object]:
    """Return the settings in which a run differs from its protocol, rows and columns apart."""
    taken = {key: getattr(config, key) for key in (*TABLE_SETTINGS, "seed")}
    as_it_is = RunConfig.resolve(**taken).identity
    return {key: value for key, value in config.identity.items() if as_it_is.get(key) != value}


def _paper_notes(columns: Sequence[str], methods: Sequence[str]) -> list[str]:
    """Say which of the paper's figures must be read with care."""
    found: dict[str, list[str]] = {}
    for row in (f"{method}{suffix}" for suffix in ("", "-ic") for method in methods):
        for column in columns:
            note = paper_note("cifar", row, column)
            if note:
                label = LABELS[row.removesuffix("-ic")] + ("-IC" if row.endswith("-ic") else "")
                found.setdefault(note, []).append(f"{label} on {column}")
    return [f"The paper's {', '.join(where)}: {note}." for note, where in found.items()]


def _missing_note(missing: Sequence[str], n: int) -> list[str]:
    if not missing:
        return []
    return [f"{len(missing)} of {n} cells are not finished: {', '.join(missing)}."]


def _protocol_of(results: Results) -> str:
    """Say what was trained, in the words of the run files."""
    configs = [cell.run.config for cell in results.values()]
    models = sorted({config.model for config in configs})
    epochs = sorted({config.epochs for config in configs})
    protocols = sorted({_protocol_words(config) for config in configs})
    return (
        f"protocol {' and '.join(protocols)}: {' and '.join(models)}, "
        f"{' or '.join(map(str, epochs))} epochs"
    )


def _protocol_words(config: RunConfig) -> str:
    changed = _changed(config)
    told = ", ".join(f"{key}={value}" for key, value in changed.items() if key != "deferred_epoch")
    return f"{config.protocol}, changed by {told}" if told else config.protocol


def _strengths(results: Results, columns: list[str], methods: list[str]) -> Table:
    rows = []
    for method in methods:
        cells = []
        for column in columns:
            there = _of(results, column, method)
            paper = paper_value("cifar_strength", f"{method}-ic", column)
            if not there:
                cells.append(Cell(paper=paper))
                continue
            honest = [s for cell in there for s in cell.raw.honest.strengths]
            cells.append(
                Cell(
                    fmean(cell.raw.paper.strengths[0] for cell in there),
                    paper=paper,
                    n=len(there),
                    note=f"halves {min(honest):.2f} to {max(honest):.2f}",
                )
            )
        rows.append((f"{LABELS[method]}-IC", tuple(cells)))
    return Table(
        "cifar-strengths",
        "Strengths λ that were chosen, with raw counts as the source prior",
        tuple(columns),
        tuple(rows),
        notes=(
            "The number is tuned on all test images, as the paper's; after it the smallest and "
            "the largest that a half of them chose.",
        ),
        corner="method",
    )


def _gains(results: Results, columns: list[str], methods: list[str]) -> Table:
    rows = tuple(
        (
            LABELS[method],
            tuple(
                _gain([c.raw.honest for c in _of(results, column, method)]) for column in columns
            ),
        )
        for method in methods
    )
    return Table(
        "cifar-gains",
        "What IC takes off the error (points), judged on images it was not tuned on",
        tuple(columns),
        rows,
        notes=(
            "In brackets the 95 % interval, exact in the share of better ones among the images "
            "whose decision became right or wrong, the strengths taken as given; of several seeds "
            "the mean, and the least and the largest bound.",
            *_verdicts(results, columns, methods),
        ),
        corner="method",
    )


def _gain(judged: Sequence[Judged]) -> Cell:
    if not judged:
        return Cell()
    gain, low, high = _mean_gain(judged)
    return Cell(text=f"{gain:+.2f} [{low:+.2f}, {high:+.2f}]")


def _mean_gain(judged: Sequence[Judged]) -> tuple[float, float, float]:
    return (
        100.0 * fmean(each.gain for each in judged),
        100.0 * min(each.interval[0] for each in judged),
        100.0 * max(each.interval[1] for each in judged),
    )


def _verdicts(results: Results, columns: list[str], methods: list[str]) -> list[str]:
    """Say where IC helps for sure, where it cannot be told, and where it harms."""
    said = []
    for method in methods:
        found: dict[str, list[str]] = {"helps on": [], "cannot be told on": [], "harms on": []}
        for column in columns:
            there = _of(results, column, method)
            if there:
                _, low, high = _mean_gain([cell.raw.honest for cell in there])
                word = "helps on" if low > 0 else "harms on" if high < 0 else "cannot be told on"
                found[word].append(column)
        parts = [f"{word} {_all_or(of, columns)}" for word, of in found.items() if of]
        said.append(f"{LABELS[method]}: IC {'; '.join(parts)}.")
    return said


def _all_or(some: Sequence[str], columns: Sequence[str]) -> str:
    return "every column" if len(some) == len(columns) > 1 else ", ".join(some)


def _ways(results: Results, column: str, methods: list[str]) -> Table:
    """Return every way to correct the rows of one column."""
    rows = []
    for method in methods:
        there = _of(results, column, method)
        if there:
            rows.append((LABELS[method], tuple(_percent(there, way) for way in WAYS.values())))
    return Table(
        f"cifar-ways-{column}",
        f"Top-1 error (%) on {column}, by the way it is corrected",
        tuple(WAYS),
        tuple(rows),
        notes=(
            "Raw counts are the source prior but where it says effective prior: counts times "
            "what weights, samplers and losses make of them. λ = 1 is the plain rule of Bayes: "
            "nothing is tuned. What was tuned on the test labels was also judged on them. The "
            "margins of LDAM are left out of its effective prior.",
            *_spread_note(results),
        ),
        corner="method",
        best="min",
    )


def write_curves(results: Mapping[str, CellResult], folder: Path) -> tuple[Path, ...]:
    """Write ``cifar-curves``: a panel for each column, a line for each method."""
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
