"""Data sets by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from reprior.core import check_choice
from reprior_lab.data.cifar import read_cifar
from reprior_lab.data.folder import read_folder
from reprior_lab.data.idx import read_fashion_mnist
from reprior_lab.data.images import ImageData, missing_data
from reprior_lab.data.inaturalist import read_inaturalist
from reprior_lab.data.sklearn_sets import make_toy, read_digits

__all__ = ["data_names", "open_data", "register_data"]

Reader = Callable[[Path, int], ImageData]

#: Readers of files: of the folder, and of the side length for images of different sizes.
_FROM_FILES: dict[str, Reader] = {
    "cifar10": lambda root, _size: read_cifar("cifar10", root),
    "cifar100": lambda root, _size: read_cifar("cifar100", root),
    "fashion_mnist": lambda root, _size: read_fashion_mnist(root),
    "folder": read_folder,
    "inaturalist2018": read_inaturalist,
}

#: Data sets that are generated, or come with a library.
_AT_HAND: dict[str, Callable[[], ImageData]] = {
    "digits": read_digits,
    "moons": lambda: make_toy("moons"),
    "circles": lambda: make_toy("circles"),
}

#: The default side length for data sets with images of different sizes.
SIDES = {"folder": 64, "inaturalist2018": 224}


def data_names() -> tuple[str, ...]:
    """Return the names that :func:`open_data` accepts.

    Examples
    --------
    >>> "cifar10" in data_names()
    True
    """
    return (*_FROM_FILES, *_AT_HAND)


def register_data(name: str, read: Callable[[], ImageData]) -> None:
    """Register a data set by name, for :func:`open_data` and the configuration of a run.

    Examples
    --------
    >>> register_data("same_digits", read_digits)
    >>> open_data("same_digits").n_classes
    10
    >>> _ = _AT_HAND.pop("same_digits")
    """
    _AT_HAND[name] = read


def open_data(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    imbalance: str = "none",
    ratio: float = 1.0,
    image_size: int | None = None,
) -> ImageData:
    """Return a data set, with its training part made imbalanced.

    Parameters
    ----------
    name : str
        One of :func:`data_names`.
    root : path, optional
        The folder with the files. Not needed for digits, moons and circles.
    imbalance : {"none", "exp", "step"}, default "none"
        See :func:`~reprior_lab.data.imbalance.imbalance_counts`. The toy sets are already
        imbalanced.
    ratio : float, default 1
        How many times larger the largest class is than the smallest.
    image_size : int, optional
        Side length that images are scaled to; by default 64 for a folder, 224 for iNaturalist.

    Examples
    --------
    >>> open_data("digits", imbalance="exp", ratio=10).class_counts
    array([114,  88,  68,  52,  40,  31,  24,  19,  14,  11])
    """
    check_choice("data", name, data_names())
    if name in _AT_HAND:
        data = _AT_HAND[name]()
    elif root is None:
        raise missing_data(name, None, "and nothing is downloaded")
    else:
        data = _FROM_FILES[name](Path(root), image_size or SIDES.get(name, 0))
    return data.imbalanced(imbalance, ratio)
