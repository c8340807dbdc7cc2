"""The log-loss of per-class scales and biases, held near a centre by a penalty."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.log_loss_sums import (
    posterior_curvature,
    posterior_sums,
    posterior_variances,
)
from reprior.core.moments import tilted_moments
from reprior.core.weighted_rows import Labelled

__all__ = ["ScalingLoss", "Solve"]

Vector: TypeAlias = NDArray[np.float64]
Solve: TypeAlias = Callable[[Vector], Vector]

MOST_INVERTED = 512
"""Up to so many numbers the whole matrix of second derivatives is inverted. Beyond, its making
and inverting takes longer than the passes that it saves."""

RIDGE = 1e-9
"""What is added to the curvature of the preconditioner, relative to its mean: enough to solve by
where a class has none."""


class ScalingLoss:
    """The penalised log-loss of softmax(a·z + b) as a function of the deviations from a centre.

    The first numbers of a point are the scales' relative deviations, a = a₀·(1 + s), one for every
    class or one for all; the others are the biases', b = b₀ + r. Half their sum of squares, times
    ``penalty``, is added to the weighted mean of the log-loss.
    """

    def __init__(
        self,
        data: Labelled,
        centre: tuple[float, Vector],
        *,
        penalty: float,
        per_class: bool,
    ) -> None:
        self.data, self.centre = data, centre
        self.penalty, self.per_class = penalty, per_class
        self.n_scales = data.n_classes if per_class else 1

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return self.n_scales + self.data.n_classes

    @property
    def noise(self) -> float:
        """How exactly its values are known, relative to their size or 1."""
        return self.data.noise

    def unpacked(self, point: Vector) -> tuple[Vector, Vector]:
        """Return the scale and the bias of every class."""
        scale = self.centre[0] * (1.0 + point[: self.n_scales])
        bias = self.centre[1] + point[self.n_scales :]
        return np.broadcast_to(scale, bias.shape), bias

    def __call__(self, point: Vector) -> tuple[float, Vector]:
        """Return the penalised loss and its gradient."""
        value, by_scale, by_bias = posterior_sums(self.data, *self.unpacked(point))
        scales = by_scale if self.per_class else by_scale.sum(keepdims=True)
        gradient = np.concatenate([self.centre[0] * scales, by_bias])
        return value + self.penalised(point), gradient + self.penalty * point

    def penalised(self, point: Vector) -> float:
        """What the penalty adds to the loss."""
        return 0.5 * self.penalty * float(point @ point)

    def centred(self, point: Vector) -> Vector:
        """Return the point with the least penalty of all that have the same log-loss.

        A number added to all biases changes no posterior.
        """
        biases = point[self.n_scales :]
        return np.concatenate([point[: self.n_scales], biases - biases.mean()])

    def preconditioner(self, point: Vector, sample: Labelled) -> Solve:
        """Return the product with the inverse of the second derivatives at a point, or nearly.

        They are those of a ``sample`` of the data, and where they are too many to invert, only
        those by a class's own scale and bias.
        """
        scale, bias = self.unpacked(point)
        if self.size > MOST_INVERTED:
            return self._by_class(scale, bias, sample)
        curvature = posterior_curvature(sample, scale, bias, per_class=self.per_class)
        curvature[: self.n_scales] *= self.centre[0]
        curvature[:, : self.n_scales] *= self.centre[0]
        diagonal = np.einsum("ii->i", curvature)
        mean = float(diagonal.mean())
        diagonal += self.penalty + RIDGE * mean
        # A number added to all biases changes nothing: some curvature in that direction lets the
        # equations be solved, and as no gradient goes there, no step does.
        curvature[self.n_scales :, self.n_scales :] += mean / self.data.n_classes
        inverse = np.linalg.inv(curvature)
        return lambda gradient: inverse @ gradient

    def _by_class(self, scale: Vector, bias: Vector, sample: Labelled) -> Solve:
        zz, z, one = posterior_variances(sample, scale, bias)
        ridge = self.penalty + RIDGE * float(one.mean())
        biases = one + ridge
        if not self.per_class:
            common = tilted_moments(sample, float(scale[0]), bias, np.zeros_like(bias))[3]
            diagonal = np.concatenate([[self.centre[0] ** 2 * common + ridge], biases])
            return lambda gradient: gradient / diagonal
        scales, mixed = self.centre[0] ** 2 * zz + ridge, self.centre[0] * z
        determinant = scales * biases - mixed**2

        def solve(gradient: Vector) -> Vector:
            a, b = np.split(gradient, 2)
            both = [biases * a - mixed * b, scales * b - mixed * a]
            return np.concatenate([x / determinant for x in both])

        return solve
