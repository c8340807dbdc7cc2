"""Parquet tables, read in batches of rows and written in row groups of some megabytes.

Pages are unpacked as their rows are asked for. Measured, with one row group of 123 MB: 77 MB of
memory; ``pyarrow.dataset``, which decodes row groups as a whole, 219 MB.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import RepriorError, require
from reprior.files.formats.interface import (
    CLASS_NAMES_KEY,
    KIND_KEY,
    ColumnsError,
    Layout,
    ReadOptions,
    as_names,
    damaged,
    no_rows,
    scores_dtype,
    written_kind,
)
from reprior.files.formats.table_files import (
    TableReader,
    list_length,
    note_dropped_arrays,
    numbers_of,
    output_table,
    plan_columns,
    refuse_many_columns,
    refuse_unencodable_name,
)
from reprior.files.limits import parse_json
from reprior.files.zip_members import inflated_limit, refuse_hollow

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "ParquetWriter",
    "open_arrow_table",
    "open_parquet",
    "parquet_batches",
    "read_schema",
    "refuse_huge_pages",
]

#: Metadata key under which pandas describes a frame, as JSON.
_PANDAS_KEY = "pandas"

#: Rows that are read to see how long the lists of a list column are. One may be long.
_FIRST_ROWS = 16

#: Bytes of a row group that are held while its pages are unpacked, over all columns.
_READ_AHEAD = 1 << 24

#: Files up to this are read a column of a row group at a time: then a damaged page cannot ask for
#: more memory than the column has. A stream with a buffer takes what the page says, up to 2 GB.
_SMALL_FILE = 1 << 26


def read_schema(path: Path) -> tuple[Any, int]:
    """Return the Arrow schema and the number of rows."""
    refuse_unencodable_name(path)
    pq = require("pyarrow.parquet", extra="cli", purpose="To read parquet files")
    with _refusing_damage(path), pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
        refuse_many_columns(path, len(schema.names))
        limit = inflated_limit(path.stat().st_size)
        for i in range(metadata.num_row_groups):
            # Not of its columns: pyarrow ends the process where their metadata are damaged.
            n_bytes = metadata.row_group(i).total_byte_size
            if n_bytes > limit:
                reason = f"{n_bytes:,} bytes in a group of rows, where {limit:,} are allowed"
                raise damaged(path, "parquet", reason)
        refuse_hollow(path, 8 * metadata.num_rows * len(schema.names), path.stat().st_size)
        refuse_huge_pages(path, limit)
        return schema, metadata.num_rows


def parquet_batches(path: Path, columns: list[str] | None) -> Callable[[int], Iterator[Any]]:
    """Return a function that gives the table in batches of at most so many rows."""

    def batches(rows: int) -> Iterator[Any]:
        pq = require("pyarrow.parquet", extra="cli", purpose="To read parquet files")
        with _refusing_damage(path):
            width = len(columns) if columns else len(pq.read_schema(path))
            ahead = min(1 << 20, max(1 << 12, _READ_AHEAD // max(width, 1)))
            if path.stat().st_size <= _SMALL_FILE:
                ahead = 0
            # Buffering ahead would hold whole row groups, which may be the whole file.
            with pq.ParquetFile(
                path,
                buffer_size=ahead,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file:
                yield from file.iter_batches(rows, columns=columns, use_threads=False)

    return batches


@contextmanager
def _refusing_damage(path: Path, file_format: str = "parquet") -> Iterator[None]:
    try:
        yield
    except (RepriorError, ImportError):
        raise
    except OSError as error:
        if error.errno is not None:  # the file system's own: missing, not permitted …
            raise
        raise damaged(path, file_format, error) from error
    except Exception as error:  # of many types: pyarrow's, UnicodeDecodeError, OverflowError …
        raise damaged(path, file_format, error) from error


def open_parquet(path: Path, options: ReadOptions) -> TableReader:
    """Open a parquet table as scores, labels and weights."""
    schema, n_rows = read_schema(path)
    return open_arrow_table(path, "parquet", schema, n_rows, parquet_batches, options)


def open_arrow_table(
    path: Path,
    file_format: str,
    schema: Any,
    n_rows: int,
    batches_of: Callable[[Path, list[str] | None], Callable[[int], Iterator[Any]]],
    options: ReadOptions,
) -> TableReader:
    """Open a table of an Arrow schema; ``batches_of`` reads its columns."""
    with _refusing_damage(path, file_format):
        return _open(path, file_format, schema, n_rows, batches_of, options)


def _open(
    path: Path,
    file_format: str,
    schema: Any,
    n_rows: int,
    batches_of: Callable[[Path, list[str] | None], Callable[[int], Iterator[Any]]],
    options: ReadOptions,
) -> TableReader:
    stated = schema.metadata or {}
    keys = (CLASS_NAMES_KEY, KIND_KEY, _PANDAS_KEY)
    metadata = {key: stated[key.encode()].decode() for key in keys if key.encode() in stated}
    plan = plan_columns(
        path,
        schema.names,
        numeric={field.name for field in schema if _is_number(field.type)},
        lists={field.name for field in schema if _is_list_of_numbers(field.type)},
        index=_pandas_index(metadata),
        written=_written_names(path, metadata),
        options=options,
    )
    batches = batches_of(path, None if options.keep else _leaves(schema, plan.used))
    types = [schema.field(name).type for name in plan.scores]
    for name, kind in zip(plan.scores, types, strict=True):
        if not (plan.listed or _is_number(kind)):
            raise ColumnsError(
                f"{os.fspath(path)!r} must have a numeric column per class.",
                got=f"type {kind} in column {name!r}",
                remedy="Convert it to float64.",
            )
    return TableReader(
        path=path,
        format=file_format,
        plan=plan,
        row_shape=_row_shape(path, plan, batches),
        dtype=_dtype(path, types),
        batches=batches,
        number=numbers_of(path, lambda row: f"row {row}"),
        n_rows=n_rows,
        kind=written_kind(path, metadata.get(KIND_KEY)),
        label_dtype=str(schema.field(plan.label).type) if plan.label else None,
        keep=options.keep,
        columns=tuple(schema.names),
    )


def _leaves(schema: Any, names: list[str]) -> list[str]:
    """Return the columns as they stand in the file: a name with a dot means itself."""
    wanted = set(names)
    return [name for name in schema.names if name in wanted]


def _row_shape(path: Path, plan: Any, batches: Callable[[int], Iterator[Any]]) -> tuple[int, ...]:
    if not plan.listed:
        return (len(plan.scores),) if len(plan.scores) > 1 else ()
    for batch in batches(_FIRST_ROWS):
        length = list_length(batch.column(plan.scores[0]))
        if length is not None:
            return (length,)
    if plan.names:
        return (len(plan.names),)
    raise no_rows(path)


def _is_number(kind: Any) -> bool:
    types = require("pyarrow", extra="cli", purpose="To read parquet files").types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _is_list_of_numbers(kind: Any) -> bool:
    types = require("pyarrow", extra="cli", purpose="To read parquet files").types
    listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(listed and _is_number(kind.value_type))


def _dtype(path: Path, types: list[Any]) -> np.dtype[Any]:
    is_decimal = require("pyarrow", extra="cli", purpose="To read parquet files").types.is_decimal
    plain = [getattr(kind, "value_type", kind) for kind in types]
    dtypes = [np.dtype(kind.to_pandas_dtype()) for kind in plain if not is_decimal(kind)]
    if len(dtypes) < len(plain) or any(dtype.kind != "f" for dtype in dtypes):
        return np.dtype(np.float64)
    return scores_dtype(path, np.result_type(*dtypes))


def _pandas_index(metadata: dict[str, str]) -> set[str]:
    """Return the columns that pandas wrote as a frame's index."""
    document = parse_json(metadata.get(_PANDAS_KEY, "{}"))
    columns = document.get("index_columns", [])
    return {name for name in columns if isinstance(name, str)}


def _written_names(path: Path, metadata: dict[str, str]) -> tuple[str, ...] | None:
    text = metadata.get(CLASS_NAMES_KEY)
    return None if text is None else as_names(path, text) or None


#: Bytes of a row group, about, at least: many small ones make a large footer.
_ROW_GROUP_BYTES = 1 << 24


class ParquetWriter:
    """A parquet table in row groups of some megabytes; class names and kind are in its metadata."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        refuse_unencodable_name(paths[0])
        self._path, self._layout = paths[0], layout
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._held = 0
        self.notes = note_dropped_arrays(layout)

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class names of a chunk."""
        table = output_table(self._layout, chunk, posterior, prediction)
        if self._writer is None:
            metadata = {KIND_KEY: "probs"}
            if self._layout.classes is not None and len(self._layout.score_columns) > 1:
                metadata[CLASS_NAMES_KEY] = self._layout.classes_json
            self._schema = table.schema.with_metadata(metadata)
            self._writer = self._open(self._schema)
        same = table.schema.equals(self._schema)
        self._waiting.append(table if same else table.cast(self._schema))
        self._held += table.num_rows * table.num_columns * 8
        if self._held >= _ROW_GROUP_BYTES:
            self._flush()

    def _open(self, schema: Any) -> Any:
        pq = require("pyarrow.parquet", extra="cli", purpose="To write parquet files")
        return pq.ParquetWriter(self._path, schema)

    def _flush(self) -> None:
        """Write what waits as one row group."""
        if self._waiting:
            pa = require("pyarrow", extra="cli", purpose="To write parquet files")
            whole = pa.concat_tables(self._waiting).replace_schema_metadata(self._schema.metadata)
            self._waiting, self._held = [], 0
            self._writer.write_table(whole, whole.num_rows)

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


# ---------------------------------------------------------------------------- headers of pages

# A header says how large its page is, before pyarrow makes room for it. It is a struct in Thrift's
# compact protocol. Only two of its fields are read: the sizes of the page, unpacked (2) and packed
# (3).

#: What a file begins with; the first page is behind it.
_MAGIC = b"PAR1"

#: Bytes that a header takes at most; statistics in it may hold values.
_MAX_HEADER = 1 << 14

_UNPACKED, _PACKED = 2, 3

_BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(3, 9)
_STRUCT = 12


def refuse_huge_pages(path: Path, limit: int) -> None:
    """Refuse a file with a page of more than ``limit`` bytes, unpacked, or than the file has.

    Pages follow each other from the beginning of the file. The walk ends at the first header that
    makes no sense, such as that of an index behind the pages; a damaged one is left to pyarrow. The
    metadata of columns also say where pages are, but pyarrow ends the process where these are
    damaged.
    """
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        place = len(_MAGIC)
        while place < end:
            file.seek(place)
            sizes = _page_sizes(file.read(_MAX_HEADER))
            if sizes is None:
                return
            header_bytes, unpacked, packed = sizes
            if unpacked > limit:
                reason = f"a page of {unpacked:,} bytes, where {limit:,} are allowed"
                raise damaged(path, "parquet", reason)
            if packed > end - place:
                reason = f"a page takes {packed:,} bytes, which are not there"
                raise damaged(path, "parquet", reason)
            place += header_bytes + packed


def _page_sizes(data: bytes) -> tuple[int, int, int] | None:
    """Return the bytes of the header, of the page unpacked and packed; None where it is none."""
    fields: dict[int, int] = {}
    try:
        place, number = 0, 0
        while data[place]:
            delta, kind = data[place] >> 4, data[place] & 15
            place += 1
            if delta:
                number += delta
            else:
                number, place = _integer(data, place)
            if kind == _I32:
                fields[number], place = _integer(data, place)
            else:
                place = _skip(data, place, kind)
        sizes = place + 1, fields[_UNPACKED], fields[_PACKED]
    except (IndexError, KeyError, ValueError, RecursionError):
        return None
    return sizes if min(sizes) >= 0 else None


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        place += 1
        if not data[place - 1] & 0x80:
            return value, place
        shift += 7


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """Return a signed integer, whose lowest bit is its sign, and the place behind it."""
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _skip(data: bytes, place: int, kind: int) -> int:
    """Return the place behind a value that is not read."""
    if kind in (1, 2):  # true and false are kinds
        return place
    if kind == _BYTE:
        return place + 1
    if kind in (_I16, _I32, _I64):
        return _varint(data, place)[1]
    if kind == _DOUBLE:
        return place + 8
    if kind == _BINARY:
        n_bytes, place = _varint(data, place)
        return place + n_bytes
    if kind == _STRUCT:
        while data[place]:
            delta, inner = data[place] >> 4, data[place] & 15
            place = place + 1 if delta else _varint(data, place + 1)[1]
            place = _skip(data, place, inner)
        return place + 1
    raise ValueError("a header has neither lists nor maps")
