"""What whoever uses an estimated target prior should know, in sentences."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core.shift import newton
from reprior.core.shift.moments import Conditioning, Moments, bbse, truncated

__all__ = [
    "SHARE",
    "Held",
    "held_back",
    "of_conditioning",
    "of_few_samples",
    "of_penalty",
    "of_rest",
]

Vector: TypeAlias = np.ndarray[Any, Any]

SHARE = 0.05
"""Of a mix: where the penalty of RLLS moves more than this, it decides and not the data."""


SAMPLES_PER_CLASS = 4
"""With n samples even their true labels tell the share of an average class, 1/K, only with a
standard error of 1/√(nK): half of the share itself at n = 4K."""


class Held(NamedTuple):
    """How far the penalty of RLLS holds an estimate back.

    ``share`` is how much of the mix is elsewhere without the penalty; ``where`` is the class of
    the largest difference, ``prior`` its estimate and ``free`` the one without.
    """

    share: float
    where: int
    prior: float
    free: float


def of_penalty(held: Held | None) -> str:
    """Say that the penalty of RLLS decides, or nothing where the data do."""
    if held is None or held.share <= SHARE:
        return ""
    return (
        f"the penalty of RLLS decides, and not the data alone: without it {held.share:.0%} of the "
        f"mix would be elsewhere, and class {held.where} would have {held.free:.2g} and not "
        f"{held.prior:.2g}. Intervals are of the penalised estimate, and do not know of it. "
        f"Compare method='bbse_soft' and method='em', or use more labels."
    )


def held_back(prior: Vector, found: Moments, source: Vector) -> Held:
    """Compare an estimate by RLLS with that of the same moments without a penalty."""
    free = truncated(bbse(found, source), source)
    away = np.abs(free - prior)
    where = int(np.argmax(away))
    return Held(float(0.5 * away.sum()), where, float(prior[where]), float(free[where]))


def of_rest(n_classes: int, passes: int, left: float) -> str:
    """Say that a likelihood was not climbed to its top."""
    by = "EM and Newton's method" if n_classes <= newton.MOST_CLASSES else "EM"
    return (
        f"the target prior has not come to rest after {passes} passes of {by} over the scores: it "
        f"may still move by {left:.1g}. The scores hardly tell some classes apart; join these, or "
        f"use more data."
    )


def of_few_samples(n_classes: int, n_samples: int | None) -> str:
    """Say that samples are too few to have a mix, or nothing where they are not, or unknown."""
    if n_samples is None or n_samples >= SAMPLES_PER_CLASS * n_classes:
        return ""
    return (
        f"{n_samples} sample{'s are' if n_samples > 1 else ' is'} too few to tell the mix of "
        f"{n_classes} classes: with fewer than {SAMPLES_PER_CLASS * n_classes} not even their true "
        f"labels would tell the share of an average class to within half of it. Use more samples, "
        f"or state a mix that you know instead."
    )


def of_conditioning(found: Conditioning | None) -> str:
    """Say that a confusion matrix may be singular, or nothing where it is not."""
    if found is None or not found.near_singular:
        return ""
    if np.isinf(found.standard_error):
        return (
            "some class has a single validation label, which does not tell how much its samples "
            "differ: the confusion matrix may be singular for all that the labels say, and "
            "intervals are too narrow. Use more labels, at least a few of every class."
        )
    return (
        f"the confusion matrix of the validation samples is singular for all that their labels "
        f"say: its smallest singular value is {found.smallest_singular_value:.2g}, with a standard "
        f"error of {found.standard_error:.2g}. Some classes can hardly be told apart, or are never "
        f"predicted. Join these, or use more labels."
    )
