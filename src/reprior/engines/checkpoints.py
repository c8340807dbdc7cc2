"""Save the passes of a fit as they go, and continue from there after verifying the data."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.engines.checkpoint_format import (
    Saved,
    check_pass,
    pass_name,
    read_pass,
    refusing_parts,
    remedy_of,
    write_pass,
)
from reprior.engines.chunk_source import Progress, as_chunk
from reprior.engines.fingerprint import Digest, Known
from reprior.exceptions import OptionError
from reprior.files.atomic import remove_stale_staging
from reprior.files.chunks import Chunk, LeftOut, Place
from reprior.files.scores import ScoreFile
from reprior.profile.merging import ProfileSum
from reprior.profile.samples import Priors
from reprior.profile.storage import unpack_sum

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "Checkpoint",
    "Saved",
    "as_left_out",
    "as_place",
    "check_same",
    "digest_of",
    "log_resumed",
    "options_of",
    "pack_left_out",
    "pack_place",
    "rest_of",
]

Vector: TypeAlias = np.ndarray[Any, Any]


PAUSE = 30.0
"""Seconds between two savings, at least: the work that a kill may lose."""

SHARE = 0.05
"""The largest share of the time that savings may take."""

#: The lock file in the folder. Other programs have a ``.lock`` of their own.
_LOCK = ".reprior-lock"

#: A symlink in the place of the lock file would create a file elsewhere.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)

_NUMBER = r"-?[0-9.e+-]+"

#: Files of passes, and temporary ones of earlier releases. Others of the folder are left alone.
_PASS = re.compile(rf"pass-{_NUMBER}-to-{_NUMBER}\.npz")
_PARTIAL = re.compile(rf"\.{_PASS.pattern}\.\w{{8}}")


class Checkpoint:
    """A folder in which the passes of a fit are saved, one file each, written atomically.

    It is a context manager, in which the folder is locked: :func:`reprior.engines.fit` opens one,
    so that a second fit in the same folder is refused. The system releases the lock of a process
    that is killed.

    Parameters
    ----------
    folder : path
        Created where it does not exist. It belongs to one fit.
    pause : float, default 30
        Seconds between two savings, at least.
    share : float, default 0.05
        The largest share of the time that savings may take: the slower one is, the later comes the
        next.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, pause: float = PAUSE, share: float = SHARE
    ) -> None:
        self.folder, self.pause, self.share = Path(folder), pause, share
        self._subject: dict[str, Any] = {}
        self._last, self._cost = time.monotonic(), 0.0
        self._lock = _FolderLock(self.folder)

    def __enter__(self) -> Checkpoint:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def begin(self, sources: Any, options: dict[str, Any]) -> None:
        """Take the data and options of the fit; refuse a folder that holds another one."""
        self._subject = {"sources": sources, "options": options}
        self._remove_partial_files()
        for path in self._files():
            self._read(path)

    def load(self, priors: Priors, chunks: Any, resolution: float) -> Saved | None:
        """Return what is saved of a pass, if anything is; refuse content that no fit has written.

        The pass is over ``chunks``, between ``priors``, with bins of width ``resolution``.
        """
        path = self._path(priors.bounds)
        if not path.exists():
            return None
        return check_pass(path, *self._read(path), priors, chunks, resolution)

    def unpack(
        self, bounds: tuple[float, float], packed: dict[str, Any], arrays: Any, into: ProfileSum
    ) -> ProfileSum:
        """Unpack the sum that was saved of a pass; refuse parts that no fit has written."""
        path = self._path(bounds)
        with refusing_parts(path):
            return unpack_sum(packed, arrays, into=into, name=path.name)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is saved."""
        return not self._files()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        rest = self._cost * (1 / self.share - 1)
        return time.monotonic() - self._last >= max(self.pause, rest)

    def save(self, bounds: tuple[float, float], saved: Saved) -> None:
        """Replace what is saved of a pass."""
        start = time.monotonic()
        write_pass(self._path(bounds), self._subject, saved)
        self._last = time.monotonic()
        self._cost = self._last - start

    def remove(self) -> None:
        """Delete what is saved, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        with self:
            self._lock.removes_folder = True
            self._remove_partial_files()
            for path in self._files():
                path.unlink()

    def _read(self, path: Path) -> tuple[dict[str, Any], dict[str, Vector]]:
        """Read a pass of this fit; refuse one of another fit."""
        header, arrays = read_pass(path)
        self._refuse_another(path, header)
        return header, arrays

    def _files(self) -> list[Path]:
        return self._named(_PASS)

    def _remove_partial_files(self) -> None:
        """Delete temporary files that killed processes have left."""
        remove_stale_staging(self.folder)
        for path in self._named(_PARTIAL):
            path.unlink()

    def _named(self, pattern: re.Pattern[str]) -> list[Path]:
        """Return the files of these names, in order."""
        return sorted(path for path in self.folder.glob("*") if pattern.fullmatch(path.name))

    def _path(self, bounds: tuple[float, float]) -> Path:
        return self.folder / pass_name(bounds)

    def _refuse_another(self, path: Path, header: dict[str, Any]) -> None:
        where, remedy = os.fspath(self.folder), remedy_of(self.folder)
        for name, value in self._subject.items():
            saved, wanted = header[name], json.loads(json.dumps(value))
            if saved == wanted:
                continue
            if name == "options":
                keys = sorted(k for k in {*saved, *wanted} if saved.get(k) != wanted.get(k))
                raise OptionError(
                    argument="checkpoint",
                    rule="must be of a fit with the same options",
                    remedy=f"{path.name!r} in {where!r} was started with another "
                    f"{' and '.join(keys)}. {remedy}",
                )
            raise OptionError(
                argument="checkpoint",
                rule="must be of the same data",
                remedy=f"{path.name!r} in {where!r} was started on {_difference(saved, wanted)}. "
                f"{remedy}",
            )


class _FolderLock:
    """An exclusive lock on a folder, by a lock file in it; its holder may take it several times.

    A folder that it creates, or that it is to remove, is deleted with the lock if it is empty then.
    Where nothing can be written, or the file system has no locks, nothing is locked.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / _LOCK
        self.removes_folder = False
        self._file: int | None = None
        self._depth = 0

    def acquire(self) -> None:
        """Take the lock; refuse a folder that another fit has locked."""
        if self._depth == 0:
            self.removes_folder = not self.folder.exists()
            self._file = self._open()
        self._depth += 1

    def release(self) -> None:
        """Give the lock back."""
        self._depth -= 1
        if self._depth or self._file is None:
            return
        file, self._file = self._file, None
        if sys.platform == "win32":  # it deletes no file that is open
            os.close(file)
        with suppress(OSError):
            self.path.unlink()
        if self.removes_folder:
            with suppress(OSError):  # other files are in it
                self.folder.rmdir()
        if sys.platform != "win32":
            os.close(file)

    def _open(self) -> int | None:
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, 0o666)
            except FileNotFoundError:  # another fit has just removed the folder
                continue
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EISDIR):
                    raise self._no_lock_file() from error
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                return None
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                raise self._no_lock_file()
            try:
                _lock_file(file)
            except BlockingIOError as error:
                os.close(file)
                raise OptionError(
                    argument="checkpoint",
                    rule="must be used by one fit at a time",
                    got=f"the folder {os.fspath(self.folder)!r}, which another fit is using",
                    remedy="Wait until that fit ends, or name another folder.",
                ) from error
            except OSError:  # a file system without locks
                return file
            # The holder before may have deleted the file after this process opened it.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), os.stat(self.path)):
                    return file
            os.close(file)

    def _no_lock_file(self) -> OptionError:
        return OptionError(
            argument="checkpoint",
            rule="must be a folder that belongs to one fit",
            got=f"{os.fspath(self.path)!r}, which is no lock file of a fit",
            remedy="Remove it, or name another folder.",
        )


if sys.platform == "win32":

    def _lock_file(file: int) -> None:
        """Lock a file until it is closed; BlockingIOError if another process has."""
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

else:

    def _lock_file(file: int) -> None:
        """Lock a file until it is closed; BlockingIOError if another process has."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _difference(theirs: Any, ours: Any) -> str:
    """Say how two lists of files differ, by the first file that does."""
    if not theirs or not ours:
        return "other data"
    for a, b in zip(theirs, ours, strict=False):
        if a[0] != b[0]:
            return f"other files, such as {a[0]!r}"
        if a[1] != b[1]:
            return f"another version of {a[0]!r}, which was {a[1]} bytes and is {b[1]} now"
        if a != b:
            return (
                f"another version of {a[0]!r}, which has the same {a[1]} bytes, but was changed "
                f"last at {_moment(a[2])} and now at {_moment(b[2])}; where its content is the "
                f"same, as after a copy, give it that time again"
            )
    return f"{len(theirs)} files instead of {len(ours)}"


def _moment(nanoseconds: int) -> str:
    """Return a time of change to its last digit, as ``touch -d`` takes it.

    Examples
    --------
    >>> _moment(1_700_000_000_000_000_042)
    '2023-11-14 22:13:20.000000042 UTC'
    """
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def options_of(stream: Any, resolution: Any) -> dict[str, Any]:
    """Return the options that a profile depends on, including those of reading the files."""
    options, terms = stream.options, stream.terms
    return {
        "kind": options.kind,
        "class_axis": options.class_axis,
        "ignore_index": None if options.ignore_index is None else str(options.ignore_index),
        "classes": [str(name) for name in terms.classes.tolist()],
        "source_prior": terms.source_prior.tolist(),
        "target_prior": terms.target_prior.tolist(),
        "resolution": resolution,
        **(stream.chunks.reading if isinstance(stream.chunks, ScoreFile) else {}),
    }


_log = logging.getLogger("reprior.engines.resuming")


def log_resumed(
    checkpoint: Checkpoint,
    bounds: tuple[float, float],
    place: Place,
    chunks: Any,
    *,
    again: bool = False,
) -> None:
    """Log, as information, which samples are not counted again.

    ``again``: in a second pass, after one in which binning turned out unnecessary.
    """
    low, high = bounds
    where = f" ({_files_before(place, chunks)})" if isinstance(chunks, ScoreFile) else ""
    _log.info(
        "The fit resumes from the checkpoint in %r: %s samples%s were counted before, for "
        "strengths from %g to %g%s.",
        os.fspath(checkpoint.folder),
        f"{place.start:,}",
        where,
        low,
        high,
        ", in another reading of the same files that keeps every switch" if again else "",
    )


def _files_before(place: Place, file: ScoreFile) -> str:
    """Say how many files are before a place, and how many rows of its own file."""
    source, row = place.source, place.row
    if row == file.rows[source]:
        source, row = source + 1, 0
    files = f"{source} of {len(file.paths)} file{'' if len(file.paths) == 1 else 's'}"
    return files if not row else f"{files}, and {row:,} rows of {file.paths[source].name!r}"


def rest_of(
    chunks: Iterable[Any], place: Place, digest: Digest | None, expected: Known | None
) -> Iterator[Chunk]:
    """Give the chunks after a place, which is between two of them.

    With a ``digest``, the chunks before are read to update it, and must have the ``expected`` one.
    Without, reading score files starts at the place, and of other chunks those before are skipped.
    """
    if isinstance(chunks, ScoreFile) and digest is None:
        yield from chunks.chunks(after=place)
        return
    done, passed, n = 0, 0, place.start
    for given in chunks:
        chunk = as_chunk(given, done)
        done += chunk.n_labels
        if passed >= n:
            yield chunk
            continue
        if digest is not None:
            digest.update(chunk)
        passed = done
        if passed > n:
            break
        if passed == n and digest is not None and expected is not None:
            check_same(digest.known, expected, of_files=isinstance(chunks, ScoreFile))
    if passed != n:
        raise OptionError(
            argument="checkpoint",
            rule="must be of the same data",
            got=f"{passed} samples in the first chunks, and not the first {n}, which were counted",
            remedy="Delete its folder to start again.",
        )


def digest_of(chunks: Iterable[Any], class_axis: int, progress: Progress = None) -> Known:
    """Return the digest of all samples, by one pass over them."""
    digest, done = Digest(class_axis), 0
    for given in chunks:
        chunk = as_chunk(given, done)
        digest.update(chunk)
        done += chunk.n_labels
        if progress is not None:
            progress(done)
    return digest.known


def check_same(known: Known, expected: Known, *, of_files: bool = False) -> None:
    """Refuse other samples, or other weights, than those that were counted.

    ``of_files``: the samples come from files with the same names, sizes and times of change.
    """
    if known == expected:
        return
    what = "their weights are others" if known.value == expected.value else "they are others"
    though = ", though names, sizes and times of change of the files are the same"
    raise OptionError(
        argument="checkpoint",
        rule="must be of the same data",
        remedy=f"Of the first {expected.n_samples} samples, which were counted, {what} by their "
        f"fingerprint{though if of_files else ''}. Delete its folder to start again.",
    )


def pack_place(place: Place) -> list[Any]:
    """Return a place as JSON values."""
    return [*place[:3], pack_left_out(place.left_out)]


def as_place(packed: list[Any]) -> Place:
    """Return the place that :func:`pack_place` packed."""
    start, source, row, left_out = packed
    return Place(start, source, row, as_left_out(left_out))


def pack_left_out(left_out: Iterable[LeftOut]) -> list[list[Any]]:
    """Return the left out files as JSON values."""
    return [[os.fspath(each.path), each.rows, each.reason] for each in left_out]


def as_left_out(packed: Iterable[list[Any]]) -> tuple[LeftOut, ...]:
    """Return the left out files that :func:`pack_left_out` packed."""
    return tuple(LeftOut(Path(path), rows, reason) for path, rows, reason in packed)
