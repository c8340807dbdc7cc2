"""Arguments of a profile, checked, and laid out for one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from reprior.core.arrays import Array, Namespace, namespace, to_numpy
from reprior.core.binary import expand, is_single_score, resolve_class_axis
from reprior.core.checks import (
    check_bounds,
    check_finite_number,
    check_kind,
    check_labels,
    check_sample_weight,
)
from reprior.core.logspace import as_scores, warn_if_probs
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.exceptions import LabelsError, OptionError
from reprior.tuning.rows import Rows

__all__ = ["Reading", "lazy_parts", "read"]

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
) -> Reading:
    """Check everything that can be checked without a pass over the scores."""
    check_kind(kind)
    low, high = check_bounds(bounds)
    if resolution is not None:
        resolution = check_finite_number("resolution", resolution, positive=True)
    source = as_prior(source_prior, name="source_prior")
    target = as_target_prior(target_prior, n_classes=source.size)
    if low < 0 and (target == 0).any():
        raise OptionError(
            f"`bounds` must not reach below 0 where `target_prior` has a 0. Got bounds=({low:g}, "
            f"{high:g}) and target_prior[{int(np.argmax(target == 0))}]=0. Start the bounds at 0."
        )
    xp, z, host_labels, weight = _one_library(scores, labels, sample_weight)
    z = _class_axis_last(as_scores(z, xp), kind, source.size, class_axis, xp)
    _check_samples(host_labels, weight, tuple(z.shape[:-1]), source.size, ignore_index)
    if kind == "logits":
        warn_if_probs(z, axis=-1, xp=xp)
    rows = Rows(
        scores=z,
        labels=np.ascontiguousarray(host_labels, dtype=np.int64),
        weights=None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
        kind=kind,
        ignore_index=ignore_index,
        n_classes=source.size,
        xp=xp,
    )
    return Reading(rows, source, target, slopes(source, target), (low, high), resolution)


def lazy_parts(
    scores: Any, labels: Any, sample_weight: Any, class_axis: int
) -> Iterator[tuple[Any, Any, Any]] | None:
    """Dask arrays as a stream of NumPy parts, one per chunk of samples; None for any others."""
    if not array_api_compat.is_dask_array(scores):
        return None
    namespace(scores, labels, sample_weight)
    axis = 1 if class_axis % scores.ndim == 0 and scores.ndim > 1 else 0
    edges = np.cumsum([0, *scores.chunks[axis]])

    def parts() -> Iterator[tuple[Any, Any, Any]]:
        for start, stop in zip(edges[:-1], edges[1:], strict=True):
            piece = slice(int(start), int(stop))
            z = scores[(slice(None),) * axis + (piece,)].compute()
            weight = None if sample_weight is None else sample_weight[piece].compute()
            yield z, labels[piece].compute(), weight

    return parts()


def _one_library(
    scores: Any, labels: Any, sample_weight: Any
) -> tuple[Namespace, Array, Vector, Vector | None]:
    """Scores where they are best read, labels and weights as NumPy.

    Arrays in the host's memory are read as NumPy whatever their library; scores on a device of
    their own stay there.
    """
    xp = namespace(scores, labels, sample_weight)
    on_host = array_api_compat.is_jax_array(scores) or (
        array_api_compat.is_torch_array(scores) and scores.device.type == "cpu"
    )
    if on_host:
        scores = to_numpy(scores)
        xp = namespace(scores)
    weight = None if sample_weight is None else to_numpy(sample_weight)
    return xp, scores, to_numpy(labels), weight


def _class_axis_last(
    scores: Array, kind: str, n_classes: int, class_axis: int, xp: Namespace
) -> Array:
    axis = resolve_class_axis(scores.shape, n_classes, class_axis)
    if is_single_score(scores.shape, n_classes, axis):
        scores = expand(scores, kind, xp=xp, class_axis=axis)
        axis = max(axis, 1) if scores.ndim == 2 else axis
    if scores.ndim == 1:  # one sample
        return scores[None, :]
    return xp.moveaxis(scores, axis, -1)


def _check_samples(
    labels: Vector,
    weight: Vector | None,
    shape: tuple[int, ...],
    n_classes: int,
    ignore_index: int | None,
) -> None:
    check_labels(labels, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
    kept = None if ignore_index is None else labels != ignore_index
    if weight is not None:
        check_sample_weight(weight, shape)
        kept = weight > 0 if kept is None else kept & (weight > 0)
    if kept is not None and not kept.any():
        raise LabelsError(
            f"`labels` must leave at least one sample to count. Got {labels.size} samples, all "
            f"of them ignored or of weight 0. Check `ignore_index` and `sample_weight`."
        )
