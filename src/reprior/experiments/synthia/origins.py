"""Which score files a result was made of, so that it is made anew where they have changed."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files.archive import DAMAGE

__all__ = [
    "changed",
    "damage_told",
    "digests_of",
    "score_path",
    "scored_conditions",
    "scored_names",
]

SCORES = "scores"


def score_path(folder: str | os.PathLike[str], condition: str) -> Path:
    """Return where the scores of a network under a condition are.

    Examples
    --------
    >>> score_path("runs/rgb-ce", "fog").as_posix()
    'runs/rgb-ce/scores/fog.npz'
    """
    return Path(folder) / SCORES / f"{condition}.npz"


def digests_of(home: Path, conditions: Iterable[str]) -> dict[str, str]:
    """Return a digest of each score file of a network.

    It is of the names, sizes and checksums that the archive keeps of its arrays: of what they
    hold, not of when they were written.
    """
    return {name: _digest(score_path(home, name)) for name in conditions}


def changed(made_of: Mapping[str, str], home: Path) -> bool:
    """Return whether a score file is another than that which something was made of.

    A file that is not there has not changed: results are kept without their scores.
    """
    there = [name for name in made_of if score_path(home, name).exists()]
    return any(digest != made_of[name] for name, digest in digests_of(home, there).items())


def scored_conditions(homes: Iterable[Path], conditions: Iterable[str]) -> list[str]:
    """Return those conditions under which all networks are scored."""
    folders = list(homes)
    return [name for name in conditions if all(score_path(home, name).exists() for home in folders)]


def scored_names(home: Path, condition: str) -> tuple[str, ...]:
    """Return the names of the frames that a score file is of, without reading the scores."""
    path = score_path(home, condition)
    with damage_told(path), path.open("rb") as file, np.load(file, allow_pickle=False) as found:
        return tuple(str(name) for name in found["names"])


def _digest(path: Path) -> str:
    with damage_told(path), zipfile.ZipFile(path) as archive:
        held = sorted((each.filename, each.file_size, each.CRC) for each in archive.infolist())
    return hashlib.sha256(repr(held).encode()).hexdigest()[:16]


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Say of a damaged file which it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise FileFormatError(
            f"A score file must be a whole npz with scores, labels and names. Got {path}: {error}. "
            f"Remove it and score again."
        ) from error
