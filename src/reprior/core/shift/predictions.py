"""Target and validation scores as rows of log-scores, or as predictions of a model.

Both go through the same reading and the same calibration: what is measured on validation samples
then holds for target samples too. Predictions are classes or probabilities, with their means over
all samples and over those of each label.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import collect_warnings, warn
from reprior.core.arrays import Array, Namespace, namespace, to_numpy
from reprior.core.binary import expand, expanded_axis, is_single_score, resolve_class_axis
from reprior.core.checks import check_labels, column_names, few
from reprior.core.kernels import (
    by_blocks,
    class_sums,
    largest_logits,
    largest_probs,
    normalised_sum,
    row_sums,
    totals,
    weighted_sum,
)
from reprior.core.logspace import (
    as_scores,
    log_scores,
    refuse_scores,
    sum_tolerance,
    warn_if_probs,
    warn_if_single_probs,
)
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    OptionError,
    RepriorWarning,
    ScoresError,
    Text,
)

__all__ = [
    "Calibration",
    "HardPredictions",
    "Predictions",
    "SoftPredictions",
    "Validation",
    "each_warning_once",
    "is_empty_batch",
    "naming_validation",
    "predict",
    "read_log_scores",
    "read_predictions",
    "read_validation",
    "read_validation_rows",
    "relative_probabilities",
    "validation_columns",
]

Vector: TypeAlias = np.ndarray[Any, Any]

Calibration: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""A map from rows (n, K) of log-scores to calibrated ones, for target and validation alike."""

Rows = TypeVar("Rows")
"""One entry per sample; a mask selects the entries of some samples."""


# ---------------------------------------------------------------------------------- log-scores


def read_log_scores(
    scores: Any, n_classes: int, *, kind: str, class_axis: int, calibration: Calibration | None
) -> NDArray[Any]:
    """Return checked, calibrated log-scores as NumPy rows (N, K) of the compute dtype."""
    xp = namespace(scores)
    columns = as_scores(scores, xp)
    axis = resolve_class_axis(columns.shape, n_classes, class_axis)
    if is_single_score(columns.shape, n_classes, axis):
        ndim = columns.ndim
        columns = _two_columns(columns, kind, axis, xp)
        axis = expanded_axis(ndim, axis)
    else:
        columns = log_scores(columns, kind, axis=axis, xp=xp)
    rows = to_numpy(xp.moveaxis(columns, axis, -1)).reshape(-1, n_classes)
    return rows if calibration is None else calibration(rows)


def _two_columns(scores: Array, kind: str, axis: int, xp: Namespace) -> Array:
    """Return the log-scores of both classes from one score per sample."""
    if kind == "logits":
        warn_if_single_probs(scores, xp=xp)
    columns = expand(scores, kind, xp=xp, class_axis=axis)
    if kind == "logits":
        return columns
    return log_scores(columns, kind, axis=expanded_axis(scores.ndim, axis), xp=xp)


def relative_probabilities(rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return exp(rows − row maxima): the softmax of log-scores, up to a factor per row.

    Examples
    --------
    >>> relative_probabilities(np.log([[0.2, 0.8]]))
    array([[0.25, 1.  ]])
    """
    mass: NDArray[Any] = np.subtract(rows, rows.max(axis=1, keepdims=True), out=out)
    np.exp(mass, out=mass)
    return mass


def is_empty_batch(scores: Any, n_classes: int, class_axis: int) -> bool:
    """Whether a batch has no samples; one of another number of classes is refused all the same."""
    is_empty_list = isinstance(scores, list | tuple) and not scores
    shape = tuple(getattr(scores, "shape", (0,) if is_empty_list else ()))
    if 0 in shape and shape != (0,):
        resolve_class_axis(shape, n_classes, class_axis)
    return 0 in shape


# ---------------------------------------------------------------------------------- validation


class Validation(NamedTuple, Generic[Rows]):
    """Log-scores (n, K) of validation samples, or what is read from them, and their labels (n,)."""

    rows: Rows
    labels: NDArray[np.int64]


def validation_columns(validation: Any) -> list[Any] | None:
    """Return the names of the columns of validation scores, if they have names."""
    is_pair = isinstance(validation, tuple | list) and len(validation) > 0
    return column_names(validation[0]) if is_pair else None


def read_validation_rows(
    validation: Any,
    n_classes: int,
    *,
    kind: str,
    class_axis: int,
    calibration: Calibration | None,
    ignore_index: int | None,
) -> Validation[NDArray[Any]]:
    """Return the log-scores and labels of ``validation=(scores, labels)``."""
    read = partial(
        read_log_scores,
        n_classes=n_classes,
        kind=kind,
        class_axis=class_axis,
        calibration=calibration,
    )
    return read_validation(
        validation, n_classes, read, class_axis=class_axis, ignore_index=ignore_index
    )


def read_validation(
    validation: Any,
    n_classes: int,
    read: Callable[[Any], Any],
    *,
    class_axis: int,
    ignore_index: int | None,
) -> Validation[Any]:
    """Return ``read(scores)`` and the labels of ``validation=(scores, labels)``.

    Samples to be ignored are left out. Every class must have labels.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        length = f" of {len(validation)}" if isinstance(validation, tuple | list) else ""
        raise OptionError(
            argument="validation",
            rule="must be (scores, labels)",
            got=f"{type(validation).__name__}{length}",
            remedy="Pass labelled scores that the model was not trained on.",
        )
    scores, labels = validation
    with naming_validation():
        rows = read(scores)
        indices = _label_indices(labels, column_names(scores))
        shape = _sample_shape(np.shape(scores), n_classes, class_axis)
        check_labels(indices, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
    indices = indices.reshape(-1)
    keep = np.ones(indices.size, bool) if ignore_index is None else indices != ignore_index
    kept_labels = indices[keep].astype(np.int64)
    counts = np.bincount(kept_labels, minlength=n_classes)
    if not counts.all():
        raise LabelsError(
            argument="validation",
            rule="must have labels of every class: how a class is seen is learnt from them",
            got=f"none of class {int(np.argmin(counts))}",
            remedy=[
                "Add some, leave the class out of prior and scores, or leave ",
                Argument("validation"),
                " out, which EM and PriorTracker do without.",
            ],
        )
    return Validation(rows if keep.all() else rows[keep], kept_labels)


def _label_indices(labels: Any, columns: list[Any] | None) -> NDArray[Any]:
    """Return class indices; for names, the indices of the scores' columns of these names."""
    host = to_numpy(labels)
    if columns is None or host.dtype.kind in "iufb":
        return host
    places = {name: i for i, name in enumerate(columns)}
    names = host.reshape(-1).tolist()
    unknown = next((i for i, name in enumerate(names) if name not in places), None)
    if unknown is not None:
        raise LabelsError(
            argument="labels",
            rule=f"must be among the columns of the scores, {few(columns)}",
            got=Element("labels", (unknown,), repr(names[unknown])),
            remedy="Correct or drop it, or pass class indices.",
        )
    return np.array([places[name] for name in names], np.int64).reshape(host.shape)


def _sample_shape(shape: tuple[int, ...], n_classes: int, class_axis: int) -> tuple[int, ...]:
    """Return the scores' shape without the class axis; a vector of binary scores has none."""
    if len(shape) == 1 and is_single_score(shape, n_classes):
        return shape
    axis = class_axis % len(shape)
    return shape[:axis] + shape[axis + 1 :]


@contextmanager
def naming_validation() -> Iterator[None]:
    """Let errors and warnings about scores and labels name them as parts of ``validation``."""
    collected: list[RepriorWarning] = []
    try:
        with collect_warnings(collected):
            yield
    except (ScoresError, LabelsError) as error:
        raise error.mapped(_of_validation) from error
    for warning in collected:
        warn(warning.mapped(_of_validation))


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Issue equal warnings once: of scores that are first read and then calibrated, for one."""
    collected: list[RepriorWarning] = []
    with collect_warnings(collected):
        yield
    for warning in collected:
        warn(warning)


def _of_validation(part: Any) -> Text:
    """Return the reference to the same scores or labels as a part of ``validation``."""
    places = {"scores": 0, "labels": 1}
    if isinstance(part, Argument) and part.name in places:
        return Argument("validation", (places[part.name], *part.place))
    if isinstance(part, Element) and part.name in places:
        return Element(f"validation[{places[part.name]}]", part.index, part.value)
    text: Text = part
    return text


# --------------------------------------------------------------------------------- predictions


class HardPredictions:
    """The predicted class of every sample."""

    def __init__(self, classes: NDArray[np.intp], n_classes: int) -> None:
        self.classes = classes
        self.n_classes = n_classes

    def __len__(self) -> int:
        return self.classes.size

    def __getitem__(self, mask: NDArray[np.bool_]) -> "HardPredictions":
        """Return the predictions of some samples."""
        return HardPredictions(self.classes[mask], self.n_classes)

    def mean(self) -> Vector:
        """Return how often each class is predicted."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return for how many samples each class is predicted."""
        return np.bincount(self.classes, minlength=self.n_classes)

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return the confusion matrix P(predicted|class), one column per class."""
        k = self.n_classes
        counts = np.bincount(self.classes * k + labels, minlength=k * k).reshape(k, k)
        frequencies: Vector = counts / counts.sum(axis=0)
        return frequencies

    def projected(self, direction: Vector) -> Vector:
        """Return the direction's entry of every sample's class."""
        values: Vector = direction[self.classes]
        return values


class SoftPredictions:
    """The model's probabilities: rows (N, K), each to be multiplied by a factor of its own.

    ``total`` is their sum, if it is known.
    """

    def __init__(
        self, rows: NDArray[Any], factors: NDArray[np.float64], total: Vector | None = None
    ) -> None:
        self.rows = rows
        self.factors = factors
        self._total = total

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, mask: NDArray[np.bool_]) -> "SoftPredictions":
        """Return the predictions of some samples."""
        return SoftPredictions(self.rows[mask], self.factors[mask])

    def probabilities(self) -> Vector:
        """Return the rows multiplied by their factors, which sum to 1.

        They take memory of their own: select the samples that are needed first.
        """
        dtype = np.result_type(self.rows.dtype, np.float32)
        probabilities: Vector = np.multiply(self.rows, self.factors[:, None], dtype=dtype)
        return probabilities

    def mean(self) -> Vector:
        """Return the mean probability of every class."""
        return _normalised(self.sum())

    def sum(self) -> Vector:
        """Return the sum of the probabilities of every class."""
        return weighted_sum(self.factors, self.rows) if self._total is None else self._total

    def class_means(self, labels: NDArray[np.int64]) -> Vector:
        """Return the mean probabilities of the samples of each class, one column per class."""
        return _normalised(class_sums(self.factors, self.rows, labels)).T

    def projected(self, direction: Vector) -> Vector:
        """Return the mean of the direction under every sample's probabilities."""
        values: Vector = (self.rows @ direction) * self.factors
        return values


Predictions: TypeAlias = HardPredictions | SoftPredictions
"""What a model predicts for samples: classes, or their probabilities."""


def predict(rows: NDArray[Any], *, soft: bool) -> Predictions:
    """Return the hard or soft predictions of rows (N, K) of log-scores.

    The predicted class is the first one of the largest score.
    """
    if not soft:
        return HardPredictions(rows.argmax(axis=1), rows.shape[1])
    mass = relative_probabilities(rows)
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
) -> Predictions:
    """Return the predictions of checked scores: those of their calibrated log-scores.

    Log-scores are not computed where decisions can be read from the scores as they are (more
    finely: logarithms of neighbouring numbers may be equal), or where the scores are probabilities.
    ``summed`` sums the predictions in the same pass, for a later ``sum()``.
    """
    xp = namespace(scores)
    given = as_scores(scores, xp)
    axis = resolve_class_axis(given.shape, n_classes, class_axis)
    is_direct = kind == "probs" or (kind == "logits" and not soft)
    is_single = is_single_score(given.shape, n_classes, axis)
    if not is_direct or is_single or calibration is not None:
        log_rows = read_log_scores(
            scores, n_classes, kind=kind, class_axis=class_axis, calibration=calibration
        )
        return predict(log_rows, soft=soft)
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

    blocks = by_blocks(read, rows.shape)
    good = [block for block in blocks if block is not None]
    if len(good) < len(blocks):
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
    shares: Vector = mass / mass.sum(axis=-1, keepdims=True)
    return shares
