"""Score files that are tables: csv and parquet, once they are read as Arrow record batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import LabelsError, ScoresError, require
from reprior.files.formats.columns import ColumnPlan
from reprior.files.formats.interface import Block, Labels, NamedLabels, Vector

__all__ = ["TableReader", "label_array", "list_length", "numbers_of"]


@dataclass(frozen=True, eq=False)
class TableReader:
    """A table with a column per class, or one list column."""

    path: Path
    format: str
    plan: ColumnPlan
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    batches: Callable[[int], Iterator[Any]]
    number: Callable[[Any, str, int], Vector]
    n_rows: int | None = None
    kind: str | None = None
    label_dtype: str | None = None
    keep: bool = False
    columns: tuple[str, ...] = ()
    line_of: Callable[[int], int] | None = None

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """Names of the classes."""
        return self.plan.names

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the columns were read."""
        return self.plan.notes

    @property
    def has_labels(self) -> bool:
        """Whether there is a label column."""
        return self.plan.label is not None

    @property
    def has_weight(self) -> bool:
        """Whether there is a weight column."""
        return self.plan.weight is not None

    def blocks(self, rows: int, first: int = 0) -> Iterator[Block]:
        """Give the file in blocks of at most ``rows`` rows, from row ``first`` on."""
        start = 0
        for batch in self.batches(rows):
            for begin in range(0, batch.num_rows, rows):
                part = batch.slice(begin, rows)
                if start >= first:
                    yield self._block(part, start)
                start += part.num_rows

    def first_labels(self, rows: int) -> Labels | None:
        """Return labels of at most ``rows`` rows at the beginning; no score is looked at."""
        batch = next(self.batches(rows), None)
        if batch is None or self.plan.label is None:
            return None
        column = batch.slice(0, rows).column(self.plan.label)
        return label_array(column, self._where(0, self.plan.label))

    def check(self) -> None:
        """Checksums of tables, where they have any, are those of pages, compared as they come."""

    def _block(self, batch: Any, start: int) -> Block:
        plan = self.plan
        labels = weight = extra = None
        if plan.label is not None:
            labels = label_array(batch.column(plan.label), self._where(start, plan.label))
        if plan.weight is not None:
            with _about_weight():
                weight = self.number(batch.column(plan.weight), plan.weight, start)
        if self.keep:
            pa = require("pyarrow", extra="cli", purpose="To read tables")
            extra = pa.Table.from_batches([batch])
        return Block(self._scores(batch, start), labels, weight, extra)

    def _scores(self, batch: Any, start: int) -> Vector:
        if self.plan.listed:
            return self._list_scores(batch.column(self.plan.scores[0]), start)
        scores = np.empty((batch.num_rows, *self.row_shape), self.dtype)
        view = scores if scores.ndim == 2 else scores[:, None]
        for k, name in enumerate(self.plan.scores):
            view[:, k] = self.number(batch.column(name), name, start)
        return scores

    def _list_scores(self, column: Any, start: int) -> Vector:
        n, name = self.row_shape[0], self.plan.scores[0]
        lengths = _lengths(column)
        wrong = np.flatnonzero(lengths != n)
        if wrong.size:
            row = int(wrong[0])
            found = "null" if lengths[row] < 0 else f"{lengths[row]} numbers"
            raise ScoresError(
                f"`scores` must have {n} numbers in every row. Got {found} in "
                f"{self.place(start + row)}, column {name!r} of {os.fspath(self.path)!r}. "
                f"Correct that row."
            )
        values = column.flatten()
        if values.null_count:
            row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // max(n, 1)
            raise ScoresError(self._null(name, start + row))
        flat = values.to_numpy(zero_copy_only=False)
        return np.array(flat, dtype=self.dtype).reshape(-1, n)

    def _null(self, name: str, row: int) -> str:
        return (
            f"`scores` must be numbers. Got null in {self.place(row)}, column {name!r} of "
            f"{os.fspath(self.path)!r}. Fill it in, or drop the row."
        )

    def _where(self, start: int, column: str) -> Callable[[int], str]:
        def where(row: int) -> str:
            return f"{self.place(start + row)}, column {column!r} of {os.fspath(self.path)!r}"

        return where

    def place(self, row: int) -> str:
        """Say where a row is."""
        return f"row {row}" if self.line_of is None else f"line {self.line_of(row)}"

    def place_in_row(self, index: Sequence[int]) -> str:
        """Say which column is meant."""
        if self.plan.listed:
            return f"column {self.plan.scores[0]!r}, entry {index[0]}"
        return f"column {self.plan.scores[index[0] if index else 0]!r}"


@contextmanager
def _about_weight() -> Iterator[None]:
    """Let an error of a column of numbers speak of weights."""
    try:
        yield
    except ScoresError as error:
        raise LabelsError(str(error).replace("`scores`", "`weight`", 1)) from None


def _lengths(column: Any) -> Vector:
    """Lengths of the lists of a column; −1 for null."""
    import pyarrow.compute as pc

    return np.asarray(
        pc.fill_null(pc.list_value_length(column).cast("int64"), -1).to_numpy(zero_copy_only=False)
    )


def list_length(column: Any) -> int | None:
    """Return the length of the first list of a column, if there is one."""
    lengths = _lengths(column)
    there = lengths[lengths >= 0]
    return int(there[0]) if there.size else None


def numbers_of(path: Path, place: Callable[[int], str]) -> Callable[[Any, str, int], Vector]:
    """Return a function that makes a numeric Arrow column an array, and refuses nulls."""

    def number(column: Any, name: str, start: int) -> Vector:
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise ScoresError(
                f"`scores` must be numbers. Got null in {place(start + row)}, column {name!r} of "
                f"{os.fspath(path)!r}. Fill it in, or drop the row."
            )
        if "decimal" in str(column.type):
            column = column.cast("float64")
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        if values.dtype.kind not in "iuf":
            raise ScoresError(
                f"`scores` must be numbers. Got type {column.type} in column {name!r} of "
                f"{os.fspath(path)!r}. Convert it to float64."
            )
        return values

    return number


def label_array(column: Any, where: Callable[[int], str]) -> Labels:
    """Return an Arrow column of labels as numbers, or as names with codes."""
    import pyarrow as pa

    if column.null_count or _has_null_values(column):
        mask = column.is_null().to_numpy(zero_copy_only=False)
        row = int(np.argmax(mask)) if mask.any() else 0
        raise LabelsError(
            f"`labels` must be integers or names. Got null in {where(row)}. "
            f"Fill it in, or drop the row."
        )
    kind = column.type
    if pa.types.is_dictionary(kind) and _is_text(kind.value_type):
        return _coded(column)
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if _is_text(kind):
        return _coded(column.dictionary_encode())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    raise LabelsError(
        f"`labels` must be integers or names. Got type {kind} in {where(0)}. "
        f"Convert the column to integers or strings."
    )


def _has_null_values(column: Any) -> bool:
    """Whether a dictionary column points at a null value."""
    dictionary = getattr(column, "dictionary", None)
    return dictionary is not None and bool(dictionary.null_count)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _coded(column: Any) -> NamedLabels:
    codes = column.indices.to_numpy(zero_copy_only=False)
    return NamedLabels(codes.astype(np.int64), tuple(column.dictionary.to_pylist()))
