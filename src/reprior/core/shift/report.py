"""What an estimate of the target prior is worth: intervals, convergence, conditioning."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift import newton
from reprior.core.shift.moments import Conditioning, Moments, bbse, truncated
from reprior.exceptions import OptionError

__all__ = [
    "SHARE",
    "Held",
    "TargetPriorReport",
    "held_back",
    "of_conditioning",
    "of_few_samples",
    "of_penalty",
    "of_rest",
]

Vector: TypeAlias = np.ndarray[Any, Any]


SHOWN = 20
"""Classes of a summary: where there are more, those whose share changes most."""


@dataclass(frozen=True, eq=False)
class TargetPriorReport:
    """What :func:`reprior.estimate_target_prior_report` found.

    Attributes
    ----------
    prior : ndarray of shape (K,)
        P_t, as :func:`reprior.estimate_target_prior` returns it.
    intervals : ndarray of shape (K, 2)
        For each class the ends of a percentile interval of its share in the *population* that
        the samples were drawn from. They are for one class at a time.
    confidence : float
        Of the intervals.
    replicates : ndarray of shape (n_replicates, K)
        The bootstrap estimates themselves, for intervals of anything else.
    source_prior : ndarray of shape (K,)
        P_s.
    method : str
        How P_t was estimated.
    n_samples : int
        Unlabelled samples.
    n_labels : int or None
        Validation labels, where there were any.
    iterations : int
        Passes over the scores, of EM and, where it crawled, of Newton's method; 1 where a system
        of equations was solved.
    last_change : float
        The largest difference of the last step; 0 where a system of equations was solved, or the
        likelihood could tell no more.
    converged : bool
        Whether EM came to rest.
    negative_mass : float
        What was negative in the solution of BBSE, and made 0. More than sampling explains means
        that the classes do not look as they did in validation.
    conditioning : Conditioning or None
        How well the confusion matrix of the validation samples tells the classes apart; None
        without validation.
    calibration : (scale, bias) or None
        The map that EM fitted to the validation labels, for further estimates, and for a
        :class:`reprior.PriorTracker` without these labels; None where none was fitted.
    held_back : float or None
        How much of the mix would be elsewhere without the penalty of RLLS; None of other methods.
        Where it is large the penalty decides, and the intervals, which are of the penalised
        estimate, do not tell.
    """

    prior: NDArray[np.float64]
    intervals: NDArray[np.float64]
    confidence: float
    replicates: NDArray[np.float64]
    source_prior: NDArray[np.float64]
    method: str
    n_samples: int
    n_labels: int | None
    iterations: int
    last_change: float
    converged: bool
    negative_mass: float
    conditioning: Conditioning | None
    calibration: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    held_back: float | None = None

    def __repr__(self) -> str:
        labels = "" if self.n_labels is None else f", n_labels={self.n_labels}"
        return (
            f"TargetPriorReport({self.prior.size} classes, method={self.method!r}, "
            f"n_samples={self.n_samples}{labels}, {len(self.replicates)} replicates)"
        )

    def summary(self, classes: Sequence[Any] | None = None) -> str:
        """Return the estimate as text: a line per class, and how far to trust it.

        Parameters
        ----------
        classes : sequence of length K, optional
            Names of the classes; their indices where it is not given.
        """
        names = [str(name) for name in (range(self.prior.size) if classes is None else classes)]
        if len(names) != self.prior.size:
            raise OptionError(
                f"`classes` must name every class. Got {len(names)} names for {self.prior.size} "
                f"classes. Pass one name per class, or none."
            )
        return "\n".join([*self.facts(), "", *self._table(names)])

    def facts(self) -> list[str]:
        """Return the summary's lines about the estimate as a whole."""
        labels = "" if self.n_labels is None else f", {self.n_labels:,} labels"
        lines = [
            f"method       {self.method}  ({self.n_samples:,} samples{labels})",
            self._convergence(),
        ]
        if self.calibration is not None:
            temperature = 1.0 / float(self.calibration[0].mean())
            lines.append(f"calibration  fitted: temperature {temperature:.3g} and biases")
        if self.held_back is not None:
            word = "DECIDES: " if self.held_back > SHARE else ""
            share = f"{word}{self.held_back:.1%} of the mix is elsewhere without it"
            lines.append(f"penalty      {share}; intervals are with it")
        if self.conditioning is not None:
            lines.append(_condition(self.conditioning))
        if self.negative_mass > 0:
            lines.append(f"negative     {self.negative_mass:.4f} of the solution was made 0")
        return lines

    def _convergence(self) -> str:
        if self.method != "em":
            return "convergence  solved, without steps"
        word = "at rest" if self.converged else "NOT at rest"
        return (
            f"convergence  {word} after {self.iterations} passes "
            f"(last change {self.last_change:.1e})"
        )

    def _table(self, names: list[str]) -> list[str]:
        order = np.arange(len(names))
        if order.size > SHOWN:
            moved = np.abs(self.prior - self.source_prior)
            order = np.sort(np.argsort(-moved, kind="stable")[:SHOWN])
        width = max(len("class"), *(len(names[k]) for k in order))
        share = f"{100 * self.confidence:g} % interval"
        lines = [f"{'class':<{width}}{'source':>9}{'target':>9}   {share}"]
        for k in order:
            low, high = self.intervals[k]
            lines.append(
                f"{names[k]:<{width}}{self.source_prior[k]:>9.4f}{self.prior[k]:>9.4f}   "
                f"{low:.4f} to {high:.4f}"
            )
        if order.size < len(names):
            lines.append(f"… and {len(names) - order.size:,} classes whose shares change less")
        return lines


def _condition(found: Conditioning) -> str:
    word = "NEAR-SINGULAR: " if found.near_singular else ""
    return (
        f"confusion    {word}condition number {found.condition_number:.3g}, smallest singular "
        f"value {found.smallest_singular_value:.3g} ± {found.standard_error:.1g}"
    )


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
