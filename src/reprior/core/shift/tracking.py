r"""A class mix that moves: the prior of a stream of unlabelled scores, and an alarm.

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

from reprior.exceptions import LabelsError

__all__ = [
    "Ratios",
    "Setting",
    "Tracked",
    "block_of",
    "measured_ratios",
    "posteriors",
    "refuse_few_labels",
    "track",
]

BLOCKS_PER_HALF_LIFE = 16
"""The prior takes a step after each sixteenth of a half-life. What is returned between two steps
has all samples in it, but their posteriors are under the prior of the last step."""

CAUTION = 2.0
"""Standard errors of the measured mean of a ratio that are added to it. The tracked prior knows
nothing of the labels, so 98 % of all sets of labels make the false alarms as rare as stated."""

KEPT = 0.01
"""The reference's share in the prior that posteriors are taken under: a class that was thought
gone comes back from a hundredth of its reference, not from 0."""


@dataclass(frozen=True, eq=False)
class Ratios:
    """The mean of P(x|k)/P_r(x) over samples of the reference, for every class k, as measured.

    ``mean`` is (K,), and ``covariance`` (K, K) that of the mean, not of a sample.
    """

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def at_most(self, prior: NDArray[np.float64]) -> float:
        """Return the mean ratio of a prior to the reference, and two standard errors."""
        variance = max(0.0, float(prior @ self.covariance @ prior))
        return float(prior @ self.mean) + CAUTION * math.sqrt(variance)


@dataclass(frozen=True, eq=False)
class Setting:
    """What a stream is tracked against; ``ratios`` where they were measured and not assumed."""

    reference: NDArray[np.float64]
    half_life: float
    false_alarm_rate: float
    ratios: Ratios | None = None

    @property
    def block(self) -> int:
        """Samples between two steps."""
        return block_of(self.half_life)

    @property
    def log_threshold(self) -> float:
        """The logarithm of A, which R has to reach."""
        return -math.log(self.false_alarm_rate)


@dataclass(frozen=True, eq=False)
class Tracked:
    """Where a stream stands.

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
    def at(cls, prior: NDArray[np.float64]) -> "Tracked":
        """Begin with a prior, and no samples."""
        return cls(prior, np.zeros_like(prior))

    def current(self, half_life: float) -> NDArray[np.float64]:
        """Return the prior with the samples that wait for the next step."""
        if not self.waiting:
            return self.prior
        old = 2.0 ** (-self.waiting / half_life)
        mixed: NDArray[np.float64] = old * self.prior + (1.0 - old) * self.mass / self.waiting
        return mixed


def block_of(half_life: float) -> int:
    """Return the number of samples between two steps.

    Examples
    --------
    >>> block_of(1000), block_of(3)
    (62, 1)
    """
    return max(1, round(half_life / BLOCKS_PER_HALF_LIFE))


def posteriors(
    rows: NDArray[Any], source: NDArray[np.float64], reference: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the posterior under the reference of rows of log-posteriors under the source."""
    shifted = rows + (np.log(reference) - np.log(source))
    mass = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    found: NDArray[np.float64] = mass / mass.sum(axis=1, keepdims=True)
    return found


def measured_ratios(
    posterior: NDArray[np.float64], labels: NDArray[np.int64], reference: NDArray[np.float64]
) -> Ratios:
    """Return the mean ratios under the reference from labelled samples, two of each class or more.

    ``posterior`` is theirs under the reference; samples of a class weigh what it weighs there.
    """
    counts = np.bincount(labels, minlength=reference.size)
    weight = reference / counts
    ratios = posterior / reference
    means = np.stack([ratios[labels == k].mean(axis=0) for k in range(reference.size)])
    # Around the mean of their class, as each class has its place in the mixture for certain.
    off = (weight * np.sqrt(counts / (counts - 1)))[labels, None] * (ratios - means[labels])
    return Ratios(reference @ means, off.T @ off)


def refuse_few_labels(labels: NDArray[np.int64], least: int) -> None:
    """Refuse classes with fewer labels than 2, or than 3 where some of them calibrate."""
    counts = np.bincount(labels)
    if (counts < least).any():
        how = "two labels of every class: one does not tell how much they differ"
        remedy = "Add some, or leave `validation` out."
        if least == 3:
            how = "three labels of every class: one to calibrate by, and two to measure by"
            remedy = "Add some, pass a `calibration`, (1, 0) for none, or leave `validation` out."
        where = int(np.argmin(counts))
        raise LabelsError(
            f"`validation` must have at least {how}. Got {('', 'one', 'two')[counts[where]]} of "
            f"class {where}. {remedy}"
        )


def track(state: Tracked, posterior: NDArray[np.float64], setting: Setting) -> Tracked:
    """Take samples in, given by their posteriors (n, K) under the reference.

    Cutting a stream into batches in one way or another makes no difference.
    """
    done = 0
    while done < len(posterior):
        some = posterior[done : done + setting.block - state.waiting]
        state = _taken(state, some, setting)
        done += len(some)
    return state


def _taken(state: Tracked, posterior: NDArray[np.float64], setting: Setting) -> Tracked:
    """Take in samples up to the next step at most, and make it if it is due."""
    believed = (1.0 - KEPT) * state.prior + KEPT * setting.reference
    gain = believed / setting.reference
    ratio = posterior @ gain
    fair = 1.0 if setting.ratios is None else setting.ratios.at_most(believed)
    logs = np.log(ratio / fair)
    evidence = _evidence(state.log_evidence, logs)
    reached = np.flatnonzero(evidence >= setting.log_threshold)
    first = state.n_samples + int(reached[0]) + 1 if reached.size else None
    state = replace(
        state,
        mass=state.mass + gain * ((1.0 / ratio) @ posterior),
        waiting=state.waiting + len(posterior),
        n_samples=state.n_samples + len(posterior),
        log_evidence=float(np.logaddexp(0.0, evidence[-1])),
        alarm_at=first if state.alarm_at is None else state.alarm_at,
    )
    if state.waiting < setting.block:
        return state
    prior = state.current(setting.half_life)
    return replace(state, prior=prior / prior.sum(), mass=np.zeros_like(prior), waiting=0)


def _evidence(before: float, logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log R after each sample, from log(1 + R) before and the log e of each.

    R_n = E_n·(1 + R_0 + Σ_{i<n} 1/E_i) with the products E of the e.
    """
    products = np.cumsum(logs)
    terms = np.concatenate([[before], -products[:-1]])
    found: NDArray[np.float64] = products + np.logaddexp.accumulate(terms)
    return found
