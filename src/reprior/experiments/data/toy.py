"""Two moons and two circles in the plane, nine samples of one class to each of the other."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import require
from reprior.experiments.data.images import ImageData

__all__ = ["SHAPES", "make_toy"]

Array: TypeAlias = np.ndarray[Any, Any]

SHAPES = ("moons", "circles")

#: Samples of the larger class; the smaller has a ninth of them.
LARGER, RATIO = 2500, 9

#: Standard deviation of the noise, so that the classes overlap a little.
NOISE = {"moons": 0.25, "circles": 0.15}


def make_toy(shape: str, seed: int = 0) -> ImageData:
    """Return a toy set: imbalanced training points, balanced ones to tune and to test on.

    Examples
    --------
    >>> data = make_toy("moons")
    >>> data.class_counts, len(data.validation_labels), len(data.test_labels)
    (array([2500,  277]), 5000, 5000)
    """
    check_choice("data", shape, SHAPES)
    train = _points(shape, (LARGER, LARGER // RATIO), 3 * seed)
    validation = _points(shape, (LARGER, LARGER), 3 * seed + 1)
    test = _points(shape, (LARGER, LARGER), 3 * seed + 2)
    return ImageData(shape, *train, *test, ["larger", "smaller"], (), (), *validation)


def _points(shape: str, n: tuple[int, int], seed: int) -> tuple[Array, Array]:
    datasets = require("sklearn.datasets", extra="sklearn", purpose="For the toy sets")
    if shape == "moons":
        points, labels = datasets.make_moons(n, noise=NOISE[shape], random_state=seed)
    else:
        points, labels = datasets.make_circles(n, noise=NOISE[shape], random_state=seed, factor=0.5)
    return points.astype(np.float32), labels.astype(np.int64)
