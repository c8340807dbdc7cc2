"""Decisions that cost least: Bayes' rule with a cost for every mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    constant,
    device_of,
    namespace,
    to_numpy,
)
from reprior.core.binary import expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import column_names, first_index, refuse_reordered
from reprior.core.logspace import as_scores, probabilities
from reprior.exceptions import Argument, Element, OptionError

__all__ = ["cost_matrix", "decide", "expected_costs"]

_COSTS_REMEDY = "Pass costs[true][decided], one row per class and one column per decision."


def decide(posterior: Any, costs: Any, *, class_axis: int = -1) -> Array:
    r"""Return the decision of least expected cost for every sample.

    .. math:: d(x) = \arg\min_d \sum_k P(k|x)\, C_{kd}

    where P is the posterior and C_kd what it costs to decide d where k is true. There may be more
    decisions than classes, to abstain or to ask a human, or fewer. Costs of mistakes that depend
    on the true class alone, :math:`C_{kd} = c_k [d \neq k]`, are a prior: the decision is then
    the arg max of c·P.

    The decision is only as good as the probabilities: fit them by log-loss
    (:func:`reprior.fit_log_loss`), not for decisions.

    Parameters
    ----------
    posterior : array of shape (..., K, ...)
        Probabilities that sum to 1 over ``class_axis``. For two classes also the probability of
        class 1: shape (N,), or 1 on the class axis.
    costs : array-like of shape (K, D)
        ``costs[true, decided]``, finite; what is gained may be negative.
    class_axis : int, default -1
        The axis of the classes.

    Returns
    -------
    integer array of the posterior's shape without the class axis
        Indices of decisions, 0 … D−1, in the posterior's library; the lowest among equals.

    References
    ----------
    .. [1] Elkan. "The Foundations of Cost-Sensitive Learning", IJCAI 2001: Eq. 1.
    .. [2] Chow. "On Optimum Recognition Error and Reject Tradeoff", IEEE Transactions on
       Information Theory 16, 1970: the decision to abstain.

    Examples
    --------
    To miss class 1 costs five times a false alarm, and to ask a human half a false alarm:

    >>> import numpy as np
    >>> costs = [[0, 1, 0.5], [5, 0, 0.5]]
    >>> decide(np.array([[0.95, 0.05], [0.85, 0.15], [0.3, 0.7]]), costs)
    array([0, 2, 1])
    """
    xp, matrix = namespace(posterior), _checked(costs, column_names(posterior))
    # Dividing by a power of two changes no decision, and keeps costs within float32.
    matrix = np.ldexp(matrix, -int(np.frexp(np.abs(matrix).max())[1]))
    expected, axis, _ = _expected(posterior, matrix, class_axis, xp)
    return xp.argmin(expected, axis=axis)


def expected_costs(posterior: Any, costs: Any, *, class_axis: int = -1) -> Array:
    r"""Return what every decision is expected to cost.

    .. math:: \sum_k P(k|x)\, C_{kd}

    where P is the posterior and C_kd what it costs to decide d where k is true.

    Parameters
    ----------
    posterior, costs, class_axis
        As for :func:`decide`.

    Returns
    -------
    array of the posterior's shape, with the D decisions in the place of the K classes
        Expected costs, computed in float64 and rounded to the posterior's dtype. For single
        probabilities of shape (N,), of shape (N, D).

    References
    ----------
    .. [1] Elkan. "The Foundations of Cost-Sensitive Learning", IJCAI 2001: Eq. 1.

    Examples
    --------
    >>> import numpy as np
    >>> expected_costs(np.array([[0.8, 0.2]]), [[0, 1], [5, 0]])
    array([[1. , 0.8]])
    """
    xp = namespace(posterior)
    matrix = _checked(costs, column_names(posterior))
    expected, _, dtype = _expected(posterior, matrix, class_axis, xp)
    with np.errstate(over="ignore"):  # infinite where the posterior's dtype ends
        return xp.astype(expected, dtype, copy=False)


def cost_matrix(
    costs: Any, n_classes: int | None = None, *, name: str = "costs"
) -> NDArray[np.float64]:
    """Return costs as float64 of shape (K, D), or refuse what :func:`decide` would refuse.

    Examples
    --------
    >>> cost_matrix([[0, 1], [5, 0]], 2)
    array([[0., 1.],
           [5., 0.]])
    """
    matrix = _checked(costs, name=name)
    if n_classes is not None:
        _check_rows(matrix, (1, n_classes), class_axis=-1)
    return matrix


def _expected(
    posterior: Any, matrix: NDArray[np.float64], class_axis: int, xp: Namespace
) -> tuple[Array, int, Any]:
    """Return the expected costs, the axis of the decisions, and the posterior's own dtype.

    Expected costs are float64 where available: costs may be large beside their differences.
    """
    given = as_scores(posterior, xp, name="posterior")
    _check_rows(matrix, given.shape, class_axis)
    axis = resolve_class_axis(given.shape, len(matrix), class_axis)
    if is_single_score(given.shape, len(matrix), axis):
        columns = expand(given, "probs", xp=xp, class_axis=axis, name="posterior")
        given, axis = columns, expanded_axis(given.ndim, axis)
    p = probabilities(given, axis=axis, xp=xp, name="posterior")
    wide = accumulation_dtype(xp, device_of(p))
    rows = xp.astype(xp.moveaxis(p, axis, -1), wide, copy=False)
    product = xp.matmul(rows, constant(matrix, xp, like=p, dtype=wide))
    return xp.moveaxis(product, -1, axis), axis, p.dtype


def _check_rows(matrix: NDArray[np.float64], shape: tuple[int, ...], class_axis: int) -> None:
    """Refuse costs of other classes than the posterior has."""
    axis = class_axis if len(shape) > 1 else 0
    if not -len(shape) <= axis < len(shape) or shape[axis] == len(matrix):
        return
    if len(matrix) == 2 and (len(shape) == 1 or shape[axis] == 1):  # one score of two classes
        return
    raise OptionError(
        argument="costs",
        rule=f"must have a row for each of the {shape[axis]} classes",
        got=f"shape {matrix.shape}",
        remedy=_COSTS_REMEDY,
    )


def _checked(
    costs: Any, classes: list[Any] | None = None, *, name: str = "costs"
) -> NDArray[np.float64]:
    """Return the costs as float64 of shape (K, D), or refuse what is no cost matrix.

    ``classes`` are the names of the posterior's columns, where they have names.
    """
    if column_names(costs) is not None and hasattr(costs, "index"):
        refuse_reordered(
            classes, list(costs.index), name="posterior", of=["the rows of ", Argument("costs")]
        )
    try:
        host = to_numpy(costs)
    except ValueError as error:  # NumPy's words for rows of different lengths
        raise OptionError(
            argument=name,
            rule="must have rows of one length",
            got="rows of several",
            remedy=_COSTS_REMEDY,
        ) from error
    if host.dtype.kind not in "iufb":
        raise OptionError(
            argument=name,
            rule="must be numbers",
            got=f"dtype {host.dtype}",
            remedy=_COSTS_REMEDY,
        )
    if host.ndim != 2 or host.shape[0] < 2 or host.shape[1] < 2:
        raise OptionError(
            argument=name,
            rule="must have shape (K, D), with at least two classes and two decisions",
            got=f"shape {host.shape}",
            remedy=_COSTS_REMEDY,
        )
    matrix = host.astype(np.float64)
    bad = ~np.isfinite(matrix)
    if bad.any():
        where = first_index(bad)
        raise OptionError(
            argument=name,
            rule="must be finite",
            got=Element(name, where, float(matrix[where])),
            remedy="Give a decision that must not be taken a cost far above the others.",
        )
    return matrix
