"""Save the passes of a fit as they go, and go on from there after verifying the data."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.engines.chunk_source import Progress, as_chunk
from reprior.engines.fingerprint import Digest, Known
from reprior.exceptions import FileFormatError, OptionError
from reprior.files.archive import read_archive, write_archive
from reprior.files.chunks import Chunk, LeftOut, Place
from reprior.files.scores import ScoreFile

__all__ = [
    "Checkpoint",
    "Saved",
    "as_left_out",
    "as_place",
    "check_same",
    "options_of",
    "pack_left_out",
    "pack_place",
    "rest_of",
    "taken",
    "tell",
]

Vector: TypeAlias = np.ndarray[Any, Any]


_FORMAT, _FORMAT_VERSION = "reprior checkpoint", 2

PAUSE = 30.0
"""Seconds between two savings, at least: what a kill may cost."""

SHARE = 0.05
"""Of the time that savings take, at most."""


class Saved(NamedTuple):
    """What was counted so far: ``header`` as JSON can hold it, and arrays."""

    finished: bool
    header: dict[str, Any]
    arrays: dict[str, Vector]


class Checkpoint:
    """A folder in which the passes of a fit are saved, one file each, whole or as before.

    Parameters
    ----------
    folder : path
        Made where it is not there. It belongs to one fit, and to one process at a time.
    pause : float, default 30
        Seconds between two savings, at least.
    share : float, default 0.05
        Of the time that savings take, at most: where one is slow, the next comes later.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, pause: float = PAUSE, share: float = SHARE
    ) -> None:
        self.folder, self.pause, self.share = Path(folder), pause, share
        self._of: dict[str, Any] = {}
        self._last, self._cost = time.monotonic(), 0.0

    def begin(self, sources: Any, options: dict[str, Any]) -> None:
        """Say what the fit is of; refuse a folder that holds another one."""
        self._of = {"sources": sources, "options": options}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        for path in self._files():
            self._refuse_another(path, self._read(path)[0])

    def load(self, bounds: tuple[float, float]) -> Saved | None:
        """What is saved of the pass within ``bounds``, if anything is."""
        path = self._path(bounds)
        if not path.exists():
            return None
        header, arrays = self._read(path)
        self._refuse_another(path, header)
        return Saved(bool(header["finished"]), header["state"], arrays)

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
        began = time.monotonic()
        header = {
            "format": _FORMAT, "format_version": _FORMAT_VERSION, **self._of,
            "finished": saved.finished, "state": saved.header,
        }  # fmt: skip
        write_archive(self._path(bounds), header, saved.arrays)
        self._last = time.monotonic()
        self._cost = self._last - began

    def remove(self) -> None:
        """Delete what is saved, and the folder if nothing else is in it."""
        self._sweep()
        for path in self._files():
            path.unlink()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _read(self, path: Path) -> tuple[dict[str, Any], dict[str, Vector]]:
        try:
            return read_archive(path, **_MARK)
        except FileFormatError as error:
            raise FileFormatError(
                argument="checkpoint",
                rule="must be what a fit has saved",
                remedy=f"{path.name!r} in {os.fspath(self.folder)!r} is truncated, damaged, of a "
                f"later version of reprior or something else. {self._remedy}",
            ) from error

    @property
    def _remedy(self) -> str:
        return f"Delete the folder {os.fspath(self.folder)!r} to begin anew, or name another one."

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("pass-*.npz"))

    def _sweep(self) -> None:
        """Delete what savings that were ended in the middle have left."""
        for path in self.folder.glob(".pass-*.npz.*"):
            path.unlink()

    def _path(self, bounds: tuple[float, float]) -> Path:
        low, high = bounds
        return self.folder / f"pass-{low!r}-to-{high!r}.npz"

    def _refuse_another(self, path: Path, header: dict[str, Any]) -> None:
        where, remedy = os.fspath(self.folder), self._remedy
        if header["format_version"] != _FORMAT_VERSION:
            raise OptionError(
                argument="checkpoint",
                rule="must be of this version of reprior",
                remedy=f"{path.name!r} in {where!r} was begun by an earlier one, which noted less. "
                f"{remedy}",
            )
        for what, mine in self._of.items():
            theirs: Any = header.get(what)
            ours = json.loads(json.dumps(mine))
            if theirs == ours:
                continue
            if what == "options":
                names = sorted(k for k in {*theirs, *ours} if theirs.get(k) != ours.get(k))
                raise OptionError(
                    argument="checkpoint",
                    rule="must be of a fit with the same options",
                    remedy=f"{path.name!r} in {where!r} was begun with another "
                    f"{' and '.join(names)}. {remedy}",
                )
            raise OptionError(
                argument="checkpoint",
                rule="must be of the same data",
                remedy=f"{path.name!r} in {where!r} was begun on {_difference(theirs, ours)}. "
                f"{remedy}",
            )


_MARK: Any = {"format_name": _FORMAT, "version": _FORMAT_VERSION}


def _difference(theirs: Any, ours: Any) -> str:
    """Say in which file two lists of files differ."""
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
    """A time of change to its last digit, as ``touch -d`` takes it.

    Examples
    --------
    >>> _moment(1_700_000_000_000_000_042)
    '2023-11-14 22:13:20.000000042 UTC'
    """
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:09d} UTC"


def options_of(stream: Any, resolution: Any) -> dict[str, Any]:
    """The options that a profile depends on, those of reading the files included."""
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


def tell(
    checkpoint: Checkpoint,
    bounds: tuple[float, float],
    place: Place,
    chunks: Any,
    *,
    again: bool = False,
) -> None:
    """Log, as information, what was counted before and is not counted again.

    ``again``: in another reading, after one in which bins were begun in vain.
    """
    low, high = bounds
    where = f" ({_files_before(place, chunks)})" if isinstance(chunks, ScoreFile) else ""
    _log.info(
        "The fit goes on from the checkpoint in %r: %s samples%s were counted before, for "
        "strengths from %g to %g%s.",
        os.fspath(checkpoint.folder), f"{place.start:,}", where, low, high,
        ", in another reading of the same files that keeps every switch" if again else "",
    )  # fmt: skip


def _files_before(place: Place, file: ScoreFile) -> str:
    """Say how many files lie before a place, and how many rows of the one it is in."""
    source, row = place.source, place.row
    if row == file.rows[source]:
        source, row = source + 1, 0
    whole = f"{source} of {len(file.paths)} file{'' if len(file.paths) == 1 else 's'}"
    return whole if not row else f"{whole}, and {row:,} rows of {file.paths[source].name!r}"


def rest_of(
    chunks: Iterable[Any], place: Place, digest: Digest | None, expected: Known | None
) -> Iterator[Chunk]:
    """The chunks behind a place, which is between two of them.

    With a ``digest`` those before are read once more to take it, and must have the ``expected``
    one. Without, score files are entered at the place, and of other chunks those before are let
    go.
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
            got=f"{passed} samples to pass by that are not the first {n}, which were counted",
            remedy="Delete its folder to begin anew.",
        )


def taken(chunks: Iterable[Any], class_axis: int, progress: Progress = None) -> Known:
    """The digest of all samples, by one pass over them."""
    digest, done = Digest(class_axis), 0
    for given in chunks:
        chunk = as_chunk(given, done)
        digest.update(chunk)
        done += chunk.n_labels
        if progress is not None:
            progress(done)
    return digest.known


def check_same(found: Known, expected: Known, *, of_files: bool = False) -> None:
    """Refuse other samples, or other weights of them, than were counted.

    ``of_files``: of files whose names, sizes and times of change are those of before.
    """
    if found == expected:
        return
    what = "their weights are others" if found.value == expected.value else "they are others"
    though = ", though names, sizes and times of change of the files are the same"
    raise OptionError(
        argument="checkpoint",
        rule="must be of the same data",
        remedy=f"Of the first {expected.n_samples} samples, which were counted, {what} by their "
        f"fingerprint{though if of_files else ''}. Delete its folder to begin anew.",
    )


def pack_place(place: Place) -> list[Any]:
    """A place as JSON can hold it."""
    return [*place[:3], pack_left_out(place.left_out)]


def as_place(packed: list[Any]) -> Place:
    """What :func:`pack_place` packed."""
    start, source, row, left_out = packed
    return Place(start, source, row, as_left_out(left_out))


def pack_left_out(left_out: Iterable[LeftOut]) -> list[list[Any]]:
    """What was left out as JSON can hold it."""
    return [[os.fspath(each.path), each.rows, each.reason] for each in left_out]


def as_left_out(packed: Iterable[list[Any]]) -> tuple[LeftOut, ...]:
    """What :func:`pack_left_out` packed."""
    return tuple(LeftOut(Path(path), rows, reason) for path, rows, reason in packed)
