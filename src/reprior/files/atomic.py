"""Write files and folders atomically: a target is whole, or as it was before.

Outputs are made in a hidden staging folder beside their target, and take its name in one step. A
staging folder is locked (``flock``) for as long as its process lives: the system lets go of the
lock when the process is killed, so :func:`remove_stale_staging` can tell what nobody uses any more,
from other containers too. Where a file system or a platform has no such locks, it stays.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reprior.exceptions import OptionError
from reprior.files.interrupts import delay_interrupts, raise_if_interrupted

if sys.platform != "win32":
    import fcntl

__all__ = ["atomic_paths", "atomic_write", "output_target", "remove_stale_staging"]

_STAGING_PREFIX = ".reprior-staging-"
_STAGING_NAME = re.compile(rf"{re.escape(_STAGING_PREFIX)}[a-z0-9_]{{8}}")

#: The name, in a staging folder, of old data that are about to be replaced.
_OLD = "old"

#: Permissions of a new file before the umask, as ``open`` has it; those of ``mkstemp`` are private.
_NEW_FILE_MODE = 0o666

#: Errors of a disk, a quota or a file that is full. They are of writing, whoever raises them.
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

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
            argument=argument,
            rule="must be a new name or a regular file",
            got=f"{os.fspath(path)!r}, which is {what}",
            remedy="Choose another name.",
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
        with _naming(wanted, _DISK_FULL), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(target))
        raise_if_interrupted()
        os.replace(name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextmanager
def atomic_paths(*paths: str | os.PathLike[str]) -> Iterator[tuple[Path, ...]]:
    """Give temporary paths to write files or folders to; they take their names when all is well.

    Each path is in the folder of its target, and does not exist yet: the block creates a file or a
    folder there. At the end all take their names; after an error or an interrupt none does, and
    targets that were replaced already get their old contents back. What a killed process leaves is
    removed by :func:`remove_stale_staging`. A target is a new name, a regular file or, where the
    block creates a folder, a folder; see :func:`output_target`.

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
    with ExitStack() as stack:
        for path in wanted:
            with _naming(path):
                targets.append(output_target(path, folder=True))
        staging: list[Path] = []
        for path, target in zip(wanted, targets, strict=True):
            with _naming(path):
                staging.append(stack.enter_context(_staging_folder(target)))
        # Under the names as given, since writers may go by the extension of a symlink.
        fresh = tuple(folder / path.name for folder, path in zip(staging, wanted, strict=True))
        with _naming(wanted[0], _DISK_FULL):
            yield fresh
        made = [
            _Output(folder, folder / target.name, target)
            for folder, target in zip(staging, targets, strict=True)
        ]
        for written, output in zip(fresh, made, strict=True):
            if written != output.new:
                os.rename(written, output.new)
            _settle(output.new, output.target)
        raise_if_interrupted()
        _take_names(made)


class _Output(NamedTuple):
    """Data that are written, and where they go."""

    staging: Path
    new: Path
    target: Path


@contextmanager
def _staging_folder(target: Path) -> Iterator[Path]:
    """Make a locked staging folder beside a target, and remove it at the end."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=target.parent))
        lock = _lock(folder, wait=True)
        if folder.exists():
            break
        if lock is not None:  # another process took the folder for stale before it was locked
            os.close(lock)
    try:
        yield folder
    finally:
        if os.path.lexists(target) or not os.path.lexists(folder / _OLD):  # never the only one
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until the descriptor is closed; None where it is in use or cannot be locked."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_stale_staging(folder: Path) -> None:
    """Remove the staging folders that killed processes have left in a folder.

    Data that were about to be replaced get their name back. Staging folders in use stay.
    """
    try:
        with os.scandir(folder) as entries:
            staging = [Path(entry) for entry in entries if _STAGING_NAME.fullmatch(entry.name)]
    except OSError:  # a folder may be one to write to, and not to look into
        return
    for each in staging:
        lock = _lock(each, wait=False)
        if lock is not None:
            _restore_old(each)
            shutil.rmtree(each, ignore_errors=True)
            os.close(lock)


def _restore_old(staging: Path) -> None:
    """Give old data their name again, where new ones have not taken it."""
    for new in staging.iterdir():
        target = staging.parent / new.name
        if new.name != _OLD and os.path.lexists(staging / _OLD) and not os.path.lexists(target):
            with suppress(OSError):
                os.rename(staging / _OLD, target)


@contextmanager
def _naming(target: Path, only: Collection[int] | None = None) -> Iterator[None]:
    """Let an ``OSError``, or only one with one of some numbers, name the file that is wanted.

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


def _take_names(outputs: list[_Output]) -> None:
    """Rename all outputs to their targets, or undo what was renamed.

    Each is noted before anything is done to it: an interrupt is raised when the system call that
    it came in has been made.
    """
    begun: list[tuple[Path | None, Path, Path]] = []
    try:
        for staging, new, target in outputs:
            old = staging / _OLD if os.path.lexists(target) else None
            begun.append((old, new, target))
            if old is not None and (target.is_dir() or new.is_dir()):
                os.rename(target, old)  # a folder cannot be replaced in one step
            elif old is not None and len(outputs) > 1:
                _keep(target, old)
            os.replace(new, target)
    except BaseException:
        with delay_interrupts():
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
