"""The folds that a user asks for, in any of the ways there are to say it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import OptionError
from reprior.profile.reading import Reading
from reprior.tuning.crossval import fold_numbers

__all__ = ["counted_images", "folds_of", "images_of"]

Vector: TypeAlias = np.ndarray[Any, Any]


def folds_of(reading: Reading, cv: Any, rng: np.random.Generator) -> Vector:
    """The fold of every sample, of the labels' shape.

    Parameters
    ----------
    reading : Reading
        Whose labels are divided.
    cv : int, integer array of the labels' shape, splitter, or pairs of (train, test) indices
        How. Splitters (``cv.split(X, y)``) and pairs divide dense labels along their first axis.
        Train is all that is not in test.
    rng : numpy Generator
        Which goes where, for a number of folds.

    Examples
    --------
    >>> from reprior.profile.reading import read
    >>> reading = read(
    ...     np.eye(2)[[0, 1, 0, 1]],
    ...     np.array([0, 1, 0, 1]),
    ...     None,
    ...     source_prior=[0.8, 0.2],
    ...     target_prior="uniform",
    ...     kind="probs",
    ...     bounds=(0.0, 2.0),
    ...     class_axis=-1,
    ...     ignore_index=None,
    ...     resolution=None,
    ... )
    >>> folds_of(reading, [([0, 1], [2, 3]), ([2, 3], [0, 1])], np.random.default_rng(0))
    array([1, 1, 0, 0])
    """
    whole = isinstance(cv, int | np.integer)
    if whole or hasattr(cv, "__array__") or _are_numbers(cv):
        return fold_numbers(reading, cv, None, rng)
    labels = reading.rows.labels
    n = labels.shape[0]
    pairs = cv
    if hasattr(cv, "split"):
        pairs = _asked(cv, labels if labels.ndim == 1 else np.zeros(n, np.int64))
    found = np.full(n, -1, np.int64)
    times = np.zeros(n, np.int64)
    for fold, pair in enumerate(pairs):
        train, test = (_marked(part, n, fold) for part in _checked(pair))
        _check_rest(train, test, fold)
        found[test] = fold
        times += test
    if not (times == 1).all():
        where = int(np.argmax(times != 1))
        raise OptionError(
            f"`cv` must put every sample into the test part of one fold. Got sample {where} in "
            f"{int(times[where])} of them. Pass a splitter such as StratifiedKFold, or a number "
            f"of folds."
        )
    return np.broadcast_to(found.reshape(-1, *(1,) * (labels.ndim - 1)), labels.shape)


def images_of(reading: Reading) -> Vector | None:
    """The image of every pixel, whose pixels are not independent; None for plain samples."""
    shape = reading.rows.labels.shape
    if len(shape) == 1:
        return None
    return np.broadcast_to(np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1)), shape)


def counted_images(reading: Reading) -> Vector | None:
    """The image of every pixel that counts, (N,), in the order in which they are read."""
    images, left_out = images_of(reading), reading.rows.left_out()
    if images is None:
        return None
    return images.reshape(-1) if left_out is None else images[~left_out]


def _are_numbers(cv: Any) -> bool:
    """Whether folds are given one by one in a list."""
    return isinstance(cv, list | tuple) and all(isinstance(each, int | np.integer) for each in cv)


def _asked(splitter: Any, labels: Vector) -> list[Any]:
    """What a splitter says, which is not told of groups."""
    try:
        return list(splitter.split(np.zeros((labels.size, 1)), labels))
    except ValueError as error:
        raise OptionError(
            f"`cv` must be able to divide these samples by their labels alone. Got {splitter!r}, "
            f"which answers: {error} Pass what it gives, list(splitter.split(X, y, groups)), or "
            f"the fold of every sample."
        ) from error


def _checked(pair: Any) -> Any:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise OptionError(
            f"`cv` must be a number of folds, a splitter, the fold of every sample, or pairs of "
            f"(train, test) indices. Got an entry {pair!r}. Pass cv=5."
        )
    return pair


def _marked(part: Any, n: int, fold: int) -> Vector:
    """Which of n samples are named, by their indices or one by one."""
    named, found = np.asarray(part), np.zeros(n, bool)
    if named.dtype == bool and named.shape == (n,):
        return named
    whole = named.dtype.kind in "iu" and named.ndim == 1
    if not whole or (named.size and not (-n <= named.min() and named.max() < n)):
        raise OptionError(
            f"`cv` must have indices of {n} samples in every pair of (train, test). Got {part!r} "
            f"in pair {fold}. Pass a splitter such as StratifiedKFold, or a number of folds."
        )
    found[named] = True
    return found


def _check_rest(train: Vector, test: Vector, fold: int) -> None:
    """What is judged on a fold is tuned on all others: nothing else can be had from their sum."""
    rest = ~test
    if not np.array_equal(train, rest):
        both, left = int((train & test).sum()), int((rest & ~train).sum())
        raise OptionError(
            f"`cv` must train on all samples that it does not test on. Got pair {fold} with "
            f"{left} of {int(rest.sum())} others left out of its train part, and {both} samples in "
            f"both parts. Pass train as the complement of test, or the fold of every sample."
        )
