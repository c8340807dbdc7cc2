r"""Prior rebalancing: the paper's Eqs. 5–8 in one addition per class, in log space.

The paper computes P_r ∝ P_d·P_t/P_s (Eq. 5) and P_f ∝ P_d^(1−λ)·P_r^λ (Eq. 7). In logarithms the
two collapse into log P_f = log P_d + λ·(log P_t − log P_s) − log Z. In this form probabilities too
small for the dtype, λ > 1 and λ < 0 need no special cases.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.affine_map import AffineMap, map_posterior
from reprior.core.arrays import Array, is_traced, to_numpy
from reprior.core.checks import (
    check_finite_number,
    check_kind,
    column_names,
    first_index,
    short_number,
)
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.exceptions import Argument, Element, OptionError, PriorError, Setting

__all__ = ["log_rebalance", "odds_ratio", "prior_shift", "rebalance", "strength_text"]


def strength_text(strength: float) -> str:
    """Return a strength as every sentence, table and figure rounds it: to four decimals.

    Examples
    --------
    >>> strength_text(0.95304), strength_text(1.0), strength_text(0.000012)
    ('0.953', '1', '1.2e-05')
    """
    if strength and abs(strength) < 0.001:
        return f"{strength:.2g}"
    return f"{strength:.4f}".rstrip("0").rstrip(".")


def rebalance(
    scores: Any,
    source_prior: Any,
    *,
    target_prior: Any = "uniform",
    strength: float = 1.0,
    temperature: float = 1.0,
    kind: str = "logits",
    class_axis: int = -1,
) -> Array:
    r"""Return the posterior of a trained classifier with its class prior re-set.

    .. math:: P_f(k|x) = \frac{1}{Z(x)} \exp\bigl(z_k(x)/T + λ\,w_k\bigr),
        \qquad w_k = \log P_t(k) - \log P_s(k)

    where z_k is the log-score of class k for the sample x, T the temperature, λ the strength,
    P_s the source prior (what the model was trained on), P_t the target prior (what it is used
    on) and Z the sum over the classes. At T = 1 this is the paper's calibrated posterior
    :math:`P_f ∝ P_d^{1-λ} P_r^{λ}` with the rebalanced posterior :math:`P_r ∝ P_d P_t / P_s`.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs, the classes on ``class_axis``. For two classes also one score per
        sample, that of class 1: shape (N,), or 1 on the class axis. A vector of K ≥ 3 scores is
        one sample.
    source_prior : array-like of shape (K,)
        P_s, positive, sums to 1; see :func:`prior_from_counts`. Where the scores are a frame,
        also {column: probability}, or a Series with the columns' names.
    target_prior : "uniform" or array-like of shape (K,), default "uniform"
        P_t, sums to 1; given as P_s is. A class of target prior 0 gets the posterior 0 at any
        strength above 0.
    strength : float, default 1
        λ: 0 leaves the model's posterior, 1 is Bayes' rule, more over-corrects, less than 0
        corrects the other way.
    temperature : float, default 1
        T > 0; see :func:`fit_temperature`.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are. It is never guessed.
    class_axis : int, default -1
        The axis of the classes: 1 for (N, K, H, W).

    Returns
    -------
    array of the scores' shape, library, device and dtype (integers: float64)
        The posterior; sums to 1 over the class axis. For one score per sample, the probability
        of class 1. 16-bit scores are computed in float32.

    Notes
    -----
    Under ``jax.jit`` and for Dask arrays the values of scores cannot be read, and are not
    checked. Gradients flow to the scores, not to the priors.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Theorem 1 and Eqs. 5–7.

    Examples
    --------
    >>> import numpy as np
    >>> rebalance(np.array([[0.9, 0.1]]), [0.9, 0.1], kind="probs")
    array([[0.5, 0.5]])
    >>> rebalance(np.array([[2.0, 1.0, 0.0]]), [0.5, 0.3, 0.2], strength=0).round(3)
    array([[0.665, 0.245, 0.09 ]])
    """
    affine = _checked(scores, source_prior, target_prior, strength, temperature, kind)
    return map_posterior(scores, affine, kind=kind, class_axis=class_axis, log=False)


def log_rebalance(
    scores: Any,
    source_prior: Any,
    *,
    target_prior: Any = "uniform",
    strength: float = 1.0,
    temperature: float = 1.0,
    kind: str = "logits",
    class_axis: int = -1,
) -> Array:
    r"""Return the logarithm of :func:`rebalance`'s posterior, exact where that underflows.

    .. math:: \log P_f(k|x) = z_k(x)/T + λ\,w_k - \log Z(x)

    with the symbols, parameters, shapes and checks of :func:`rebalance`. A class that is
    impossible has the log-posterior −inf.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Theorem 1 and Eqs. 5–7.

    Examples
    --------
    >>> import numpy as np
    >>> log_rebalance(np.array([[0.0, 0.0]]), [0.8, 0.2]).round(3)
    array([[-1.609, -0.223]])
    """
    affine = _checked(scores, source_prior, target_prior, strength, temperature, kind)
    return map_posterior(scores, affine, kind=kind, class_axis=class_axis, log=True)


def odds_ratio(odds: Any, source_ratio: Any, target_ratio: Any = 1.0, *, strength: float) -> Any:
    r"""Return the odds of one class against another after rebalancing.

    .. math:: \frac{P_f(a|x)}{P_f(b|x)} = \frac{P_d(a|x)}{P_d(b|x)}
        \left(\frac{P_s(b)}{P_s(a)}\right)^{λ} \left(\frac{P_t(a)}{P_t(b)}\right)^{λ}

    where P_d is the model's posterior, P_s the source prior, P_t the target prior and λ the
    strength. Below λ = 1 the odds grow less than in proportion to the source prior ratio, above
    it more.

    Parameters
    ----------
    odds : float or array
        P_d(a|x) / P_d(b|x), before rebalancing; not negative.
    source_ratio : float or array
        P_s(b) / P_s(a), positive: above 1 where a is the rarer class.
    target_ratio : float or array, default 1
        P_t(a) / P_t(b), positive; 1 for a uniform target.
    strength : float
        λ.

    Returns
    -------
    float or array
        P_f(a|x) / P_f(b|x).

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Eq. 8.

    Examples
    --------
    >>> odds_ratio(0.5, 100.0, strength=0.5)
    5.0
    """
    _check_odds("odds", odds, ratio=False)
    _check_odds("source_ratio", source_ratio, ratio=True)
    _check_odds("target_ratio", target_ratio, ratio=True)
    return odds * (source_ratio * target_ratio) ** strength


def _check_odds(name: str, value: Any, *, ratio: bool) -> None:
    """Refuse negative odds, or ratios of priors that are not finite and above 0."""
    if is_traced(value):
        return
    host = to_numpy(value)
    numbers = host.astype(float) if host.dtype.kind in "biuf" else np.full(host.shape, np.nan)
    good = (numbers > 0) & np.isfinite(numbers) if ratio else numbers >= 0
    if good.all():
        return
    where = first_index(~good)
    raise OptionError(
        argument=name,
        rule="must be finite and above 0" if ratio else "must be at least 0",
        got=Element(name, where, str(host[where])),
        remedy="Pass one probability divided by the other, not the logarithm of that.",
    )


def _checked(
    scores: Any,
    source_prior: Any,
    target_prior: Any,
    strength: float,
    temperature: float,
    kind: str,
) -> AffineMap:
    """Check everything but the scores, and return what is done to them."""
    check_kind(kind)
    names = column_names(scores)
    source = as_prior(source_prior, name="source_prior", classes=names)
    target = as_target_prior(target_prior, n_classes=source.size, classes=names)
    shift = prior_shift(source, target, check_finite_number("strength", strength))
    return AffineMap(shift, check_finite_number("temperature", temperature, positive=True))


def prior_shift(
    source: NDArray[np.float64], target: NDArray[np.float64], strength: float
) -> NDArray[np.float64]:
    """Return λ·w, with 0·(−inf) = 0, of priors that were checked.

    Examples
    --------
    >>> prior_shift(np.array([0.8, 0.2]), np.array([0.5, 0.5]), 0.5).round(3)
    array([-0.235,  0.458])
    """
    if strength == 0.0:
        return np.zeros_like(source)
    if strength < 0.0 and (target == 0).any():
        where = int(np.argmax(target == 0))
        raise PriorError(
            argument="target_prior",
            rule=[
                "must be positive for every class where ",
                Argument("strength"),
                " is negative",
            ],
            got=[
                Element("target_prior", (where,), 0),
                " and ",
                Setting("strength", short_number(strength)),
                ", which would divide by 0",
            ],
            remedy="Give the class a small prior, or pass a strength of at least 0.",
        )
    return strength * slopes(source, target)
