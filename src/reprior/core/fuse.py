"""Fusion of several models' posteriors into one: Algorithm 1, line 6, and two plain rules."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    device_of,
    is_floating,
    is_traced,
    namespace,
    to_numpy,
)
from reprior.core.binary import contract, expand
from reprior.core.checks import check_choice, check_class_axis, first_index
from reprior.core.logspace import as_scores, log_softmax, probabilities, row_element
from reprior.exceptions import ScoresError, Setting

__all__ = ["RULES", "fuse"]

RULES = ("noisy_or", "mean", "product")
"""How posteriors can be fused."""


def fuse(
    posteriors: Mapping[Any, Any] | Sequence[Any],
    *,
    rule: str = "noisy_or",
    class_axis: int = -1,
) -> Array:
    r"""Return one posterior from those of several models or modalities.

    .. math::
        \text{noisy_or:}\; P ∝ 1 - \prod_m (1 - P_m), \qquad
        \text{mean:}\; P ∝ \sum_m P_m, \qquad
        \text{product:}\; P ∝ \prod_m P_m

    where P_m is the posterior of model m and P the fused one, made to sum to 1 over the classes.
    A class that one model excludes (P_m = 0) is excluded by "product", not by the others.

    Parameters
    ----------
    posteriors : {name: array} or sequence of arrays
        One posterior per model, all of one shape and array library: probabilities that sum to 1
        over the class axis. For two classes the class axis may have length 1 and hold the
        probability of class 1. A vector is one sample.
    rule : {"noisy_or", "mean", "product"}, default "noisy_or"
        How they are fused.
    class_axis : int, default -1
        The axis of the classes.

    Returns
    -------
    array of the posteriors' shape, library, device and dtype (integers: float64)
        The fused posterior.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Algorithm 1, line 6 (noisy-or).

    Examples
    --------
    >>> import numpy as np
    >>> rgb, depth = np.array([[0.8, 0.2]]), np.array([[0.5, 0.5]])
    >>> fuse({"rgb": rgb, "depth": depth})
    array([[0.6, 0.4]])
    >>> fuse([rgb, depth], rule="product")
    array([[0.8, 0.2]])
    """
    check_choice("rule", rule, RULES)
    named = _named(posteriors)
    xp = namespace(*named.values())
    given = {name: as_scores(p, xp, name=name) for name, p in named.items()}
    dtype = xp.result_type(*given.values())
    shape = _common_shape(given)
    axis = check_class_axis(shape, class_axis)
    single = len(shape) > 1 and shape[axis] == 1
    if single:
        given = {n: expand(p, "probs", xp=xp, class_axis=axis, name=n) for n, p in given.items()}
    parts = [probabilities(p, axis=axis, xp=xp, name=name) for name, p in given.items()]
    fused = _RULES[rule](parts, axis, xp)
    if single:
        fused = contract(fused, shape, xp=xp, class_axis=axis)
    return xp.astype(fused, dtype, copy=False) if is_floating(dtype) else fused


def _named(posteriors: Any) -> dict[str, Any]:
    """Return {how an error calls it: posterior}."""
    if isinstance(posteriors, Mapping):
        named = {f"posteriors[{key!r}]": p for key, p in posteriors.items()}
    elif isinstance(posteriors, Sequence) and not isinstance(posteriors, str):
        named = {f"posteriors[{i}]": p for i, p in enumerate(posteriors)}
    else:
        raise ScoresError(
            argument="posteriors",
            rule="must be a mapping or a list of posteriors",
            got=type(posteriors).__name__,
            remedy="Pass [posterior_a, posterior_b].",
        )
    if not named:
        raise ScoresError(
            argument="posteriors",
            rule="must hold at least one posterior",
            got="none",
            remedy="Pass some.",
        )
    return named


def _common_shape(given: Mapping[str, Array]) -> tuple[int, ...]:
    shapes = {name: tuple(p.shape) for name, p in given.items()}
    (first, shape), *others = shapes.items()
    for name, other in others:
        if other != shape:
            raise ScoresError(
                argument="posteriors",
                rule="must have one shape",
                got=f"{shape} for {first} and {other} for {name}",
                remedy="Resize or align them before fusing.",
            )
    return shape


def _noisy_or(parts: Sequence[Array], axis: int, xp: Namespace) -> Array:
    # In logarithms, for 1 − Π(1 − p) rounds to 0 where every p is below the dtype's epsilon.
    with np.errstate(divide="ignore"):
        log_none = sum((xp.log1p(-p) for p in parts[1:]), xp.log1p(-parts[0]))
    return _unit_sum(-xp.expm1(log_none), axis, xp)


def _mean(parts: Sequence[Array], axis: int, xp: Namespace) -> Array:
    return _unit_sum(sum(parts[1:], parts[0]), axis, xp)


def _product(parts: Sequence[Array], axis: int, xp: Namespace) -> Array:
    with np.errstate(divide="ignore"):
        log_all = sum((xp.log(p) for p in parts[1:]), xp.log(parts[0]))
    if not is_traced(log_all):
        empty = xp.max(log_all, axis=axis) == -xp.inf
        if bool(xp.any(empty)):
            row = row_element(first_index(to_numpy(empty)), log_all.ndim, axis, "posteriors[…]")
            raise ScoresError(
                argument="posteriors",
                rule=[
                    "must leave some class possible in every row under ",
                    Setting("rule", "product"),
                ],
                got=[row, ", where every class has probability 0 in one of them"],
                remedy=["Pass ", Setting("rule", "noisy_or"), " or 'mean'."],
            )
    return xp.exp(log_softmax(log_all, axis=axis, xp=xp))


def _unit_sum(p: Array, axis: int, xp: Namespace) -> Array:
    wide = accumulation_dtype(xp, device_of(p))
    total = xp.sum(p, axis=axis, keepdims=True, dtype=wide)
    return p / xp.astype(total, p.dtype, copy=False)


_RULES = {"noisy_or": _noisy_or, "mean": _mean, "product": _product}
