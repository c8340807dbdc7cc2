"""A file is there whole, or as it was before."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from reprior.files.interrupts import refuse_to_go_on

__all__ = ["atomic_paths", "atomic_write"]

#: What ``open`` gives a new file before the umask; ``mkstemp`` would keep it private.
_NEW_FILE_MODE = 0o666


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
        with os.fdopen(handle, "wb") as file:
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
def atomic_paths(
    *paths: str | os.PathLike[str], missing_ok: bool = False
) -> Iterator[tuple[Path, ...]]:
    """Give temporary paths to write files or folders to; they take their names when all is well.

    Each path is in the folder of its target. Nothing is there yet: the block creates a file or a
    folder at each. All take their names at the end, or, after an error or an interrupt, none
    does: targets that were replaced already get their old contents back. With ``missing_ok`` the
    block may create nothing at some of them: what was there before is there still.

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
                rooms.append(Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent)))
        fresh = tuple(room / target.name for room, target in zip(rooms, targets, strict=True))
        yield fresh
        made = [
            each
            for each in zip(rooms, fresh, targets, strict=True)
            if not missing_ok or os.path.lexists(each[1])
        ]
        for _, new, target in made:
            _settle(new, target)
        refuse_to_go_on()
        _take_names(made)
    finally:
        for room in rooms:
            shutil.rmtree(room, ignore_errors=True)


@contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Let an error name the file that is wanted, not the temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from error


def _settle(new: Path, target: Path) -> None:
    """Force a new file to disk and give it its permissions."""
    if new.is_dir():
        return
    with open(new, "rb+") as file:
        os.fsync(file.fileno())
    os.chmod(new, _mode_of(target))


def _take_names(made: list[tuple[Path, Path, Path]]) -> None:
    """Rename all, each by its room, its new path and its target, or undo what was renamed."""
    undo: list[tuple[Path | None, Path]] = []
    try:
        for room, new, target in made:
            old = room / "old" if os.path.lexists(target) else None
            if old is not None and (target.is_dir() or new.is_dir()):
                os.rename(target, old)  # a folder cannot be replaced in one step
                undo.append((old, target))
                os.rename(new, target)
                continue
            if old is not None and len(made) > 1:
                shutil.copy2(target, old, follow_symlinks=False)
            os.replace(new, target)
            undo.append((old, target))
    except BaseException:
        for old, target in reversed(undo):
            _put_back(old, target)
        raise


def _put_back(old: Path | None, target: Path) -> None:
    if os.path.lexists(target) and (old is None or target.is_dir()):
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    if old is not None and os.path.lexists(old):
        os.replace(old, target)


def _mode_of(target: Path) -> int:
    """Permissions of the file that is replaced, or those of any new file."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return _NEW_FILE_MODE & ~umask
