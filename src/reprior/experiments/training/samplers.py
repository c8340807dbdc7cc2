"""Which samples an epoch is made of, from nothing but the seed and the epoch's number."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

from reprior.core.checks import check_choice
from reprior.exceptions import OptionError, PriorError, require

__all__ = ["class_shares", "draw_epoch", "generator_of", "synthesised"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Samplers that make new samples once, before training.
SYNTHETIC = {"smote": "SMOTE", "adasyn": "ADASYN"}


def generator_of(seed: int, epoch: int, purpose: int) -> torch.Generator:
    """Return the random generator of one purpose in one epoch.

    A run that is resumed draws what it would have drawn, with no state of a generator to keep.

    Examples
    --------
    >>> a, b = (torch.rand(2, generator=generator_of(0, 3, 1)) for _ in range(2))
    >>> bool((a == b).all())
    True
    """
    state = np.random.SeedSequence([seed, epoch, purpose]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0] >> np.uint64(1)))


def class_shares(sampler: str, counts: Any) -> Vector:
    r"""Return the probability of each class in a sampler's draws.

    .. math:: P_k = n_k / N \text{ (plain)}, \quad 1/K \text{ (over, under)}, \quad
        \frac{n_{\max}/n_k}{\sum_j n_{\max}/n_j} \text{ (reversed)}

    where n are the training counts, N their sum and K the number of classes.

    References
    ----------
    .. [1] Zhou, Cui, Wei, Chen. "BBN: Bilateral-Branch Network with Cumulative Learning for
       Long-Tailed Visual Recognition", CVPR 2020: Section 4.1, the reversed sampler.

    Examples
    --------
    >>> class_shares("reversed", [300, 100])
    array([0.25, 0.75])
    """
    check_choice("sampler", sampler, ("plain", "over", "under", "reversed"))
    counts = np.asarray(counts, np.float64)
    shares: Vector
    if sampler == "plain":
        shares = counts / counts.sum()
        return shares
    if not counts.all():
        raise PriorError(
            f"Every class must have a training sample to draw. Got none of class "
            f"{int(np.argmin(counts))}. Take sampler='plain'."
        )
    weights = counts.max() / counts if sampler == "reversed" else np.ones_like(counts)
    shares = weights / weights.sum()
    return shares


def draw_epoch(sampler: str, labels: Vector, generator: torch.Generator) -> Vector:
    """Return the indices of an epoch's samples, in order.

    "plain" is every sample once. "over" and "reversed" are as many draws with replacement: a
    class by :func:`class_shares`, then any of its samples. "under" takes as many of each class as
    the smallest has, others every epoch.

    Examples
    --------
    >>> labels = np.array([0] * 6 + [1] * 2)
    >>> chosen = draw_epoch("under", labels, torch.Generator().manual_seed(0))
    >>> np.bincount(labels[chosen])
    array([2, 2])
    """
    check_choice("sampler", sampler, ("plain", "over", "under", "reversed"))
    n = len(labels)
    if sampler == "plain":
        return torch.randperm(n, generator=generator).numpy()
    counts = np.bincount(labels)
    shares = class_shares(sampler, counts)
    by_class = np.argsort(labels, kind="stable")
    starts = np.cumsum(counts) - counts
    if sampler == "under":
        least = int(counts.min())
        own = [
            by_class[start + torch.randperm(int(count), generator=generator)[:least].numpy()]
            for start, count in zip(starts, counts, strict=True)
        ]
        mixed: Vector = np.concatenate(own)
        mixed = mixed[torch.randperm(mixed.size, generator=generator).numpy()]
        return mixed
    weights = torch.from_numpy(shares)
    classes = torch.multinomial(weights, n, replacement=True, generator=generator).numpy()
    place = torch.rand(n, generator=generator, dtype=torch.float64).numpy()
    chosen: Vector = by_class[starts[classes] + (place * counts[classes]).astype(np.int64)]
    return chosen


def synthesised(sampler: str, features: Any, labels: Vector, seed: int) -> tuple[Vector, Vector]:
    """Return flat features with as many samples of each class, by SMOTE or ADASYN.

    Examples
    --------
    >>> features = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    >>> labels = np.array([0] * 30 + [1] * 10)
    >>> np.bincount(synthesised("smote", features, labels, seed=0)[1])
    array([30, 30])
    """
    check_choice("sampler", sampler, SYNTHETIC)
    if features.ndim != 2:
        raise OptionError(
            f"`sampler` must suit the data. Got {sampler!r}, which makes new samples between "
            f"feature vectors, and images. Take sampler='over'."
        )
    library = require(
        "imblearn.over_sampling", extra="experiments", purpose=f"For the sampler {sampler!r}"
    )
    made, names = getattr(library, SYNTHETIC[sampler])(random_state=seed).fit_resample(
        features, labels
    )
    return np.asarray(made, features.dtype), np.asarray(names, labels.dtype)
