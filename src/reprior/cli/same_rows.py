"""Whether files that are fused have the same samples, as far as labels and ids tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.cli.agreement import shown_paths
from reprior.cli.inputs import ID_COLUMN
from reprior.exceptions import ScoresError
from reprior.files.formats.interface import NamedLabels, ReadOptions
from reprior.files.labels import LabelFile, is_index, open_labels, plain_label

if TYPE_CHECKING:
    from reprior.files.scores import ScoreFile

__all__ = ["refuse_other_rows"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Columns and arrays of labels, by the names that they have unless told otherwise.
LABELS = ("label", "labels")

#: Entries compared at a time.
AT_ONCE = 1 << 18


def refuse_other_rows(files: Sequence[ScoreFile]) -> None:
    """Refuse files whose labels, or whose ids under one name, are not the same row by row."""
    for i, other in enumerate(files):
        for first in files[:i]:
            for mine, theirs in _common(first, other):
                _compare(first, mine, other, theirs)


def _common(one: ScoreFile, other: ScoreFile) -> Iterator[tuple[str, str]]:
    """Give the columns or arrays to compare: the labels of either, and ids of one name."""
    labels = [next((n for n in LABELS if n in file.columns), None) for file in (one, other)]
    if labels[0] is not None and labels[1] is not None:
        yield labels[0], labels[1]
    for name in one.columns:
        both = name in other.columns and name not in (one.class_names or ())
        if both and ID_COLUMN.search(name):
            yield name, name


def _compare(one: ScoreFile, mine: str, other: ScoreFile, theirs: str) -> None:
    names = one.class_names or other.class_names or ()
    sides = (_entries(one, mine, names), _entries(other, theirs, names))
    row = 0
    for a, b in _together(*sides):
        differs = a != b
        if np.any(differs):
            at = int(np.argmax(differs))
            what = "labels" if mine in LABELS else f"{mine!r}"
            raise ScoresError(
                f"SCORES must have the same samples in the same order. Got other {what} in entry "
                f"{row + at}: {str(a[at])!r} in {shown_paths(one)} and {str(b[at])!r} in "
                f"{shown_paths(other)}. Put the rows of one file in the order of the other."
            )
        row += len(a)


def _entries(file: ScoreFile, name: str, classes: Sequence[str]) -> Iterator[Vector]:
    """Give a column of all files, flat, as text; labels that are indices as class names."""
    options = ReadOptions(label_column=name, labels_name=name)
    for path in file.paths:
        found = open_labels(path, options)
        for labels in found.blocks(_rows(found)):
            if isinstance(labels, NamedLabels):
                words = [plain_label(value) for value in labels.values]
                codes = labels.codes
            else:
                values, codes = np.unique(labels, return_inverse=True)
                words = [plain_label(str(value)) for value in values.tolist()]
            if name in LABELS:
                words = [_class_of(word, classes) for word in words]
            yield np.array(words, dtype=object)[codes.reshape(-1)]


def _class_of(word: str, classes: Sequence[str]) -> str:
    """Return the name of a class that is written as an index."""
    indexed = is_index(word) and 0 <= int(word) < len(classes) and word not in classes
    return classes[int(word)] if indexed else word


def _rows(file: LabelFile) -> int:
    return max(1, AT_ONCE // max(1, int(np.prod(file.row_shape, dtype=np.int64))))


def _together(one: Iterator[Vector], other: Iterator[Vector]) -> Iterator[tuple[Vector, Vector]]:
    """Give as many entries of both at a time as both have; what one has more is left out."""
    a: Vector | None = None
    b: Vector | None = None
    while True:
        a = a if a is not None and len(a) else next(one, None)
        b = b if b is not None and len(b) else next(other, None)
        if a is None or b is None:
            return
        n = min(len(a), len(b))
        yield a[:n], b[:n]
        a, b = a[n:], b[n:]
