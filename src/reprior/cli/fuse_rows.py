"""The same rows of several score files at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reprior.exceptions import ScoresError

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk
    from reprior.files.scores import ScoreFile

__all__ = ["aligned"]


def aligned(files: Sequence[ScoreFile]) -> Iterator[list[Chunk]]:
    """Give the same rows of all files at a time; refuse files of another length."""
    streams = [file.chunks() for file in files]
    parts: list[Chunk | None] = [None] * len(files)
    while True:
        parts = [
            next(stream, None) if part is None else part
            for part, stream in zip(parts, streams, strict=True)
        ]
        there = [part for part in parts if part is not None]
        if not there:
            return
        if len(there) < len(parts):
            ended = files[parts.index(None)]
            raise ScoresError(
                f"SCORES must have the same rows. Got {ended.n_samples} in {str(ended.paths[0])!r} "
                f"and more in another. Score the same samples with every model."
            )
        n = min(map(len, there))
        heads = [_cut(part, 0, n) for part in there]
        yield heads
        parts = [_cut(part, n, len(part)) if len(part) > n else None for part in there]


def _cut(chunk: Chunk, start: int, stop: int) -> Chunk:
    def part(values: Any) -> Any:
        return None if values is None else values[start:stop]

    if start == 0 and stop == len(chunk):
        return chunk
    extra = None if chunk.extra is None else chunk.extra.slice(start, stop - start)
    return replace(
        chunk, scores=part(chunk.scores), labels=part(chunk.labels), weight=part(chunk.weight),
        start=chunk.start + start, extra=extra,
    )  # fmt: skip
