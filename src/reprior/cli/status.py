"""What a progress bar says beside its numbers: that the first run compiles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprior.files.score_file import ScoreFile

__all__ = ["with_compiling"]

COMPILING = "compiling the fast pass, once per installation"

#: About how many bytes a number takes in a csv file, whose rows are not counted beforehand.
BYTES_OF_A_NUMBER = 8


def with_compiling(title: str, scores: ScoreFile) -> str:
    """Return a bar's title, which says so where numba has to compile before the first chunk."""
    from reprior.tuning import compiling

    if not compiling.has_numba() or _size(scores) < compiling.WORTH_COMPILING or _is_compiled():
        return title
    return f"{title} ({COMPILING})"


def _size(scores: ScoreFile) -> int:
    """Return how many scores there are, about."""
    if scores.n_samples is None:
        return sum(path.stat().st_size for path in scores.paths) // BYTES_OF_A_NUMBER
    return scores.n_samples * scores.n_classes


def _is_compiled() -> bool:
    """Whether numba keeps the pass already; also where it is not known where it would."""
    from reprior.tuning import passes

    told = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(passes.__file__).parent / "__pycache__"
    if not told and not os.access(beside if beside.is_dir() else beside.parent, os.W_OK):
        return True
    folder = Path(told) if told else beside
    return next(folder.rglob("compiled.*.nbi"), None) is not None
