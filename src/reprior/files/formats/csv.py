"""Comma-separated tables: pyarrow splits them into cells of text, and numbers are parsed strictly.

Cells stay text until they are used, since a column of labels and one of scores have other rules,
and an error must name the cell. ``pyarrow.csv.open_csv`` without threads holds few blocks of text.
Measured, reading 137 MB: 59 MB of memory; ``pyarrow.dataset``, which reads ahead, 117 MB.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import FileFormatError, RepriorError, require
from reprior.files.formats.interface import (
    Layout,
    ReadOptions,
    Vector,
    damaged,
    no_rows,
)
from reprior.files.formats.table_files import (
    TableReader,
    no_number,
    note_dropped_arrays,
    output_table,
    plan_columns,
    refuse_many_columns,
    refuse_repeats,
    refuse_unencodable_name,
)

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "CsvWriter",
    "csv_batches",
    "csv_header",
    "line_finder",
    "open_csv",
    "parse_numbers",
]

_PURPOSE = "To read csv files"

_DELIMITERS = (",", "\t", ";")

_NUMBER = (
    r"^\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|NaN|NAN|inf|Inf|infinity|Infinity)\s*$"
)

#: Bytes of text read at once: at least a row, at most what a chunk may take.
_LEAST_BLOCK = 1 << 16
_LARGEST_BLOCK = 1 << 20

#: Rows that a block of a wide table holds, about: every column of a block costs some time.
_LEAST_ROWS = 32

#: Blocks grow to this when a row is longer.
_LONGEST_ROW = 1 << 27

#: Characters of a line of the header.
_LONGEST_HEADER = 1 << 24

#: Bytes at the end of a file, of which some are no line breaks.
_TAIL = 1 << 12


def csv_header(path: Path) -> tuple[list[str], str]:
    """Return the fields of the first line, and the delimiter."""
    refuse_unencodable_name(path)
    with _refusing_damage(path), open(path, encoding="utf-8-sig", newline="") as file:
        lines = _lines(path, file)
        line = next((line for line in lines if line.strip()), "")
        delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else _delimiter(line)
        refuse_many_columns(path, 1 + line.count(delimiter))
        fields = next(csv.reader(chain([line], lines), delimiter=delimiter), [])
    refuse_many_columns(path, len(fields))
    return fields, delimiter


def _lines(path: Path, file: IO[str]) -> Iterator[str]:
    """Give the lines of a text file; refuse one that is longer than a header can be."""
    while line := file.readline(_LONGEST_HEADER):
        if len(line) == _LONGEST_HEADER:
            reason = f"a line of its header is longer than {_LONGEST_HEADER:,} characters"
            raise damaged(path, "csv", reason)
        yield line


def _delimiter(line: str) -> str:
    counts = [line.count(delimiter) for delimiter in _DELIMITERS]
    return _DELIMITERS[counts.index(max(counts))]


def csv_batches(
    path: Path, names: list[str], delimiter: str, *, header: bool = True
) -> Callable[[int], Iterator[Any]]:
    """Return a function that gives the table as text, in batches of about so many rows."""

    def batches(rows: int) -> Iterator[Any]:
        width = 16 * max(len(names), 1)
        block = int(np.clip(rows * width, _LEAST_BLOCK, _LARGEST_BLOCK))
        block = max(block, _LEAST_ROWS * 20 * len(names))
        n_given = 0
        while True:
            to_skip = n_given
            try:
                for batch in _stream(path, names, delimiter, block, header):
                    first = min(to_skip, batch.num_rows)
                    to_skip -= first
                    if first < batch.num_rows:
                        n_given += batch.num_rows - first
                        yield batch.slice(first)
                return
            except _RowTooLongError as error:
                if error.length >= _LONGEST_ROW:
                    reason = f"a row of over {_LONGEST_ROW:,} bytes, or an open quote"
                    raise damaged(path, "csv", reason) from None
                block = min(2 * error.length, _LONGEST_ROW)

    return batches


class _RowTooLongError(Exception):
    """A row does not fit into a block of text."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length


def _stream(
    path: Path, names: list[str], delimiter: str, block: int, header: bool
) -> Iterator[Any]:
    pa = require("pyarrow", extra="cli", purpose=_PURPOSE)
    pc = require("pyarrow.csv", extra="cli", purpose=_PURPOSE)
    with _refusing_damage(path):
        n_header_lines = _count_header_lines(path, delimiter) if header else 0
        if not _has_text_after(path, n_header_lines):
            return  # pyarrow raises an error for it
        try:
            reader = pc.open_csv(
                path,
                read_options=pc.ReadOptions(
                    use_threads=False,
                    block_size=block,
                    column_names=names,
                    skip_rows=n_header_lines,
                ),
                parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=pc.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
                ),
            )
            last = None
            with reader:
                for last in reader:
                    yield last
            _refuse_open_quote(path, last)
        except pa.ArrowInvalid as error:
            longest = _longest_row(path)
            if longest >= block:
                raise _RowTooLongError(longest) from error
            raise


def _longest_row(path: Path) -> int:
    """Return the bytes of the longest row of a file; a line break inside of quotes ends none.

    pyarrow raises one type of error for a row that is longer than a block and for damage. So this
    runs only after an error.
    """
    longest = 0
    row_start = 0
    block_start = 0
    is_quoted = False
    with open(path, "rb") as file:
        while block := file.read(_LARGEST_BLOCK):
            values = np.frombuffer(block, np.uint8)
            quoted = (np.cumsum(values == ord('"')) + is_quoted) % 2 == 1
            ends = np.flatnonzero((values == ord("\n")) & ~quoted) + block_start
            if ends.size:
                longest = max(longest, int(np.diff(ends, prepend=row_start).max()))
                row_start = int(ends[-1])
            block_start += len(block)
            is_quoted = bool(quoted[-1])
    return max(longest, block_start - row_start)


def _refuse_open_quote(path: Path, last: Any) -> None:
    """Refuse a file with an open quote: its last cell holds everything behind that quote."""
    if last is None or not last.num_rows:
        return
    cell = last.column(last.num_columns - 1)[last.num_rows - 1].as_py()
    if "\n" not in cell and "\r" not in cell:
        return
    with open(path, "rb") as file:
        file.seek(-min(_TAIL, path.stat().st_size), os.SEEK_END)
        if not file.read().rstrip(b"\r\n").endswith(b'"'):
            raise damaged(path, "csv", f"a quote is not closed: the last cell is {cell[:40]!r}…")


def _count_header_lines(path: Path, delimiter: str) -> int:
    """Return how many lines the header takes, with empty lines before it."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(path, file), delimiter=delimiter)
        for record in reader:
            if any(cell.strip() for cell in record):
                return reader.line_num
    return 0


def _has_text_after(path: Path, n_lines: int) -> bool:
    """Whether a file has more than line breaks after its first lines."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        for _ in range(n_lines):
            file.readline()
        return any(text.strip("\r\n") for text in iter(partial(file.read, _TAIL), ""))


@contextmanager
def _refusing_damage(path: Path) -> Iterator[None]:
    pa = require("pyarrow", extra="cli", purpose=_PURPOSE)
    try:
        yield
    except (RepriorError, _RowTooLongError):
        raise
    except (pa.ArrowException, UnicodeDecodeError, csv.Error) as error:
        raise damaged(path, "csv", error) from error


def line_finder(path: Path, delimiter: str, *, header: bool = True) -> Callable[[int], int]:
    """Return a function that finds the line, counted from 1, of a row counted from 0."""

    def line_of(row: int) -> int:
        with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            left = row + int(header)
            with suppress(csv.Error):  # of a cell that is too long for the csv module alone
                for record in reader:
                    left -= bool(record)
                    if left < 0:
                        return reader.line_num
        return row + 1 + int(header)

    return line_of


def parse_numbers(
    path: Path, line_of: Callable[[int], int]
) -> Callable[[Any, str, int, str], Vector]:
    """Return a function that makes a column of text an array of float64, strictly."""

    def number(column: Any, name: str, start: int, argument: str) -> Vector:
        import pyarrow as pa
        import pyarrow.compute as pc

        try:
            values = column.cast(pa.float64())
        except pa.ArrowInvalid:
            good = pc.match_substring_regex(column, _NUMBER).to_numpy(zero_copy_only=False)
            if good.all():  # a sign or a blank that a cast does not take
                return np.array([float(text) for text in column.to_pylist()])
            row = int(np.argmin(good))
            text = column[row].as_py()
            cell = f"the text {text!r}" if text.strip() else "an empty cell"
            place = f"column {name!r}, line {line_of(start + row)} of {os.fspath(path)!r}"
            remedy = "Correct that value, or drop the row or the column."
            raise no_number(argument, f"{cell} in {place}", remedy) from None
        numbers = np.asarray(values.to_numpy(zero_copy_only=False))
        infinite = np.flatnonzero(np.isinf(numbers))
        for row in infinite.tolist():
            text = column[row].as_py()
            if "n" not in text.lower():  # neither inf nor infinity
                place = f"column {name!r}, line {line_of(start + row)} of {os.fspath(path)!r}"
                remedy = "Correct it; a class that is not to be has the score -inf."
                raise no_number(argument, f"{text[:40]}, beyond a float, in {place}", remedy)
        return numbers

    return number


def open_csv(path: Path, options: ReadOptions) -> TableReader:
    """Open a csv table, with a header, as scores, labels and weights."""
    names, delimiter = csv_header(path)
    names = [name.strip() for name in names]
    _check_header(path, names)
    batches = csv_batches(path, names, delimiter)
    sample = next(batches(1 << 10), None)
    if sample is None or not sample.num_rows:
        raise no_rows(path, "a header alone")
    line_of = line_finder(path, delimiter)
    plan = plan_columns(
        path,
        names,
        numeric=_numeric(names, sample),
        lists=(),
        index=(),
        written=None,
        options=options,
    )
    return TableReader(
        path=path,
        format="csv",
        plan=plan,
        row_shape=(len(plan.scores),) if len(plan.scores) > 1 else (),
        dtype=np.dtype(np.float64),
        batches=batches,
        number=parse_numbers(path, line_of),
        label_dtype="text" if plan.label else None,
        keep=options.keep,
        columns=tuple(names),
        line_of=line_of,
    )


def _check_header(path: Path, names: list[str]) -> None:
    numbers = [name for name in names if _is_number(name)]
    fractions = [name for name in numbers if not name.lstrip("+-").isdigit()]
    if fractions and (len(fractions) * 2 >= len(names) or len(numbers) == len(names)):
        raise FileFormatError(
            f"{os.fspath(path)!r} must have column names in its first line.",
            got=f"numbers there, such as {fractions[0]}",
            remedy="Add a header of class names, or save the scores as npy.",
        )
    refuse_repeats(path, names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numeric(names: list[str], sample: Any) -> set[str]:
    """Return the columns in which at least one value of the first rows is a number."""
    import pyarrow.compute as pc

    return {
        name
        for name in names
        if pc.any(pc.match_substring_regex(sample.column(name), _NUMBER)).as_py()
    }


class CsvWriter:
    """A csv table. Text is quoted only where it must be."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._file = open(paths[0], "wb")  # noqa: SIM115 - closed by close() or abandon()
        self._layout, self._started = layout, False
        self.notes = note_dropped_arrays(layout)

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
    return any(
        pc.any(pc.match_substring_regex(column, pattern)).as_py()
        for column in _flat(table).columns
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    )
