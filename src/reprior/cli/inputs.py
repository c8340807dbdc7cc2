"""From options to data: score files, counts, priors, calibrators, and what must agree."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from reprior.calibrator.encoding import is_range
from reprior.cli.agreement import (
    class_axis_of,
    few,
    refuse_json,
    refuse_other_names,
    require_labels,
    shown_paths,
)
from reprior.cli.messages import name_classes
from reprior.cli.options import PriorChoice, Reading
from reprior.cli.session import Session
from reprior.core.prior import as_prior, prior_from_counts
from reprior.exceptions import FileFormatError, OptionError, PriorError

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile

__all__ = [
    "ID_COLUMN",
    "class_names",
    "load_calibrator",
    "open_for",
    "open_to_fit",
    "read_class_counts",
    "read_prior_file",
    "read_weights",
    "source_of",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Columns that identify a sample, by their names.
ID_COLUMN = re.compile(
    r"(^|[\s_.-])(id|ids|idx|index|uid|uuid|key|file|filename|path)$", re.IGNORECASE
)

KINDS_EXPLAINED = (
    "--kind must be given: what the scores are is not written in {where}, and it is never guessed. "
    "Pass --kind logits (unnormalised, as a last layer or a decision function gives them), "
    "--kind probs (probabilities: every row sums to 1) or --kind log_probs (their logarithms)."
)


def load_calibrator(path: str) -> PosteriorCalibrator:
    """Read what fit wrote; say so where the arguments may be in the wrong order."""
    from reprior.calibrator import load

    try:
        return load.load_calibrator(path)
    except FileFormatError as error:
        if Path(path).suffix.lower() == ".json":
            raise
        raise FileFormatError(
            f"CAL must be a calibrator, a JSON file that fit wrote. Got {path!r}. "
            f"Name the calibrator first, and then the scores."
        ) from error


def open_to_fit(
    session: Session,
    paths: Sequence[str],
    reading: Reading,
    *,
    labelled: bool = True,
    names: Sequence[str] | None = None,
) -> ScoreFile:
    """Open score files of a known kind, and pass on what is to be said about them.

    ``names`` are the classes to expect where the options name none; other ones are refused.
    """
    from reprior.files.scores import open_scores

    refuse_json(paths)
    scores = open_scores(
        list(paths), labels=reading.labels if labelled else None, kind=reading.kind,
        classes=names if reading.classes is None else reading.classes, with_labels=labelled,
        **_how(reading, labelled=labelled),
    )  # fmt: skip
    if reading.classes is None and names is not None:
        refuse_other_names(scores, names, reading)
    if scores.kind is None:
        raise OptionError(KINDS_EXPLAINED.format(where=shown_paths(scores)))
    if labelled:
        require_labels(scores, reading)
    name_classes(scores.class_names)
    _tell(session, scores)
    return scores


def _taken_in_order(path: str, classes: Sequence[Any]) -> str:
    return (
        f"the scores of {path} have no names and are taken in the order of the calibrator's "
        f"classes: {few(classes)}"
    )


def open_for(
    calibrator: PosteriorCalibrator,
    session: Session,
    paths: Sequence[str],
    reading: Reading,
    *,
    labelled: bool,
    keep: bool = False,
    names: Sequence[str] | None = None,
) -> ScoreFile:
    """Open score files for a calibrator: of its kind, with its classes, in its order.

    ``names`` are the classes to take where neither the calibrator nor the options name any.
    Its file does not know these data: it is told here which axis of theirs has the classes, and
    which label is to be left out.
    """
    from reprior.files.scores import open_scores

    refuse_json(paths)
    wanted: Any = class_names(calibrator) or names
    if reading.classes is not None:
        wanted = _agreed_names(reading.classes, calibrator)
    axis = class_axis_of(calibrator, paths, reading, labelled=labelled)
    scores = open_scores(
        list(paths), labels=reading.labels if labelled else None,
        classes=wanted, with_labels=labelled, keep=keep,
        **_how(replace(reading, class_axis=axis), labelled=labelled),
    )  # fmt: skip
    for kind in (reading.kind, scores.kind):
        if kind not in (None, calibrator.kind):
            raise OptionError(
                f"{shown_paths(scores)} must hold scores of the calibrator's kind, "
                f"{calibrator.kind}. Got {kind}. Give scores of that kind, or fit a calibrator on "
                f"{kind}."
            )
    scores.kind = calibrator.kind
    known = calibrator.classes_.tolist()
    if scores.n_classes != len(known):
        raise FileFormatError(
            f"{shown_paths(scores)} must have scores of the calibrator's {len(known)} classes, "
            f"{few(known)}. Got {scores.n_classes} classes{_named(scores)}. Give the scores of the "
            f"model that the calibrator was fitted for."
        )
    if class_names(calibrator) is not None:
        unnamed = refuse_other_names(scores, known, reading)
        if unnamed and reading.classes is None and names is None:
            session.note(_taken_in_order(unnamed[0], known))
    if len(scores.shape) > 2:
        calibrator.class_axis = scores.class_axis
    if labelled:
        require_labels(scores, reading)
        calibrator.ignore_index = scores.ignore_index
    name_classes(known)
    _tell(session, scores)
    return scores


def class_names(calibrator: PosteriorCalibrator) -> list[Any] | None:
    """Return the names of a calibrator's classes, None where they are 0 … K−1."""
    return None if is_range(calibrator.classes_) else calibrator.classes_.tolist()


def read_class_counts(
    session: Session, counting: PriorChoice, classes: Sequence[Any] | None, n_classes: int | None
) -> tuple[Vector, list[Any] | None]:
    """Return training counts, and the names of their classes where they have names."""
    from reprior.files.counts import counts_from_labels, read_counts
    from reprior.files.labels import odd_integers

    if (counting.counts is None) == (counting.counts_from_labels is None):
        here = click.get_current_context(silent=True)
        taken = [] if here is None else [param.name for param in here.command.params]
        instead = " Or pass the prior itself as --source-prior." if "source_prior" in taken else ""
        raise OptionError(
            "One of --counts and --counts-from-labels must say how many training samples each "
            f"class had. Got {'neither' if counting.counts is None else 'both'}.{instead}"
        )
    if counting.counts is not None:
        return _in_order(session, read_counts, "counts", counting.counts, classes, n_classes)
    path = str(counting.counts_from_labels)
    counts, names = counts_from_labels(
        path, classes=classes, n_classes=n_classes, label_column=counting.label_column,
        labels_name=counting.labels_name, ignore_index=counting.ignore_index,
        labels_as=counting.labels_as,
    )  # fmt: skip
    if classes is None and names is not None:
        session.note(
            f"the labels of {path} are names, and taken in their sorted order: {few(names)}"
        )
    if counting.labels_as is None and odd_integers([str(name) for name in classes or ()]):
        session.note(
            f"integer labels of {path} are taken as indices 0 … {len(counts) - 1} of the classes "
            f"{few(names or ())}, not as these names, which --labels-as names would do"
        )
    return counts, None if names is None else list(names)


def read_weights(
    session: Session, path: str, classes: Sequence[Any] | None, n_classes: int
) -> Vector:
    """Return class weights in the order of the classes."""
    from reprior.files.counts import read_counts

    return _in_order(session, read_counts, "weights", path, classes, n_classes)[0]


def source_of(
    session: Session, counting: PriorChoice, source_prior: str | None, scores: ScoreFile
) -> tuple[Vector, list[Any] | None, Vector | None]:
    """Return the source prior, the class names, and the counts if they were given."""
    try:
        return _source_of(session, counting, source_prior, scores)
    except (PriorError, FileFormatError) as error:
        mismatch = (f" the {scores.n_classes} classes", "must name the classes", "sample of every")
        others = any(words in str(error) for words in mismatch)
        if scores.format not in ("csv", "parquet") or not others:
            raise
        odd = [name for name in scores.class_names or () if ID_COLUMN.search(name)]
        which = f"{odd[0]!r} is" if odd else "some are"
        if "sample of every" in str(error) and not odd:
            raise
        raise type(error)(
            f"{error} Numeric columns of {shown_paths(scores)} are classes; where {which} not, "
            f"drop the column, or list the classes in a file and pass --classes."
        ) from error


def _source_of(
    session: Session, counting: PriorChoice, source_prior: str | None, scores: ScoreFile
) -> tuple[Vector, list[Any] | None, Vector | None]:
    names = None if scores.class_names is None else list(scores.class_names)
    if source_prior is None:
        counts, named = read_class_counts(session, counting, names, scores.n_classes)
        classes = names if names is not None else named
        weights = None
        if counting.weights is not None:
            weights = read_weights(session, counting.weights, classes, scores.n_classes)
        prior = prior_from_counts(counts, weights=weights, smoothing=counting.smoothing)
        return prior, classes, counts
    if any((counting.counts, counting.counts_from_labels, counting.weights, counting.smoothing)):
        raise OptionError(
            "--source-prior must stand alone. Got counts, weights or smoothing beside it. "
            "Drop them, or drop --source-prior."
        )
    prior, named = read_prior_file(session, source_prior, "source prior", names, scores.n_classes)
    prior = as_prior(prior, name="source_prior", n_classes=scores.n_classes)
    return prior, names if names is not None else named, None


def read_prior_file(
    session: Session, path: str, what: str, classes: Sequence[Any] | None, n_classes: int
) -> tuple[Vector, list[Any] | None]:
    """Return the prior in a file, in the order of the classes."""
    from reprior.files.counts import read_prior

    try:
        return _in_order(session, read_prior, f"numbers of the {what}", path, classes, n_classes)
    except PriorError as error:
        instead = ", or pass --counts." if what == "source prior" else "."
        raise PriorError(str(error).replace(", or pass them as counts.", instead)) from error


def _in_order(
    session: Session,
    read: Callable[..., tuple[Vector, tuple[str, ...] | None]],
    what: str,
    path: str,
    classes: Sequence[Any] | None,
    n_classes: int | None,
) -> tuple[Vector, list[Any] | None]:
    """Read a number per class; say which order is taken where only one side has names."""
    values, own = read(path)
    if classes is not None:
        values, _ = read(path, classes=classes)
        if own is None:
            session.note(
                f"the {what} of {path} have no names and are taken in the order of the classes: "
                f"{few(classes)}"
            )
    elif own is not None and n_classes is not None:
        raise OptionError(
            f"--classes must name the classes in the order of the scores, which have no names "
            f"themselves. Got {what} by name in {path!r} ({few(own)}), and their order need not be "
            f"that of the scores. Pass --classes FILE, a name per line."
        )
    if n_classes is not None and len(values) != n_classes:
        raise FileFormatError(
            f"{path!r} must have {what} of the {n_classes} classes of the scores. Got "
            f"{len(values)}. Give one number per class."
        )
    return values, None if own is None else list(own)


def _agreed_names(path: str, calibrator: PosteriorCalibrator) -> list[Any]:
    from reprior.files.counts import read_class_names

    given = list(read_class_names(path))
    known = class_names(calibrator)
    if known is not None and [str(name) for name in known] != [str(name) for name in given]:
        raise OptionError(
            f"--classes must name the calibrator's classes in its order, {few(known)}. "
            f"Got {few(given)}. Drop --classes: the calibrator knows its classes."
        )
    return given if known is None else known


def _how(reading: Reading, *, labelled: bool) -> dict[str, Any]:
    return {
        "label_column": reading.label_column,
        "labels_as": reading.labels_as,
        "weight_column": reading.weight_column if labelled else None,
        "ignore_index": reading.ignore_index,
        "scores_name": reading.scores_name,
        "labels_name": reading.labels_name,
        "class_axis": reading.class_axis,
        "skip_unreadable": reading.skip_unreadable,
    }


def _tell(session: Session, scores: ScoreFile) -> None:
    for sentence in scores.notes:
        session.note(sentence)


def _named(scores: ScoreFile) -> str:
    """The columns that were taken for classes, where they have names: one may be none."""
    if scores.class_names is None:
        return ""
    listed = few(scores.class_names, 20)
    return f", {listed}; where a column is none, say which are with --classes"
