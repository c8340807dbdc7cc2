"""Labels as class indices: from integers or names, and from files of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reprior.core.checks import within_classes
from reprior.exceptions import Argument, LabelsError, Reference, Setting
from reprior.files.detect import detect_format
from reprior.files.formats.array_files import Stored, as_raw_labels, refuse_objects
from reprior.files.formats.csv import csv_batches, csv_header, line_finder
from reprior.files.formats.interface import (
    ColumnsError,
    Labels,
    NamedLabels,
    ReadOptions,
    Vector,
    few,
)
from reprior.files.formats.npy import StoredNpy
from reprior.files.formats.npz import read_members
from reprior.files.formats.parquet import parquet_batches, read_schema
from reprior.files.formats.table_files import label_array

__all__ = [
    "IGNORED",
    "LabelCoder",
    "LabelFile",
    "LabelSequence",
    "is_index",
    "odd_integers",
    "open_labels",
    "plain_label",
    "whole_numbers",
]

IGNORED = -1
"""The index that an ignored *name* gets; an ignored integer stays what it is."""

_INTEGER = re.compile(r"\s*[+-]?\d+(?:\.0*)?\s*")

_PLAIN_INTEGER = re.compile(r"[+-]?\d+")

#: Labels beyond this are cut to it: exact in float64, and far from any number of classes.
_LARGEST = 1 << 53

#: Digits of a label that are read as a number: Python refuses to read more than 4,300.
_MOST_DIGITS = 1_000

#: What a message says where integer labels may be names.
_LABELS_ARE_NAMES = ("If the labels are names, pass ", Setting("labels_as", "names"), ".")

#: Words that are the header of a column of labels, and no label.
_HEADERS = frozenset({"label", "labels", "class", "classes", "target", "targets", "y", "category"})


@dataclass(eq=False)
class LabelCoder:
    """Turns labels as they are written into class indices.

    Integers index the classes. Text that is a class name is that class; text that is an integer
    is an index, unless a class has that name and not all names are integers. A file has either
    names or indices. Of several tables, of which ``reordered`` has its columns in another order
    than the first, it takes names alone: there an index has no clear meaning.
    """

    names: tuple[str, ...] | None
    n_classes: int
    ignore_index: int | str | None = None
    labels_as: str | None = None
    reordered: Path | None = None
    written_as: str | None = None

    def __post_init__(self) -> None:
        names = self.names or ()
        self._index = {name: k for k, name in enumerate(names)}
        self._all_integers = bool(names) and all(map(is_index, names))

    @property
    def ignored(self) -> int | None:
        """The index of samples to leave out, as it appears among the indices."""
        if self.ignore_index is None:
            return None
        text = str(self.ignore_index)
        return _integer(text) if is_index(text) and text not in self._index else IGNORED

    def encode(self, labels: Labels, where: Callable[[int], str]) -> Vector:
        """Return class indices; ``where`` says where a row is."""
        if isinstance(labels, NamedLabels):
            return self._from_names(labels, where)
        if self.labels_as == "names":
            text, codes = np.unique(labels, return_inverse=True)
            names = tuple(plain_label(str(value)) for value in text.tolist())
            return self._from_names(NamedLabels(codes.reshape(labels.shape), names), where)
        codes = whole_numbers(labels, where)
        ignored = str(self.ignore_index)
        # A class has that name; as an integer it is ignored.
        if is_index(ignored) and ignored in self._index:
            codes[codes == _integer(ignored)] = IGNORED
        self._agree("indices", where, 0)
        return self._checked(codes, where)

    def are_names(self, labels: Labels) -> bool:
        """Whether labels are written as names of classes, and none as an index."""
        if not isinstance(labels, NamedLabels):
            return self.labels_as == "names"
        ways = {self._lookup(text)[1] for text in labels.values}
        return "names" in ways and "indices" not in ways

    def _from_names(self, labels: NamedLabels, where: Callable[[int], str]) -> Vector:
        table = np.empty(len(labels.values), np.int64)
        for i, text in enumerate(labels.values):
            index, way = self._lookup(text)
            if index is None or (way and self.written_as not in (None, way)):
                row = _row_of(labels.codes, i)
                if row is None:  # a category that no row has
                    table[i] = IGNORED
                    continue
                if index is None:
                    raise self._unknown(text, where(row))
                self._agree(way, where, row)
            if way and (row := _row_of(labels.codes, i)) is not None:
                self._agree(way, where, row)
            table[i] = index
        return self._checked(table[labels.codes], where)

    def _lookup(self, text: str) -> tuple[int | None, str]:
        """Return the index of a label and how it was written; '' for ignored ones."""
        plain = text.strip()
        if self.ignore_index is not None and plain == str(self.ignore_index):
            return self.ignored, ""
        is_integer = is_index(plain)
        is_name = plain in self._index or text in self._index
        if is_name and (not is_integer or not self._all_integers or self.labels_as == "names"):
            return self._index.get(plain, self._index.get(text)), "names"
        if is_integer and self.labels_as != "names":
            return _integer(plain), "indices"
        return None, "names"

    def _agree(self, way: str, where: Callable[[int], str], row: int) -> None:
        if self.written_as not in (None, way):
            raise LabelsError(
                argument="labels",
                rule="must be all indices or all names",
                got=f"{way} in {where(row)}, after {self.written_as}",
                remedy="Write all labels in one way.",
            )
        if way == "indices" and self.reordered is not None:
            raise LabelsError(
                argument="labels",
                rule="must be names where tables have their class columns in several orders",
                got=(
                    f"indices in {where(row)}, and {os.fspath(self.reordered)!r} has the classes "
                    f"{few(self.names or ())} in another order"
                ),
                remedy=[
                    "Put the columns of all files in one order, or pass ",
                    Argument("classes"),
                    " in the order that the indices mean.",
                    *((" ", *_LABELS_ARE_NAMES) if self._all_integers else ()),
                ],
            )
        self.written_as = way

    def _checked(self, codes: Vector, where: Callable[[int], str]) -> Vector:
        if within_classes(codes, self.n_classes):
            return codes
        outside = (codes < 0) | (codes >= self.n_classes)
        if self.ignored is not None:
            outside &= codes != self.ignored
        if outside.any():
            position = np.unravel_index(int(np.argmax(outside)), outside.shape)
            value = int(codes[position])
            raise LabelsError(
                argument="labels",
                rule=f"must be class indices 0 … {self.n_classes - 1}",
                got=f"{value} in {where(int(position[0]))}",
                remedy=self._remedy_outside(value),
            )
        return codes

    def _remedy_outside(self, value: int) -> list[str | Reference]:
        indices = list(range(self.n_classes))
        if self._all_integers and [_integer(name) for name in self._index] != indices:
            names = few(list(self._index))
            text = f"Integer labels index the classes from 0, and the classes are named {names}: "
            return [text, "if the labels are names, pass ", Setting("labels_as", "names"), "."]
        if value == self.n_classes:  # which shows that the labels begin at 1
            return ["Check the labels and the number of classes."]
        return ["If it marks samples to leave out, pass ", Setting("ignore_index", value), "."]

    def _unknown(self, text: str, place: str) -> LabelsError:
        if not self._index:
            return LabelsError(
                [Argument("labels"), " that are names need class names."],
                got=f"{text!r} in {place}",
                remedy=(
                    "Pass the class names in the order of the scores, or write labels as indices."
                ),
            )
        cell = repr(text) if text.strip() else "an empty cell"
        return LabelsError(
            argument="labels",
            rule=f"must be among the classes, {few(list(self._index))}",
            got=f"{cell} in {place}",
            remedy=[
                "If it is a class, the counts or the class names lack it. ",
                "Correct the label, or pass ",
                Setting("ignore_index", text),
                " to leave such samples out.",
            ],
        )


def is_index(text: str) -> bool:
    """Whether a text is an integer, with or without a point behind it."""
    return _INTEGER.fullmatch(text) is not None


def odd_integers(names: Sequence[str] | None) -> bool:
    """Whether all names are integers, and not 0, 1, 2 … in order.

    Examples
    --------
    >>> odd_integers(["1", "0"]), odd_integers(["0", "1"]), odd_integers(["cat", "dog"])
    (True, False, False)
    """
    if not names or not all(_PLAIN_INTEGER.fullmatch(name) for name in names):
        return False
    return [_integer(name) for name in names] != list(range(len(names)))


def plain_label(text: str) -> str:
    """Return a label without blanks around it; an integer as ``str(int)`` has it.

    Examples
    --------
    >>> plain_label(" 1.0"), plain_label("cat ")
    ('1', 'cat')
    """
    if not is_index(text):
        return text.strip()
    whole = text.strip().partition(".")[0]
    return whole if len(whole) > _MOST_DIGITS else str(int(whole))


def _integer(text: str) -> int:
    """Return the integer that a text is, cut to the largest label where it is beyond."""
    whole = text.strip().partition(".")[0]
    if len(whole) > _MOST_DIGITS:
        return -_LARGEST if whole.startswith("-") else _LARGEST
    return max(-_LARGEST, min(int(whole), _LARGEST))


def _row_of(codes: Vector, code: int) -> int | None:
    hits = codes == code
    return int(np.unravel_index(int(np.argmax(hits)), hits.shape)[0]) if hits.any() else None


def whole_numbers(labels: Vector, where: Callable[[int], str]) -> Vector:
    """Return numbers as int64; refuse fractions and NaN."""
    if (
        labels.dtype.kind == "u" and labels.dtype.itemsize == 8
    ):  # an index beyond int64 is none of a class, whatever it is
        labels = np.minimum(labels, np.uint64(_LARGEST))
    if labels.dtype.kind in "iub":
        return labels.astype(np.int64)
    whole = np.isfinite(labels) & (labels == np.floor(np.where(np.isfinite(labels), labels, 0)))
    if not whole.all():
        position = np.unravel_index(int(np.argmin(whole)), whole.shape)
        value = labels[position]
        raise LabelsError(
            argument="labels",
            rule="must be integers or names",
            got=f"{'NaN' if np.isnan(value) else value:} in {where(int(position[0]))}",
            remedy="Correct it, or drop the row.",
        )
    return np.clip(labels, -float(_LARGEST), float(_LARGEST)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class LabelFile:
    """Labels in a file of their own."""

    path: Path
    format: str
    n_rows: int | None
    row_shape: tuple[int, ...]
    dtype: str
    blocks: Callable[[int], Iterator[Labels]]
    place: Callable[[int], str]
    stored: Stored | None = None

    def check(self) -> None:
        """Refuse a file whose checksum shows that it is damaged."""
        if self.stored is not None:
            self.stored.check()


def open_labels(path: Path, options: ReadOptions, names: Sequence[str] | None = None) -> LabelFile:
    """Open a file of labels: npy, npz, zarr, a table with a label column or one column."""
    file_format = detect_format(path)
    if file_format == "csv":
        return _csv_labels(path, options, names)
    if file_format == "parquet":
        return _parquet_labels(path, options)
    if file_format == "npy":
        stored: Stored = StoredNpy.open(path)
    elif file_format == "npz":
        stored = _only_array(path, read_members(path)[0], options)
    else:
        from reprior.files.formats.zarr import read_store

        stored = _only_array(path, read_store(path)[0], options)
    refuse_objects(path, "The array of labels", stored.dtype)
    if not stored.shape:
        raise LabelsError(
            argument="labels",
            rule="must have one entry per sample",
            got=f"a single value in {os.fspath(path)!r}",
            remedy="Save one label per sample.",
        )

    def blocks(rows: int) -> Iterator[Labels]:
        return (as_raw_labels(path, values) for values in stored.blocks(rows))

    return LabelFile(
        path,
        file_format,
        stored.shape[0],
        stored.shape[1:],
        str(stored.dtype),
        blocks,
        "row {}".format,
        stored,
    )


def _only_array(path: Path, arrays: dict[str, Stored], options: ReadOptions) -> Stored:
    if options.labels_name in arrays:
        return arrays[options.labels_name]
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    raise ColumnsError(
        f"{os.fspath(path)!r} must hold an array {options.labels_name!r}. Its arrays: "
        f"{few(list(arrays)) if arrays else 'none'}.",
        remedy="Save the labels under that name.",
    )


def _label_column(path: Path, columns: Sequence[str], options: ReadOptions) -> str:
    if options.label_column in columns:
        return options.label_column
    if len(columns) == 1:
        return columns[0]
    raise ColumnsError(
        f"{os.fspath(path)!r} must have a column {options.label_column!r}, or one column. "
        f"Its columns: {few(columns)}.",
        remedy="Say which one holds the labels.",
    )


def _parquet_labels(path: Path, options: ReadOptions) -> LabelFile:
    schema, n_rows = read_schema(path)
    there = [name for name in schema.names if not name.startswith("__index_level_")]
    column = _label_column(path, there, options)
    batches = parquet_batches(path, [column])

    def blocks(rows: int) -> Iterator[Labels]:
        start = 0
        for batch in batches(rows):
            yield label_array(batch.column(column), _where(path, start))
            start += batch.num_rows

    kind = str(schema.field(column).type)
    return LabelFile(path, "parquet", n_rows, (), kind, blocks, "row {}".format)


def _csv_labels(path: Path, options: ReadOptions, names: Sequence[str] | None) -> LabelFile:
    fields, delimiter = csv_header(path)
    fields = [field.strip() for field in fields]
    header = len(fields) > 1 or _is_header(path, fields, options, names)
    columns = fields if header else [options.label_column]
    column = _label_column(path, columns, options)
    batches = csv_batches(path, columns, delimiter, header=header)
    line_of = line_finder(path, delimiter, header=header)

    def place(row: int) -> str:
        return f"line {line_of(row)}"

    def blocks(rows: int) -> Iterator[Labels]:
        start = 0
        for batch in batches(rows):
            for first in range(0, batch.num_rows, rows):
                part = batch.slice(first, rows)
                yield label_array(part.column(column), _where(path, start))
                start += part.num_rows

    return LabelFile(path, "csv", None, (), "text", blocks, place)


def _is_header(
    path: Path, fields: list[str], options: ReadOptions, names: Sequence[str] | None
) -> bool:
    """Tell whether the first line of a one-column file names the column."""
    first = fields[0] if fields else ""
    if is_index(first):
        return False
    if names is not None and first in names:
        return False
    if names is not None or first.lower() in _HEADERS or first == options.label_column:
        return True
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        lines = [line.strip() for _, line in zip(range(8), file, strict=False) if line.strip()]
    return len(lines) > 1 and is_index(lines[1])


def _where(path: Path, start: int) -> Callable[[int], str]:
    return lambda row: f"row {start + row} of {os.fspath(path)!r}"


class LabelSequence:
    """Labels of one or several files, taken as many at a time as there are scores."""

    def __init__(self, files: Sequence[LabelFile], coder: LabelCoder, rows: int) -> None:
        self._blocks = _encoded(files, coder, rows)
        self._waiting: list[Vector] = []
        self.n_taken = 0

    def take(self, n: int) -> Vector | None:
        """Return the next ``n`` labels, or None where there are fewer."""
        n_waiting = sum(map(len, self._waiting))
        while n_waiting < n:
            block = next(self._blocks, None)
            if block is None:
                self.n_taken += n_waiting
                return None
            self._waiting.append(block)
            n_waiting += len(block)
        whole = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting = [whole[n:]] if n_waiting > n else []
        self.n_taken += n
        return whole[:n]

    def skip(self, n: int) -> None:
        """Skip the next ``n`` labels, or all where there are fewer."""
        while n > 0:
            block = self._waiting.pop(0) if self._waiting else next(self._blocks, None)
            if block is None:
                return
            if len(block) > n:
                self._waiting.insert(0, block[n:])
            self.n_taken += min(n, len(block))
            n -= len(block)

    def count_rest(self) -> int:
        """Return how many labels are left, and read them all."""
        return sum(map(len, self._waiting)) + sum(map(len, self._blocks))


def _encoded(files: Sequence[LabelFile], coder: LabelCoder, rows: int) -> Iterator[Vector]:
    for file in files:
        row = 0

        def where(i: int, file: LabelFile = file) -> str:
            return f"{file.place(row + i)} of {os.fspath(file.path)!r}"  # noqa: B023 - used at once

        for labels in file.blocks(rows):
            yield coder.encode(labels, where)
            row += len(labels)
