r"""What a fusion does to the scores of its modalities, apart from the strengths.

.. math::
    \text{rebalance_first:}\; P_m ∝ \exp\bigl(δ_m\,(z_m + λ_m w)\bigr), \qquad
    \text{flatten_first:}\; P_m ∝ \exp\bigl(δ_m z_m + λ_m w\bigr)

with the log-scores z_m of modality m, its flattening factor δ_m, its strength λ_m and the slopes
w = log P_t − log P_s; the P_m are then fused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core.arrays import Array, Namespace
from reprior.core.flatten import EntropyReference

__all__ = ["Doubt", "NoPosteriorError", "Recipe", "References"]

Vector: TypeAlias = np.ndarray[Any, Any]


class NoPosteriorError(Exception):
    """A row has no posterior; holds the modality's index, or None for what they leave together."""

    def __init__(self, modality: int | None) -> None:
        super().__init__(modality)
        self.modality = modality


class Doubt(NamedTuple):
    """How unsure a modality is, per pixel or per image, in nats."""

    entropy: Array
    """Of the posterior, the mean over the passes where there are several."""
    information: Array | None = None
    """The mutual information of class and pass: that entropy less the mean one of a pass."""

    def averaged(self, recipe: Recipe, xp: Namespace) -> Doubt:
        """Its mean over the pixels of every image, unless each has a δ of its own."""
        if recipe.flatten_by == "pixel" or self.entropy.ndim == 1:
            return self
        axes = tuple(range(1, self.entropy.ndim))
        return Doubt(*(v if v is None else xp.mean(v, axis=axes, keepdims=True) for v in self))


@dataclass(frozen=True)
class References:
    """How unsure one modality is on images it knows; None for what δ is not made of."""

    entropy: EntropyReference | None = None
    information: EntropyReference | None = None

    def factor(self, doubt: Doubt, xp: Namespace) -> Array | None:
        """δ: the smaller one of what the references give, None where there is none."""
        pairs = ((doubt.entropy, self.entropy), (doubt.information, self.information))
        factors = [_ratio(value, known, xp) for value, known in pairs if known is not None]
        if len(factors) < 2:
            return factors[0] if factors else None
        return xp.where(factors[0] < factors[1], factors[0], factors[1])


def _ratio(value: Array, known: EntropyReference, xp: Namespace) -> Array:
    """δ = μ / (μ + max(0, H − μ − σ)): 1 to the bit where H is at most μ + σ."""
    excess = value - (known.mean + known.std)
    excess = xp.where(excess > 0, excess, xp.zeros_like(excess))
    return known.mean / (known.mean + excess)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The modalities and what is done to each."""

    names: tuple[str, ...]
    references: tuple[References, ...]
    slopes: Vector
    rule: str
    order: str
    flatten_by: str
    kind: str
    passes: bool
    """Whether the scores have a leading axis of passes."""

    @property
    def flattens(self) -> bool:
        """Whether there is a δ to be computed."""
        return any(known != References() for known in self.references)

    def shift(self, strength: float) -> Vector | None:
        """λ·w, one per class; None where that is nothing."""
        if strength == 0.0 or not self.slopes.any():
            return None
        shift: Vector = strength * self.slopes
        return shift

    def only(self, names: Sequence[str]) -> Recipe:
        """The same without the modalities that are not among ``names``."""
        kept = [i for i, name in enumerate(self.names) if name in names]
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            references=tuple(self.references[i] for i in kept),
        )
