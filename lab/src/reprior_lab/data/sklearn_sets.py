"""Data sets that come with scikit-learn: handwritten digits, two moons and circles."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.core import check_choice
from reprior_lab.data.images import ImageData

__all__ = ["SHAPES", "make_toy", "read_digits"]

#: Test images of each digit; about 120 remain for training.
N_TEST = 60

#: Training images of each digit, limited by the smallest class.
N_TRAIN = 114

Array: TypeAlias = np.ndarray[Any, Any]

SHAPES = ("moons", "circles")

#: Samples of the larger class; the smaller class has a ninth of them.
LARGER, RATIO = 2500, 9

#: Standard deviation of the noise, so that the classes overlap a little.
NOISE = {"moons": 0.25, "circles": 0.15}


def read_digits() -> ImageData:
    """Return the 8 × 8 digits: 114 training and 60 test images of each.

    The split is fixed: the first images of each digit are for training.

    Examples
    --------
    >>> data = read_digits()
    >>> data.train_images.shape, data.test_images.shape, data.n_classes
    ((1140, 8, 8, 1), (600, 8, 8, 1), 10)
    """
    from sklearn import datasets

    values, labels = datasets.load_digits(return_X_y=True)
    images = np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
    train = np.sort(np.concatenate([index[:N_TRAIN] for index in of_digit]))
    test = np.sort(np.concatenate([index[N_TRAIN : N_TRAIN + N_TEST] for index in of_digit]))
    labels = labels.astype(np.int64)
    return ImageData(
        "digits",
        images[train],
        labels[train],
        images[test],
        labels[test],
        [str(digit) for digit in range(10)],
        (0.305,),
        (0.376,),
        padding=1,
    )


def make_toy(shape: str, seed: int = 0) -> ImageData:
    """Return a toy set: imbalanced training points, balanced points to tune and to test on.

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
    from sklearn import datasets

    if shape == "moons":
        points, labels = datasets.make_moons(n, noise=NOISE[shape], random_state=seed)
    else:
        points, labels = datasets.make_circles(n, noise=NOISE[shape], random_state=seed, factor=0.5)
    return points.astype(np.float32), labels.astype(np.int64)
