"""Logits that look like probabilities: a question to all parts of a stream together."""

from __future__ import annotations

import warnings
from typing import Any

from reprior.core.logspace import FEW_SCORES, ROW_SUM_TOLERANCE
from reprior.exceptions import RepriorWarning
from reprior.profile.samples import Samples

__all__ = ["Lookalike"]


class Lookalike:
    """Whether scores declared as logits are probabilities in all parts seen so far."""

    def __init__(self, kind: str) -> None:
        self.possible = kind == "logits"
        self.single, self.n_samples = False, 0

    def see(self, rows: Samples, single: bool) -> None:
        """Look at one more part; ``single`` tells of one score per sample, expanded to two."""
        z = rows.scores[..., 1:] if single else rows.scores
        self.look(z, rows.labels.size, single, rows.xp)

    def look(self, z: Any, n_samples: int, single: bool, xp: Any) -> None:
        """The same for scores as they are given, the classes last."""
        if not self.possible:
            return
        self.single, self.n_samples = single, self.n_samples + n_samples
        # The first row settles nearly every case, without a pass over the rest.
        first = z[(0,) * (z.ndim - 1)]
        self.possible = _like(first, single, xp) and _like(z, single, xp)

    def merge(self, other: Lookalike) -> None:
        """Take in what another one has seen."""
        self.possible = self.possible and other.possible
        self.single = self.single or other.single
        self.n_samples += other.n_samples

    def warn(self, *, stacklevel: int) -> None:
        """Say so, where every part looked like it."""
        if not self.possible or self.n_samples < (FEW_SCORES if self.single else 1):
            return
        rule = (
            "every one of them lies in [0, 1]. If they are probabilities of the second class"
            if self.single
            else "every row lies in [0, 1] and sums to 1. If they are probabilities"
        )
        warnings.warn(
            f"`scores` were declared as kind='logits', but {rule}, pass kind='probs'.",
            RepriorWarning,
            stacklevel=stacklevel + 1,
        )


def _like(z: Any, single: bool, xp: Any) -> bool:
    if not bool((xp.min(z) >= 0.0) & (xp.max(z) <= 1.0)):
        return False
    return single or bool(xp.all(xp.abs(xp.sum(z, axis=-1) - 1.0) <= ROW_SUM_TOLERANCE))
