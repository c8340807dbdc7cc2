"""Files of named arrays: what npy, npz and zarr have in common, reading and writing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reprior.exceptions import FileFormatError, LabelsError, ScoresError
from reprior.files.detect import TABLES
from reprior.files.formats.interface import (
    Block,
    ColumnsError,
    Labels,
    Layout,
    NamedLabels,
    ReadOptions,
    Vector,
    as_names,
    damaged,
    few,
    scores_dtype,
    written_kind,
)

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "ADDED_BY_APPLY",
    "ArrayReader",
    "Stored",
    "as_raw_labels",
    "block_rows",
    "common_dtype",
    "fixed_width",
    "kept_arrays",
    "kept_rows",
    "note_dropped_data",
    "open_arrays",
    "refuse_invalid_text",
    "refuse_large_text",
    "refuse_objects",
]

#: The last code point of Unicode.
_LAST_CHARACTER = 0x10FFFF

ADDED_BY_APPLY = ("posterior", "prediction")
"""The arrays that ``apply`` adds. They are neither labels nor weights."""


class Stored(Protocol):
    """An array on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        ...

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of ``rows`` rows, as arrays of their own; the last may be less.

        They begin at row ``first``, a multiple of ``rows``.
        """
        ...

    def check(self) -> None:
        """Refuse an array whose checksum shows that it is damaged."""
        ...


#: Bytes of all class names: those of one class, and those that any file may have.
_NAME_BYTES = 4_096
_ALL_NAMES_BYTES = 1 << 28
_FEW_NAMES_BYTES = 1 << 20


def refuse_objects(path: str | os.PathLike[str], name: str, dtype: np.dtype[Any]) -> None:
    """Refuse arrays that need pickle, and records."""
    rule = f"{name} of {os.fspath(path)!r} must be an array of numbers or strings."
    if dtype.hasobject and dtype.kind != "T":  # strings of any length are no objects
        raise FileFormatError(
            rule,
            got="Python objects, which need pickle, and reprior never unpickles",
            remedy=(
                "Convert first: numpy.asarray(x, dtype=float) for scores, "
                "numpy.asarray(x, dtype=str) for names."
            ),
        )
    if dtype.subdtype is not None:
        raise FileFormatError(
            rule,
            got=f"arrays of shape {dtype.shape} inside of it",
            remedy="Save them as further axes of it.",
        )
    if dtype.fields is not None:
        raise FileFormatError(
            rule,
            got=f"records with the fields {few(list(dtype.fields))}",
            remedy="Save one array per field.",
        )


def refuse_invalid_text(path: str | os.PathLike[str], values: Vector) -> None:
    """Refuse strings with code points that no character has; Python stops where it meets them."""
    if values.dtype.kind != "U":
        return
    points = np.ascontiguousarray(values).reshape(-1).view(values.dtype.byteorder + "u4")
    if ((points > _LAST_CHARACTER) | ((points >= 0xD800) & (points <= 0xDFFF))).any():
        raise damaged(path, "score", "text that is no Unicode")


def refuse_large_text(
    path: str | os.PathLike[str], name: str, n_bytes: int, arrays: Mapping[str, Stored]
) -> None:
    """Refuse an array that describes ``arrays``, such as their class names, where it is too large.

    It is read whole. The classes are as many as the longest axis of another array.
    """
    limit, per_class = _NAME_BYTES, ""
    if name == "class_names":
        n_classes = max((n for array in arrays.values() for n in array.shape[1:]), default=2)
        limit = min(max(_NAME_BYTES * n_classes, _FEW_NAMES_BYTES), _ALL_NAMES_BYTES)
        per_class = f", {_NAME_BYTES:,} per class"
    if n_bytes > limit:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have an array {name!r} of at most {limit:,} bytes"
            f"{per_class}.",
            got=f"{n_bytes:,} bytes",
            remedy="Shorten the names, or pass them in a text file.",
        )


def fixed_width(values: Vector) -> Vector:
    """Return strings as an array of one width."""
    if values.dtype.kind == "U":
        return values
    if values.dtype.kind == "S":
        return np.char.decode(values, "utf-8")
    return np.array(values.tolist(), dtype=str).reshape(values.shape)


def as_raw_labels(path: Path, values: Vector) -> Labels:
    """Return an array of labels as numbers, or as names with codes."""
    if values.dtype.kind in "iubf":
        return values
    refuse_invalid_text(path, values)
    if values.dtype.kind in "SUTO":
        try:
            plain = fixed_width(values)
        except UnicodeDecodeError as error:
            raise damaged(path, "score", error) from error
        unique, codes = np.unique(plain, return_inverse=True)
        return NamedLabels(codes.reshape(values.shape), tuple(unique.tolist()))
    raise LabelsError(
        argument="labels",
        rule="must be integers or names",
        got=f"dtype {values.dtype} in {os.fspath(path)!r}",
        remedy="Save class indices as integers, or names as strings.",
    )


@dataclass(frozen=True, eq=False)
class ArrayReader:
    """Scores, labels and weights in arrays that are read side by side."""

    path: Path
    format: str
    scores: Stored
    labels: Stored | None = None
    weight: Stored | None = None
    kind: str | None = None
    class_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    arrays: dict[str, Stored] = field(default_factory=dict)
    dtype: np.dtype[Any] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", scores_dtype(self.path, self.scores.dtype))

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of the scores of one sample."""
        return self.scores.shape[1:]

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return self.scores.shape[0]

    @property
    def has_labels(self) -> bool:
        """Whether there are labels."""
        return self.labels is not None

    @property
    def label_dtype(self) -> str | None:
        """Type of the labels as they are written."""
        return None if self.labels is None else str(self.labels.dtype)

    @property
    def has_weight(self) -> bool:
        """Whether there are weights."""
        return self.weight is not None

    def blocks(self, rows: int, first: int = 0) -> Iterator[Block]:
        """Give the file in blocks of at most ``rows`` rows, from row ``first`` on."""
        labels = None if self.labels is None else self.labels.blocks(rows, first)
        weight = None if self.weight is None else self.weight.blocks(rows, first)
        for scores in self.scores.blocks(rows, first):
            yield Block(
                scores=scores.astype(self.dtype, copy=False),
                labels=None if labels is None else as_raw_labels(self.path, next(labels)),
                weight=None if weight is None else next(weight),
            )
        for others in (labels, weight):  # to their end, where checksums are compared
            if others is not None:
                next(others, None)

    def check(self) -> None:
        """Refuse a file whose checksums show that it is damaged."""
        for array in (self.scores, self.labels, self.weight):
            if array is not None:
                array.check()

    def place(self, row: int) -> str:
        """Say where a row is."""
        return f"row {row}"

    def place_in_row(self, index: Sequence[int]) -> str:
        """Say which entry of a row is meant."""
        inside = ", ".join(map(str, index))
        return f"position [{inside}]" if len(index) > 1 else f"column {inside}"


def open_arrays(
    path: Path,
    kind_of_file: str,
    arrays: dict[str, Stored],
    small: dict[str, Any],
    options: ReadOptions,
) -> ArrayReader:
    """Choose among named arrays those that are scores, labels and weights."""
    name, notes = _scores_name(path, kind_of_file, arrays, options)
    scores = arrays[name]
    refuse_objects(path, f"The array {name!r}", scores.dtype)
    if len(scores.shape) < 1:
        raise ScoresError(
            argument="scores",
            rule="must have a row per sample",
            got=f"a single number in {os.fspath(path)!r}",
            remedy="Save an array of shape (samples, classes).",
        )
    labels = arrays.get(options.labels_name) if options.with_labels else None
    weight = arrays.get(options.weight_column or "weight") if options.with_labels else None
    for what, array in (("labels", labels), ("weight", weight)):
        if array is not None:
            refuse_objects(path, f"The array {what!r}", array.dtype)
            _check_rows(path, name, scores, what, array)
    if options.weight_column and options.weight_column not in arrays and options.with_labels:
        raise _missing(path, options.weight_column, arrays)
    return ArrayReader(
        path=path,
        format=kind_of_file,
        scores=scores,
        labels=labels,
        weight=weight,
        kind=_kind(path, name, small),
        class_names=_class_names(path, small),
        notes=(*notes, *_unread(path, name, arrays, options)),
        columns=tuple(arrays),
        arrays=arrays,
    )


def _unread(
    path: Path, scores: str, arrays: dict[str, Stored], options: ReadOptions
) -> Iterator[str]:
    """Return a note on arrays with an entry per sample that were not read, such as weights."""
    known = {
        scores,
        options.labels_name,
        options.weight_column or "weight",
        "scores",
        *ADDED_BY_APPLY,
    }
    rows = arrays[scores].shape[:1]
    left = [name for name, array in arrays.items() if name not in known and array.shape[:1] == rows]
    if left and options.with_labels:
        yield f"Arrays of {os.fspath(path)!r} that were not read: {few(left)}."


def _scores_name(
    path: Path, kind_of_file: str, arrays: dict[str, Stored], options: ReadOptions
) -> tuple[str, tuple[str, ...]]:
    if options.scores_name is not None:
        if options.scores_name not in arrays:
            raise _missing(path, options.scores_name, arrays)
        return options.scores_name, ()
    if "posterior" in arrays and "scores" in arrays:
        note = (
            f"{os.fspath(path)!r} holds calibrated posteriors beside the scores they were made "
            f"of; the array 'posterior' was read."
        )
        return "posterior", (note,)
    for name in ("scores", "posterior"):
        if name in arrays:
            return name, ()
    others = [name for name in arrays if name not in (options.labels_name, "weight", "prediction")]
    if len(others) == 1 and kind_of_file == "npz" and others[0] == "arr_0":
        return "arr_0", ()
    raise _missing(path, "scores", arrays)


def _missing(path: Path, name: str, arrays: dict[str, Stored]) -> FileFormatError:
    """Return the error for an array that is not there; a file without any was not written."""
    rule = f"{os.fspath(path)!r} must hold an array {name!r}."
    if not arrays:
        return FileFormatError(
            rule,
            got="no array at all",
            remedy="Check that it is a score file; numpy.savez writes one.",
        )
    return ColumnsError(
        f"{rule} Its arrays: {few(list(arrays))}.",
        remedy="Save the arrays as scores=…, labels=…, or say which name to read.",
    )


def _check_rows(path: Path, name: str, scores: Stored, argument: str, array: Stored) -> None:
    if not array.shape or array.shape[0] != scores.shape[0]:
        n_entries = array.shape[0] if array.shape else "a single number"
        raise LabelsError(
            argument=argument,
            rule="must have one entry per sample",
            got=(
                f"{n_entries} in {argument!r} and {scores.shape[0]} rows in {name!r} of "
                f"{os.fspath(path)!r}"
            ),
            remedy="Save both from the same samples.",
        )


def _kind(path: Path, name: str, small: dict[str, Any]) -> str | None:
    """Return the kind that is written in the file, of the array that is read."""
    value = small.get("kind")
    if name == "scores" and "scores_kind" in small:
        value = small["scores_kind"]
    if value is None:
        return None
    return written_kind(
        path, str(value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value)
    )


def _class_names(path: Path, small: dict[str, Any]) -> tuple[str, ...] | None:
    values = small.get("class_names")
    return None if values is None else as_names(path, values)


def kept_rows(layout: Layout, chunk: Chunk) -> Iterator[tuple[str, Vector]]:
    """Give what is kept of a chunk: its scores and labels, unless the inputs' arrays hold them."""
    stored = getattr(layout.inputs[0], "arrays", {})
    if layout.keep and not stored:
        yield "scores", np.asarray(chunk.scores)
    if layout.keep and chunk.labels is not None and "labels" not in stored:
        yield "labels", np.asarray(chunk.labels)


def note_dropped_data(layout: Layout) -> list[str]:
    """Return a sentence about what an output of arrays leaves out, where it leaves out any."""
    reader = layout.inputs[0]
    if not layout.keep:
        return []
    if reader.format in TABLES:
        known = {*(layout.classes or ()), *([layout.label_column] if layout.has_labels else [])}
        others = [name for name in reader.columns if name not in known]
        if not others:
            return []
        return [
            f"Columns that were not kept in arrays: {few(others)}. Write csv or parquet to keep "
            f"them."
        ]
    there = {name for name, _ in kept_arrays(layout)}
    names = [name for name in reader.arrays if name not in there and name not in ADDED_BY_APPLY]
    if not names:
        return []
    return [f"Arrays that have no entry per sample in every file were not kept: {few(names)}."]


def kept_arrays(layout: Layout) -> Iterator[tuple[str, list[Any]]]:
    """Give the arrays that all inputs hold, one per sample, as parts to put one after another."""
    inputs = [getattr(reader, "arrays", {}) for reader in layout.inputs]
    for name, first in inputs[0].items():
        if name in ADDED_BY_APPLY:
            continue
        parts = [arrays[name] for arrays in inputs if name in arrays]
        rows = [reader.n_rows for reader in layout.inputs]
        alike = len(parts) == len(inputs) and all(
            part.shape[:1] == (n,) and part.shape[1:] == first.shape[1:] and part.dtype.kind != "O"
            for part, n in zip(parts, rows, strict=True)
        )
        if alike:
            yield name, parts


def block_rows(part: Any) -> int:
    """Return how many rows of an array make a block of about 4 MB."""
    row: int = int(part.dtype.itemsize) * int(np.prod(part.shape[1:], dtype=np.int64))
    return max(1, (1 << 22) // max(1, row))


def common_dtype(parts: list[Any]) -> np.dtype[Any]:
    """Return the dtype that holds the entries of all parts."""
    dtype = np.result_type(*(part.dtype for part in parts))
    return dtype if dtype.kind == "T" else dtype.newbyteorder("=")
