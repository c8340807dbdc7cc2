"""What the module of a format offers: a reader, a writer, and the errors they share.

A reader gives a file as it is written there, in blocks of rows; :mod:`reprior.files.chunks` makes
samples of them. A writer takes the posteriors of chunks.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from reprior.core.checks import KINDS, check_choice
from reprior.exceptions import FileFormatError, ScoresError
from reprior.files.limits import parse_json

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "Block",
    "ColumnsError",
    "DamagedError",
    "Layout",
    "NamedLabels",
    "NoRowsError",
    "ReadOptions",
    "Reader",
    "Vector",
    "Writer",
    "apart",
    "as_names",
    "damaged",
    "few",
    "no_rows",
    "scores_dtype",
    "written_kind",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Metadata key of tables and groups: the class names, as a JSON list.
CLASS_NAMES_KEY = "reprior.class_names"

#: Metadata key of tables and groups: what the scores are.
KIND_KEY = "reprior.kind"


class NoRowsError(FileFormatError):
    """A whole file without rows: an error if it is alone, and skipped among others."""


class ColumnsError(FileFormatError):
    """A whole file without a column or array that is needed: never skipped."""


class DamagedError(FileFormatError):
    """A file whose contents break off or make no sense."""


@dataclass(frozen=True, eq=False)
class NamedLabels:
    """Labels as names: ``values[codes]``, each value once."""

    codes: Vector
    values: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the labels."""
        return tuple(self.codes.shape)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> NamedLabels:
        return NamedLabels(self.codes[rows], self.values)


Labels: TypeAlias = Vector | NamedLabels


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows of one file, as they are written there."""

    scores: Vector
    labels: Labels | None = None
    weight: Vector | None = None
    extra: Any = None


@dataclass(frozen=True)
class ReadOptions:
    """What to read of a file."""

    classes: tuple[str, ...] | None = None
    with_labels: bool = True
    keep: bool = False
    label_column: str = "label"
    weight_column: str | None = None
    scores_name: str | None = None
    labels_name: str = "labels"


class Reader(Protocol):
    """One open score file."""

    path: Path
    format: str
    kind: str | None
    class_names: tuple[str, ...] | None
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_rows: int | None
    has_labels: bool
    label_dtype: str | None
    has_weight: bool
    notes: tuple[str, ...]
    columns: tuple[str, ...]

    def blocks(self, rows: int, first: int = 0) -> Iterator[Block]:
        """Give the file in blocks of at most ``rows`` rows, from row ``first``, which begins one.

        Where ``first`` is not 0, the blocks are those that begin there when all are given.
        """
        ...

    def check(self) -> None:
        """Refuse a file whose checksum shows that it is damaged. Only npz has one of all rows."""
        ...

    def place(self, row: int) -> str:
        """Return where a row is, as a person looks for it."""
        ...

    def place_in_row(self, index: Sequence[int]) -> str:
        """Return which entry of a row of scores is meant."""
        ...


def damaged(path: str | os.PathLike[str], what: str, error: object) -> DamagedError:
    """Return the error for a file whose contents break off or make no sense.

    ``error`` is the reason: a text, or the error of another library, whose text is shown as it is.
    """
    reason = " ".join(f"{error}".split()).rstrip(".")
    reason = reason if len(reason) <= 200 else reason[:200] + " …"
    because = f" ({reason})" if reason else ""
    return DamagedError(
        f"{os.fspath(path)!r} must be a complete {what} file. It is truncated or damaged{because}.",
        remedy="Write or copy it again.",
    )


def no_rows(path: str | os.PathLike[str], got: str = "none") -> NoRowsError:
    """Return the error for a file without rows."""
    return NoRowsError(
        f"{os.fspath(path)!r} must have rows.",
        got=got,
        remedy="Check that it was written to its end.",
    )


def few(names: Sequence[Any], n: int = 6) -> str:
    """Return the first names of a list, as sentences show them."""
    return ", ".join(repr(name) for name in names[:n]) + (", …" if len(names) > n else "")


def apart(files: Mapping[str | os.PathLike[str], Sequence[str]]) -> str:
    """Return which names only one of two files has; an empty text where both have the same.

    Examples
    --------
    >>> apart({"a.csv": ["cat", "dog"], "b.csv": ["cow", "cat"]})
    "'dog' in 'a.csv' alone and 'cow' in 'b.csv' alone"
    """
    both = set.intersection(*map(set, files.values()))
    alone = {path: [n for n in names if n not in both] for path, names in files.items()}
    return " and ".join(f"{few(n)} in {os.fspath(path)!r} alone" for path, n in alone.items() if n)


def scores_dtype(path: Path, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which scores are given: floats as they are, integers as float64."""
    if dtype.kind == "f" and dtype.itemsize <= 8:
        return dtype.newbyteorder("=")
    if dtype.kind in "iu":
        return np.dtype(np.float64)
    raise ScoresError(
        argument="scores",
        rule="must be numbers",
        got=f"dtype {dtype} in {os.fspath(path)!r}",
        remedy="Save them as float32 or float64.",
    )


def written_kind(path: Path, kind: str | None) -> str | None:
    """Return the kind that a file states; refuse one that there is not."""
    if kind is not None:
        hint = f"It is written in {os.fspath(path)!r}; write that file again."
        check_choice("kind", kind, KINDS, error=FileFormatError, hint=hint)
    return kind


def as_names(path: Path, values: Any) -> tuple[str, ...]:
    """Return class names of a file as strings; refuse repeated ones and what is no list."""
    if isinstance(values, str | bytes):
        try:
            values = parse_json(values)
        except ValueError as error:
            raise damaged(path, "score", f"`class_names` is no JSON list: {error}") from error
    is_array = isinstance(values, np.ndarray)
    listed = values.tolist() if is_array else values
    is_list = values.ndim == 1 if is_array else isinstance(listed, list | tuple)
    if not is_list or not all(isinstance(name, str | bytes | int | float) for name in listed):
        raise damaged(path, "score", "`class_names` is no list of names")
    try:
        names = tuple(n.decode() if isinstance(n, bytes) else str(n) for n in listed)
    except UnicodeDecodeError as error:
        raise damaged(path, "score", f"`class_names`: {error}") from error
    repeated = sorted(name for name, n in Counter(names).items() if n > 1)
    if repeated:
        raise FileFormatError(
            argument="class_names",
            rule="must name every class once",
            got=f"{repeated[0]!r} twice in {os.fspath(path)!r}",
            remedy="Rename one of them.",
        )
    return names


@dataclass(frozen=True)
class Layout:
    """What an output holds beside its rows."""

    classes: tuple[str, ...] | None
    n_samples: int | None
    keep: bool
    kind: str | None
    label_column: str
    score_columns: tuple[str, ...]
    inputs: tuple[Any, ...]
    has_labels: bool = False
    delimiter: str = ","
    decisions: tuple[str, ...] | None = None

    @property
    def classes_json(self) -> str:
        """Class names as JSON."""
        return json.dumps(list(self.classes or ()), ensure_ascii=False)


class Writer(Protocol):
    """An output that is being written."""

    @property
    def notes(self) -> list[str]:
        """Sentences that a command should show."""
        ...

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        ...

    def close(self) -> None:
        """Write what is left, so that the file is whole."""
        ...

    def abandon(self) -> None:
        """Close everything that is open; the file is discarded."""
        ...
