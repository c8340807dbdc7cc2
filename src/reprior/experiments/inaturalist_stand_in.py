"""A stand-in for iNaturalist 2018: its true class counts, with features drawn from a mixture.

To see the method work at 8,142 classes, nobody should need 120 GB of images and a GPU. The
stand-in has the class counts and super-categories of the real data set; families, genera and
features are made up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_finite_number
from reprior.exceptions import OptionError
from reprior.experiments.data.inaturalist_counts import (
    VALIDATION_PER_CLASS,
    inaturalist_counts,
    inaturalist_supercategories,
)

__all__ = ["FeatureSamples", "StandIn"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Purposes that random numbers are drawn for, each with a generator of its own.
_TREE, _MEANS, _TRAINING, _VALIDATION = range(4)


@dataclass(frozen=True, eq=False)
class FeatureSamples:
    """Features (N, D) as float32 and labels (N,): a long-tailed part and a balanced one."""

    train_features: Array
    train_labels: Array
    validation_features: Array
    validation_labels: Array

    @property
    def class_counts(self) -> Array:
        """Training samples of each class, (K,)."""
        return np.bincount(self.train_labels, minlength=int(self.validation_labels.max()) + 1)


@dataclass(frozen=True, kw_only=True)
class StandIn:
    r"""A mixture with one component for each species, placed along a tree of life.

    .. math:: x = \frac{1}{c}\,(m_s + m_f + m_g + m_y + σ\, e^{τ u}\, ε)

    where m_s, m_f, m_g and m_y belong to the super-category, the family, the genus and the species
    of a sample, each drawn once from a normal distribution with the standard deviation of its
    level; ε is normal noise in D dimensions, σ its size, u one normal number for each sample, so
    that some are seen less clearly than others; and c makes the variance of every feature 1.
    Species of a genus are mistaken for each other most often, and the true one is mostly among the
    first five, as with real images.

    Parameters
    ----------
    n_classes : int, default 8142
        All species, or fewer: then those at equal distances in the official order.
    n_features : int, default 64
        D.
    genera, families : float
        How many there are to one species; species are spread over them at random, within their
        true super-category.
    levels : (float, float, float, float)
        Standard deviations of super-categories, families, genera and species.
    noise, unevenness : float
        σ and τ. With the defaults, a linear classifier trained with cross-entropy errs about as
        often as the networks of the paper.
    seed : int, default 0
        Of all that is drawn.

    Examples
    --------
    >>> samples = StandIn(n_classes=40, n_features=8).draw()
    >>> len(samples.train_features) == int(samples.class_counts.sum())
    True
    >>> samples.validation_features.shape, samples.class_counts[:5]
    ((120, 8), array([22, 25, 12, 33, 35]))
    """

    n_classes: int = 8142
    n_features: int = 64
    genera: float = 0.5
    families: float = 0.125
    levels: tuple[float, float, float, float] = (0.85, 0.5, 0.38, 0.32)
    noise: float = 1.0
    unevenness: float = 0.35
    seed: int = 0

    def __post_init__(self) -> None:
        most = inaturalist_counts().size
        for name, low, high in (("n_classes", 2, most), ("n_features", 1, 2048), ("seed", 0, None)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise OptionError(f"`{name}` must be a whole number from {low} on. Got {value!r}.")
            if high is not None and value > high:
                raise OptionError(f"`{name}` must be at most {high}. Got {value}.")
        for name in ("genera", "families", "noise"):
            check_finite_number(name, getattr(self, name), positive=True)
        check_finite_number("unevenness", self.unevenness, minimum=0.0)
        if len(self.levels) != 4:
            raise OptionError(
                f"`levels` must be four numbers: of super-categories, families, genera and "
                f"species. Got {len(self.levels)}. Pass 0 for a level without differences."
            )
        for level in self.levels:
            check_finite_number("levels", level, minimum=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return asdict(self) | {"levels": list(self.levels)}

    @property
    def classes(self) -> Array:
        """The official indices of the species, (K,)."""
        return np.linspace(0, inaturalist_counts().size - 1, self.n_classes).round().astype(int)

    def tree(self) -> tuple[Array, Array, Array, Array]:
        """Return the super-category, the family, the genus and the species of each class."""
        rng = self._generator(_TREE)
        _, whole = inaturalist_supercategories()
        above = whole[self.classes]
        family, genus = np.empty_like(above), np.empty_like(above)
        n_families = n_genera = 0
        for each in np.unique(above):
            own = np.flatnonzero(above == each)
            here = [max(1, round(share * own.size)) for share in (self.families, self.genera)]
            family_of_genus = rng.integers(0, here[0], here[1])
            of = rng.integers(0, here[1], own.size)
            family[own], genus[own] = n_families + family_of_genus[of], n_genera + of
            n_families, n_genera = n_families + here[0], n_genera + here[1]
        return above, family, genus, np.arange(self.n_classes)

    def draw(self) -> FeatureSamples:
        """Return the samples: as many of each class as iNaturalist has, and three to validate."""
        rng = self._generator(_MEANS)
        means = np.zeros((self.n_classes, self.n_features), np.float32)
        for node, size in zip(self.tree(), self.levels, strict=True):
            drawn = rng.standard_normal((int(node.max()) + 1, self.n_features), np.float32)
            means += np.float32(size) * drawn[node]
        counts = inaturalist_counts()[self.classes]
        each = np.full(self.n_classes, VALIDATION_PER_CLASS)
        train, validation = (
            self._part(means, counts, _TRAINING),
            self._part(means, each, _VALIDATION),
        )
        return FeatureSamples(*train, *validation)

    def _part(self, means: Array, counts: Array, purpose: int) -> tuple[Array, Array]:
        rng = self._generator(purpose)
        labels = np.repeat(np.arange(counts.size), counts)
        found = rng.standard_normal((labels.size, self.n_features), np.float32)
        clearness = np.exp(self.unevenness * rng.standard_normal((labels.size, 1), np.float32))
        found *= np.float32(self.noise) * clearness
        found += means[labels]
        found /= np.float32(_scale(self.levels, self.noise, self.unevenness))
        return found, labels

    def _generator(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])


def _scale(levels: Sequence[float], noise: float, unevenness: float) -> float:
    """The standard deviation of a feature before it is made 1."""
    # The mean of exp(2τu) over normal u is exp(2τ²).
    return float(np.sqrt(np.sum(np.square(levels)) + noise**2 * np.exp(2 * unevenness**2)))
