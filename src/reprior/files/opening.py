"""Opening several score files, some of which may be empty or cannot be read."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from reprior.exceptions import FileFormatError, OptionError
from reprior.files.chunks import UNREADABLE, LeftOut
from reprior.files.detect import detect_format
from reprior.files.formats.interface import ColumnsError, NoRowsError, Reader, ReadOptions
from reprior.files.formats.tables import TableReader
from reprior.files.labels import LabelFile

__all__ = ["Opened", "none_left", "open_all", "open_reader", "refuse_twice"]


@dataclass(eq=False)
class Opened:
    """The files that have something to read, and what is to be said of the others."""

    readers: list[Reader] = field(default_factory=list)
    labels: list[LabelFile] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    reordered: Path | None = None  # the first whose columns are taken in another order than its own


def open_reader(path: Path, options: ReadOptions) -> Reader:
    """Open one file by the module of its format."""
    found = detect_format(path)
    module = importlib.import_module(f"reprior.files.formats.{found}")
    return cast(Reader, getattr(module, f"open_{found}")(path, options))


def open_all(
    paths: Sequence[Path],
    label_paths: Sequence[Path],
    options: ReadOptions,
    open_label: Callable[[Path, Reader], LabelFile],
    *,
    skip: bool,
) -> Opened:
    """Open score files and the files of their labels.

    An empty one among several is passed over with a note, and with ``skip`` one that cannot be
    opened too. Where there is a label file for each, that one goes with it. Columns of tables are
    taken in the order of the first.
    """
    refuse_twice(paths, label_paths)
    found, paired = Opened(), len(paths) == len(label_paths)
    nothing: NoRowsError | None = None
    for i, path in enumerate(paths):
        try:
            own = open_reader(path, options)
            reader = _in_order(own, found.readers, options)
            label = open_label(label_paths[i], reader) if paired else None
        except NoRowsError as error:
            nothing = nothing or error
            found.notes.append(_passed_by(path))
            continue
        except UNREADABLE as error:
            if not skip or isinstance(error, ColumnsError):
                raise
            _refuse_gap(path, label_paths, paired, error)
            found.left_out.append(LeftOut(path, None, str(error)))
            continue
        if reader.n_rows == 0 and len(paths) > 1:
            found.notes.append(_passed_by(path))
            continue
        found.readers.append(reader)
        if reader is not own and found.reordered is None:
            found.reordered = path
        if label is not None:
            found.labels.append(label)
    if not found.readers:
        raise nothing or none_left(paths, found.left_out)
    if not paired:
        found.labels = [open_label(path, found.readers[0]) for path in label_paths]
    return found


def refuse_twice(
    paths: Sequence[str | os.PathLike[str]],
    labels: Sequence[str | os.PathLike[str] | None] = (),
) -> None:
    """Refuse a score file that is named twice, by whatever path: its samples would count twice.

    Where each has a file of labels of its own, that one must be the same too. URLs are compared as
    they are written.
    """
    own = labels if len(labels) == len(paths) else [None] * len(paths)
    seen: dict[tuple[str, str], str] = {}
    for path, label in zip((os.fspath(path) for path in paths), own, strict=True):
        key = (_real(path), "" if label is None else _real(os.fspath(label)))
        if key in seen:
            twice = f"{path!r} twice"
            if seen[key] != path:
                twice = f"{seen[key]!r} and {path!r}, which are the same file"
            raise OptionError(
                f"Score files must be named once each. Got {twice}: its samples would count twice. "
                f"Name it once; where patterns overlap, narrow one of them."
            )
        seen[key] = path


def _real(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def _in_order(reader: Reader, before: Sequence[Reader], options: ReadOptions) -> Reader:
    """Return a table with its class columns, found by name, in the order of the first table's."""
    if not before or not isinstance(reader, TableReader):
        return reader
    names, mine = before[0].class_names, reader.class_names
    if names is None or mine is None or names == mine or set(names) != set(mine):
        return reader
    if reader.plan.scores != mine:  # a list, or columns that have other names than the classes
        return reader
    return open_reader(reader.path, replace(options, classes=names))


def _passed_by(path: Path) -> str:
    return f"{os.fspath(path)!r} has no rows, and is passed by."


def _refuse_gap(
    path: Path, label_paths: Sequence[Path], paired: bool, error: BaseException
) -> None:
    """Refuse to leave a file out whose labels stand among those of others."""
    if label_paths and not paired:
        raise FileFormatError(
            f"{os.fspath(path)!r} cannot be left out: the labels of all files are one sequence, "
            f"and how many of them are its own is not known. Give a file of labels for each file "
            f"of scores. It cannot be read because: {error}"
        ) from error


def none_left(paths: Sequence[Path], left_out: Sequence[LeftOut]) -> FileFormatError:
    """Return the error for files of which none can be read, or none has rows."""
    if left_out:
        return FileFormatError(
            f"At least one score file must be readable. Got {len(paths)}, and none is. "
            f"The first one: {left_out[0].reason}"
        )
    return NoRowsError(
        f"Score files must have rows. Got none in any of {len(paths)} files. "
        f"Check that they were written to their end."
    )
