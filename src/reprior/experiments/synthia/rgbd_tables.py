"""Table 5: four ways to fuse colour and depth, under weather that no network has seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from reprior.experiments.paper import paper_columns, paper_note, paper_value
from reprior.experiments.synthia.frame_counts import METRICS
from reprior.experiments.synthia.fused import (
    ALONE,
    COMPARED,
    FUSIONS,
    MODALITIES,
    FusionResult,
)
from reprior.experiments.synthia.rgb_tables import (
    HEADS,
    INTERVALS,
    JUDGED_AT,
    KEPT_NOTE,
    RESOLUTION,
    class_rows,
    gain_cell,
    protocol_note,
    trained_note,
)
from reprior.experiments.synthia.runs import NetworkRun
from reprior.experiments.synthia.sources import CLEAR
from reprior.experiments.tables import Cell, Table

__all__ = ["ROWS", "make_tables"]

#: How rows are printed.
ROWS = {
    "rgb": "RGB alone",
    "rgb-ic": "RGB alone, IC",
    "depth": "depth alone",
    "depth-ic": "depth alone, IC",
    "softave": "SoftAve",
    "uno": "UNO",
    "ic": "IC",
    "uno-ic": "UNO-IC, flatten first",
    "uno-ic-rebalanced": "UNO-IC, rebalance first",
}

#: How choices of a strength are printed.
CHOICE_HEADS = {
    "tuned": "tuned",
    "kept": "mIoU kept",
    "paper": "the paper's λ",
    "bayes": "λ = 1",
}

#: Rows of the table by class.
BY_CLASS = ("depth", "depth-ic/tuned", "softave", "uno", "ic/tuned", "uno-ic-rebalanced/tuned")

AVERAGE = "average"

SIMULATED = (
    "The weather is simulated on the clear test frames, from their depth; the paper's is rendered, "
    "so its figures are of other pictures."
)
RECORDED = "The unseen conditions are those of the data set, not simulated."


def make_tables(result: FusionResult, runs: Sequence[NetworkRun]) -> tuple[Table, ...]:
    """Return all tables of a fusion of some networks."""
    return (
        *(_table_five(result, runs, metric) for metric in METRICS),
        _gains(result),
        _choices(result),
        _flattening(result),
        _classes(result, runs[0]),
    )


def _table_five(result: FusionResult, runs: Sequence[NetworkRun], metric: str) -> Table:
    head = HEADS[metric]
    columns = [CLEAR, *_ordered(result)]
    rows = []
    for row, label in ROWS.items():
        measured = result.judged[_tuned(row)]
        table = f"synthia_rgbd_{head.lower()}"
        cells = [
            Cell(100.0 * measured[name][metric], paper=paper_value(table, row, name))
            for name in columns
        ]
        mean = 100.0 * fmean(measured[name][metric] for name in result.averaged)
        cells.append(Cell(mean, paper=_paper_average(result, table, row)))
        rows.append((label, tuple(cells)))
    return Table(
        f"synthia-rgbd-{head.lower()}",
        f"{head} (%) of RGB and depth, {trained_note(runs)}; {JUDGED_AT}",
        (*(_words(name) for name in columns), AVERAGE),
        tuple(rows),
        notes=(
            f"Reference entropies and λ are from {result.n_held_out} clear frames held out of "
            f"training, λ for their mean accuracy; everything is judged on other frames.",
            RESOLUTION,
            f"The average is over {', '.join(map(_words, result.averaged))}.",
            "UNO-IC of the paper flattens first. It prints no modality alone.",
            SIMULATED if result.simulated else RECORDED,
            *_misprints(f"synthia_rgbd_{head.lower()}"),
            *protocol_note(runs),
            *runs[0].notes,
        ),
        corner="method",
        best="max",
    )


def _ordered(result: FusionResult) -> list[str]:
    """Return the unseen conditions, the paper's first and in its order."""
    paper = [name for name in result.averaged if name in result.conditions]
    return [*paper, *(name for name in result.conditions if name not in paper)]


def _tuned(row: str) -> str:
    """Return under which name a row was measured at its tuned strength."""
    return f"{row}/tuned" if row in _corrected() else row


def _corrected() -> list[str]:
    """Return the rows that have a strength, one modality alone first."""
    return [*ALONE, *(row for row in FUSIONS if "strength" not in FUSIONS[row])]


def _same_as_tuned(result: FusionResult, row: str) -> bool:
    """Whether the tuned strength keeps mean IoU of itself: then it is not printed twice."""
    tuned, kept = (result.strengths[f"{row}/{choice}"] for choice in ("tuned", "kept"))
    return math.isclose(tuned, kept, rel_tol=1e-9)


def _words(condition: str) -> str:
    return condition.replace("_", " ")


def _paper_average(result: FusionResult, table: str, row: str) -> float | None:
    """Return the paper's average, where ours is over the same conditions."""
    same = set(result.averaged) == set(paper_columns(table)) - {AVERAGE}
    return paper_value(table, row, AVERAGE) if same else None


def _misprints(table: str) -> list[str]:
    said = []
    for row in FUSIONS:
        note = paper_note(table, row, AVERAGE)
        if note:
            said.append(f"The paper's average of {ROWS[row]}: {note}; it is computed anew.")
    return said


def _gains(result: FusionResult) -> Table:
    rows = tuple(
        (
            f"{_row_words(one)} over {_row_words(other)}",
            tuple(
                gain_cell(gains[f"{one} over {other}"][metric])
                for gains in (result.gains, result.clear_gains)
                for metric in METRICS
            ),
        )
        for one, other in COMPARED
        if not (one.endswith("/kept") and _same_as_tuned(result, one.removesuffix("/kept")))
    )
    return Table(
        "synthia-rgbd-gains",
        f"What is gained (points), the mean over {len(result.averaged)} unseen conditions, and on "
        f"clear frames",
        _heads(),
        rows,
        notes=(INTERVALS, KEPT_NOTE, *_not_bound(result)),
        corner="compared",
    )


def _heads() -> tuple[str, ...]:
    return tuple(f"{head}, {part}" for part in (AVERAGE, CLEAR) for head in HEADS.values())


def _not_bound(result: FusionResult) -> list[str]:
    """Say of which rows mean IoU is kept without asking."""
    same = [ROWS[row] for row in _corrected() if _same_as_tuned(result, row)]
    if not same:
        return []
    return [
        f"The tuned λ keeps the mean IoU of the held-out frames of itself, so mIoU kept is the "
        f"same and not printed, for: {'; '.join(same)}."
    ]


def _row_words(row: str) -> str:
    name, _, choice = row.partition("/")
    return f"{ROWS[name]}, mIoU kept" if choice == "kept" else ROWS[name]


def _choices(result: FusionResult) -> Table:
    rows = []
    for row in _corrected():
        for choice, words in CHOICE_HEADS.items():
            measured = result.judged.get(f"{row}/{choice}")
            if measured is None or (choice == "kept" and _same_as_tuned(result, row)):
                continue
            means = [
                100.0 * fmean(measured[name][metric] for name in result.averaged)
                for metric in METRICS
            ]
            clear = [100.0 * measured[CLEAR][metric] for metric in METRICS]
            strength = Cell(text=f"{result.strengths[f'{row}/{choice}']:.2f}")
            cells = (strength, *(Cell(value) for value in (*means, *clear)))
            rows.append((f"{ROWS[row]}, {words}", cells))
    return Table(
        "synthia-rgbd-strengths",
        "Strengths λ by how they are chosen, and what they give (%)",
        ("λ", *_heads()),
        tuple(rows),
        notes=(
            KEPT_NOTE,
            "Tuned and mIoU kept are chosen on the held-out frames; the other two are not tuned.",
            *_not_bound(result),
        ),
        corner="method, strength",
        best="max",
    )


def _flattening(result: FusionResult) -> Table:
    columns = [CLEAR, *_ordered(result)]
    rows = tuple(
        (ROWS[name].removesuffix(" alone"), tuple(Cell(result.factors[c][name]) for c in columns))
        for name in MODALITIES
    )
    references = "; ".join(
        f"{ROWS[name].removesuffix(' alone')} {mean:.3f} ± {std:.3f}"
        for name, (mean, std) in result.references.items()
    )
    return Table(
        "synthia-rgbd-flattening",
        "How much each modality is flattened: the mean factor over the frames",
        tuple(_words(name) for name in columns),
        rows,
        notes=(
            "1 is not at all. A modality is flattened where it is less sure than it was on the "
            f"held-out frames; mean entropy there, in nats: {references}.",
        ),
        corner="modality",
    )


def _classes(result: FusionResult, run: NetworkRun) -> Table:
    return Table(
        "synthia-rgbd-classes",
        f"Pixels of each class (%), and those found under {len(result.averaged)} unseen "
        f"conditions (%)",
        ("training pixels", *(_row_words(row) for row in BY_CLASS)),
        class_rows(run, [result.classes[row] for row in BY_CLASS]),
        corner="class",
    )
