"""Table 4: losses and the correction on colour alone, mean IoU and mean accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reprior.experiments.paper import paper_value
from reprior.experiments.synthia.correction import JudgedFrames, NetworkCorrection
from reprior.experiments.synthia.frame_counts import METRICS, STRETCH, Gain
from reprior.experiments.synthia.plan import LABELS
from reprior.experiments.synthia.runs import NetworkRun
from reprior.experiments.synthia.settings import STRIDE, NetworkSettings
from reprior.experiments.tables import Cell, Table

__all__ = [
    "HEADS",
    "INTERVALS",
    "JUDGED_AT",
    "KEPT_NOTE",
    "RESOLUTION",
    "RgbResult",
    "class_rows",
    "gain_cell",
    "make_tables",
    "missing_note",
    "protocol_note",
    "trained_note",
]

#: How metrics are printed.
HEADS = {"mean_iou": "mIoU", "balanced_accuracy": "mACC"}

#: Networks that the paper corrects.
CORRECTED = ("ce", "focal")

#: How ways to come by a strength are printed.
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
#: In captions, and below the tables.
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


@dataclass(frozen=True)
class RgbResult:
    """A finished network, and its correction."""

    run: NetworkRun
    correction: NetworkCorrection


Results: TypeAlias = Mapping[str, RgbResult]


def make_tables(results: Results, missing: Sequence[str] = ()) -> tuple[Table, ...]:
    """Return all tables of some finished networks, by loss.

    Rows of networks that are missing are there too, and Table 4 says which these are.
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
        found = result.correction.classes
        rows = class_rows(result.run, [found["before"], found["after"]])
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
    """Return a row for each class, the rarest last: its share of training, and those found.

    Parameters
    ----------
    run : NetworkRun
        Has the names of the classes and their training pixels.
    found : sequence of sequence of float or None
        For each column, the share of each class's pixels that are found.
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
    """Say what was tuned on which frames, and what is absent where."""
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
    """Say what was trained, in the words of the run files.

    Examples
    --------
    >>> from reprior.experiments.synthia.settings import STRIDE, NetworkSettings
    >>> trained_note([NetworkRun(NetworkSettings(steps=40, crop=(96, 192)))])
    'network small, 40 steps of 4 parts of 96 × 192'
    """
    said = {
        f"network {s.model}, {s.steps:,} steps of {s.batch_size} parts of {s.crop[0]} × {s.crop[1]}"
        for s in (run.settings for run in runs)
    }
    return " and ".join(sorted(said))


def protocol_note(runs: Iterable[NetworkRun]) -> list[str]:
    """Say how the compact protocol was come by, where a network is of it.

    Examples
    --------
    >>> protocol_note([NetworkRun(NetworkSettings(loss="focal"))]) == [PROTOCOL]
    True
    >>> protocol_note([NetworkRun(NetworkSettings(steps=40))])
    []
    """
    own = NetworkSettings()
    said = {"modality": own.modality, "loss": own.loss, "seed": own.seed}
    compact = any(run.settings.differing(**said) == own for run in runs)
    return [PROTOCOL] if compact else []


def missing_note(missing: Sequence[str], n: int) -> list[str]:
    """Say which networks are not finished.

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
