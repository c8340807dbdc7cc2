"""Hold out stretches of a drive: neighbouring frames are all but equal, so never frame by frame."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_finite_number
from reprior.exceptions import LabelsError, OptionError

__all__ = ["Split", "absences", "hold_out", "places_of"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Starts of a block that are looked at; of a longer drive, as many evenly spaced ones.
MAX_STARTS = 160

#: Choices of starts that are looked at: in all at most, and at a time.
MAX_CHOICES, AT_ONCE = 200_000, 20_000

#: Sums that differ by less are equal.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of frames: to learn from, held out to tune on, and left out of both."""

    train: Array
    held_out: Array
    left_out: Array


def hold_out(
    pixels: Any,
    *,
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 2,
    places: Sequence[int] | Array | None = None,
) -> Split:
    r"""Choose blocks of frames to tune on, so that every class remains in the training part.

    Of all ways to place the blocks, those in which a class would be left without training pixels
    are out, and of the others that is taken in which the held-out share of every class is nearest
    to the share of all frames:

    .. math:: \min \sum_k (f_k - r)^2 + (p_k - r)^2

    where r is ``share``, f_k the share of the frames with class k that are held out, and p_k that
    of its pixels. The first of equally good ones is taken.

    Parameters
    ----------
    pixels : int (N, K)
        Pixels of each class in each frame, see
        :meth:`~reprior.experiments.synthia.frames.Frames.pixels`.
    share : float, default 0.2
        Share of the places that are held out.
    n_blocks : int, default 2
        How many blocks that is.
    gap : int, default 2
        Places on either side of a block that are left out of the training part too.
    places : int (N,), optional
        Where each frame was taken. Frames of the same place go to the same part: pass
        :func:`places_of` where drives go through the same streets. By default every frame has a
        place of its own.

    Examples
    --------
    >>> pixels = np.ones((10, 1), int)
    >>> split = hold_out(pixels, share=0.3, n_blocks=1, gap=1)
    >>> split.train, split.held_out, split.left_out
    (array([4, 5, 6, 7, 8, 9]), array([0, 1, 2]), array([3]))
    """
    pixels = np.asarray(pixels)
    places = np.arange(len(pixels)) if places is None else np.asarray(places)
    _check(pixels, places, share, n_blocks, gap)
    order, index = np.unique(places, return_inverse=True)
    both = np.concatenate([pixels > 0, pixels], axis=1)  # frames and pixels of each class
    seen = np.zeros((len(order), both.shape[1]), np.int64)
    np.add.at(seen, index, both)
    length = max(1, round(share * len(order) / n_blocks))
    chosen = _best(seen, share, length, n_blocks, gap)
    parts = np.zeros(len(order), np.int64)
    for start in chosen:
        parts[max(0, start - gap) : start + length + gap] = 2
    for start in chosen:
        parts[start : start + length] = 1
    own = parts[index]
    return Split(*(np.flatnonzero(own == part) for part in range(3)))


def places_of(names: Sequence[str]) -> Array:
    """Return how many frames into its drive each frame is, by the numbers at the end of names.

    A new drive begins where the numbers do not go on by one, or what is before them changes.

    Examples
    --------
    >>> places_of(["000000", "000001", "000002", "000285", "000286"])
    array([0, 1, 2, 0, 1])
    """
    places, before, number = np.zeros(len(names), np.int64), None, -1
    for i, name in enumerate(names):
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match is None:
            raise LabelsError(
                f"Names of frames must end in a number to tell their places. Got {name!r}. Pass "
                f"`places` of your own."
            )
        goes_on = match[1] == before and int(match[2]) == number + 1
        places[i] = places[i - 1] + 1 if goes_on else 0
        before, number = match[1], int(match[2])
    return places


def absences(pixels: Any, classes: Sequence[str], **parts: Array) -> tuple[str, ...]:
    """Say which class is absent from which part, a sentence for each part that lacks some.

    Examples
    --------
    >>> pixels = np.array([[5, 0], [5, 2]])
    >>> absences(pixels, ["road", "fence"], train=np.array([1]), held_out=np.array([0]))
    ('Absent from the 1 frames of held_out: fence.',)
    """
    pixels = np.asarray(pixels)
    sentences = []
    for part, index in parts.items():
        gone = np.flatnonzero(pixels[index].sum(axis=0) == 0)
        if gone.size:
            names = ", ".join(classes[int(k)] for k in gone)
            sentences.append(f"Absent from the {len(index)} frames of {part}: {names}.")
    return tuple(sentences)


def _best(seen: Array, share: float, length: int, n_blocks: int, gap: int) -> tuple[int, ...]:
    """Return the starts of the blocks."""
    n_places = len(seen)
    sums = np.concatenate([np.zeros((1, seen.shape[1]), np.int64), np.cumsum(seen, axis=0)])
    there = sums[-1] > 0
    sums = sums[:, there]
    starts = np.array(_starts(n_places, length, n_blocks))
    held = sums[starts + length] - sums[starts]
    around = sums[np.minimum(starts + length + gap, n_places)] - sums[np.maximum(starts - gap, 0)]
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    choices = itertools.combinations(range(len(starts)), n_blocks)
    while some := list(itertools.islice(choices, AT_ONCE)):
        index = np.array(some)
        # Blocks whose surroundings overlap would be one block.
        apart = (np.diff(starts[index], axis=1) >= length + 2 * gap).all(axis=1)
        left = sums[-1] - around[index].sum(axis=1)
        index = index[apart & (left > 0).all(axis=1)]
        if len(index):
            shares = held[index].sum(axis=1) / sums[-1]
            values = ((shares - share) ** 2).sum(axis=1)
            first = int(np.argmax(values <= values.min() + ROUNDING))
            if values[first] < best[0] - ROUNDING:
                best = (float(values[first]), tuple(starts[index[first]].tolist()))
    if not best[1]:
        raise OptionError(
            f"`share` and `n_blocks` must leave every class in the training part. Got {share:g} "
            f"and {n_blocks}, which cannot: some class lives in too few places. Pass a smaller "
            f"share or other blocks, or leave the class out."
        )
    return best[1]


def _starts(n_places: int, length: int, n_blocks: int) -> list[int]:
    last = n_places - length
    few = int((MAX_CHOICES * np.prod(np.arange(1, n_blocks + 1))) ** (1 / n_blocks)) + n_blocks
    n_starts = min(last + 1, MAX_STARTS, few)
    return sorted({int(s) for s in np.linspace(0, last, n_starts)})


def _check(pixels: Array, places: Array, share: float, n_blocks: int, gap: int) -> None:
    if pixels.ndim != 2 or places.shape != (len(pixels),):
        raise LabelsError(
            f"`pixels` must be (N, K) and `places` (N,). Got shapes {pixels.shape} and "
            f"{places.shape}. Pass frames.pixels() and a place for each frame."
        )
    if check_finite_number("share", share, positive=True) >= 1.0:
        raise OptionError(f"`share` must be below 1. Got {share:g}. Pass for example 0.2.")
    whole: tuple[tuple[str, Any, int], ...] = (("n_blocks", n_blocks, 1), ("gap", gap, 0))
    for name, value, least in whole:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise OptionError(
                f"`{name}` must be a whole number of at least {least}. Got {value!r}."
            )
