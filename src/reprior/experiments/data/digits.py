"""scikit-learn's handwritten digits: real images that come with a library, for quick trials."""

from __future__ import annotations

import numpy as np

from reprior.exceptions import require
from reprior.experiments.data.images import ImageData

__all__ = ["read_digits"]

#: Images of each digit that are kept for the test; about 120 are left to learn from.
N_TEST = 60

#: Of every digit the same number to learn from: the smallest class decides.
N_TRAIN = 114


def read_digits() -> ImageData:
    """Return the 8 × 8 digits: 114 training and 60 test images of each.

    Which image goes where is fixed: the first ones of each digit are for training.

    Examples
    --------
    >>> data = read_digits()
    >>> data.train_images.shape, data.test_images.shape, data.n_classes
    ((1140, 8, 8, 1), (600, 8, 8, 1), 10)
    """
    datasets = require("sklearn.datasets", extra="sklearn", purpose="For the digits")
    values, labels = datasets.load_digits(return_X_y=True)
    images = np.rint(values * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8, 1)
    own = [np.flatnonzero(labels == digit) for digit in range(10)]
    train = np.sort(np.concatenate([index[:N_TRAIN] for index in own]))
    test = np.sort(np.concatenate([index[N_TRAIN : N_TRAIN + N_TEST] for index in own]))
    labels = labels.astype(np.int64)
    return ImageData(
        "digits",
        images[train], labels[train], images[test], labels[test],
        [str(digit) for digit in range(10)], (0.305,), (0.376,), padding=1,
    )  # fmt: skip
