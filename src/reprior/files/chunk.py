"""Some consecutive samples of a larger set: what readers give and engines take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Chunk"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive samples.

    Attributes
    ----------
    scores : array
        (n, K), (n, K, H, W) … with the class axis where the source says; (n,) or (n, 1) where a
        model of two classes gives one score.
    labels : array of int64 or None
        Class indices, of the scores' shape without the class axis.
    weight : array or None
        Weights of the samples.
    start : int
        Index of the first sample in the whole set, for error sentences.
    extra : pyarrow.Table or None
        All original columns of these rows, where a table was opened with ``keep=True``.
    source : int
        Index of the file these samples come from, among several.

    Examples
    --------
    >>> import numpy as np
    >>> chunk = Chunk(np.zeros((3, 2)), np.array([0, 1, 1]), start=6)
    >>> len(chunk), chunk.stop
    (3, 9)
    """

    scores: Any
    labels: Any | None = None
    weight: Any | None = None
    start: int = 0
    extra: Any | None = None
    source: int = 0

    def __len__(self) -> int:
        return int(self.scores.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of samples by their labels."""
        shape = np.shape(self.labels) if self.labels is not None else ()
        return int(shape[0]) if shape else 1

    def sample_axis(self, class_axis: int) -> int:
        """The axis of the samples in the scores: the first that is not the classes'."""
        n_axes = len(np.shape(self.scores))
        return 1 if n_axes > 1 and class_axis in (0, -n_axes) else 0

    @property
    def stop(self) -> int:
        """Index of the sample after the last one."""
        return self.start + len(self)
