"""Labels in files of their own, beside the scores they belong to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from reprior.files.formats.interface import Vector
from reprior.files.labels import LabelCoder, LabelFile

__all__ = ["OwnLabels", "odd_pair"]


class OwnLabels:
    """Labels of files of their own, handed out as many at a time as there are scores."""

    def __init__(self, files: Sequence[LabelFile], coder: LabelCoder, rows: int) -> None:
        self._blocks = _encoded(files, coder, rows)
        self._held: list[Vector] = []
        self.taken = 0

    def take(self, n: int) -> Vector | None:
        """Return the next ``n`` labels, or None where there are fewer."""
        held = sum(map(len, self._held))
        while held < n:
            part = next(self._blocks, None)
            if part is None:
                self.taken += held
                return None
            self._held.append(part)
            held += len(part)
        whole = np.concatenate(self._held) if len(self._held) != 1 else self._held[0]
        self._held = [whole[n:]] if held > n else []
        self.taken += n
        return whole[:n]

    def drop(self, n: int) -> None:
        """Let the next ``n`` labels go, or all where there are fewer."""
        while n > 0:
            part = self._held.pop(0) if self._held else next(self._blocks, None)
            if part is None:
                return
            if len(part) > n:
                self._held.insert(0, part[n:])
            self.taken += min(n, len(part))
            n -= len(part)

    def rest(self) -> int:
        """Return how many labels are left, and let them go."""
        return sum(map(len, self._held)) + sum(map(len, self._blocks))


def _encoded(files: Sequence[LabelFile], coder: LabelCoder, rows: int) -> Iterator[Vector]:
    for file in files:
        row = 0

        def where(i: int, file: LabelFile = file) -> str:
            return f"{file.place(row + i)} of {os.fspath(file.path)!r}"  # noqa: B023 - asked at once

        for labels in file.blocks(rows):
            yield coder.encode(labels, where)
            row += len(labels)


def odd_pair(scores: Path, labels: Path) -> bool:
    """Whether the numbers in two names do not go together.

    Examples
    --------
    >>> odd_pair(Path("resnet50-2.npy"), Path("labels-002.csv"))
    False
    >>> odd_pair(Path("scores-2.npy"), Path("labels-3.npy"))
    True
    """
    mine, theirs = ([int(n) for n in re.findall(r"\d+", path.stem)] for path in (scores, labels))
    common = min(len(mine), len(theirs))
    return common > 0 and mine[-common:] != theirs[-common:]
