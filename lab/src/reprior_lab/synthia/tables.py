"""Tables 4 and 5: losses, the correction and the fusion; and the curves over the strength."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

import numpy as np

from reprior.report.plots import AFTER, CYCLE
from reprior_lab.figures import FAINT, INK, TUNED, new_figure, save_figure, style
from reprior_lab.paper import paper_columns, paper_note, paper_value
from reprior_lab.synthia.correction import (
    CURVE,
    METRICS,
    STRETCH,
    Gain,
    JudgedFrames,
    NetworkCorrection,
)
from reprior_lab.synthia.data import CLEAR, HELD_OUT
from reprior_lab.synthia.fused import ALONE, COMPARED, FUSIONS, MODALITIES, FusionResult
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.settings import LABELS, STRIDE, NetworkSettings
from reprior_lab.tables import Cell, Table

__all__ = [
    "HEADS",
    "INTERVALS",
    "JUDGED_AT",
    "KEPT_NOTE",
    "RESOLUTION",
    "ROWS",
    "RgbResult",
    "class_rows",
    "gain_cell",
    "missing_note",
    "protocol_note",
    "rgb_tables",
    "rgbd_tables",
    "trained_note",
    "write_curves",
]

#: Printed names of metrics.
HEADS = {"mean_iou": "mIoU", "balanced_accuracy": "mACC"}

#: The networks that the paper corrects.
CORRECTED = ("ce", "focal")

#: Printed names of the ways to choose a strength.
WAY_HEADS = {
    "tuned": "IC",
    "kept": "IC, mIoU kept",
    "bayes": "λ = 1",
}

INTERVALS = (
    f"In brackets the 95 % interval of the bootstrap over stretches of up to {STRETCH} test "
    f"frames, the strengths and the networks taken as given: each was trained once, from one seed."
)
PROTOCOL = (
    "The compact protocol was set by reasoning, without a search, after earlier trials whose test "
    "figures had been seen."
)
#: The resolution of judgement, in captions and below the tables.
PIXELS = {1: "every pixel", 2: "every second pixel each way"}.get(STRIDE, f"1 pixel in {STRIDE}²")
JUDGED_AT = f"judged at {PIXELS}"
RESOLUTION = (
    f"Frames are scored at {PIXELS}, and tuned and judged on the labels of these pixels: maps "
    f"of 1/{STRIDE} of the frames' height and width, rounded up."
)
KEPT_NOTE = (
    "λ is that of the best mean accuracy of the held-out frames; where it says mIoU kept, of the "
    "best that costs at most half a point of their mean IoU. The paper does not say by which rule "
    "it chose its λ."
)

#: Printed names of rows.
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

#: Printed names of the choices of a strength.
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

#: One colour per metric; solid lines for test frames, dashed ones for held-out frames.
_COLOURS = {"mean_iou": CYCLE[1], "balanced_accuracy": AFTER}
_LINES: dict[str, tuple[str, Any]] = {
    CLEAR: ("test frames", "-"),
    HELD_OUT: ("held-out frames", (0, (4, 1.6))),
}

#: Marks of the tuned strength, and of the one that keeps mean IoU.
_MARKS: dict[str, dict[str, Any]] = {
    "tuned": {"marker": "D", "markerfacecolor": "white", "markeredgecolor": TUNED},
    "kept": {"marker": "o", "markerfacecolor": "white", "markeredgecolor": INK},
}
#: The upper bound of the drawn strengths, unless a larger one was chosen: beyond it curves fall.
USUAL = 1.5

_MARK_NAMES = {"tuned": "λ for mACC", "kept": "λ for mACC,\nmIoU kept"}


@dataclass(frozen=True)
class RgbResult:
    """A finished network, and its correction."""

    run: NetworkRun
    correction: NetworkCorrection


Results: TypeAlias = Mapping[str, RgbResult]


def rgb_tables(results: Results, missing: Sequence[str] = ()) -> tuple[Table, ...]:
    """Return all tables of finished networks, given by loss.

    Rows of missing networks are included, and Table 4 names these.
    """
    return (
        _table_four(results, missing),
        _gains(results),
        *(_ways(results, metric) for metric in METRICS),
        _classes(results),
    )


def _table_four(results: Results, missing: Sequence[str]) -> Table:
    rows = [(label, _as_trained(results.get(loss), loss)) for loss, label in LABELS.items()]
    for way, words in (("tuned", ""), ("kept", ", mIoU kept")):
        rows += [
            (f"{LABELS[loss]}-IC{words}", _corrected(results.get(loss), loss, way))
            for loss in CORRECTED
        ]
    return Table(
        "synthia-rgb",
        f"Mean IoU and mean accuracy (%) of the test frames, RGB alone, "
        f"{trained_note(result.run for result in results.values())}; {JUDGED_AT}",
        (*HEADS.values(), "λ"),
        tuple(rows),
        notes=(
            *_frames_notes(results),
            RESOLUTION,
            KEPT_NOTE,
            "IC with raw counts of training pixels as the source prior.",
            *protocol_note(result.run for result in results.values()),
            *missing_note(missing, len(LABELS)),
        ),
        corner="method",
        best="max",
    )


def _as_trained(result: RgbResult | None, loss: str) -> tuple[Cell, ...]:
    cells = [
        Cell(
            None if result is None else 100.0 * result.correction.as_trained[metric],
            paper=paper_value("synthia_rgb", loss, metric),
        )
        for metric in METRICS
    ]
    return (*cells, Cell())


def _corrected(result: RgbResult | None, loss: str, way: str) -> tuple[Cell, ...]:
    judged = None if result is None else result.correction.raw[way]
    cells = [
        Cell(
            None if judged is None else 100.0 * float(getattr(judged, metric)),
            paper=paper_value("synthia_rgb", f"{loss}-ic", metric),
        )
        for metric in METRICS
    ]
    paper = paper_value("synthia_rgb", f"{loss}-ic", "strength")
    beside = "" if paper is None else f" (paper {paper:g})"
    return (*cells, Cell() if judged is None else Cell(text=f"{judged.strength:.2f}{beside}"))


def _gains(results: Results) -> Table:
    columns = [(way, metric) for way in ("tuned", "kept") for metric in METRICS]
    rows = tuple(
        (
            LABELS[loss],
            tuple(gain_cell(result.correction.raw[way].gains[metric]) for way, metric in columns),
        )
        for loss, result in _in_order(results)
    )
    return Table(
        "synthia-rgb-gains",
        "What IC adds (points) on the test frames, with raw counts as the source prior",
        tuple(f"{HEADS[metric]}, {WAY_HEADS[way]}" for way, metric in columns),
        rows,
        notes=(INTERVALS, KEPT_NOTE),
        corner="trained with",
    )


def _ways(results: Results, metric: str) -> Table:
    rows = []
    for loss, result in _in_order(results):
        found = result.correction
        kinds: list[tuple[str, Mapping[str, JudgedFrames]]] = [("raw counts", found.raw)]
        if found.effective != found.raw:
            kinds.append(("effective prior", found.effective))
        for kind, ways in kinds:
            cells = [Cell(100.0 * found.as_trained[metric])]
            cells += [
                Cell(100.0 * float(getattr(ways[way], metric)), note=f"λ {ways[way].strength:.2f}")
                for way in WAY_HEADS
            ]
            rows.append((f"{LABELS[loss]}, {kind}", tuple(cells)))
    return Table(
        f"synthia-rgb-ways-{HEADS[metric].lower()}",
        f"{HEADS[metric]} (%) of the test frames, by the way it is corrected",
        ("as trained", *WAY_HEADS.values()),
        tuple(rows),
        notes=(
            "The effective prior is counts times the weights of the loss; a loss without weights "
            "has no row for it. It does not know the margins of LDAM. λ = 1 is the plain rule of "
            "Bayes: nothing is tuned.",
        ),
        corner="trained with, source prior",
    )


def _classes(results: Results) -> Table:
    result = results.get("ce")
    rows: tuple[tuple[str, tuple[Cell, ...]], ...] = ()
    if result is not None:
        recalls = result.correction.classes
        rows = class_rows(result.run, [recalls["before"], recalls["after"]])
    return Table(
        "synthia-rgb-classes",
        "Pixels of each class (%), and those of the test frames that are found (%)",
        ("training pixels", "CE", "CE-IC"),
        rows,
        corner="class",
    )


def class_rows(
    run: NetworkRun, found: Sequence[Sequence[float | None]]
) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Return a row for each class, the rarest last: its share of training pixels, and recalls.

    Parameters
    ----------
    run : NetworkRun
        A run, with the names of the classes and their training pixels.
    found : sequence of sequence of float or None
        For each column, the recall of each class.
    """
    rows, counts = [], run.class_counts
    for k in sorted(range(len(counts)), key=lambda k: -counts[k]):
        shares = [each[k] for each in found]
        cells = [Cell(None if share is None else 100.0 * share) for share in shares]
        own = Cell(text=f"{100.0 * counts[k] / sum(counts):.3f}")
        rows.append((run.classes[k], (own, *cells)))
    return tuple(rows)


def _in_order(results: Results) -> list[tuple[str, RgbResult]]:
    return [(loss, results[loss]) for loss in LABELS if loss in results]


def _frames_notes(results: Results) -> list[str]:
    """Return notes on the frames of tuning and judging, and on absent classes."""
    for _, result in _in_order(results):
        found = result.correction
        tuned = (
            f"λ is tuned on {found.n_held_out} frames held out of training (stretches of the "
            f"drive, not single frames), by exact search; everything here is judged on "
            f"{found.n_test} test frames, on which no strength was tuned."
        )
        return [tuned, *result.run.notes]
    return []


def trained_note(runs: Iterable[NetworkRun]) -> str:
    """Describe the trained networks by their run files.

    Examples
    --------
    >>> from reprior_lab.synthia.settings import STRIDE, NetworkSettings
    >>> trained_note([NetworkRun(NetworkSettings(steps=40, crop=(96, 192)))])
    'network small, 40 steps of 4 parts of 96 × 192'
    """
    said = {
        f"network {s.model}, {s.steps:,} steps of {s.batch_size} parts of {s.crop[0]} × {s.crop[1]}"
        for s in (run.settings for run in runs)
    }
    return " and ".join(sorted(said))


def protocol_note(runs: Iterable[NetworkRun]) -> list[str]:
    """Return the note on how the compact protocol was chosen, if a network uses it.

    Examples
    --------
    >>> protocol_note([NetworkRun(NetworkSettings(loss="focal"))]) == [PROTOCOL]
    True
    >>> protocol_note([NetworkRun(NetworkSettings(steps=40))])
    []
    """
    defaults = NetworkSettings()
    said = {"modality": defaults.modality, "loss": defaults.loss, "seed": defaults.seed}
    compact = any(run.settings.differing(**said) == defaults for run in runs)
    return [PROTOCOL] if compact else []


def missing_note(missing: Sequence[str], n: int) -> list[str]:
    """Return the note on unfinished networks.

    Examples
    --------
    >>> missing_note(["rgb-ldam/s0"], 5)
    ['1 of 5 networks are not finished: rgb-ldam/s0.']
    """
    if not missing:
        return []
    return [f"{len(missing)} of {n} networks are not finished: {', '.join(missing)}."]


def gain_cell(gain: Gain) -> Cell:
    """Return a gain in points with its interval.

    Examples
    --------
    >>> gain_cell(Gain(0.021, 0.012, 0.03)).shown()
    '+2.10 [+1.20, +3.00]'
    >>> gain_cell(Gain(-1e-6, -0.002, 0.001)).shown()
    '+0.00 [-0.20, +0.10]'
    """
    value, low, high = (round(100.0 * each, 2) + 0.0 for each in gain)  # there is no -0.00
    return Cell(text=f"{value:+.2f} [{low:+.2f}, {high:+.2f}]")


def rgbd_tables(result: FusionResult, runs: Sequence[NetworkRun]) -> tuple[Table, ...]:
    """Return all tables of a fusion of some networks."""
    return (
        *(_table_five(result, runs, metric) for metric in METRICS),
        _fusion_gains(result),
        _choices(result),
        _flattening(result),
        _fusion_classes(result, runs[0]),
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
    """Return the key of a row's result at its tuned strength."""
    return f"{row}/tuned" if row in _corrected_fusion() else row


def _corrected_fusion() -> list[str]:
    """Return the rows that have a strength, one modality alone first."""
    return [*ALONE, *(row for row in FUSIONS if "strength" not in FUSIONS[row])]


def _same_as_tuned(result: FusionResult, row: str) -> bool:
    """Whether the tuned strength already keeps mean IoU, so that it is not printed twice."""
    tuned, kept = (result.strengths[f"{row}/{choice}"] for choice in ("tuned", "kept"))
    return math.isclose(tuned, kept, rel_tol=1e-9)


def _words(condition: str) -> str:
    return condition.replace("_", " ")


def _paper_average(result: FusionResult, table: str, row: str) -> float | None:
    """Return the paper's average, if ours is over the same conditions."""
    same = set(result.averaged) == set(paper_columns(table)) - {AVERAGE}
    return paper_value(table, row, AVERAGE) if same else None


def _misprints(table: str) -> list[str]:
    said = []
    for row in FUSIONS:
        note = paper_note(table, row, AVERAGE)
        if note:
            said.append(f"The paper's average of {ROWS[row]}: {note}; it is recomputed.")
    return said


def _fusion_gains(result: FusionResult) -> Table:
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
    """Return the note on rows whose tuned strength already keeps mean IoU."""
    same = [ROWS[row] for row in _corrected_fusion() if _same_as_tuned(result, row)]
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
    for row in _corrected_fusion():
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


def _fusion_classes(result: FusionResult, run: NetworkRun) -> Table:
    return Table(
        "synthia-rgbd-classes",
        f"Pixels of each class (%), and those found under {len(result.averaged)} unseen "
        f"conditions (%)",
        ("training pixels", *(_row_words(row) for row in BY_CLASS)),
        class_rows(run, [result.classes[row] for row in BY_CLASS]),
        corner="class",
    )


def write_curves(results: Mapping[str, RgbResult], folder: Path) -> tuple[Path, ...]:
    """Write ``synthia-curves``: a panel for each network that the paper corrects.

    Values are exact at strengths 0.02 apart; the marks show λ as tuned on the held-out frames, and
    its values on both parts.
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
                        at,
                        np.interp(at, strengths, values),
                        linestyle="none",
                        markersize=5.5,
                        markeredgewidth=1.5,
                        zorder=4,
                        clip_on=False,
                        **_MARKS[way],
                    )
    for way, look in _MARKS.items():
        panel.plot(
            [],
            [],
            linestyle="none",
            markersize=5.5,
            markeredgewidth=1.5,
            label=_MARK_NAMES[way],
            **look,
        )
    panel.axvline(1.0, color=FAINT, linewidth=1.0, zorder=1)
    panel.set(xlim=(0.0, strengths[-1]), xlabel="strength λ")
    panel.grid(True)
