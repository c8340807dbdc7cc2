"""How reliable an estimated target prior is: the report with intervals, and warnings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift import newton
from reprior.core.shift.moments import Conditioning, Moments, bbse, clipped_prior
from reprior.exceptions import OptionError, Setting, Text, escaped_lines

__all__ = [
    "DECISIVE_SHARE",
    "SAMPLES_PER_CLASS",
    "SHOWN_CLASSES",
    "PenaltyEffect",
    "TargetPriorReport",
    "conditioning_warning",
    "convergence_warning",
    "few_samples_warning",
    "penalty_effect",
    "penalty_warning",
]

Vector: TypeAlias = np.ndarray[Any, Any]


SHOWN_CLASSES = 20
"""Classes in a summary: where there are more, those whose share changes most."""


@dataclass(frozen=True, eq=False)
class TargetPriorReport:
    """The result of :func:`reprior.estimate_target_prior_report`.

    Attributes
    ----------
    prior : ndarray of shape (K,)
        P_t, as :func:`reprior.estimate_target_prior` returns it.
    intervals : ndarray of shape (K, 2)
        For each class the ends of a percentile interval of its share in the *population* that
        the samples were drawn from. They are for one class at a time.
    confidence : float
        The confidence level of the intervals.
    replicates : ndarray of shape (n_replicates, K)
        The bootstrap estimates, for intervals of other statistics.
    source_prior : ndarray of shape (K,)
        P_s.
    method : str
        How P_t was estimated.
    n_samples : int
        Unlabelled samples.
    n_labels : int or None
        Validation labels; None without validation.
    iterations : int
        Passes over the scores: those of EM, plus those of Newton's method if EM converged slowly;
        1 for methods that solve a system of equations.
    last_change : float
        The largest change of any share in the last step; 0 for methods that solve a system of
        equations, and if the likelihood could not be increased further.
    converged : bool
        Whether EM converged.
    negative_mass : float
        The negative part of the solution of BBSE, which is set to 0. If it is larger than sampling
        error explains, the samples of a class are distributed differently than in validation.
    conditioning : Conditioning or None
        How well the confusion matrix of the validation samples separates the classes; None
        without validation.
    calibration : (scale, bias) or None
        The map that EM fitted to the validation labels; None if no map was fitted. Pass it to
        further estimates, or to a :class:`reprior.PriorTracker`, which then needs no labels.
    held_back : float or None
        The share of the mix that the penalty of RLLS moves: the total variation distance to the
        estimate without it. None for other methods. If it is large, the penalty determines the
        estimate. The intervals do not show this: they belong to the penalised estimate.
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
            Names of the classes. By default, their indices.
        """
        names = [str(name) for name in (range(self.prior.size) if classes is None else classes)]
        if len(names) != self.prior.size:
            raise OptionError(
                argument="classes",
                rule="must name every class",
                got=f"{len(names)} names for {self.prior.size} classes",
                remedy="Pass one name per class, or none.",
            )
        return escaped_lines("\n".join([*self.facts(), "", *self._table(names)]))

    def facts(self) -> list[str]:
        """Return the lines of the summary that are about the estimate as a whole."""
        labels = "" if self.n_labels is None else f", {self.n_labels:,} labels"
        lines = [
            f"method       {self.method}  ({self.n_samples:,} samples{labels})",
            self._convergence(),
        ]
        if self.calibration is not None:
            temperature = 1.0 / float(self.calibration[0].mean())
            lines.append(f"calibration  fitted: temperature {temperature:.3g} and biases")
        if self.held_back is not None:
            word = "DECIDES: " if self.held_back > DECISIVE_SHARE else ""
            share = f"{word}{self.held_back:.1%} of the mix moves without it"
            lines.append(f"penalty      {share}; intervals are for the estimate with it")
        if self.conditioning is not None:
            lines.append(_conditioning_line(self.conditioning))
        if self.negative_mass > 0:
            lines.append(f"negative     {self.negative_mass:.4f} of the solution was set to 0")
        return lines

    def _convergence(self) -> str:
        if self.method != "em":
            return "convergence  solved directly, no iterations"
        word = "converged" if self.converged else "NOT converged"
        return (
            f"convergence  {word} after {self.iterations} passes "
            f"(last change {self.last_change:.1e})"
        )

    def _table(self, names: list[str]) -> list[str]:
        order = np.arange(len(names))
        if order.size > SHOWN_CLASSES:
            moved = np.abs(self.prior - self.source_prior)
            order = np.sort(np.argsort(-moved, kind="stable")[:SHOWN_CLASSES])
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


def _conditioning_line(conditioning: Conditioning) -> str:
    word = "NEAR-SINGULAR: " if conditioning.near_singular else ""
    return (
        f"confusion    {word}condition number {conditioning.condition_number:.3g}, smallest "
        f"singular value {conditioning.smallest_singular_value:.3g} ± "
        f"{conditioning.standard_error:.1g}"
    )


# ------------------------------------------------------------------------------------ warnings


DECISIVE_SHARE = 0.05
"""If the penalty of RLLS moves a larger share of the mix than this, it outweighs the data."""

SAMPLES_PER_CLASS = 4
"""With n samples even their true labels give the share of an average class, 1/K, only with a
standard error of 1/√(nK): half of the share at n = 4K."""


class PenaltyEffect(NamedTuple):
    """How far the penalty of RLLS moves an estimate.

    ``share`` is the share of the mix that it moves (total variation distance); ``class_index`` is
    the class of the largest difference, ``prior`` its estimate with the penalty and
    ``unpenalised`` its estimate without.
    """

    share: float
    class_index: int
    prior: float
    unpenalised: float


def penalty_effect(prior: Vector, moments: Moments, source: Vector) -> PenaltyEffect:
    """Compare an estimate by RLLS with the unpenalised estimate from the same moments."""
    unpenalised = clipped_prior(bbse(moments, source), source)
    difference = np.abs(unpenalised - prior)
    class_index = int(np.argmax(difference))
    return PenaltyEffect(
        share=float(0.5 * difference.sum()),
        class_index=class_index,
        prior=float(prior[class_index]),
        unpenalised=float(unpenalised[class_index]),
    )


def penalty_warning(effect: PenaltyEffect | None) -> Text:
    """Return the warning that the penalty of RLLS outweighs the data, or "" if it does not."""
    if effect is None or effect.share <= DECISIVE_SHARE:
        return ""
    return [
        f"the penalty of RLLS outweighs the data: without it {effect.share:.0%} of the mix would "
        f"move, and class {effect.class_index} would have {effect.unpenalised:.2g} instead of "
        f"{effect.prior:.2g}. The intervals are for the penalised estimate and do not include this "
        f"difference. Compare ",
        Setting("method", "bbse_soft"),
        " and ",
        Setting("method", "em"),
        ", or use more labels.",
    ]


def convergence_warning(n_classes: int, passes: int, remaining_change: float) -> Text:
    """Return the warning that the likelihood is not at its maximum."""
    solvers = "EM and Newton's method" if n_classes <= newton.MAX_CLASSES else "EM"
    return (
        f"the target prior did not converge in {passes} passes of {solvers} over the scores: it "
        f"may still move by {remaining_change:.1g}. The scores hardly distinguish some classes; "
        f"merge these, or use more data."
    )


def few_samples_warning(n_classes: int, n_samples: int | None) -> Text:
    """Return the warning that a mix has too few samples, or "" if it has enough or n is unknown."""
    if n_samples is None or n_samples >= SAMPLES_PER_CLASS * n_classes:
        return ""
    return (
        f"{n_samples} sample{'s are' if n_samples > 1 else ' is'} too few to estimate the mix "
        f"of {n_classes} classes: with fewer than {SAMPLES_PER_CLASS * n_classes}, even their true "
        f"labels would give the share of an average class only with a standard error of more than "
        f"half of it. Use more samples, or pass a mix that you know instead."
    )


def conditioning_warning(conditioning: Conditioning | None) -> Text:
    """Return the warning that a confusion matrix may be singular, or "" if it is not."""
    if conditioning is None or not conditioning.near_singular:
        return ""
    if np.isinf(conditioning.standard_error):
        return (
            "some class has a single validation label, which does not show how much its samples "
            "vary: the confusion matrix may be singular, and intervals are too narrow. Use more "
            "labels, at least a few of every class."
        )
    return (
        f"the confusion matrix of the validation samples may be singular: its smallest singular "
        f"value is {conditioning.smallest_singular_value:.2g}, with a standard error of "
        f"{conditioning.standard_error:.2g}. Some classes are hardly distinguished, or are never "
        f"predicted. Merge these, or use more labels."
    )
