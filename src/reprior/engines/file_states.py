"""Whether files are still what they were: by their size, and the time of their last change."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from reprior.exceptions import OptionError
from reprior.files.scores import ScoreFile

__all__ = ["refuse_changed", "refuse_other_samples", "sources_of", "state_of"]


def sources_of(chunks: Any) -> list[list[Any]] | None:
    """Path, size and time of change of every file; None where chunks do not come from files."""
    if not isinstance(chunks, ScoreFile):
        return None
    return [state_of(path) for path in (*chunks.paths, *chunks.label_paths)]


def state_of(path: Path) -> list[Any]:
    """Path, size and time of change, in nanoseconds, of a file or of all files in a folder."""
    every = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    states = [each.stat() for each in every]
    size = sum(state.st_size for state in states)
    return [os.fspath(path.absolute()), size, max((s.st_mtime_ns for s in states), default=0)]


def refuse_changed(before: list[list[Any]] | None, chunks: Any) -> None:
    """Refuse chunks of files that are not what they were when the first pass began."""
    for a, b in zip(before or (), sources_of(chunks) or (), strict=True):
        if a != b:
            path, size, _ = a
            how = f"was {size} bytes and is {b[1]} now" if size != b[1] else "was changed since"
            refuse_other_samples("chunks", f"{path!r}, which {how}")


def refuse_other_samples(name: str, got: str) -> NoReturn:
    """Refuse samples that are others than in an earlier pass."""
    raise OptionError(
        f"`{name}` must give the same samples in every pass. Got {got}. Leave the files alone "
        f"while they are read."
    )
