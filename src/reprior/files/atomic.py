"""Write files and folders atomically: a target is either completely written or unchanged.

Every output of every command and every ``save()`` goes through :func:`atomic_write` or
:func:`atomic_paths`, so :func:`output_target` is the one place that says what an output may be.

Outputs are made in a hidden staging folder beside their target, and take its name in one step. A
staging folder is locked (``flock``) for as long as its process lives. The system drops the lock of
a killed process, so the next output into the same folder removes what that process left, also from
another container. Without such locks (some file systems, Windows), leftovers stay.
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

__all__ = [
    "FILE_TYPES",
    "STDOUT",
    "atomic_paths",
    "atomic_write",
    "is_stdout",
    "output_target",
    "remove_stale_staging",
]

STDOUT = "-"
"""The name of standard output, for outputs that are text."""

#: What every output must be.
_RULE = "must be a new name or a regular file"

_STAGING_PREFIX = ".reprior-staging-"
_STAGING_NAME = re.compile(rf"{re.escape(_STAGING_PREFIX)}[a-z0-9_]{{8}}")

#: The name, in a staging folder, of old data that are about to be replaced.
_OLD = "old"

#: Permissions of a new file before the umask, as ``open`` has it; those of ``mkstemp`` are private.
_NEW_FILE_MODE = 0o666

#: Errors of a full disk, quota or file. They concern the output, whatever raises them.
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

#: What errors call the types of files that are not regular.
FILE_TYPES = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def is_stdout(path: str | os.PathLike[str]) -> bool:
    """Tell whether an output is standard output: the string ``"-"``.

    ``"./-"`` and ``Path("-")`` are files of that name.

    Examples
    --------
    >>> is_stdout("-"), is_stdout("./-"), is_stdout(Path("-"))
    (True, False, False)
    """
    return isinstance(path, str) and path == STDOUT


def output_target(
    path: str | os.PathLike[str],
    *,
    argument: str = "path",
    folder: bool = False,
    text: bool = False,
) -> Path:
    """Return the file that an output creates or replaces; refuse anything else.

    The rule for all outputs: a new name or a regular file; or, for text, ``"-"``, which is
    standard output. A symlink is followed and stays when the file behind it is replaced. A FIFO, a
    device, a socket or a folder is refused. Call it before any work is done; the functions that
    write call it again.

    Parameters
    ----------
    path : path
        A new name, a regular file, a symlink to one of them or, with ``text``, ``"-"``.
    argument : str, default "path"
        What the error calls ``path``.
    folder : bool, default False
        Whether a folder may be replaced too, because the output is, or may be, a folder.
    text : bool, default False
        Whether the output is text. Then ``"-"`` is allowed, and returned as ``Path("-")``: ask
        :func:`is_stdout` first.

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
    if is_stdout(path):
        if text and sys.stdout is not None:
            return Path(path)
        if text:
            raise OptionError(
                argument=argument,
                rule=_RULE,
                got=f"{STDOUT!r}, and standard output is closed",
                remedy="Name a file.",
            )
        raise OptionError(
            argument=argument,
            rule=_RULE,
            got=f"{STDOUT!r}: only text is written to standard output",
            remedy=f"Name a file; for one that is called {STDOUT}, write ./{STDOUT}.",
        )
    if not os.fspath(path):
        raise OptionError(argument=argument, rule=_RULE, got="no name", remedy="Pass a name.")
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    except ValueError as error:  # of a null character
        raise OptionError(
            argument=argument,
            rule="must be a name that files may have",
            got=repr(os.fspath(path)),
            remedy="Choose another name.",
        ) from error
    if not stat.S_ISREG(mode) and not (folder and stat.S_ISDIR(mode)):
        what = FILE_TYPES.get(stat.S_IFMT(mode), "something else")
        raise OptionError(
            argument=argument,
            rule=_RULE,
            got=f"{os.fspath(path)!r}, which is {what}",
            remedy=f"Choose another name{f', or {STDOUT} for standard output' if text else ''}.",
        )
    return Path(os.path.realpath(path) if os.path.islink(path) else path)


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, text: bool = False) -> Iterator[BinaryIO]:
    """Open a file for writing that replaces ``path`` only when the block ends well.

    The data go to a staging folder beside ``path``, are forced to disk, and take the name in one
    step. An error or an interrupt leaves the old file, if any, and nothing else. See
    :func:`output_target` for what ``path`` may be. With ``text``, it may be ``"-"``: what the block
    writes, in UTF-8, then goes to standard output at its end, or not at all.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_write(folder / "a.txt") as file:
    ...     _ = file.write(b"whole")
    >>> [entry.name for entry in folder.iterdir()]
    ['a.txt']
    >>> with atomic_write("-", text=True) as file:
    ...     _ = file.write(b"shown")
    shown
    """
    with (
        atomic_paths(path, folder=False, text=text) as (fresh,),
        _naming(Path(path), _DISK_FULL),
        open(fresh, "xb") as file,
    ):
        yield file


@contextmanager
def atomic_paths(
    *paths: str | os.PathLike[str], folder: bool = True, text: bool = False
) -> Iterator[tuple[Path, ...]]:
    """Give temporary paths to write files or folders to; they take their names when all is well.

    Each path is in the file system of its target, and does not exist yet: the block creates a file
    or a folder there. At the end all take their names; after an error or an interrupt none does,
    and targets that were replaced already get their old contents back. What killed processes left
    in the folders of the targets is removed first.

    Parameters
    ----------
    *paths : path
        See :func:`output_target` for what a target may be.
    folder : bool, default True
        Whether a target may be a folder, because the block may create one.
    text : bool, default False
        Whether the outputs are text in UTF-8. Then a path may be ``"-"``, and is written to
        standard output after all others have their names.

    Examples
    --------
    >>> folder = getfixture("tmp_path")
    >>> with atomic_paths(folder / "a.txt", folder / "b.txt") as (a, b):
    ...     _ = a.write_text("one"), b.write_text("two")
    >>> sorted(entry.name for entry in folder.iterdir())
    ['a.txt', 'b.txt']
    """
    wanted = [Path(path) for path in paths]
    streamed = [is_stdout(path) for path in paths]
    targets: list[Path] = []
    with ExitStack() as stack:
        for path, stream in zip(paths, streamed, strict=True):
            with _naming(Path(path)):
                target = output_target(path, folder=folder, text=text)
                targets.append(Path(tempfile.gettempdir(), STDOUT) if stream else target)
        staging: list[Path] = []
        for path, target in zip(wanted, targets, strict=True):
            with _naming(path):
                staging.append(stack.enter_context(_staging_folder(target)))
        # Under the names as given, since writers may go by the extension of a symlink.
        fresh = tuple(place / path.name for place, path in zip(staging, wanted, strict=True))
        with _naming(wanted[0], _DISK_FULL):
            yield fresh
        made = [
            _Output(place, place / target.name, target)
            for place, target, stream in zip(staging, targets, streamed, strict=True)
            if not stream
        ]
        renamed = [path for path, stream in zip(fresh, streamed, strict=True) if not stream]
        for written, output in zip(renamed, made, strict=True):
            if written != output.new:
                os.rename(written, output.new)
            _settle(output.new, output.target, folder=folder)
        raise_if_interrupted()
        _take_names(made)
        for written, stream in zip(fresh, streamed, strict=True):
            if stream:
                _print(written)


def _print(path: Path) -> None:
    """Copy a text file to standard output, as bytes where that takes bytes."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(path.read_text(encoding="utf-8"))
    else:
        with path.open("rb") as file:
            shutil.copyfileobj(file, buffer)
    sys.stdout.flush()


class _Output(NamedTuple):
    """Data that are written, and where they go."""

    staging: Path
    new: Path
    target: Path


@contextmanager
def _staging_folder(target: Path) -> Iterator[Path]:
    """Make a locked staging folder beside a target, and remove it at the end."""
    remove_stale_staging(target.parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=target.parent))
        lock = _lock(folder, wait=True)
        if folder.exists():
            break
        if lock is not None:  # another process removed it as stale before we locked it
            os.close(lock)
    try:
        yield folder
    finally:
        # Never delete the only copy.
        if os.path.lexists(target) or not os.path.lexists(folder / _OLD):
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until the descriptor is closed; None where it is in use or cannot be locked.

    Anybody may have put something of that name there: a symlink is not followed, and opening a FIFO
    does not wait.
    """
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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
    except OSError:  # the folder may be writable but not readable
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
    """Make an ``OSError`` name the target. With ``only``, just for these errno values.

    Without this, the error names a temporary file or none.
    """
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        raise type(error)(error.errno, error.strerror, os.fspath(target)) from error


def _settle(new: Path, target: Path, *, folder: bool) -> None:
    """Force a new file to disk and set its permissions. A file never replaces a folder."""
    output_target(target, folder=folder and new.is_dir())
    if new.is_dir():
        return
    with open(new, "rb+") as file:
        os.fsync(file.fileno())
    os.chmod(new, _mode_of(target))


def _take_names(outputs: list[_Output]) -> None:
    """Rename all outputs to their targets, or undo what was renamed.

    Note each rename before doing it: an interrupt may arrive after the rename took effect.
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
    """Keep an old file under another name, by a hard link if possible."""
    try:
        os.link(target, old, follow_symlinks=False)
    except (OSError, NotImplementedError):
        shutil.copy2(target, old, follow_symlinks=False)


def _put_back(old: Path | None, new: Path, target: Path) -> None:
    """Undo a rename that may be incomplete: move new and old data back to where they were."""
    if old is not None and not os.path.lexists(old):
        return  # nothing was renamed yet, or the rename was one atomic step
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
