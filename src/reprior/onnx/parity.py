"""What outputs should be: the Python calibrator applied to the scores of the original."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

import reprior as rp
from reprior.exceptions import FoldError
from reprior.onnx.score_tensors import Place

__all__ = ["Parity", "Reference", "class_rows", "reference", "role_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

POSTERIOR_TOLERANCE = 1e-5
"""Posteriors may differ by this much: single precision, rounded at different places."""

FP16_TOLERANCE = 5e-3
"""The same where half precision is on the way: five times its spacing just below 1, 2^-10."""

ROUNDING_STEPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 4.0, "float64": 4.0}
"""Large log-scores carry absolute errors of so many spacings of their type into the posterior."""

_SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

ENOUGH_SAMPLES = 20
"""Agreement on so many samples, of at least two classes, is no accident."""


@dataclass
class Parity:
    """How a folded model compares with the calibrator applied to the original's scores.

    Attributes
    ----------
    samples : int
        Samples (pixels, for maps) that were compared.
    ties : int
        Samples whose two best posteriors are too close to tell which label is right.
    labels : int
        Labels compared, over all label outputs, ties left out.
    wrong_labels : int
        Labels that disagree.
    decisions : int
        Scores whose largest one was compared with the calibrator's label, over all outputs of
        scores, ties left out: what a client decides by where a model has no label output.
    wrong_decisions : int
        Those that disagree.
    posterior_error : float
        The largest difference of a posterior.
    outputs : dict
        What every output was compared as: "labels", "posterior", "log-scores", "follows" or
        "unchanged".
    telling : bool
        Whether these inputs tell the folded model from the original at all.
    problems : list of str
        A sentence for every output that disagrees.
    """

    samples: int = 0
    ties: int = 0
    labels: int = 0
    wrong_labels: int = 0
    decisions: int = 0
    wrong_decisions: int = 0
    posterior_error: float = 0.0
    outputs: dict[str, str] = field(default_factory=dict)
    telling: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing disagrees."""
        return not self.problems


@dataclass(frozen=True, eq=False)
class Reference:
    """What the calibrator makes of the scores of one run, a row per sample."""

    scores: Vector  # as the model gave them
    before: Vector  # the model's own posterior, (rows, K)
    posterior: Vector  # the corrected one, (rows, K)
    corrected: Vector  # of the scores' shape and kind
    tolerance: Vector  # of a posterior, (rows,)

    @property
    def index(self) -> Vector:
        """The predicted class of every row."""
        return np.asarray(self.posterior.argmax(1))

    @property
    def clear(self) -> Vector:
        """Rows whose label is beyond doubt."""
        top = np.sort(self.posterior, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] > 2 * self.tolerance)


def at_place(calibrator: rp.PosteriorCalibrator, place: Place) -> rp.PosteriorCalibrator:
    """Return the calibrator for scores as they are at a place of a model."""
    own = copy.copy(calibrator)
    own.kind = place.kind or calibrator.kind
    own.class_axis = calibrator.class_axis if place.axis is None else place.axis
    own.classes_ = np.arange(calibrator.source_prior_.size)
    return own


def class_rows(values: Vector, place: Place) -> Vector:
    """Return (rows, K) of an array with the classes on the place's axis."""
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    return np.moveaxis(values, place.axis, -1).reshape(-1, values.shape[place.axis])


def reference(
    calibrator: rp.PosteriorCalibrator, place: Place, scores: Vector, *, half: bool
) -> Reference:
    """Apply the calibrator to the scores of one run of the original, in double precision."""
    own = at_place(calibrator, place)
    wide = scores.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rp.RepriorWarning)
        try:
            log_posterior = np.asarray(own.predict_log_proba(wide))
            posterior = np.asarray(own.predict_proba(wide))
            before = np.asarray(
                rp.rebalance(
                    wide, own.source_prior_, strength=0.0, kind=own.kind, class_axis=own.class_axis
                )
            )
        except (rp.ScoresError, rp.RepriorWarning) as error:
            raise FoldError(
                f"`calibrator` must fit the scores in {place.tensor!r}. It does not: {error} "
                f"Or name the right tensor by `scores`."
            ) from error
    scale, bias = own.as_affine()
    if place.single:
        shifted = scale * wide + (bias[1] - bias[0])
        pair = np.stack([1 - posterior.ravel(), posterior.ravel()], 1)
        old = np.stack([1 - before.ravel(), before.ravel()], 1)
    else:
        shape = np.ones(wide.ndim, int)
        shape[own.class_axis] = -1
        shifted = scale * wide + bias.reshape(shape)
        pair, old = class_rows(posterior, place), class_rows(before, place)
    kinds = {"probs": posterior, "log_probs": log_posterior, "logits": shifted}
    return Reference(
        scores=scores,
        before=old,
        posterior=pair,
        corrected=kinds[own.kind].astype(scores.dtype),
        tolerance=_tolerance(wide, place, pair.shape[0], half=half),
    )


def _tolerance(wide: Vector, place: Place, rows: int, *, half: bool) -> Vector:
    """Return what posteriors may differ by: more where log-scores are large."""
    base = FP16_TOLERANCE if half else POSTERIOR_TOLERANCE
    if place.kind != "logits":
        return np.full(rows, base)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    rowwise = size.reshape(rows) if place.single else class_rows(size, place).max(1)
    dtype = "float16" if half else place.dtype
    return np.asarray(np.maximum(base, ROUNDING_STEPS[dtype] * _SPACING[dtype] * rowwise))


# ------------------------------------------------------------------------------------- roles


def scores_like(value: Any, ref: Reference, place: Place) -> Vector | None:
    """Return an output as (rows, K), or (rows,) for one score of two classes; or None."""
    if isinstance(value, list):  # dictionaries of a ZipMap
        if not value or not isinstance(value[0], dict):
            return None
        value = np.array([list(row.values()) for row in value])
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return None
    z, k = ref.scores, ref.posterior.shape[1]
    if place.single:
        if value.size == z.size:
            return value.reshape(-1).astype(np.float64)
        return _rows_of(value, -1, ref)
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    if _solid(value.shape) == _solid(z.shape):
        return class_rows(value.reshape(z.shape).astype(np.float64), place)
    last = np.moveaxis(z, place.axis, -1).shape
    if _solid(value.shape) == _solid(last):
        return value.reshape(-1, k).astype(np.float64)
    if k == 2 and value.size == len(ref.posterior):
        return value.reshape(-1).astype(np.float64)
    return None


def _rows_of(value: Vector, axis: int, ref: Reference) -> Vector | None:
    if value.ndim and value.shape[axis] == 2 and value.size == ref.posterior.size:
        return np.moveaxis(value, axis, -1).reshape(-1, 2).astype(np.float64)
    return None


def _solid(shape: tuple[int, ...]) -> list[int]:
    return [length for length in shape if length != 1]


def as_posterior(rows: Vector, role: str) -> Vector:
    """Return (rows, K) posteriors of an output of a known role."""
    if rows.ndim == 1:
        if role == "log-scores":
            with np.errstate(over="ignore"):
                rows = 1 / (1 + np.exp(-rows))
        return np.stack([1 - rows, rows], 1)
    if role == "posterior":
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = np.exp(rows - rows.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def is_label_like(value: Any, ref: Reference) -> bool:
    """Whether an output has one integer or text per sample."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "iuOUS"
        and value.size == len(ref.posterior)
    )


def role_of(values: list[Any], refs: list[Reference], place: Place) -> str | None:
    """Return what the original's output is of its scores: "posterior", "log-scores" or None.

    Told by the numbers, not by the graph, so that a mistake in reading the graph is found.
    """
    for role in ("posterior", "log-scores"):
        for value, ref in zip(values, refs, strict=True):
            rows = scores_like(value, ref, place)
            if rows is None:
                return None
            found = as_posterior(rows, role)
            if not (np.abs(found - ref.before).max(1) <= 10 * ref.tolerance).all():
                break
        else:
            return role
    return None


def names_of(values: list[Any], refs: list[Reference], lists: list[Vector]) -> Vector | None:
    """Return the class names by which the original's output is the label of its scores, or None."""
    for names in lists:
        for value, ref in zip(values, refs, strict=True):
            if not is_label_like(value, ref):
                return None
            top = np.sort(ref.before, axis=1)
            clear = top[:, -1] - top[:, -2] > 2 * ref.tolerance
            wanted = names[ref.before.argmax(1)]
            if not (value.reshape(-1)[clear] == wanted[clear]).all():
                break
        else:
            return names
    return None


def names_nearest(values: list[Any], refs: list[Reference], lists: list[Vector]) -> Vector | None:
    """Return the class names by which an output is mostly the label of its scores, or None."""
    if not all(is_label_like(value, ref) for value, ref in zip(values, refs, strict=True)):
        return None
    found = np.concatenate([value.reshape(-1) for value in values])
    best = np.concatenate([ref.before.argmax(1) for ref in refs])
    share = [float((found == names[best]).mean()) for names in lists]
    top = int(np.argmax(share))
    return lists[top] if share[top] > 0.5 else None


def is_telling(refs: list[Reference]) -> bool:
    """Whether enough samples of at least two classes were seen to call agreement proof."""
    classes = np.concatenate([ref.before.argmax(1) for ref in refs])
    return classes.size >= ENOUGH_SAMPLES and np.unique(classes).size > 1
