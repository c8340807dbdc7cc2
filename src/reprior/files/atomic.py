"""A file is there whole, or as it was before."""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from reprior.exceptions import OptionError
from reprior.files.interrupts import held_back, refuse_to_go_on

__all__ = [
    "OLD",
    "atomic_paths",
    "atomic_write",
    "new_room",
    "output_target",
    "sweep",
]


OLD = "old"
"""Where old data are kept in a room while the new take their name."""


_NAME = re.compile(r"\.reprior-([0-9a-f]{8})-([0-9]+)-[a-z0-9_]{8}")


def new_room(folder: Path) -> Path:
    """Make a room in a folder."""
    return Path(tempfile.mkdtemp(prefix=f".reprior-{_machine()}-{os.getpid()}-", dir=folder))


def sweep(folder: Path) -> None:
    """Remove the rooms that processes of this machine have left in a folder when they were killed.

    Those of processes that run, of other machines, and whatever has another name stay. Data that
    were about to be replaced get their name back.
    """
    try:
        with os.scandir(folder) as entries:
            rooms = [Path(entry) for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:  # a folder may be one to write to, and not to look into
        return
    for room in rooms:
        found = _NAME.fullmatch(room.name)
        if found is not None and found[1] == _machine() and not _runs(int(found[2])):
            _restore_old(room)
            shutil.rmtree(room, ignore_errors=True)


def _restore_old(room: Path) -> None:
    """Give old data their name again, where new ones have not taken it."""
    for new in room.iterdir():
        target = room.parent / new.name
        if new.name != OLD and os.path.lexists(room / OLD) and not os.path.lexists(target):
            with suppress(OSError):
                os.rename(room / OLD, target)


@cache
def _machine() -> str:
    """A mark of where process numbers are known: the machine, or a container on it."""
    inside = ""
    with suppress(OSError):
        inside = os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32(f'{platform.node()} {inside}'.encode()):08x}"


def _runs(pid: int) -> bool:
    """Whether there is such a process; where that cannot be asked, it is taken to be."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


#: What ``open`` gives a new file before the umask; ``mkstemp`` would keep it private.
_NEW_FILE_MODE = 0o666


#: Errors of a disk, a quota or a file that is full. They are of writing, whoever raises them.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


#: How errors call what is no regular file.
_FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def output_target(
    path: str | os.PathLike[str], *, argument: str = "path", folder: bool = False
) -> Path:
    """Return the file that an output creates or replaces; refuse anything else than a file.

    Symlinks are followed, so that they stay when the file behind them is replaced.

    Parameters
    ----------
    path : path
        A new name or a regular file, or a symlink to one of them.
    argument : str, default "path"
        How the error calls ``path``.
    folder : bool, default False
        Whether a folder may be replaced too, because the output is, or may be, a folder.

    Examples
    --------
    >>> output_target("new.json").name
    'new.json'
    >>> output_target(getfixture("tmp_path"), argument="output")
    Traceback (most recent call last):
        ...
    reprior.exceptions.OptionError: `output` must be a new name or a regular file. Got ..., which is
    a folder. Choose another name.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) and not (folder and stat.S_ISDIR(mode)):
        what = _FILE_TYPES.get(stat.S_IFMT(mode), "something else")
        raise OptionError(
            f"`{argument}` must be a new name or a regular file. Got {os.fspath(path)!r}, which is "
            f"{what}. Choose another name."
        )
    return Path(os.path.realpath(path) if os.path.islink(path) else path)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends well.

    The data go to a temporary file in the same folder, are forced to disk, and take the name
    in one step. An error or an interrupt leaves the old file, if any, and nothing else. What is
    neither a new name nor a regular file is refused, see :func:`output_target`.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_write(folder / "a.txt") as file:
    ...     _ = file.write(b"whole")
    >>> [entry.name for entry in folder.iterdir()]
    ['a.txt']
    """
    wanted = Path(path)
    with _naming(wanted):
        target = output_target(wanted)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with _naming(wanted, _NO_ROOM), os.fdopen(handle, "wb") as file:
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
    leaves is removed by :func:`reprior.files.atomic.sweep`. A target is a new name, a regular file
    or, where the block creates a folder, a folder; see :func:`output_target`.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_paths(folder / "a.txt", folder / "b.txt") as (a, b):
    ...     _ = a.write_text("one"), b.write_text("two")
    >>> sorted(entry.name for entry in folder.iterdir())
    ['a.txt', 'b.txt']
    """
    wanted = [Path(path) for path in paths]
    targets: list[Path] = []
    rooms: list[Path] = []
    try:
        for path in wanted:
            with _naming(path):
                targets.append(output_target(path, folder=True))
        for path, target in zip(wanted, targets, strict=True):
            with _naming(path):
                rooms.append(new_room(target.parent))
        # Under the names as given, since writers may go by the extension of a symlink.
        fresh = tuple(room / path.name for room, path in zip(rooms, wanted, strict=True))
        with _naming(wanted[0], _NO_ROOM):
            yield fresh
        made = [(r, r / target.name, target) for r, target in zip(rooms, targets, strict=True)]
        for written, (_, new, target) in zip(fresh, made, strict=True):
            if written != new:
                os.rename(written, new)
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
    """Force a new file to disk and give it its permissions. It does not replace a folder."""
    if new.is_dir():
        return
    output_target(target)
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
