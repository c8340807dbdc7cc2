"""``reprior fuse evaluate``: each modality alone, their fusion, and its correction."""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement

from reprior.cli.evaluate import FORMATS, SAID, SAME
from reprior.cli.examples import shows
from reprior.cli.fuse_apply import missing_option
from reprior.cli.fuse_inputs import (
    Modalities,
    load_fusion,
    modalities_argument,
    named_files,
    open_known,
)
from reprior.cli.options import PATH, Names, Reading, reading_options
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import CHANGE, Grid
from reprior.core.binary import is_single_score
from reprior.exceptions import OptionError
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts

if TYPE_CHECKING:
    from reprior.fusion import ModalityFusion

__all__ = ["command"]

SHOWN = ("accuracy", "balanced_accuracy", "mean_iou", "macro_precision", "macro_f1")
"""Count metrics that are always told."""

BEFORE, AFTER = "before", "after"

UNBOUNDED = 10_000
"""A width that cuts no table."""

HEAD = 10
"""Characters in a line of a turned table's heads."""


@click.command(
    "evaluate",
    short_help="Compare modalities, fusion and correction.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here; one model stands for two",
        "reprior fuse fit rgb=demo/val.csv depth=demo/val.csv --counts demo/counts.json \\",
        "    --kind logits -o fusion.json",
        "reprior fuse evaluate fusion.json rgb=demo/test.csv depth=demo/test.csv",
    ),
)
@click.argument("fusion", type=PATH)
@modalities_argument
@click.option(
    "--format",
    "style",
    type=Names(FORMATS),
    default="table",
    show_default=True,
    help="How to print the result.",
)
@missing_option
@reading_options(labels=True)
@session_options
def command(
    session: Session,
    fusion: str,
    modalities: Sequence[str],
    style: str,
    missing: str | None,
    reading: Reading,
) -> None:
    """Compare each modality alone, their fusion, and its correction on labelled scores.

    FUSION is what fuse fit wrote, and NAME=FILE a score file for each of its modalities; labels are
    read from the first that has some, or from --labels. They should be other data than the fusion
    was tuned on. Where they are the same, the result says so.

    A modality's column is its model as it is; before is the fusion without a correction, after the
    one with it. On a narrow terminal the table is turned, with a row for each of them. JSON is
    {metric: {NAME: …, "before": …, "after": …}}.
    """
    session.json = session.json or style == "json"
    named = named_files(modalities)
    model = load_fusion(fusion, missing)
    found = open_known(session, model, named, reading, labelled=True)
    with session.progress("evaluating", found.first.n_samples) as progress:
        counts, tuned_on = _counts(model, found, progress)
    if tuned_on:
        session.note(SAME.replace("calibrator", "fusion"))
    metrics = _metrics(model)
    values = {
        name: {side: metric(each) for side, each in counts.items()}
        for name, metric in metrics.items()
    }
    if session.json:
        session.result(values, notes=False)
        return
    n_samples = int(_labels(counts[AFTER]).sum())
    grid = _grid(values, f"measured on {n_samples:,} labels: {SAID[tuned_on]}")
    if style == "csv":
        session.say(grid.csv())
    else:
        session.say(grid.markdown() if style == "markdown" else _Fitting(grid))


def _counts(
    model: ModalityFusion, found: Modalities, progress: Any
) -> tuple[dict[str, ClassCounts], bool | None]:
    """Count decisions in one pass, and tell whether these are the tuning data."""
    plain_model = copy.copy(model)
    plain_model.strengths_ = dict.fromkeys(model.strengths_, 0.0)
    n_classes = model.source_prior_.size
    mark = found.fingerprint()
    total: dict[str, ClassCounts] = {}
    for there, labels, weight in found.chunks():
        mark(there, labels)
        scores = {name: chunk.scores for name, chunk in there.items()}
        decided = {_column(n): _alone(z, model) for n, z in scores.items()}
        decided |= {BEFORE: _index(plain_model, scores), AFTER: _index(model, scores)}
        keep = np.ones(labels.shape, bool) if model.ignore_index is None else (
            labels != model.ignore_index
        )  # fmt: skip
        if weight is not None:
            keep &= weight > 0
        progress(next(iter(there.values())).stop)
        if not keep.any():
            continue
        v = None if weight is None else weight[keep]
        for side, index in decided.items():
            new = ClassCounts.from_predictions(
                labels[keep], index.reshape(labels.shape)[keep], n_classes=n_classes,
                sample_weight=v,
            )  # fmt: skip
            total[side] = total[side] + new if side in total else new
    if not total:
        raise OptionError(
            "Some labels must be left to count. Got labels that are all ignored, or of weight 0. "
            "Check --ignore-index and --weight-column."
        )
    known = model.provenance_
    return total, None if not known else mark.recognised(str(known.get("digest")))


def _column(name: str) -> str:
    """The head of a modality's column, which no other has."""
    return f"{name} alone" if name in (BEFORE, AFTER, CHANGE, "metric") else plain(name)


def _alone(scores: Any, model: ModalityFusion) -> Any:
    """The decision of one model as it is; flattening does not change it."""
    if not is_single_score(scores.shape, model.source_prior_.size, model.class_axis):
        return np.argmax(scores, axis=model.class_axis)
    middle = {"logits": 0.0, "probs": 0.5, "log_probs": np.log(0.5)}[model.kind]
    return (scores > middle).astype(np.int64)


def _index(model: ModalityFusion, scores: dict[str, Any]) -> Any:
    """The fused decision as class indices."""
    own = copy.copy(model)
    own.classes_ = np.arange(model.source_prior_.size)
    return own.predict(scores)


def _labels(counts: ClassCounts) -> Any:
    return counts.support if counts.n_labelled is None else counts.n_labelled


def _metrics(model: ModalityFusion) -> dict[str, CountMetric]:
    names = model.classes_.tolist()
    found = {name: COUNT_METRICS[name] for name in SHOWN}
    tuned = find_metric(model.metric, n_classes=len(names), classes=names)
    found.setdefault(tuned.name, tuned)
    if tuned.name in ("mean_accuracy", "macro_recall"):  # balanced_accuracy by another name
        del found[tuned.name]
    return found


def _grid(values: dict[str, dict[str, float]], title: str) -> Grid:
    sides = list(next(iter(values.values())))
    rows = [
        (name, *(of[side] for side in sides), of[AFTER] - of[BEFORE]) for name, of in values.items()
    ]
    return Grid(("metric", *sides, CHANGE), rows, title)


@dataclass(frozen=True)
class _Fitting:
    """A table of metrics that is turned, and cut into several, where the terminal is narrow."""

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """What rich shows."""
        unbounded = options.update_width(UNBOUNDED)

        def fits(grid: Grid) -> bool:
            table = replace(grid, title="").rich()
            return Measurement.get(console, unbounded, table).maximum <= options.max_width

        if fits(self.grid):
            yield self.grid.rich()
            return
        for n in range(len(self.grid.rows), 0, -1):
            tables = _turned(self.grid, n)
            if all(map(fits, tables)):
                break
        yield Group(*(part for table in tables for part in (table.rich(), "")))


def _turned(grid: Grid, n: int) -> list[Grid]:
    """Tables of ``n`` metrics, a row for every model, the fusion and the change.

    Heads of several lines keep them narrow.
    """
    found = []
    for start in range(0, len(grid.rows), n):
        part = grid.rows[start : start + n]
        heads = (str(row[0]).replace("_", " ").replace("[", " [") for row in part)
        rows: list[tuple[Any, ...]] = []
        for i, side in enumerate(grid.columns[1:], start=1):
            values = [row[i] for row in part]
            rows.append((side, *(map(_signed, values) if side == CHANGE else values)))
        columns = (" ".join(textwrap.wrap(head, HEAD)) for head in heads)
        found.append(Grid(("model", *columns), rows, "" if start else grid.title))
    return found


def _signed(value: float) -> str:
    """A change, as in the table that is not turned."""
    if value != value:
        return "–"
    return f"{value:+.4f}" if round(value, 4) else f"{0:.4f}"
