"""``reprior prior estimate``: the class mix of unlabelled scores, and how sure it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from reprior.cli.examples import shows
from reprior.cli.inputs import open_to_fit, source_of
from reprior.cli.options import (
    PATH,
    Names,
    PriorChoice,
    Reading,
    counts_options,
    output_option,
    reading_options,
    scores_argument,
)
from reprior.cli.outputs import check_output
from reprior.cli.prior_output import Share, shortened, write_prior
from reprior.cli.session import Session, plain, session_options
from reprior.cli.tables import Grid
from reprior.cli.target import sample_rows
from reprior.core.shift.estimate import METHODS, estimate_target_prior_report
from reprior.core.shift.newton import MAX_CLASSES
from reprior.exceptions import LabelsError, OptionError

if TYPE_CHECKING:
    from reprior.core.shift.report import TargetPriorReport
    from reprior.files.scores import ScoreFile

__all__ = ["command", "sample_labelled_rows"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores that an estimate looks at, at most, and as many of validation: 32 MB of float64.
MOST_SCORES = 2**22


@click.command(
    "estimate",
    short_help="Estimate the class mix of unlabelled scores.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here",
        "reprior prior estimate demo/test.csv --counts demo/counts.json --kind logits \\",
        "    --validation demo/val.csv -o target.json",
    ),
)
@scores_argument("scores")
@counts_options(labels=False)
@click.option(
    "--source-prior",
    type=PATH,
    metavar="FILE",
    help="The prior itself, instead of counts: what the model saw in training.",
)
@click.option(
    "--method",
    type=Names(METHODS),
    default="em",
    show_default=True,
    metavar="|".join(METHODS),
    help="em needs no labels, and calibrates by --validation; the others need --validation, and "
    "no probabilities.",
)
@click.option(
    "--validation",
    type=PATH,
    multiple=True,
    metavar="FILE",
    help="Labelled scores that the model was not trained on, of every class. Repeatable.",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    metavar="NUMBER",
    help="Of the intervals, which are drawn by bootstrap.",
)
@click.option(
    "--replicates",
    type=click.IntRange(min=2),
    default=200,
    show_default=True,
    metavar="NUMBER",
    help="Bootstrap replicates.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the bootstrap."
)
@reading_options(labels=True)
@output_option("Write the prior here too: JSON, or CSV by the extension.", required=False)
@session_options
def command(
    session: Session,
    scores: Sequence[str],
    counting: PriorChoice,
    source_prior: str | None,
    validation: Sequence[str],
    reading: Reading,
    output: str | None,
    **options: Any,
) -> None:
    """Estimate the class mix of unlabelled SCORES: the prior of where a model is used.

    SCORES are score files (npy, npz, csv, parquet, zarr), or quoted patterns; labels in them are
    not looked at. The counts, or the source prior, are those of training. Only the class mix may
    have changed since: classes must look as they did in training.

    The file that -o writes can be given to fit as --target-prior.
    """
    _check(validation, reading, options["method"])
    found = open_to_fit(session, scores, reading, labelled=False)
    counting = replace(
        counting, label_column=reading.label_column, labels_name=reading.labels_name,
        labels_as=reading.labels_as, ignore_index=reading.ignore_index,
    )  # fmt: skip
    if output is not None:
        read = (counting.counts, counting.counts_from_labels, counting.weights, source_prior)
        check_output(
            output, [*found.paths, *read, *validation, reading.classes, *(reading.labels or ())]
        )
    prior, names, _ = source_of(session, counting, source_prior, found)
    known = None
    if validation:
        known = open_to_fit(session, validation, reading, names=found.class_names)
        _refuse_another(found, known)
    elif options["method"] == "em":
        session.note(
            "em takes the probabilities of SCORES at their word: where the model is too sure, or "
            "not sure enough, the estimate is wrong, and its intervals do not tell; labelled "
            "scores of the same model, named by --validation, calibrate them first"
        )
    report = _estimated(session, found, known, prior, **options)
    if output is not None:
        write_prior(output, names, report.prior.tolist())
    _show(session, report, names, output)


def _check(validation: Sequence[str], reading: Reading, method: str) -> None:
    """Refuse options that would be without effect, or lack another."""
    if method != "em" and not validation:
        raise OptionError(
            f"--validation must be given for --method {method}, which learns from labelled scores "
            f"how the model sees each class. Got none. Name a file of them, or choose --method em."
        )
    if reading.labels is not None and not validation:
        raise OptionError(
            "--labels must be those of --validation: SCORES need none. Got no --validation. "
            "Name the labelled scores, or drop --labels."
        )
    if reading.weight_column is not None:
        raise OptionError(
            "--weight-column must not be given here: every sample counts once. "
            f"Got {reading.weight_column!r}. Drop it."
        )


def _refuse_another(found: ScoreFile, known: ScoreFile) -> None:
    if found.kind != known.kind or found.n_classes != known.n_classes:
        raise OptionError(
            f"`validation` must be of the kind and the classes of SCORES, {found.kind} of "
            f"{found.n_classes} classes. Got {known.kind} of {known.n_classes}. Give scores of the "
            f"same model."
        )


def _estimated(
    session: Session,
    found: ScoreFile,
    known: ScoreFile | None,
    prior: Vector,
    *,
    method: str,
    confidence: float,
    replicates: int,
    seed: int,
) -> TargetPriorReport:
    """Read the rows, or a bounded sample of them, and estimate."""
    most = MOST_SCORES // found.n_classes
    with session.progress("reading", found.n_samples) as progress:
        rows, n_rows = sample_rows(found, class_axis=found.class_axis, most=most, progress=progress)
    _note_sample(session, len(rows), n_rows, "scores")
    validation = None
    if known is not None:
        with session.progress("reading the validation", known.n_samples) as progress:
            *validation, n_rows = sample_labelled_rows(
                known,
                class_axis=known.class_axis,
                ignore_index=known.ignore_index,
                most=most,
                progress=progress,
            )
        _note_sample(session, len(validation[0]), n_rows, "validation scores")
    with session.progress("estimating", replicates, counted="replicates") as progress:
        return estimate_target_prior_report(
            rows, source_prior=prior, method=method, kind=str(found.kind), validation=validation,
            confidence=confidence, n_replicates=replicates, random_state=seed, progress=progress,
        )  # fmt: skip


def _note_sample(session: Session, n: int, of: int, what: str) -> None:
    if n < of:
        session.note(f"the estimate is from {n:,} rows drawn from {of:,} of the {what}")


def _show(
    session: Session, report: TargetPriorReport, names: list[Any] | None, output: str | None
) -> None:
    classes = list(range(report.prior.size)) if names is None else names
    shown = [name if names is None else plain(name) for name in classes]
    title = f"Class mix with intervals of {100 * report.confidence:g} %"
    columns = (report.source_prior, report.prior, *report.intervals.T)
    shares = [[Share(x) for x in column] for column in columns]
    rows = list(zip(shown, *shares, strict=True))
    heads = ("class", "source prior", "target prior", "from", "to")
    session.say(Grid(heads, shortened(rows), title).rich())
    session.say(*report.facts())
    if report.calibration is not None and report.prior.size > MAX_CLASSES:
        session.note(
            f"the intervals of more than {MAX_CLASSES} classes take the calibration as given: "
            f"with few validation labels they are too narrow"
        )
    condition, fitted = report.conditioning, report.calibration
    session.result(
        {
            "method": report.method,
            "classes": classes,
            "source_prior": report.source_prior,
            "prior": report.prior,
            "intervals": report.intervals,
            "confidence": report.confidence,
            "n_samples": report.n_samples,
            "n_labels": report.n_labels,
            "iterations": report.iterations,
            "last_change": report.last_change,
            "converged": report.converged,
            "negative_mass": report.negative_mass,
            "conditioning": None if condition is None else vars(condition),
            "held_back": report.held_back,
            "calibration": None if fitted is None else {"scale": fitted[0], "bias": fitted[1]},
            **({} if output is None else {"output": output}),
        }
    )


def sample_labelled_rows(
    chunks: Iterable[Any],
    *,
    class_axis: int,
    ignore_index: int | None,
    most: int,
    progress: Any = None,
    seed: int = 0,
) -> tuple[Vector, Vector, int]:
    """Return a uniform sample of at most ``most`` rows and their labels, and how many there were.

    Ignored ones are left out. Every row draws a key, and the rows of the smallest keys stay.

    Examples
    --------
    >>> from reprior.files.chunks import Chunk
    >>> chunk = Chunk(np.eye(3), np.array([0, 1, 255]))
    >>> _, labels, n = sample_labelled_rows([chunk], class_axis=-1, ignore_index=255, most=9)
    >>> labels.tolist(), n
    ([0, 1], 2)
    """
    rng = np.random.default_rng(seed)
    kept: list[tuple[Vector, Vector, Vector]] = []
    n_rows = held = 0
    for chunk in chunks:
        rows, labels = np.asarray(chunk.scores), np.asarray(chunk.labels).reshape(-1)
        if rows.ndim > 1:
            rows = np.moveaxis(rows, class_axis, -1).reshape(-1, rows.shape[class_axis])
        if ignore_index is not None:
            rows, labels = rows[labels != ignore_index], labels[labels != ignore_index]
        n_rows, held = n_rows + len(labels), held + len(labels)
        kept.append((rows, labels, rng.random(len(labels))))
        if held > 2 * most:
            kept, held = [_smallest(kept, most)], most
        if progress is not None:
            progress(chunk.start + len(chunk.scores))
    if not n_rows:
        raise LabelsError(
            "`validation` must have a sample that is not ignored. Got none. Check --ignore-index."
        )
    rows, labels, _ = _smallest(kept, most)
    return rows, labels, n_rows


def _smallest(
    kept: list[tuple[Vector, Vector, Vector]], most: int
) -> tuple[Vector, Vector, Vector]:
    rows, labels, keys = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    if len(keys) <= most:
        return rows, labels, keys
    chosen = np.sort(np.argpartition(keys, most - 1)[:most])
    return rows[chosen], labels[chosen], keys[chosen]
