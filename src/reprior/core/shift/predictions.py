"""What a model predicts for samples, as estimates of a target prior by moments need it.

Classes, or their probabilities; their means, over all samples and over those of each label.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import Array, Namespace, namespace, to_numpy
from reprior.core.binary import expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import check_labels, column_names, few
from reprior.core.heard import heard
from reprior.core.logspace import (
    as_scores,
    log_scores,
    refuse_scores,
    sum_tolerance,
    warn_if_probs,
    warn_if_single_probs,
)
from reprior.core.probability_rows import (
    by_blocks,
    class_sums,
    largest_logits,
    largest_probs,
    normalised_sum,
    row_sums,
    totals,
    weighted_sum,
)
from reprior.exceptions import LabelsError, OptionError, RepriorWarning, ScoresError

__all__ = [
    "Affine",
    "Calibration",
    "HardPredictions",
    "Predicted",
    "SoftPredictions",
    "Validation",
    "about_validation",
    "as_calibration",
    "is_empty",
    "labelled",
    "labelled_rows",
    "log_rows",
    "names_of",
    "predictions",
    "read_predictions",
]

Vector: TypeAlias = np.ndarray[Any, Any]


Calibration: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""What is done to rows of log-scores (n, K) before anything else, source and target alike."""

Rows = TypeVar("Rows")
"""One entry per sample, of which those of some can be taken by a mask."""


def names_of(validation: Any) -> list[Any] | None:
    """Return the names of the columns of validation scores, if they have names."""
    pair = isinstance(validation, tuple | list) and len(validation) > 0
    return column_names(validation[0]) if pair else None


def is_empty(scores: Any, n_classes: int, class_axis: int) -> bool:
    """Whether a batch has no samples; one of another number of classes is refused all the same."""
    nothing = isinstance(scores, list | tuple) and not scores
    shape = tuple(getattr(scores, "shape", (0,) if nothing else ()))
    if 0 in shape and shape != (0,):
        resolve_class_axis(shape, n_classes, class_axis)
    return 0 in shape


class Affine:
    """The calibration z → scale·z + bias of log-scores z.

    Parameters
    ----------
    scale : float, or array-like of shape (K,)
        1/T of a temperature T, or a factor per class. Positive.
    bias : float, or array-like of shape (K,)
        Added afterwards.

    Examples
    --------
    >>> Affine(0.5, [1.0, 0.0])(np.array([[2.0, 4.0]]))
    array([[2., 2.]])
    """

    def __init__(self, scale: Any, bias: Any, n_classes: int | None = None) -> None:
        self.scale = _numbers("calibration[0]", scale, n_classes)
        self.bias = _numbers("calibration[1]", bias, n_classes)
        if (self.scale <= 0).any():
            raise OptionError(
                f"`calibration[0]` must be positive: it is 1/T, or a factor per class. Got "
                f"{float(self.scale.min()):g}. Pass (scale, bias) of a fitted map."
            )

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the calibrated rows, of the rows' dtype."""
        scaled: NDArray[Any] = rows * self.scale.astype(rows.dtype) + self.bias.astype(rows.dtype)
        return scaled


class Validation(NamedTuple, Generic[Rows]):
    """Log-scores (n, K), or what is read from them, and the labels (n,) of validation samples."""

    rows: Rows
    labels: NDArray[np.int64]


def as_calibration(calibration: Any, n_classes: int) -> Calibration | None:
    """Return ``calibration``, a function, (scale, bias) or None, as a function or None."""
    if calibration is None or isinstance(calibration, Affine):
        return calibration
    if isinstance(calibration, tuple | list) and len(calibration) == 2:
        return Affine(calibration[0], calibration[1], n_classes)
    if callable(calibration):
        return _checked(calibration)
    raise OptionError(
        f"`calibration` must be (scale, bias), or a function of log-scores (n, K). Got "
        f"{type(calibration).__name__}. Pass for example calibration=(1 / temperature, 0.0)."
    )


def log_rows(
    scores: Any, n_classes: int, *, kind: str, class_axis: int, calibration: Calibration | None
) -> NDArray[Any]:
    """Return checked, calibrated log-scores as NumPy rows (N, K) of the compute dtype."""
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, n_classes, class_axis)
    if is_single_score(given.shape, n_classes, axis):
        given, axis = _two_columns(given, kind, axis, xp), expanded_axis(given.ndim, axis)
    else:
        given = log_scores(given, kind, axis=axis, xp=xp)
    rows = to_numpy(xp.moveaxis(given, axis, -1)).reshape(-1, n_classes)
    return rows if calibration is None else calibration(rows)


def labelled_rows(
    validation: Any,
    n_classes: int,
    *,
    kind: str,
    class_axis: int,
    calibration: Calibration | None,
    ignore_index: int | None,
) -> Validation[NDArray[Any]]:
    """Return the rows and labels of ``validation=(scores, labels)``, the ignored left out."""
    read = partial(
        log_rows, n_classes=n_classes, kind=kind, class_axis=class_axis, calibration=calibration
    )
    return labelled(validation, n_classes, read, class_axis=class_axis, ignore_index=ignore_index)


def labelled(
    validation: Any,
    n_classes: int,
    read: Callable[[Any], Any],
    *,
    class_axis: int,
    ignore_index: int | None,
) -> Validation[Any]:
    """Return what is read from the scores of ``validation=(scores, labels)``, and the labels.

    Samples to be ignored are left out; every class has labels.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise OptionError(
            f"`validation` must be (scores, labels). Got {type(validation).__name__}"
            f"{f' of {len(validation)}' if isinstance(validation, tuple | list) else ''}. "
            f"Pass labelled scores that the model was not trained on."
        )
    scores, labels = validation
    with about_validation():
        rows = read(scores)
        host = _indices(labels, column_names(scores))
        shape = _sample_shape(np.shape(scores), n_classes, class_axis)
        check_labels(host, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
    keep = np.ones(host.size, bool) if ignore_index is None else host.reshape(-1) != ignore_index
    kept = host.reshape(-1)[keep].astype(np.int64)
    counts = np.bincount(kept, minlength=n_classes)
    if not counts.all():
        raise LabelsError(
            f"`validation` must have labels of every class: how a class is seen is learnt from "
            f"them. Got none of class {int(np.argmin(counts))}. Add some, leave the class out of "
            f"prior and scores, or leave `validation` out, which EM and PriorTracker do without."
        )
    return Validation(rows if keep.all() else rows[keep], kept)


def _indices(labels: Any, columns: list[Any] | None) -> NDArray[Any]:
    """Return class indices; of names, where the scores' columns have these, their columns."""
    host = to_numpy(labels)
    if columns is None or host.dtype.kind in "iufb":
        return host
    place = {name: i for i, name in enumerate(columns)}
    flat = host.reshape(-1).tolist()
    unknown = next((i for i, name in enumerate(flat) if name not in place), None)
    if unknown is not None:
        raise LabelsError(
            f"`labels` must be among the columns of the scores, {few(columns)}. Got "
            f"labels[{unknown}]={flat[unknown]!r}. Correct or drop it, or pass class indices."
        )
    return np.array([place[name] for name in flat], np.int64).reshape(host.shape)


def _two_columns(scores: Array, kind: str, axis: int, xp: Namespace) -> Array:
    """Return the log-scores of both classes from one score per sample."""
    if kind == "logits":
        warn_if_single_probs(scores, xp=xp)
    columns, axis = expand(scores, kind, xp=xp, class_axis=axis), expanded_axis(scores.ndim, axis)
    return columns if kind == "logits" else log_scores(columns, kind, axis=axis, xp=xp)


def _sample_shape(shape: tuple[int, ...], n_classes: int, class_axis: int) -> tuple[int, ...]:
    """Return the scores' shape without the class axis; a vector of binary scores has none."""
    if len(shape) == 1 and is_single_score(shape, n_classes):
        return shape
    axis = class_axis % len(shape)
    return shape[:axis] + shape[axis + 1 :]


def _checked(calibration: Calibration) -> Calibration:
    """Return the function with a check that it gives log-scores back."""

    def calibrated(rows: NDArray[Any]) -> NDArray[Any]:
        found = np.asarray(calibration(rows))
        if found.shape != rows.shape or found.dtype.kind != "f":
            raise OptionError(
                f"`calibration` must return log-scores of the shape it was given, {rows.shape}. "
                f"Got {found.dtype} of shape {found.shape}. Let it map rows of log-scores to rows "
                f"of log-scores."
            )
        if np.isnan(found).any() or not (found.max(axis=1) < np.inf).all():
            raise OptionError(
                "`calibration` must return log-scores without NaN and +inf. Got some. Check what "
                "it does to the smallest scores."
            )
        return found

    return calibrated


def _numbers(name: str, values: Any, n_classes: int | None) -> NDArray[np.float64]:
    host = to_numpy(values)
    shapes = ((), (n_classes,)) if n_classes is not None else (host.shape,)
    if host.dtype.kind not in "iuf" or host.shape not in shapes or not np.isfinite(host).all():
        raise OptionError(
            f"`{name}` must be a finite number, or one per class. Got {host.dtype} of shape "
            f"{host.shape}. Pass (scale, bias) of a fitted map."
        )
    return host.astype(np.float64)


@contextmanager
def about_validation() -> Iterator[None]:
    """Let errors and warnings about scores and labels say that they are those of ``validation``."""
    said: list[str] = []
    try:
        with heard(said):
            yield
    except (ScoresError, LabelsError) as error:
        raise type(error)(_of_validation(str(error))) from error
    for sentence in said:
        warnings.warn(_of_validation(sentence), RepriorWarning, stacklevel=3)


def _of_validation(sentence: str) -> str:
    for i, name in enumerate(("scores", "labels")):
        sentence = sentence.replace(f"`{name}`", f"`validation[{i}]`")
        sentence = sentence.replace(f"Got {name}[", f"Got validation[{i}][")
    return sentence


class HardPredictions:
    """The class that is predicted for every sample."""

    def __init__(self, classes: NDArray[np.intp], n_classes: int) -> None:
        self.classes, self.n_classes = classes, n_classes

    def __len__(self) -> int:
        return self.classes.size

    def __getitem__(self, some: NDArray[np.bool_]) -> "HardPredictions":
        """Return those of some samples."""
        return HardPredictions(self.classes[some], self.n_classes)

    def mean(self) -> Vector:
        """Return how often each class is predicted."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return for how many samples each class is predicted."""
        return np.bincount(self.classes, minlength=self.n_classes)

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return how often each class is predicted where another is true: row, column."""
        k = self.n_classes
        counts = np.bincount(self.classes * k + labels, minlength=k * k).reshape(k, k)
        found: Vector = counts / counts.sum(axis=0)
        return found

    def along(self, direction: Vector) -> Vector:
        """Return the direction's entry of every sample's class."""
        found: Vector = direction[self.classes]
        return found


class SoftPredictions:
    """The model's probabilities: rows (N, K) of such, each times a factor of its own.

    ``total`` is their sum, if it is known.
    """

    def __init__(
        self, rows: NDArray[Any], factors: NDArray[np.float64], total: Vector | None = None
    ) -> None:
        self.rows, self.factors, self._total = rows, factors, total

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, some: NDArray[np.bool_]) -> "SoftPredictions":
        """Return those of some samples."""
        return SoftPredictions(self.rows[some], self.factors[some])

    def probabilities(self) -> Vector:
        """Return rows that sum to 1, multiplied out: those of some samples cost less."""
        dtype = np.result_type(self.rows.dtype, np.float32)
        found: Vector = np.multiply(self.rows, self.factors[:, None], dtype=dtype)
        return found

    def mean(self) -> Vector:
        """Return the mean probability of every class."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return the sum of the probabilities of every class."""
        return weighted_sum(self.factors, self.rows) if self._total is None else self._total

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return the mean probabilities of the samples of each label, a column each."""
        return _normalised(class_sums(self.factors, self.rows, labels)).T

    def along(self, direction: Vector) -> Vector:
        """Return the mean of the direction under every sample's probabilities."""
        found: Vector = (self.rows @ direction) * self.factors
        return found


Predicted: TypeAlias = HardPredictions | SoftPredictions
"""What a model predicts for samples: classes, or their probabilities."""


def predictions(rows: NDArray[Any], *, soft: bool) -> Predicted:
    """Return the hard or soft predictions of rows (N, K) of log-scores.

    The class that is predicted is the first of the largest score.
    """
    if not soft:
        return HardPredictions(rows.argmax(axis=1), rows.shape[1])
    mass = rows - rows.max(axis=1, keepdims=True)
    np.exp(mass, out=mass)
    return SoftPredictions(mass, 1.0 / row_sums(mass))


def read_predictions(
    scores: Any,
    n_classes: int,
    *,
    kind: str,
    class_axis: int,
    calibration: Calibration | None,
    soft: bool,
    summed: bool = False,
) -> Predicted:
    """Return the predictions of checked scores.

    They are those of their calibrated log-scores. These are not made where decisions can be read
    from the scores as they are (more finely: logarithms of neighbouring numbers may be equal), or
    probabilities are what was given. If they are to be ``summed`` later, that is done while they
    are at hand.
    """
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, n_classes, class_axis)
    direct = kind == "probs" or (kind == "logits" and not soft)
    single = is_single_score(given.shape, n_classes, axis)
    if not direct or single or calibration is not None:
        rows = log_rows(
            scores, n_classes, kind=kind, class_axis=class_axis, calibration=calibration
        )
        return predictions(rows, soft=soft)
    rows = to_numpy(xp.moveaxis(given, axis, -1)).reshape(-1, n_classes)
    tolerance = sum_tolerance(given.dtype, kind, n_classes)

    def read(part: slice) -> Vector | tuple[Vector, Vector] | None:
        block = rows[part]
        if kind == "logits":
            return largest_logits(block)
        if not soft:
            return largest_probs(block, tolerance)
        if summed:
            return normalised_sum(block, tolerance)
        return totals(block, tolerance)

    found = by_blocks(read, rows.shape)
    good = [part for part in found if part is not None]
    if len(good) < len(found):
        refuse_scores(given, kind, axis=axis, tolerance=tolerance)
    if kind == "logits":
        warn_if_probs(rows, axis=-1, xp=namespace(rows))
    if not soft:
        return HardPredictions(np.concatenate(good), n_classes)
    if not summed:
        return SoftPredictions(rows, 1.0 / np.concatenate(good))
    factors, sums = zip(*good, strict=True)
    return SoftPredictions(rows, np.concatenate(factors), np.sum(sums, axis=0))


def _normalised(mass: Vector) -> Vector:
    found: Vector = mass / mass.sum(axis=-1, keepdims=True)
    return found
