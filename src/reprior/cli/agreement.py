"""What score files must be before they are used: scores, with labels, of the right classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprior.cli.options import Reading
from reprior.cli.session import plain
from reprior.exceptions import FileFormatError, LabelsError, OptionError

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.files.scores import ScoreFile

__all__ = [
    "class_axis_of",
    "few",
    "refuse_json",
    "refuse_other_names",
    "require_labels",
    "shown_paths",
]


def refuse_json(paths: Sequence[str]) -> None:
    """Refuse calibrators and counts that stand where scores should."""
    for path in paths:
        if Path(path).suffix.lower() == ".json" and Path(path).is_file():
            raise FileFormatError(
                f"{path!r} must be a score file (npy, npz, csv, parquet or zarr). Got JSON, which "
                f"calibrators and counts are in. Check the order of the arguments."
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
    there = f" among {few(scores.columns)}" if scores.columns else ""
    found = f"Got no {inside.split(' ', 1)[1]}{there}. " if inside else ""
    how = f"Name it with {name}, or name" if name else "Name"
    raise LabelsError(
        f"{shown_paths(scores)} must have labels. {found}{how} a file of labels with --labels."
    )


def class_axis_of(
    calibrator: PosteriorCalibrator, paths: Sequence[str], reading: Reading, *, labelled: bool
) -> int | None:
    """Return the axis of the classes in arrays: as given, or where the calibrator's K entries are.

    A calibrator that was fitted on rows says nothing about maps. Where both axes could be meant,
    the shape of the labels decides (None), or it must be said which one is.
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
            f"`class_axis` must be given for scores of shape {shape}: the {n_classes} classes may "
            f"be second or last. Pass --class-axis 1 or --class-axis -1."
        )
    return 1 if shape[1] == n_classes else -1


def _shape_of_first(paths: Sequence[str], reading: Reading) -> tuple[int | None, ...] | None:
    """Return the shape of the first arrays with rows; None for tables, or where none has any.

    Files that cannot be read are passed over where that is asked for.
    """
    from reprior.files.chunks import UNREADABLE
    from reprior.files.detect import detect_format
    from reprior.files.formats.interface import NoRowsError
    from reprior.files.scores import expand_paths, open_scores

    passed_by = UNREADABLE if reading.skip_unreadable else (NoRowsError,)
    for path in expand_paths(list(paths), "paths"):
        try:
            if detect_format(path) in ("csv", "parquet"):
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
