"""Read what options name: score files, counts, priors, calibrators; check that they agree."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from reprior.calibrator.encoding import is_range
from reprior.cli.messages import current_face, name_classes, with_remedy
from reprior.cli.options import PriorChoice, Reading
from reprior.cli.session import Session, plain
from reprior.core.prior import as_prior, prior_from_counts
from reprior.exceptions import (
    Argument,
    Element,
    FileFormatError,
    LabelsError,
    OptionError,
    PriorError,
    ScoresError,
    Words,
)
from reprior.files.detect import TABLES, detect_format

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile

__all__ = [
    "ID_COLUMN",
    "class_axis_of",
    "class_names",
    "few",
    "load_calibrator",
    "open_counted",
    "open_for",
    "open_to_fit",
    "read_class_counts",
    "read_prior_file",
    "read_weights",
    "refuse_json",
    "refuse_labels_and_weights",
    "refuse_other_names",
    "require_labels",
    "sample_labelled_rows",
    "sample_rows",
    "shown_paths",
    "source_of",
    "target_prior_of",
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


class OtherClassesError(FileFormatError):
    """A file with numbers of other classes than those of the scores."""


def load_calibrator(path: str) -> PosteriorCalibrator:
    """Read a calibrator; its errors mention the order of the arguments."""
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
    """Open score files of a known kind, and show their notes.

    ``names`` are the classes to expect where the options name none; other ones are refused.
    """
    from reprior.files.scores import open_scores

    refuse_json(paths)
    scores = open_scores(
        list(paths),
        labels=reading.labels if labelled else None,
        kind=reading.kind,
        classes=reading.classes or reading.class_columns or names,
        with_labels=labelled,
        **_how(reading, labelled=labelled),
    )
    if reading.classes is None and names is not None:
        refuse_other_names(scores, names, reading)
    if scores.kind is None:
        raise OptionError(KINDS_EXPLAINED.format(where=shown_paths(scores)))
    if labelled:
        require_labels(scores, reading)
    name_classes(scores.class_names)
    _tell(session, scores)
    return scores


def open_counted(
    session: Session,
    open_scores: Callable[[Reading], ScoreFile],
    reading: Reading,
    counting: PriorChoice,
    source_prior: str | None = None,
) -> tuple[ScoreFile, Reading]:
    """Open score files with the class columns that the counts, or the source prior, name.

    Other numeric columns of a table, such as an id, are left out and reported. Return the scores,
    and how they are read.
    """
    n_notes = len(session.notes)
    scores = open_scores(reading)
    path = counting.counts or source_prior
    if reading.classes is not None or path is None or scores.format not in TABLES:
        return scores, reading
    named = set(_names_in(path, is_prior=counting.counts is None))
    columns = tuple(name for name in scores.class_names or () if name in named)
    others = [name for name in scores.class_names or () if name not in named]
    if len(columns) < max(len(named), 2) or not others:
        return scores, reading
    del session.notes[n_notes:]  # they are about the columns that are left out, too
    what = "columns" if len(others) > 1 else "column"
    session.note(
        f"the {what} {few(others)} of {shown_paths(scores)} cannot be scores: {path} names every "
        f"class, and not {'these' if len(others) > 1 else 'this'}"
    )
    reading = replace(reading, class_columns=columns)
    return open_scores(reading), reading


def _names_in(path: str, *, is_prior: bool) -> tuple[str, ...]:
    """Return the class names in a file of counts or of a prior; none where it has none."""
    from reprior.files.count_files import read_counts, read_prior

    _, names = (read_prior if is_prior else read_counts)(path)
    return names or ()


def _taken_in_order(path: str, classes: Sequence[Any], noun: str) -> str:
    return (
        f"the scores of {path} have no names and are taken in the order of the {noun}'s "
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
    noun: str = "calibrator",
) -> ScoreFile:
    """Open score files for a calibrator: of its kind, with its classes, in its order.

    ``noun`` is what errors call the calibrator, which may stand for a fusion.
    ``names`` are the classes to take where neither the calibrator nor the options name any.
    The calibrator's class axis and ignored label are set to those of the data.
    """
    from reprior.files.scores import open_scores

    refuse_json(paths)
    wanted: Any = class_names(calibrator) or names
    if reading.classes is not None:
        wanted = _agreed_names(reading.classes, calibrator, noun)
    axis = class_axis_of(calibrator, paths, reading, labelled=labelled)
    scores = open_scores(
        list(paths),
        labels=reading.labels if labelled else None,
        classes=wanted,
        with_labels=labelled,
        keep=keep,
        **_how(replace(reading, class_axis=axis), labelled=labelled),
    )
    for kind in (reading.kind, scores.kind):
        if kind not in (None, calibrator.kind):
            raise OptionError(
                f"{shown_paths(scores)} must hold scores of the {noun}'s kind, "
                f"{calibrator.kind}. Got {kind}. Give scores of that kind, or fit a {noun} on "
                f"{kind}."
            )
    scores.kind = calibrator.kind
    known = calibrator.classes_.tolist()
    if scores.n_classes != len(known):
        raise FileFormatError(
            f"{shown_paths(scores)} must have scores of the {noun}'s {len(known)} classes, "
            f"{few(known)}. Got {scores.n_classes} classes{_named(scores)}. Give the scores of the "
            f"model that the {noun} was fitted for."
        )
    if class_names(calibrator) is not None:
        unnamed = refuse_other_names(scores, known, reading)
        if unnamed and reading.classes is None and names is None:
            session.note(_taken_in_order(unnamed[0], known, noun))
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
    from reprior.files.count_files import counts_from_labels, read_counts
    from reprior.files.labels import odd_integers

    if (counting.counts is None) == (counting.counts_from_labels is None):
        context = click.get_current_context(silent=True)
        options = [] if context is None else [param.name for param in context.command.params]
        instead = (
            " Or pass the prior itself as --source-prior." if "source_prior" in options else ""
        )
        raise OptionError(
            "One of --counts and --counts-from-labels must say how many training samples each "
            f"class had. Got {'neither' if counting.counts is None else 'both'}.{instead}"
        )
    if counting.counts is not None:
        return _in_order(session, read_counts, "counts", counting.counts, classes, n_classes)
    path = str(counting.counts_from_labels)
    counts, names = counts_from_labels(
        path,
        classes=classes,
        n_classes=n_classes,
        label_column=counting.label_column,
        labels_name=counting.labels_name,
        ignore_index=counting.ignore_index,
        labels_as=counting.labels_as,
    )
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
    from reprior.files.count_files import read_counts

    return _in_order(session, read_counts, "weights", path, classes, n_classes)[0]


def source_of(
    session: Session, counting: PriorChoice, source_prior: str | None, scores: ScoreFile
) -> tuple[Vector, list[Any] | None, Vector | None]:
    """Return the source prior, the class names, and the counts if they were given."""
    try:
        return _source_of(session, counting, source_prior, scores)
    except (OtherClassesError, PriorError) as error:
        id_columns = [name for name in scores.class_names or () if ID_COLUMN.search(name)]
        is_mismatch = isinstance(error, OtherClassesError) or (_is_zero(error) and id_columns)
        if scores.format not in TABLES or not is_mismatch:
            raise
        which = f"{id_columns[0]!r} is" if id_columns else "some are"
        raise with_remedy(
            error,
            f"Numeric columns of {shown_paths(scores)} are classes; where {which} not, drop the "
            f"column, or list the classes in a file and pass --classes.",
        ) from error


def _is_zero(error: PriorError) -> bool:
    """Whether a class without samples is refused."""
    got = error.got
    return isinstance(got, Element) and got.name == "counts" and got.value == 0


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
    from reprior.files.count_files import read_prior

    try:
        return _in_order(session, read_prior, f"numbers of the {what}", path, classes, n_classes)
    except PriorError as error:
        if what == "source prior":
            raise
        # Only the source prior can be given as counts instead, which is what its words say.
        raise error.mapped(lambda part: "" if isinstance(part, Words) else part) from error


def _in_order(
    session: Session,
    read: Callable[..., tuple[Vector, tuple[str, ...] | None]],
    what: str,
    path: str,
    classes: Sequence[Any] | None,
    n_classes: int | None,
) -> tuple[Vector, list[Any] | None]:
    """Read a number per class; say which order is taken where only one side has names."""
    values, names_in_file = read(path)
    if classes is not None:
        try:
            values, _ = read(path, classes=classes)
        except (FileFormatError, PriorError) as error:
            raise OtherClassesError(
                error.text, rule=error.rule, got=error.got, remedy=error.remedy
            ) from error
        if names_in_file is None:
            session.note(
                f"the {what} of {path} have no names and are taken in the order of the classes: "
                f"{few(classes)}"
            )
    elif names_in_file is not None and n_classes is not None:
        raise OptionError(
            f"--classes must name the classes in the order of the scores, which have no names "
            f"themselves. Got {what} by name in {path!r} ({few(names_in_file)}), and their order "
            f"need not be that of the scores. Pass --classes FILE, a name per line."
        )
    if n_classes is not None and len(values) != n_classes:
        raise OtherClassesError(
            f"{path!r} must have {what} of the {n_classes} classes of the scores. Got "
            f"{len(values)}. Give one number per class."
        )
    return values, None if names_in_file is None else list(names_in_file)


def _agreed_names(path: str, calibrator: PosteriorCalibrator, noun: str) -> list[Any]:
    from reprior.files.count_files import read_class_names

    given = list(read_class_names(path))
    known = class_names(calibrator)
    if known is not None and [str(name) for name in known] != [str(name) for name in given]:
        raise OptionError(
            f"--classes must name the {noun}'s classes in its order, {few(known)}. "
            f"Got {few(given)}. Drop --classes: the {noun} knows its classes."
        )
    return given if known is None else known


def refuse_labels_and_weights(reading: Reading, validation: Sequence[str]) -> None:
    """Refuse labels without labelled scores, and weights, where scores need no labels."""
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
    """Return the columns that are read as classes, where they have names; one may be no class."""
    if scores.class_names is None:
        return ""
    listed = few(scores.class_names, 20)
    return f", {listed}; where a column is none, say which are with --classes"


def refuse_json(paths: Sequence[str]) -> None:
    """Refuse a calibrator or counts in the place of scores."""
    for path in paths:
        if Path(path).suffix.lower() == ".json" and Path(path).is_file():
            raise FileFormatError(
                f"{path!r} must be a score file (npy, npz, csv, parquet or zarr). Got JSON, which "
                f"calibrators, fusions and counts are in. Check the order of the arguments."
            )


def require_labels(scores: ScoreFile, reading: Reading) -> None:
    """Refuse scores without labels; say by which options labels are found."""
    if scores.has_labels:
        return
    inside, name = ("", "")
    if scores.format in ("npz", "zarr"):
        inside, name = f"an array {reading.labels_name!r}", "--labels-name"
    elif scores.format != "npy":
        inside, name = f"a column {reading.label_column!r}", "--label-column"
    among = f" among {few(scores.columns)}" if scores.columns else ""
    got = f"Got no {inside.split(' ', 1)[1]}{among}. " if inside else ""
    how = f"Name it with {name}, or name" if name else "Name"
    raise LabelsError(
        f"{shown_paths(scores)} must have labels. {got}{how} a file of labels with --labels."
    )


def class_axis_of(
    calibrator: PosteriorCalibrator, paths: Sequence[str], reading: Reading, *, labelled: bool
) -> int | None:
    """Return the axis of the classes in arrays: as given, or where the calibrator's K entries are.

    A calibrator that was fitted on rows says nothing about maps. Where both axes could be meant,
    the shape of the labels decides (None), or --class-axis must say.
    """
    if reading.class_axis is not None:
        return reading.class_axis
    shape, n_classes = _shape_of_first(paths, reading), calibrator.source_prior_.size
    if shape is None:
        return None
    if len(shape) < 3 or calibrator.class_axis not in (-1, len(shape) - 1):
        return calibrator.class_axis
    if shape[1] == shape[-1] == n_classes:
        if labelled and shape[1:-1] != shape[2:]:
            return None
        raise OptionError(
            f"--class-axis must be given for scores of shape {shape}: the {n_classes} classes may "
            f"be second or last. Pass --class-axis 1 or --class-axis -1."
        )
    return 1 if shape[1] == n_classes else -1


def _shape_of_first(paths: Sequence[str], reading: Reading) -> tuple[int | None, ...] | None:
    """Return the shape of the first arrays with rows; None for tables, or where none has any.

    With ``skip_unreadable``, files that cannot be read are skipped.
    """
    from reprior.files.chunks import UNREADABLE
    from reprior.files.formats.interface import NoRowsError
    from reprior.files.scores import expand_paths, open_scores

    passed_by = UNREADABLE if reading.skip_unreadable else (NoRowsError,)
    for path in expand_paths(list(paths), "paths"):
        try:
            if detect_format(path) in TABLES:
                return None
            return open_scores(path, with_labels=False, scores_name=reading.scores_name).shape
        except passed_by:
            continue
    return None


def refuse_other_names(scores: ScoreFile, names: Sequence[Any], reading: Reading) -> list[str]:
    """Refuse files that state other class names, or another order, than those expected.

    The columns of a table are put in order by their names; arrays and lists are not. Return the
    files that state no names.
    """
    from reprior.files.scores import open_scores

    unnamed = []
    for reader in scores.readers:
        listed = getattr(getattr(reader, "plan", None), "listed", True)
        if scores.format == "csv" or not listed:
            continue
        again = open_scores(reader.path, with_labels=False, scores_name=reading.scores_name)
        stated = again.class_names
        if stated is None:
            unnamed.append(str(reader.path))
        elif list(stated) != [str(name) for name in names]:
            raise FileFormatError(
                f"{str(reader.path)!r} must have the classes {few(names)}, in this order. "
                f"Got {few(stated)}. Give the scores of a model of these classes, or put them in "
                f"that order."
            )
    return unnamed


def few(names: Sequence[Any], n: int = 6) -> str:
    """Return the first names, for a sentence."""
    return ", ".join(plain(name) for name in names[:n]) + (", …" if len(names) > n else "")


def shown_paths(scores: ScoreFile) -> str:
    """Return the files' names, for a sentence."""
    first = repr(click.format_filename(str(scores.paths[0])))
    return first if len(scores.paths) == 1 else f"{first} and {len(scores.paths) - 1} more"


#: Scores that an estimate looks at, at most, and as many of VAL: 64 MB of float64 each.
MOST_TARGET_SCORES = 2**23


def target_prior_of(
    session: Session,
    choice: str,
    target_scores: Sequence[str],
    source_prior: Vector,
    names: list[Any] | None,
    scores: ScoreFile,
    reading: Reading,
) -> Any:
    """Return the target prior that the options ask for."""
    if target_scores and choice != "estimate":
        raise OptionError(
            f"--target-scores must come with --target-prior estimate. Got --target-prior {choice}."
        )
    if choice == "uniform":
        return "uniform"
    if choice == "estimate":
        return _estimated_target(session, target_scores, source_prior, scores, reading)
    if not Path(choice).exists():
        near = difflib.get_close_matches(choice, ("uniform", "estimate"), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Check the path."
        raise OptionError(
            f"--target-prior must be uniform, estimate, or a file that exists. Got {choice!r}. "
            f"{hint}"
        )
    return read_prior_file(session, choice, "target prior", names, scores.n_classes)[0]


def _estimated_target(
    session: Session,
    target_scores: Sequence[str],
    source_prior: Vector,
    scores: ScoreFile,
    reading: Reading,
) -> Vector:
    """Estimate by expectation-maximisation, from all rows or a bounded sample of them."""
    if not target_scores:
        raise OptionError(
            "--target-scores must name unlabelled scores of the target. Got none beside "
            "--target-prior estimate."
        )
    target = open_to_fit(session, target_scores, reading, labelled=False, names=scores.class_names)
    if target.kind != scores.kind or target.n_classes != scores.n_classes:
        raise OptionError(
            f"--target-scores must be of the kind and the classes of VAL, {scores.kind} of "
            f"{scores.n_classes} classes. Got {target.kind} of {target.n_classes}."
        )
    with session.progress("reading the target", target.n_samples) as progress:
        rows, n_rows = sample_rows(
            target,
            class_axis=target.class_axis,
            most=MOST_TARGET_SCORES // scores.n_classes,
            progress=progress,
        )
    estimate, how = _by_em(rows, source_prior, str(target.kind), _labelled(session, scores))
    which = "all" if len(rows) == n_rows else f"{len(rows):,} rows drawn from"
    session.note(
        f"the target prior is estimated from {which} {n_rows:,} rows of the target scores, by "
        f"expectation-maximisation, which {how}"
    )
    return estimate


def _labelled(session: Session, scores: ScoreFile) -> tuple[Vector, Vector]:
    """Return VAL, or a bounded sample of it, to calibrate the model's probabilities."""
    with session.progress("reading VAL", scores.n_samples) as progress:
        rows, labels, _ = sample_labelled_rows(
            scores,
            class_axis=scores.class_axis,
            ignore_index=scores.ignore_index,
            most=MOST_TARGET_SCORES // scores.n_classes,
            progress=progress,
        )
    return rows, labels


def _by_em(
    rows: Vector, source_prior: Vector, kind: str, validation: tuple[Vector, Vector]
) -> tuple[Vector, str]:
    """The estimate, and whose probabilities it trusts: VAL may lack what a calibration needs."""
    from reprior.core.shift.estimate import estimate_target_prior

    try:
        estimate = estimate_target_prior(
            rows, source_prior=source_prior, kind=kind, validation=validation
        )
    except (LabelsError, ScoresError) as error:
        plain = estimate_target_prior(rows, source_prior=source_prior, kind=kind)
        why = current_face().rule(error)
        return plain, f"trusts the model's probabilities: VAL cannot calibrate them ({why})"
    n_labels = f"{len(validation[1]):,} labels of VAL"
    return estimate, f"trusts the model's probabilities once they are calibrated by {n_labels}"


def sample_rows(
    chunks: Iterable[Any], *, class_axis: int, most: int, progress: Any = None, seed: int = 0
) -> tuple[Vector, int]:
    """Return a uniform sample of at most ``most`` rows of scores, and how many there were.

    Every row draws a key, and the rows of the smallest keys stay.

    Examples
    --------
    >>> import numpy as np
    >>> from reprior.files.chunks import Chunk
    >>> rows, n = sample_rows([Chunk(np.eye(3)), Chunk(np.eye(3))], class_axis=-1, most=4)
    >>> rows.shape, n
    ((4, 3), 6)
    """
    parts = ((chunk, _rows_of(chunk, class_axis)) for chunk in chunks)
    columns, n_rows = _smallest_keys(
        ((chunk, (rows,)) for chunk, rows in parts), most=most, progress=progress, seed=seed
    )
    if not n_rows:
        raise ScoresError("The target scores must have rows. Got none. Check the files.")
    return columns[0], n_rows


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

    Ignored ones are left out.

    Examples
    --------
    >>> from reprior.files.chunks import Chunk
    >>> chunk = Chunk(np.eye(3), np.array([0, 1, 255]))
    >>> _, labels, n = sample_labelled_rows([chunk], class_axis=-1, ignore_index=255, most=9)
    >>> labels.tolist(), n
    ([0, 1], 2)
    """

    def labelled() -> Iterator[tuple[Any, tuple[Vector, Vector]]]:
        for chunk in chunks:
            rows = _rows_of(chunk, class_axis)
            labels = np.asarray(chunk.labels).reshape(-1)
            if ignore_index is not None:
                kept = labels != ignore_index
                rows, labels = rows[kept], labels[kept]
            yield chunk, (rows, labels)

    columns, n_rows = _smallest_keys(labelled(), most=most, progress=progress, seed=seed)
    if not n_rows:
        raise LabelsError(
            argument="validation",
            rule="must have a sample that is not ignored",
            got="none",
            remedy=["Check ", Argument("ignore_index"), "."],
        )
    return columns[0], columns[1], n_rows


def _rows_of(chunk: Any, class_axis: int) -> Vector:
    rows = np.asarray(chunk.scores)
    if rows.ndim > 1:
        rows = np.moveaxis(rows, class_axis, -1).reshape(-1, rows.shape[class_axis])
    return rows


def _smallest_keys(
    parts: Iterable[tuple[Any, tuple[Vector, ...]]], *, most: int, progress: Any, seed: int
) -> tuple[list[Vector], int]:
    """Return the rows of every column whose random keys are the smallest, and how many there were.

    At most twice ``most`` rows, and those of a chunk, are held.
    """
    rng = np.random.default_rng(seed)
    held: list[tuple[Vector, ...]] = []
    n_rows = 0
    n_held = 0
    for chunk, columns in parts:
        n_new = len(columns[0])
        n_rows += n_new
        n_held += n_new
        held.append((*columns, rng.random(n_new)))
        if n_held > 2 * most:
            held = [_chosen(held, most)]
            n_held = most
        if progress is not None:
            progress(chunk.stop)
    return list(_chosen(held, most)[:-1]) if n_rows else [], n_rows


def _chosen(held: Sequence[tuple[Vector, ...]], most: int) -> tuple[Vector, ...]:
    columns = [np.concatenate(parts) for parts in zip(*held, strict=True)]
    keys = columns[-1]
    if len(keys) <= most:
        return tuple(columns)
    chosen = np.sort(np.argpartition(keys, most - 1)[:most])
    return tuple(column[chosen] for column in columns)
