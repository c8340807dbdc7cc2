"""The posterior of scores with a scale and a bias for every class: softmax(a·z + b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.affine_map import Tilt, tilt_scores
from reprior.core.arrays import Array, to_numpy
from reprior.core.checks import check_kind, first_index
from reprior.exceptions import Element, OptionError

__all__ = ["affine_posterior"]

_REMEDY = "Pass what fit_scaling or as_affine gives."


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
    b = _vector(bias, "bias", lowest=True)
    a = np.broadcast_to(_vector(scale, "scale", n_classes=b.size), b.shape)
    return tilt_scores(scores, Tilt(b, scales=a), kind=kind, class_axis=class_axis, log=log)


def _vector(
    values: Any, name: str, *, lowest: bool = False, n_classes: int | None = None
) -> NDArray[np.float64]:
    """Return finite numbers, or −inf where ``lowest``: one per class, or one where K is known."""
    host = to_numpy(values)
    fits = host.ndim == 1 if n_classes is None else host.shape in ((n_classes,), ())
    if host.dtype.kind not in "iuf" or not fits:
        one = "" if n_classes is None else "one number, or "
        raise OptionError(
            argument=name,
            rule=f"must be {one}one number per class",
            got=f"dtype {host.dtype} and shape {host.shape}",
            remedy=_REMEDY,
        )
    numbers = host.astype(np.float64)
    good = np.isfinite(numbers) | (lowest & np.isneginf(numbers))
    if not good.all():
        where = first_index(~good)
        raise OptionError(
            argument=name,
            rule=f"must be finite{' or −inf' if lowest else ''}",
            got=Element(name, where, float(numbers[where])),
            remedy=_REMEDY,
        )
    return numbers
