r"""The target prior of unlabelled scores: how much of each class there is where a model is used.

The only thing that is assumed is that classes look the same there as in training: P(x|y) is
unchanged, and P(y) alone has shifted.
"""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import Array, Namespace, namespace, to_numpy
from reprior.core.binary import expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import check_choice, check_kind
from reprior.core.logspace import as_scores, log_scores, warn_if_single_probs
from reprior.core.prior import as_prior
from reprior.exceptions import OptionError, RepriorWarning

__all__ = ["estimate_target_prior"]

CHANGE_TOLERANCE = 1e-9
"""EM ends where no class's prior will move by more than this until it stands still. Its steps
shrink by a factor, so those to come sum up to the last one times factor/(1 − factor)."""

ROUNDING = 1e-15
"""Steps this small are the rounding of a mean over the samples: there is nothing to come."""

MAX_ITERATIONS = 3000
"""Steps of EM, each a pass over the scores. As every third one is extrapolated from the two
before, tens are usual; what needs more has classes that the scores can hardly tell apart."""

BLOCK_ITEMS = 1 << 20
"""Scores whose posteriors are in memory at a time."""


def estimate_target_prior(
    scores: Any,
    *,
    source_prior: Any,
    method: str = "em",
    kind: str = "logits",
    validation: Any = None,
    class_axis: int = -1,
) -> NDArray[np.float64]:
    r"""Return the class prior under which unlabelled scores are most likely.

    .. math:: P_t ← \frac1N \sum_i \frac{P_d(k|x_i)\, P_t(k) / P_s(k)}
        {\sum_j P_d(j|x_i)\, P_t(j) / P_s(j)}

    where P_d(k|x_i) is the model's posterior of class k for sample i, P_s the source prior and
    P_t the target prior, from P_t = P_s on until it stands still. This is the EM algorithm for
    the likelihood of the N samples,
    :math:`\sum_i \log \sum_k P_d(k|x_i)\, P_t(k) / P_s(k)`, which is concave in P_t: where it
    ends is the maximum. It is as good as the model's probabilities are: calibrate them first.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs on unlabelled data of the deployment. For two classes also one score
        per sample, that of class 1: shape (N,), or 1 on the class axis.
    source_prior : array-like of shape (K,)
        P_s, positive, sums to 1: what the model was trained on.
    method : {"em"}
        How P_t is estimated.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    validation : None
        Labelled scores, for methods that need some. "em" needs none and refuses them.
    class_axis : int, default -1
        The axis of the classes.

    Returns
    -------
    ndarray of shape (K,), float64
        P_t, sums to 1. A class that the scores speak against gets 0, or nearly.

    Warns
    -----
    RepriorWarning
        Where it has not come to rest after three thousand steps.

    References
    ----------
    .. [1] Saerens, Latinne, Decaestecker. "Adjusting the Outputs of a Classifier to New a Priori
       Probabilities: A Simple Procedure", Neural Computation 14(1), 2002: Eqs. 2.9.
    .. [2] Varadhan, Roland. "Simple and Globally Convergent Methods for Accelerating the
       Convergence of Any EM Algorithm", Scandinavian Journal of Statistics 35, 2008: the steps
       that skip ahead.

    Examples
    --------
    A model of two classes seen equally often, and data in which it finds mostly the second:

    >>> import numpy as np
    >>> posterior = np.array([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 8)
    >>> estimate_target_prior(posterior, source_prior=[0.5, 0.5], kind="probs")
    array([0.125, 0.875])
    """
    check_choice("method", method, ["em"])
    check_kind(kind)
    if validation is not None:
        raise OptionError(
            f"`validation` must be None for method='em', which needs no labels. Got "
            f"{type(validation).__name__}. Leave it out."
        )
    source = as_prior(source_prior, name="source_prior")
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, source.size, class_axis)
    if is_single_score(given.shape, source.size, axis):
        given, axis = _two_columns(given, kind, axis, xp), expanded_axis(given.ndim, axis)
    else:
        given = log_scores(given, kind, axis=axis, xp=xp)
    rows = to_numpy(xp.moveaxis(given, axis, -1)).reshape(-1, source.size)
    prior, left = _climb(_Likelihood(rows, source), source)
    if left > CHANGE_TOLERANCE:
        warnings.warn(
            f"the target prior has not come to rest after {MAX_ITERATIONS} steps: it may still "
            f"move by {left:.1g}. The scores hardly tell some classes apart; join these, or use "
            f"more data.",
            RepriorWarning,
            stacklevel=2,
        )
    return prior


def _two_columns(scores: Array, kind: str, axis: int, xp: Namespace) -> Array:
    """Return the log-scores of both classes from one score per sample."""
    if kind == "logits":
        warn_if_single_probs(scores, xp=xp)
    columns, axis = expand(scores, kind, xp=xp, class_axis=axis), expanded_axis(scores.ndim, axis)
    return columns if kind == "logits" else log_scores(columns, kind, axis=axis, xp=xp)


class _Likelihood:
    """The mean log-likelihood of samples as a function of the target prior, and EM's next one."""

    def __init__(self, rows: NDArray[Any], source: NDArray[np.float64]) -> None:
        # P_d(k|x)/P_s(k) up to a factor per row, by which no step of EM changes. The largest of a
        # row is 1: what underflows beside it has no part in the row's mixture.
        ratio = rows - np.log(source).astype(rows.dtype)
        ratio -= ratio.max(axis=1, keepdims=True)
        self.ratio = np.exp(ratio, out=ratio)
        self.step = max(1, BLOCK_ITEMS // source.size)

    def __call__(self, prior: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the likelihood of ``prior``, and the mean posterior under it: one step of EM."""
        n, value, total = len(self.ratio), 0.0, np.zeros_like(prior)
        for start in range(0, n, self.step):
            block = self.ratio[start : start + self.step].astype(np.float64, copy=False)
            mixture = block @ prior
            value += float(np.log(mixture).sum())
            total += (1.0 / mixture) @ block
        mean = prior * total / n
        return value / n, mean / mean.sum()


def _climb(
    likelihood: _Likelihood, prior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return the prior at which EM stands still, and by how much it may still move."""
    left = np.inf
    for _ in range(MAX_ITERATIONS // 3):
        first = likelihood(prior)[1]
        reached, second = likelihood(first)
        steps = [float(np.abs(step).max()) for step in (first - prior, second - first)]
        rate = min(steps[1] / steps[0], 1.0 - ROUNDING) if steps[0] > 0 else 0.0
        left = 0.0 if steps[1] <= ROUNDING else steps[1] * rate / (1.0 - rate)
        if left <= CHANGE_TOLERANCE:
            return second, left
        far = _extrapolated(prior, first, second)
        value, prior = likelihood(far)
        if value < reached:  # too far: EM's own steps never go down
            prior = second
    return prior, left


def _extrapolated(
    start: NDArray[np.float64], first: NDArray[np.float64], second: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return where two steps lead if each further one shrinks as they do; a positive prior."""
    step, bend = first - start, second - 2.0 * first + start
    far = float(np.linalg.norm(step) / max(float(np.linalg.norm(bend)), np.finfo(float).tiny))
    far = min(max(far, 1.0), 1.0 / ROUNDING)
    while True:
        prior: NDArray[np.float64] = start + 2.0 * far * step + far * far * bend
        if far == 1.0 or (np.isfinite(prior).all() and (prior > 0.0).all()):
            prior /= prior.sum()
            return prior
        far = 1.0 if far < 1.0 + 1e-3 else 0.5 * (far + 1.0)
