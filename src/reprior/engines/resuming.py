"""What was counted before is passed by, once it is known to be the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reprior.engines.checkpoints import Checkpoint
from reprior.engines.chunk_source import Progress, as_chunk
from reprior.engines.fingerprint import Digest, Known
from reprior.exceptions import OptionError
from reprior.files.chunks import Chunk, LeftOut, Place
from reprior.files.scores import ScoreFile

__all__ = [
    "as_left_out",
    "as_place",
    "check_same",
    "pack_left_out",
    "pack_place",
    "rest_of",
    "taken",
    "tell",
]


_log = logging.getLogger(__name__)


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
            f"`checkpoint` must be of the same data. Got {passed} samples to pass by that are not "
            f"the first {n}, which were counted. Delete its folder to begin anew."
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
        f"`checkpoint` must be of the same data. Of the first {expected.n_samples} samples, which "
        f"were counted, {what} by their fingerprint{though if of_files else ''}. Delete its folder "
        f"to begin anew."
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
