"""Tables: what csv and parquet have in common, reading Arrow record batches and writing tables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    RepriorError,
    ScoresError,
    Setting,
    require,
)
from reprior.files.detect import TABLES
from reprior.files.formats.array_files import ADDED_BY_APPLY
from reprior.files.formats.interface import (
    Block,
    ColumnsError,
    Labels,
    Layout,
    NamedLabels,
    ReadOptions,
    Vector,
    few,
)

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "PREDICTION",
    "SCORE_SUFFIX",
    "ColumnPlan",
    "TableReader",
    "label_array",
    "list_length",
    "no_number",
    "note_dropped_arrays",
    "numbers_of",
    "output_table",
    "plan_columns",
    "refuse_many_columns",
    "refuse_repeats",
]

PREDICTION = "prediction"
"""The column that ``apply`` adds. It is never a class."""

SCORE_SUFFIX = ".score"
"""``apply --keep`` keeps the scores of class ``x`` as ``x.score``. They are no class either."""

#: Columns of a table: measured, those of csv take 10 KB of memory each, whatever is in them.
_MAX_COLUMNS = 1 << 15

_INDEX = re.compile(r"__index_level_\d+__|Unnamed: \d+|")


@dataclass(frozen=True)
class ColumnPlan:
    """The columns of a table by their use."""

    scores: tuple[str, ...]
    names: tuple[str, ...] | None
    listed: bool
    label: str | None
    weight: str | None
    notes: tuple[str, ...] = ()

    @property
    def used(self) -> list[str]:
        """Every column that is read."""
        rest = (self.label, self.weight)
        return [*self.scores, *(name for name in rest if name is not None)]


def plan_columns(
    path: Path,
    columns: Sequence[str],
    *,
    numeric: Collection[str],
    lists: Collection[str],
    index: Collection[str],
    written: tuple[str, ...] | None,
    options: ReadOptions,
) -> ColumnPlan:
    """Choose the class columns, the label column and the weight column.

    ``written`` are class names that the file itself states.
    """
    refuse_repeats(path, columns)
    there = set(columns)
    needed = options.with_labels
    label = _named(path, columns, options.label_column, "label_column", needed)
    weight = _named(path, columns, options.weight_column, "weight_column", needed)
    taken = {label, weight, PREDICTION}
    candidates = [name for name in columns if name not in taken and name not in index]
    candidates = [name for name in candidates if not _INDEX.fullmatch(name)]
    candidates = [name for name in candidates if not _is_kept_score(name, there)]
    numbers = [name for name in candidates if name in numeric]
    stated = written is not None and set(written) <= set(numbers)
    single = None if stated else _single_column(path, candidates, lists, numbers, options)
    notes: list[str] = []
    scores: tuple[str, ...]
    if single is not None:
        scores, names = (single,), options.classes or written
    else:
        scores, names = _class_columns(path, columns, numbers, written, options, notes)
    known = {*scores, *taken}
    known |= {name for name in columns if name in index or _INDEX.fullmatch(name)}
    left = [name for name in columns if name not in known and not _is_kept_score(name, there)]
    if left:
        notes.append(f"Columns of {os.fspath(path)!r} that were not read as classes: {few(left)}.")
    if not needed:
        label = weight = None
    return ColumnPlan(scores, names, single in lists, label, weight, tuple(notes))


def _is_kept_score(name: str, columns: Collection[str]) -> bool:
    """Return whether ``apply --keep`` wrote the column, with the scores of a class."""
    return name.endswith(SCORE_SUFFIX) and name.removesuffix(SCORE_SUFFIX) in columns


def refuse_unencodable_name(path: Path) -> None:
    """Refuse a file whose name is no UTF-8: pyarrow cannot open it."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have a name in UTF-8, for tables are read and written by "
            f"pyarrow.",
            got="other bytes",
            remedy="Rename it.",
        ) from error


def refuse_many_columns(path: Path, n_columns: int) -> None:
    """Refuse a table whose columns alone would take a gigabyte of memory."""
    if n_columns > _MAX_COLUMNS:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have at most {_MAX_COLUMNS:,} columns.",
            got=f"{n_columns:,}",
            remedy="Save scores of more classes as npy, npz or zarr, or in one list column.",
        )


def refuse_repeats(path: Path, columns: Sequence[str]) -> None:
    """Refuse a table that has a column name twice."""
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise ColumnsError(
                f"{os.fspath(path)!r} must have different column names.",
                got=f"{name!r} twice",
                remedy="Rename one of them.",
            )
        seen.add(name)


def _named(
    path: Path, columns: Sequence[str], name: str | None, option: str, needed: bool
) -> str | None:
    if name is None or name in columns:
        return name
    if not needed or (option, name) == ("label_column", "label"):
        return None
    raise ColumnsError(
        argument=option,
        rule=f"must be a column of {os.fspath(path)!r}",
        got=f"{name!r}",
        remedy=f"Its columns: {few(columns)}.",
    )


def _single_column(
    path: Path,
    candidates: Sequence[str],
    lists: Collection[str],
    numbers: Sequence[str],
    options: ReadOptions,
) -> str | None:
    """Return the column that holds all scores of a sample, if there is one.

    That is a list column, or the one that ``scores_name`` names.
    """
    listed = [name for name in candidates if name in lists]
    if options.scores_name is not None:
        if options.scores_name in (*listed, *numbers):
            return options.scores_name
        raise ColumnsError(
            argument="scores_name",
            rule=f"must be a numeric column or a list column of {os.fspath(path)!r}",
            got=f"{options.scores_name!r}",
            remedy=f"Its columns: {few([*listed, *numbers])}.",
        )
    for name in ("scores", "posterior"):
        if name in listed:
            return name
    if len(listed) == 1 and len(numbers) == 1:
        raise ColumnsError(
            f"{os.fspath(path)!r} must leave no doubt which column holds the scores.",
            got=f"the list column {listed[0]!r} and the number {numbers[0]!r}",
            remedy=[
                "Say which one holds the scores: ",
                Setting("scores_name", listed[0]),
                ".",
            ],
        )
    return listed[0] if len(listed) == 1 and not numbers else None


def _class_columns(
    path: Path,
    columns: Sequence[str],
    numbers: Sequence[str],
    written: tuple[str, ...] | None,
    options: ReadOptions,
    notes: list[str],
) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    wanted = options.classes or written
    if wanted is None:
        return _numeric_columns(path, columns, numbers), tuple(numbers) if len(
            numbers
        ) > 1 else None
    there = set(columns)
    missing = [name for name in wanted if name not in there]
    if not missing:
        return wanted, wanted
    numbers = _numeric_columns(path, columns, numbers)
    if len(missing) == len(wanted) and len(numbers) in (len(wanted), 1 if len(wanted) == 2 else -1):
        notes.append(
            f"No column of {os.fspath(path)!r} is named after a class; its numeric columns "
            f"({few(numbers)}) were taken in their order for the classes ({few(wanted)})."
        )
        return tuple(numbers), wanted
    raise ColumnsError(
        f"{os.fspath(path)!r} must have a column for each of the {len(wanted)} classes. "
        f"Missing: {few(missing)}. Its numeric columns: {few(numbers)}.",
        remedy="Rename the columns, or pass the class names of this file.",
    )


def _numeric_columns(path: Path, columns: Sequence[str], numbers: Sequence[str]) -> tuple[str, ...]:
    if not numbers:
        raise ColumnsError(
            f"{os.fspath(path)!r} must have a numeric column per class, or one list column "
            f"'scores'.",
            got=f"the columns {few(columns)}",
            remedy="Add the scores.",
        )
    return tuple(numbers)


@dataclass(frozen=True, eq=False)
class TableReader:
    """A table with a column per class, or one list column."""

    path: Path
    format: str
    plan: ColumnPlan
    row_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    batches: Callable[[int], Iterator[Any]]
    number: Callable[[Any, str, int, str], Vector]
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
            weight = self.number(batch.column(plan.weight), plan.weight, start, "weight")
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
            view[:, k] = self.number(batch.column(name), name, start, "scores")
        return scores

    def _list_scores(self, column: Any, start: int) -> Vector:
        n_classes = self.row_shape[0]
        name = self.plan.scores[0]
        lengths = _lengths(column)
        wrong = np.flatnonzero(lengths != n_classes)
        if wrong.size:
            row = int(wrong[0])
            cell = "null" if lengths[row] < 0 else f"{lengths[row]} numbers"
            raise ScoresError(
                argument="scores",
                rule=f"must have {n_classes} numbers in every row",
                got=(
                    f"{cell} in {self.place(start + row)}, column {name!r} of "
                    f"{os.fspath(self.path)!r}"
                ),
                remedy="Correct that row.",
            )
        values = column.flatten()
        if values.null_count:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            row = int(np.argmax(is_null)) // max(n_classes, 1)
            raise _null(self.path, self.place(start + row), name, "scores")
        flat = values.to_numpy(zero_copy_only=False)
        return np.array(flat, dtype=self.dtype).reshape(-1, n_classes)

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


def no_number(argument: str, got: str, remedy: str) -> RepriorError:
    """Return the error for what is no number in a column of ``scores`` or of ``weight``."""
    kind = LabelsError if argument == "weight" else ScoresError
    return kind(argument=argument, rule="must be numbers", got=got, remedy=remedy)


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


def _null(path: Path, place: str, name: str, argument: str) -> RepriorError:
    return no_number(
        argument,
        f"null in {place}, column {name!r} of {os.fspath(path)!r}",
        "Fill it in, or drop the row.",
    )


def numbers_of(path: Path, place: Callable[[int], str]) -> Callable[[Any, str, int, str], Vector]:
    """Return a function that makes a numeric Arrow column an array, and refuses nulls."""

    def number(column: Any, name: str, start: int, argument: str) -> Vector:
        import pyarrow as pa

        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise _null(path, place(start + row), name, argument)
        if pa.types.is_decimal(column.type):
            column = column.cast("float64")
        values = np.asarray(column.to_numpy(zero_copy_only=False))
        if values.dtype.kind not in "iuf":
            raise no_number(
                argument,
                f"type {column.type} in column {name!r} of {os.fspath(path)!r}",
                "Convert it to float64.",
            )
        return values

    return number


def label_array(column: Any, where: Callable[[int], str]) -> Labels:
    """Return an Arrow column of labels as numbers, or as names with codes."""
    import pyarrow as pa

    if column.null_count or _has_null_values(column):
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        row = int(np.argmax(is_null)) if is_null.any() else 0
        raise LabelsError(
            argument="labels",
            rule="must be integers or names",
            got=f"null in {where(row)}",
            remedy="Fill it in, or drop the row.",
        )
    kind = column.type
    if pa.types.is_dictionary(kind) and not _is_text(kind.value_type):
        column = column.dictionary_decode()
        kind = column.type
    if _is_text(kind):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        return _coded(column, where)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    raise LabelsError(
        argument="labels",
        rule="must be integers or names",
        got=f"type {kind} in {where(0)}",
        remedy="Convert the column to integers or strings.",
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


def _coded(column: Any, where: Callable[[int], str]) -> NamedLabels:
    codes = column.indices.to_numpy(zero_copy_only=False)
    try:
        values = column.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise LabelsError(
            argument="labels",
            rule="must be UTF-8 text",
            got=f"other bytes in the labels from {where(0)} on",
            remedy="Write them again as UTF-8.",
        ) from error
    return NamedLabels(codes.astype(np.int64), tuple(values))


def output_table(layout: Layout, chunk: Chunk, posterior: Any, prediction: Any) -> Any:
    """Return the rows of a chunk: class columns, prediction and, if kept, the original columns.

    Kept columns stay in their place; a class column holds the posterior, and the score it was
    made of moves to ``<class>.score`` behind the prediction.
    """
    pa = require("pyarrow", extra="cli", purpose="To write tables")
    values = np.asarray(posterior)
    values = values if values.ndim > 1 else values[:, None]
    names = layout.score_columns
    new = {name: pa.array(np.ascontiguousarray(values[:, k])) for k, name in enumerate(names)}
    columns: dict[str, Any] = {}
    if layout.keep and chunk.extra is not None:
        columns = {name: chunk.extra.column(name) for name in layout.inputs[0].columns}
        columns.pop(PREDICTION, None)
    columns.update(new)
    if layout.keep and chunk.extra is None and chunk.labels is not None:
        columns[layout.label_column] = _names(pa, layout.classes, np.asarray(chunk.labels))
    columns[PREDICTION] = _names(pa, layout.decisions or layout.classes, np.asarray(prediction))
    if layout.keep:
        scores = np.asarray(chunk.scores)
        scores = scores if scores.ndim > 1 else scores[:, None]
        for k, name in enumerate(names):
            columns[name + SCORE_SUFFIX] = pa.array(np.ascontiguousarray(scores[:, k]))
    return pa.table(columns)


def note_dropped_arrays(layout: Layout) -> list[str]:
    """Return a sentence about arrays of the input that a table leaves out, where there are any."""
    reader = layout.inputs[0]
    if not layout.keep or reader.format in TABLES:
        return []
    kept = (reader.scores, reader.labels)
    arrays = [name for name, array in reader.arrays.items() if array not in kept]
    names = [name for name in arrays if name not in ADDED_BY_APPLY]
    if not names:
        return []
    return [f"Arrays that were not kept in a table: {few(names)}. Write npz or zarr to keep them."]


def _names(pa: Any, names: tuple[str, ...] | None, index: Vector) -> Any:
    """Return names for indices; other integers, such as ignored ones, become null."""
    if names is None:
        return pa.array(index.astype(np.int64))
    inside = (index >= 0) & (index < len(names))
    codes = pa.array(np.where(inside, index, 0), type=pa.int32(), mask=~inside)
    return pa.DictionaryArray.from_arrays(codes, list(names)).dictionary_decode()
