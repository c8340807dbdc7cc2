"""Arguments of a profile, checked, and laid out for one pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import array_api_compat
import numpy as np

from reprior.core import kernels
from reprior.core.arrays import Array, Namespace, constant, namespace, to_numpy
from reprior.core.binary import expand, is_single_score, resolve_class_axis
from reprior.core.checks import (
    check_bounds,
    check_finite_number,
    check_kind,
    check_labels,
    check_sample_weight,
    column_names,
)
from reprior.core.logspace import as_scores, sum_tolerance, warn_if_probs, warn_if_single_probs
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.exceptions import LabelsError, OptionError
from reprior.profile.constants import AFTER_ZERO
from reprior.profile.samples import Rows

__all__ = [
    "Reading",
    "anything_counts",
    "check_problem",
    "read",
    "refuse_nothing",
    "rules_out",
]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Reading:
    """What a pass over labelled scores needs."""

    rows: Rows
    source_prior: Vector
    target_prior: Vector
    slopes: Vector
    bounds: tuple[float, float]
    resolution: float | None
    label_prior: Vector | None = None
    """What the labels follow, where that is known better than by their frequencies."""


def read(
    scores: Any,
    labels: Any,
    sample_weight: Any,
    *,
    source_prior: Any,
    target_prior: Any,
    kind: str,
    bounds: Any,
    class_axis: int,
    ignore_index: int | None,
    resolution: float | None,
    warn: bool = True,
) -> Reading:
    """Check everything that can be checked without a pass over the scores.

    ``warn=False`` is for parts of a whole: whether logits look like probabilities is a question
    to all of them together.
    """
    source, target, limits, grid = check_problem(
        source_prior=source_prior, target_prior=target_prior, kind=kind, bounds=bounds,
        resolution=resolution, classes=column_names(scores),
    )  # fmt: skip
    xp, z, host_labels, weight = _one_library(scores, labels, sample_weight, keep=kind == "logits")
    z = as_scores(z, xp)
    axis = resolve_class_axis(z.shape, source.size, class_axis)
    one_sample = z.ndim == 1 and source.size != 2
    if one_sample:
        host_labels, weight = _at_least_1d(host_labels), _at_least_1d(weight)
    shape = _samples_shape(z.shape, axis, one_sample)
    _check_samples(host_labels, weight, shape, source.size, ignore_index)
    rows = Rows(
        scores=z,
        labels=np.ascontiguousarray(host_labels, dtype=np.int64),
        weights=None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
        kind=kind,
        ignore_index=ignore_index,
        n_classes=source.size,
        xp=xp,
        possible=target > 0,
        tolerance=sum_tolerance(getattr(scores, "dtype", z.dtype), kind, source.size),
        class_axis=max(axis, 1) if z.ndim == 1 and not one_sample else axis,
        one_sample=one_sample,
        ruled_out=tuple(np.flatnonzero(rules_out(target, limits)).tolist()),
    )
    rows = replace(rows, scores=_class_axis_last(rows, axis, warn))
    if warn and kind == "logits":
        warn_if_probs(rows.scores, axis=-1, xp=xp)
    return Reading(rows, source, target, slopes(source, target), limits, grid)


def check_problem(
    *,
    source_prior: Any,
    target_prior: Any,
    kind: str,
    bounds: Any,
    resolution: float | None,
    classes: list[Any] | None = None,
) -> tuple[Vector, Vector, tuple[float, float], float | None]:
    """Check what does not depend on the samples: both priors, bounds and resolution.

    ``classes`` are the names of the scores' columns, where they have names.
    """
    check_kind(kind)
    low, high = check_bounds(bounds)
    if resolution is not None:
        resolution = check_finite_number("resolution", resolution, positive=True)
    source = as_prior(source_prior, name="source_prior", classes=classes)
    target = as_target_prior(target_prior, n_classes=source.size, classes=classes)
    if low < 0 and (target == 0).any():
        raise OptionError(
            f"`bounds` must not reach below 0 where `target_prior` has a 0. Got bounds=({low:g}, "
            f"{high:g}) and target_prior[{int(np.argmax(target == 0))}]=0. Start the bounds at 0."
        )
    return source, target, (low, high), resolution


def rules_out(target_prior: Vector, bounds: tuple[float, float]) -> Vector:
    """Which classes do not exist: those of target prior 0, within bounds from just after 0 on.

    At λ = 0 such a class is predicted as the model has it, at any strength above 0 it is not.
    Bounds that begin just after 0 say that it never is to be, and its samples are left out.
    """
    gone: Vector = (target_prior == 0) & (bounds[0] == AFTER_ZERO)
    return gone


def anything_counts(labels: Vector, weight: Vector | None, ignore_index: int | None) -> bool:
    """Whether a sample is neither ignored nor of weight 0."""
    weighs = None if weight is None or weight.shape != labels.shape else weight != 0
    if ignore_index is None:
        return bool(labels.size if weighs is None else weighs.any())
    counts = labels != ignore_index
    return bool(np.any(counts if weighs is None else counts & weighs))


def _at_least_1d(values: Vector | None) -> Any:
    return None if values is None else np.atleast_1d(values)


def _samples_shape(shape: Any, axis: int, one_sample: bool) -> tuple[int, ...]:
    """The shape that labels must have."""
    if one_sample:
        return (1,)
    if len(shape) == 1:
        return tuple(shape)
    return tuple(length for i, length in enumerate(shape) if i != axis)


def _is_bfloat16(scores: Any) -> bool:
    view = kernels.host_view(scores)
    return view is not None and view.dtype == np.uint16


def _one_library(
    scores: Any, labels: Any, sample_weight: Any, *, keep: bool
) -> tuple[Namespace, Array, Vector, Vector | None]:
    """Scores where they are best read, labels and weights as NumPy.

    Arrays in the host's memory are read as NumPy whatever their library; scores on a device of
    their own stay there, and bfloat16, which NumPy has not, in its library where the kernels read
    it.
    """
    xp = namespace(scores, labels, sample_weight)
    on_host = array_api_compat.is_jax_array(scores) or (
        array_api_compat.is_torch_array(scores) and scores.device.type == "cpu"
    )
    if on_host and not (keep and _is_bfloat16(scores)):
        scores = to_numpy(scores)
        xp = namespace(scores)
    weight = None if sample_weight is None else to_numpy(sample_weight)
    return xp, scores, to_numpy(labels), weight


def _class_axis_last(rows: Rows, axis: int, warn: bool) -> Array:
    """The scores with all K classes on the last axis; single scores of two classes expanded."""
    z, xp = rows.scores, rows.xp
    if rows.one_sample:
        return z[None, :]
    if not is_single_score(z.shape, rows.n_classes, axis):
        return z if axis == z.ndim - 1 else xp.moveaxis(z, axis, -1)
    if warn and rows.kind == "logits":
        warn_if_single_probs(z, xp=xp)
    left_out = rows.left_out()
    if left_out is not None and left_out.any():
        mask = left_out if z.ndim == 1 else np.expand_dims(left_out, axis)
        harmless = {"logits": 0, "probs": 0, "log_probs": -1}[rows.kind]
        z = xp.where(constant(mask, xp, like=z), xp.full_like(z, harmless), z)
    return xp.moveaxis(expand(z, rows.kind, xp=xp, class_axis=axis), rows.class_axis, -1)


def _check_samples(
    labels: Vector,
    weight: Vector | None,
    shape: tuple[int, ...],
    n_classes: int,
    ignore_index: int | None,
) -> None:
    check_labels(labels, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
    if weight is not None:
        check_sample_weight(weight, shape)
    if not anything_counts(labels, weight, ignore_index):
        refuse_nothing(labels.size)


def refuse_nothing(n_samples: int) -> NoReturn:
    """Say that no sample is left."""
    raise LabelsError(
        f"`labels` must leave at least one sample to count. Got {n_samples} samples, all "
        f"of them ignored or of weight 0. Check `ignore_index` and `sample_weight`."
    )
