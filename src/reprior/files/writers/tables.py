"""Outputs that are tables: csv and parquet."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import require
from reprior.files.chunk import Chunk
from reprior.files.formats.arrays import RENEWED
from reprior.files.formats.columns import PREDICTION, SCORE_SUFFIX
from reprior.files.formats.interface import CLASS_NAMES_KEY, KIND_KEY, few
from reprior.files.writers.writer import Layout, Vector

__all__ = ["CsvWriter", "ParquetWriter", "output_table"]


#: Bytes of a row group, about, at least: many small ones make a large footer.
_ROW_GROUP_BYTES = 1 << 24


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


def _not_kept(layout: Layout) -> list[str]:
    """Return a sentence about arrays of the input that a table leaves out, where there are any."""
    reader = layout.inputs[0]
    if not layout.keep or reader.format in ("csv", "parquet"):
        return []
    kept = (reader.scores, reader.labels)
    arrays = [name for name, array in reader.arrays.items() if array not in kept]
    names = [name for name in arrays if name not in RENEWED]
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


class ParquetWriter:
    """A parquet table in row groups of some megabytes; class names and kind are in its metadata."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._path, self._layout = paths[0], layout
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._held = 0
        self.notes = _not_kept(layout)

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class names of a chunk."""
        table = output_table(self._layout, chunk, posterior, prediction)
        if self._writer is None:
            pq = require("pyarrow.parquet", extra="cli", purpose="To write parquet files")
            metadata = {KIND_KEY: "probs"}
            if self._layout.classes is not None and len(self._layout.score_columns) > 1:
                metadata[CLASS_NAMES_KEY] = self._layout.classes_json
            self._schema = table.schema.with_metadata(metadata)
            self._writer = pq.ParquetWriter(self._path, self._schema)
        same = table.schema.equals(self._schema)
        self._waiting.append(table if same else table.cast(self._schema))
        self._held += table.num_rows * table.num_columns * 8
        if self._held >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write what waits as one row group."""
        if self._waiting:
            pa = require("pyarrow", extra="cli", purpose="To write parquet files")
            whole = pa.concat_tables(self._waiting).replace_schema_metadata(self._schema.metadata)
            self._waiting, self._held = [], 0
            self._writer.write_table(whole, row_group_size=whole.num_rows)

    def close(self) -> None:
        """Write the footer."""
        if self._writer is not None:
            self._flush()
            self._writer.close()

    def abandon(self) -> None:
        """Close the file; what is in it will not be used."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()


class CsvWriter:
    """A csv table. Text is quoted only where it must be."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._file = open(paths[0], "wb")  # noqa: SIM115 - closed by close() or abandon()
        self._layout, self._started = layout, False
        self.notes = _not_kept(layout)

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class names of a chunk."""
        pc = require("pyarrow.csv", extra="cli", purpose="To write csv files")
        table = output_table(self._layout, chunk, posterior, prediction)
        if not self._started:
            self._file.write(self._header(table.column_names))
            self._started = True
        options = pc.WriteOptions(
            include_header=False,
            delimiter=self._layout.delimiter,
            quoting_style="needed" if _needs_quotes(table, self._layout.delimiter) else "none",
        )
        pc.write_csv(_flat(table), self._file, options)

    def _header(self, names: list[str]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._layout.delimiter, lineterminator="\n").writerow(names)
        return text.getvalue().encode()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is."""
        with suppress(OSError):
            self._file.close()


def _flat(table: Any) -> Any:
    """Return the table with what csv cannot hold as text."""
    pa = require("pyarrow", extra="cli", purpose="To write tables")
    types = pa.types
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if types.is_dictionary(field.type):
            table = table.set_column(i, field.name, column.cast(field.type.value_type))
        elif types.is_nested(field.type) or types.is_decimal(field.type):
            text = pa.array(
                [None if v is None else str(v) for v in column.to_pylist()], pa.string()
            )
            table = table.set_column(i, field.name, text)
    return table


def _needs_quotes(table: Any, delimiter: str) -> bool:
    """Whether a text of the table has a delimiter, a quote or a line break in it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    pattern = f'[{delimiter}"\r\n]'
    for column in _flat(table).columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            found = pc.any(pc.match_substring_regex(column, pattern)).as_py()
            if found:
                return True
    return False
