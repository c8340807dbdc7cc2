"""The posterior of scores with a scale and a bias for every class: softmax(a·z + b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import (
    Array,
    Namespace,
    constant,
    is_floating,
    is_traced,
    namespace,
    to_numpy,
)
from reprior.core.binary import contract, expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import check_kind, element, first_index
from reprior.core.logspace import as_scores, log_scores, normalise, row_name
from reprior.exceptions import OptionError, ScoresError

__all__ = ["affine_posterior"]


def affine_posterior(
    scores: Any,
    scale: Any,
    bias: Any,
    *,
    kind: str = "logits",
    class_axis: int = -1,
    log: bool = False,
) -> Array:
    r"""Return the posterior of scaled and shifted scores.

    .. math:: P(k|x) = \frac{1}{Z(x)} \exp\bigl(a_k z_k(x) + b_k\bigr)

    where z_k is the log-score of class k for the sample x, a_k the scale and b_k the bias of the
    class, and Z the sum over the classes. A class that is impossible, its log-score −inf, stays
    so whatever its scale.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        The model's outputs, the classes on ``class_axis``. For two classes also one score per
        sample, that of class 1: shape (N,), or 1 on the class axis.
    scale : float or array-like of shape (K,)
        a, finite: 1/T for a temperature T.
    bias : array-like of shape (K,)
        b, finite, or −inf for a class that is not to be.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes.
    log : bool, default False
        Whether to return the logarithm.

    Returns
    -------
    array of the scores' shape, library, device and dtype (integers: float64)
        The posterior. For one score per sample, the probability of class 1.

    References
    ----------
    .. [1] Guo, Pleiss, Sun, Weinberger. "On Calibration of Modern Neural Networks", ICML 2017:
       vector scaling.

    Examples
    --------
    >>> import numpy as np
    >>> affine_posterior(np.array([[2.0, 0.0]]), 0.5, [0.0, 1.0])
    array([[0.5, 0.5]])
    """
    check_kind(kind)
    xp = namespace(scores)
    given = as_scores(scores, xp)
    b = _vector(bias, "bias", lowest=True)
    a = np.broadcast_to(_vector(scale, "scale", n_classes=b.size), b.shape)
    axis = resolve_class_axis(given.shape, b.size, class_axis)
    if is_single_score(given.shape, b.size, axis):
        columns, at = expand(given, kind, xp=xp, class_axis=axis), expanded_axis(given.ndim, axis)
        result = _posterior(columns, a, b, kind, at, xp, log)
        result = contract(result, given.shape, xp=xp, class_axis=axis)
    else:
        result = _posterior(given, a, b, kind, axis, xp, log)
    if not is_floating(given.dtype):
        return result
    with np.errstate(over="ignore"):  # a log-posterior below the reach of float16 is −inf there
        return xp.astype(result, given.dtype, copy=False)


def _posterior(
    scores: Array,
    scale: NDArray[np.float64],
    bias: NDArray[np.float64],
    kind: str,
    axis: int,
    xp: Namespace,
    log: bool,
) -> Array:
    z = log_scores(scores, kind, axis=axis, xp=xp)
    shape = (-1,) + (1,) * (z.ndim - 1 - axis)
    a, b = (xp.reshape(constant(v, xp, like=z, dtype=z.dtype), shape) for v in (scale, bias))
    gone = z == -xp.inf
    tilted = xp.where(gone, z, xp.where(gone, xp.zeros_like(z), z) * a + b)
    peak = xp.max(tilted, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        _refuse(to_numpy(peak), axis)
    return normalise(tilted, peak, axis=axis, xp=xp, log=log)


def _refuse(peak: NDArray[Any], axis: int) -> None:
    where = first_index(~np.isfinite(np.squeeze(peak, axis=axis)))
    raise ScoresError(
        f"`scores` must leave some class whose bias is finite possible in every row, and stay "
        f"finite when scaled. Got {row_name(where, peak.ndim, axis)}. Drop the sample, or pass "
        f"scores of a wider dtype."
    )


def _vector(
    values: Any, name: str, *, lowest: bool = False, n_classes: int | None = None
) -> NDArray[np.float64]:
    """Return finite numbers, or −inf where ``lowest``: one per class, or one where K is known."""
    host = to_numpy(values)
    fits = host.ndim == 1 if n_classes is None else host.shape in ((n_classes,), ())
    if host.dtype.kind not in "iuf" or not fits:
        one = "" if n_classes is None else "one number, or "
        raise OptionError(
            f"`{name}` must be {one}one number per class. Got dtype {host.dtype} and shape "
            f"{host.shape}. Pass what fit_scaling or as_affine gives."
        )
    numbers = host.astype(np.float64)
    good = np.isfinite(numbers) | (lowest & np.isneginf(numbers))
    if not good.all():
        where = first_index(~good)
        place = element(name, where) if where else name
        raise OptionError(
            f"`{name}` must be finite{' or −inf' if lowest else ''}. Got {place}="
            f"{numbers[where]:g}. Pass what fit_scaling or as_affine gives."
        )
    return numbers
