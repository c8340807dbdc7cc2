r"""Tracking: the class mix of a stream of unlabelled scores, and an alarm where it shifts.

**The prior** is tracked by online EM: the mean posterior under the prior so far, with weights that
halve every half-life. **The alarm** is a Shiryaev–Roberts detector of the likelihood ratio

.. math:: e_i = \frac{\sum_k P(x_i|k)\, q(k)}{\sum_k P(x_i|k)\, P_r(k)}, \qquad
    R_i = (1 + R_{i-1})\, e_i

of the tracked prior q, as it was before sample i, to the reference P_r. As long as samples follow
the reference, e_i has mean 1 whatever the past, so R_i − i is a martingale: the chance that R
reaches A within n samples is at most n/A, and the mean time until it does at least A.

That mean is 1 where the model's probabilities are right. For ones that may not be, labelled samples
tell what it is for each q, and e_i is divided by that and by two standard errors of it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.predictions import relative_probabilities
from reprior.exceptions import Argument, LabelsError

__all__ = [
    "MeanRatios",
    "TrackerState",
    "TrackingOptions",
    "block_size",
    "check_label_counts",
    "measure_ratios",
    "reference_posteriors",
    "track",
]

BLOCKS_PER_HALF_LIFE = 16
"""The prior takes a step after each sixteenth of a half-life. The prior that is returned between
two steps includes all samples, with their posteriors under the prior of the last step."""

STANDARD_ERRORS = 2.0
"""Standard errors of the measured mean of a ratio that are added to it. The tracked prior does not
depend on the labels, so 98 % of all sets of labels make the false alarms as rare as stated."""

REFERENCE_SHARE = 0.01
"""The reference's share in the prior under which posteriors are computed: a class whose tracked
prior is close to 0 can recover from a hundredth of its reference, not from 0."""


@dataclass(frozen=True, eq=False)
class MeanRatios:
    """The measured mean of P(x|k)/P_r(x) over samples of the reference, for every class k.

    ``mean`` is (K,), and ``covariance`` (K, K) that of the mean, not of a sample.
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def upper_bound(self, prior: NDArray[np.float64]) -> float:
        """Return the mean ratio of a prior to the reference, plus two standard errors."""
        variance = max(0.0, float(prior @ self.covariance @ prior))
        return float(prior @ self.mean) + STANDARD_ERRORS * math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class TrackingOptions:
    """Reference and rates of a tracked stream; ``ratios`` where they were measured."""

    reference: NDArray[np.float64]
    half_life: float
    false_alarm_rate: float
    ratios: MeanRatios | None = None

    @property
    def block_size(self) -> int:
        """Samples between two steps."""
        return block_size(self.half_life)

    @property
    def log_threshold(self) -> float:
        """The logarithm of A, which R has to reach."""
        return -math.log(self.false_alarm_rate)


@dataclass(frozen=True, eq=False)
class TrackerState:
    """The state of a tracked stream.

    ``prior`` is that of the last step; ``mass`` sums the posteriors of the ``waiting`` samples
    since. ``log_evidence`` is log(1 + R), and ``alarm_at`` the number of samples after which R
    first reached the threshold.
    """

    prior: NDArray[np.float64]
    mass: NDArray[np.float64]
    waiting: int = 0
    n_samples: int = 0
    log_evidence: float = 0.0
    alarm_at: int | None = None

    @classmethod
    def start(cls, prior: NDArray[np.float64]) -> "TrackerState":
        """Return the state with a prior and no samples."""
        return cls(prior, np.zeros_like(prior))

    def current_prior(self, half_life: float) -> NDArray[np.float64]:
        """Return the prior, with the samples that wait for the next step."""
        if not self.waiting:
            return self.prior
        weight = 2.0 ** (-self.waiting / half_life)
        mixed: NDArray[np.float64] = weight * self.prior + (1.0 - weight) * self.mass / self.waiting
        return mixed


def block_size(half_life: float) -> int:
    """Return the number of samples between two steps.

    Examples
    --------
    >>> block_size(1000), block_size(3)
    (62, 1)
    """
    return max(1, round(half_life / BLOCKS_PER_HALF_LIFE))


def reference_posteriors(
    rows: NDArray[Any], source: NDArray[np.float64], reference: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the posteriors under the reference of rows of log-posteriors under the source."""
    shifted = rows + (np.log(reference) - np.log(source))
    mass = relative_probabilities(shifted, out=shifted)
    posteriors: NDArray[np.float64] = mass / mass.sum(axis=1, keepdims=True)
    return posteriors


def measure_ratios(
    posterior: NDArray[np.float64], labels: NDArray[np.int64], reference: NDArray[np.float64]
) -> MeanRatios:
    """Return the mean ratios under the reference from labelled samples, two of each class or more.

    ``posterior`` is theirs under the reference; each class weighs what its prior is there.
    """
    counts = np.bincount(labels, minlength=reference.size)
    weight = reference / counts
    ratios = posterior / reference
    means = np.stack([ratios[labels == k].mean(axis=0) for k in range(reference.size)])
    # Deviations are from the class means: the share of each class in the mixture is fixed.
    scale = (weight * np.sqrt(counts / (counts - 1)))[labels, None]
    deviations = scale * (ratios - means[labels])
    return MeanRatios(reference @ means, deviations.T @ deviations)


def check_label_counts(labels: NDArray[np.int64], minimum: int) -> None:
    """Refuse classes with fewer labels than 2, or than 3 where some of them calibrate."""
    counts = np.bincount(labels)
    if (counts >= minimum).all():
        return
    rule = "two labels of every class: one does not tell how much they differ"
    remedy: list[Any] = ["Add some, or leave ", Argument("validation"), " out."]
    if minimum == 3:
        rule = "three labels of every class: one to calibrate by, and two to measure by"
        remedy = [
            "Add some, pass a ",
            Argument("calibration"),
            ", (1, 0) for none, or leave ",
            Argument("validation"),
            " out.",
        ]
    class_index = int(np.argmin(counts))
    raise LabelsError(
        argument="validation",
        rule=f"must have at least {rule}",
        got=f"{('', 'one', 'two')[counts[class_index]]} of class {class_index}",
        remedy=remedy,
    )


def track(
    state: TrackerState, posterior: NDArray[np.float64], options: TrackingOptions
) -> TrackerState:
    """Return the state after more samples, given by their posteriors (n, K) under the reference.

    The result does not depend on how a stream is cut into batches.
    """
    done = 0
    while done < len(posterior):
        block = posterior[done : done + options.block_size - state.waiting]
        state = _track_block(state, block, options)
        done += len(block)
    return state


def _track_block(
    state: TrackerState, posterior: NDArray[np.float64], options: TrackingOptions
) -> TrackerState:
    """Add samples up to the next step at most, and take the step if it is due."""
    mixed = (1.0 - REFERENCE_SHARE) * state.prior + REFERENCE_SHARE * options.reference
    gain = mixed / options.reference
    ratio = posterior @ gain
    mean_ratio = 1.0 if options.ratios is None else options.ratios.upper_bound(mixed)
    evidence = _evidence(state.log_evidence, np.log(ratio / mean_ratio))
    reached = np.flatnonzero(evidence >= options.log_threshold)
    alarm_at = state.n_samples + int(reached[0]) + 1 if reached.size else None
    state = replace(
        state,
        mass=state.mass + gain * ((1.0 / ratio) @ posterior),
        waiting=state.waiting + len(posterior),
        n_samples=state.n_samples + len(posterior),
        log_evidence=float(np.logaddexp(0.0, evidence[-1])),
        alarm_at=alarm_at if state.alarm_at is None else state.alarm_at,
    )
    if state.waiting < options.block_size:
        return state
    prior = state.current_prior(options.half_life)
    return replace(state, prior=prior / prior.sum(), mass=np.zeros_like(prior), waiting=0)


def _evidence(log_before: float, log_ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log R after each sample, from log(1 + R) before and the log e of each.

    R_n = E_n·(1 + R_0 + Σ_{i<n} 1/E_i) with the products E of the e.
    """
    products = np.cumsum(log_ratios)
    terms = np.concatenate([[log_before], -products[:-1]])
    evidence: NDArray[np.float64] = products + np.logaddexp.accumulate(terms)
    return evidence
