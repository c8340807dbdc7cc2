"""What the three libraries have in common: a sum of trees per class, and its link function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, TypeAlias

import numpy as np

from reprior.exceptions import FoldError, Text

__all__ = ["BEHIND", "MARK", "Trees", "Vector", "refused"]

Vector: TypeAlias = np.ndarray[Any, Any]

MARK = "reprior_fold"
"""The name under which a model says that it is folded: an attribute, parameter or metadatum."""

BEHIND = "Apply the calibrator to the model's scores instead."


class Trees(ABC):
    """A booster whose raw scores are sums of leaf values.

    A probability is softmax(σ·raw) over K outputs, or for two classes the logistic function of
    σ·raw, with the slope σ.

    Attributes
    ----------
    booster : object
        The library's own object, which a copy of the model gets another one for.
    n_outputs : int
        Raw scores per sample: K, or 1 for two classes.
    slope : float
        σ.
    tolerance : float
        By how much posteriors may differ in the precision of the library.
    mark : str or None
        What was folded in before, as far as the model knows.
    """

    library: str
    booster: Any
    n_outputs: int
    slope: float = 1.0
    tolerance: float
    mark: str | None

    @property
    def n_classes(self) -> int:
        """K."""
        return max(self.n_outputs, 2)

    @abstractmethod
    def raw(self, inputs: Any) -> Vector:
        """Return the raw scores in float64: (N, K), or (N,) for one output."""

    @abstractmethod
    def probabilities(self, inputs: Any) -> Vector | None:
        """Return the library's own probabilities, in the shape of the raw scores.

        None where its prediction is something else, such as a label.
        """

    @abstractmethod
    def mapped(self, scale: Vector, shift: Vector, mark: str) -> Self:
        """Return a copy whose raw scores are scale·raw + shift, both of shape (n_outputs,)."""

    @abstractmethod
    def samples(self, rng: np.random.Generator, n: int) -> Any:
        """Return inputs that reach different leaves."""


def refused(rule: str, got: Text, remedy: Text = BEHIND) -> FoldError:
    """Return the error for a model that the correction does not go into."""
    return FoldError(argument="model", rule=rule, got=got, remedy=remedy)
