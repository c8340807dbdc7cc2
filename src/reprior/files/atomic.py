"""A file is there whole, or as it was before."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from reprior.files.interrupts import held_back, refuse_to_go_on
from reprior.files.rooms import OLD, new_room

__all__ = ["atomic_paths", "atomic_write"]

#: What ``open`` gives a new file before the umask; ``mkstemp`` would keep it private.
_NEW_FILE_MODE = 0o666

#: Errors of a disk, a quota or a file that is full. They are of writing, whoever raises them.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends well.

    The data go to a temporary file in the same folder, are forced to disk, and take the name
    in one step. An error or an interrupt leaves the old file, if any, and nothing else.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_write(folder / "a.txt") as file:
    ...     _ = file.write(b"whole")
    >>> [entry.name for entry in folder.iterdir()]
    ['a.txt']
    """
    target = Path(path)
    with _naming(target):
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with _naming(target, _NO_ROOM), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(target))
        refuse_to_go_on()
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextmanager
def atomic_paths(*paths: str | os.PathLike[str]) -> Iterator[tuple[Path, ...]]:
    """Give temporary paths to write files or folders to; they take their names when all is well.

    Each path is in the folder of its target. Nothing is there yet: the block creates a file or a
    folder at each. All take their names at the end, or, after an error or an interrupt, none
    does: targets that were replaced already get their old contents back. What a killed process
    leaves is removed by :func:`reprior.files.rooms.sweep`.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_paths(folder / "a.txt", folder / "b.txt") as (a, b):
    ...     _ = a.write_text("one"), b.write_text("two")
    >>> sorted(entry.name for entry in folder.iterdir())
    ['a.txt', 'b.txt']
    """
    targets = [Path(path) for path in paths]
    rooms: list[Path] = []
    try:
        for target in targets:
            with _naming(target):
                rooms.append(new_room(target.parent))
        fresh = tuple(room / target.name for room, target in zip(rooms, targets, strict=True))
        with _naming(targets[0], _NO_ROOM):
            yield fresh
        made = list(zip(rooms, fresh, targets, strict=True))
        for _, new, target in made:
            _settle(new, target)
        refuse_to_go_on()
        _take_names(made)
    finally:
        for room, target in zip(rooms, targets, strict=False):
            if os.path.lexists(target) or not os.path.lexists(room / OLD):  # never the only one
                shutil.rmtree(room, ignore_errors=True)


@contextmanager
def _naming(target: Path, only: Collection[int] | None = None) -> Iterator[None]:
    """Let an error, or only one of some numbers, name the file that is wanted.

    Otherwise it would name a temporary one, or none.
    """
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from error


def _settle(new: Path, target: Path) -> None:
    """Force a new file to disk and give it its permissions."""
    if new.is_dir():
        return
    with open(new, "rb+") as file:
        os.fsync(file.fileno())
    os.chmod(new, _mode_of(target))


def _take_names(made: list[tuple[Path, Path, Path]]) -> None:
    """Rename all, each by its room, its new path and its target, or undo what was renamed.

    Each is noted before anything is done to it: an interrupt is raised when the system call that
    it came in has been made.
    """
    begun: list[tuple[Path | None, Path, Path]] = []
    try:
        for room, new, target in made:
            old = room / OLD if os.path.lexists(target) else None
            begun.append((old, new, target))
            if old is not None and (target.is_dir() or new.is_dir()):
                os.rename(target, old)  # a folder cannot be replaced in one step
            elif old is not None and len(made) > 1:
                _keep(target, old)
            os.replace(new, target)
    except BaseException:
        with held_back():
            for each in reversed(begun):
                _put_back(*each)
        raise


def _keep(target: Path, old: Path) -> None:
    """Let an old file stay by another name when its own is taken, without copying if it can be."""
    try:
        os.link(target, old, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(target, old, follow_symlinks=False)


def _put_back(old: Path | None, new: Path, target: Path) -> None:
    """Undo what was done of a renaming: new and old data each go back to where they were."""
    if old is not None and not os.path.lexists(old):
        return  # nothing was done, or all of it in one step
    if not os.path.lexists(new):
        os.rename(target, new)
    if old is not None and not os.path.lexists(target):
        os.rename(old, target)


def _mode_of(target: Path) -> int:
    """Permissions of the file that is replaced, or those of any new file."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return _NEW_FILE_MODE & ~umask
