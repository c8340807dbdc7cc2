"""From what users hold, frames and class names, to score arrays and class indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import constant, namespace, to_numpy
from reprior.core.prior import as_prior
from reprior.core.rebalance import log_rebalance
from reprior.core.temperature import fit_temperature
from reprior.exceptions import LabelsError, OptionError, ScoresError
from reprior.tuning.profile import StrengthProfile

__all__ = ["TuningData", "as_classes", "is_range", "score_array"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Label of left-out samples once names have become indices.
IGNORED = -1


@dataclass(frozen=True, eq=False)
class TuningData:
    """Scores as an array, labels as indices, and the classes they stand for.

    ``names`` is None where the labels were indices in the first place.
    """

    scores: Any
    labels: Any
    weight: Any
    ignore_index: int | None
    classes: Vector
    names: list[Any] | None
    kind: str
    class_axis: int

    @classmethod
    def of(cls, options: Any, scores: Any, labels: Any, sample_weight: Any) -> TuningData:
        """Read the data as a calibrator's options say."""
        n_classes = len(options.source_prior)
        names = resolve_classes(
            options.classes,
            n_classes=n_classes,
            source_prior=options.source_prior,
            scores=scores,
            labels=labels,
        )
        indices, ignored = encode_labels(labels, names, options.ignore_index)
        return cls(
            scores=score_array(scores, names),
            labels=indices,
            weight=sample_weight.to_numpy() if _has_to_numpy(sample_weight) else sample_weight,
            ignore_index=ignored,
            classes=np.arange(n_classes) if names is None else names,
            names=None if names is None else names.tolist(),
            kind=options.kind,
            class_axis=options.class_axis,
        )

    def profile(
        self, source_prior: Vector, target_prior: Vector, bounds: tuple[float, float]
    ) -> StrengthProfile:
        """Profile the data."""
        return StrengthProfile.from_scores(
            self.scores,
            self.labels,
            source_prior=source_prior,
            target_prior=target_prior,
            kind=self.kind,
            bounds=bounds,
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
            sample_weight=self.weight,
        )

    def temperature(
        self, source_prior: Vector, target_prior: Vector, strength: float, label_prior: Any
    ) -> float:
        """Temperature at ``strength`` by log-loss, the labels weighted to the target prior."""
        log_posterior = log_rebalance(
            self.scores,
            source_prior,
            target_prior=target_prior,
            strength=strength,
            kind=self.kind,
            class_axis=self.class_axis,
        )
        return fit_temperature(
            log_posterior,
            self.labels,
            sample_weight=self.importance(target_prior, label_prior),
            kind="log_probs",
            class_axis=self.class_axis,
            ignore_index=self.ignore_index,
        ).temperature

    def importance(self, target_prior: Vector, label_prior: Any) -> Any:
        """Weights that make the labels' mix the target prior's: v_i · P_t(y_i) / P_l(y_i)."""
        labels = to_numpy(self.labels)
        kept = labels != self.ignore_index
        weight = np.ones(labels.shape) if self.weight is None else to_numpy(self.weight)
        index = np.where(kept, labels, 0)
        n_classes = target_prior.size
        if label_prior is None:
            label_prior = np.bincount(index[kept], weight[kept], minlength=n_classes)
        else:
            label_prior = as_prior(
                label_prior, name="label_prior", n_classes=n_classes, classes=self.classes.tolist()
            )
        ratio = np.divide(
            target_prior, label_prior, out=np.zeros_like(target_prior), where=label_prior > 0
        )
        scaled = weight * ratio[index]
        return constant(scaled, namespace(self.scores), like=self.scores)


def score_array(scores: Any, classes: Vector | None) -> Any:
    """Scores as an array; the columns of a frame in the order of ``classes``.

    A frame (pandas, polars) whose columns are named after the classes is put in their order; one
    with other names is taken as it stands.
    """
    if not _is_frame(scores):
        return scores
    columns = list(scores.columns)
    if classes is not None and columns != list(classes) and set(columns) == set(classes.tolist()):
        scores = scores[list(classes)]
    values = scores.to_numpy()
    if values.dtype == object:
        raise ScoresError(
            "`scores` must be numbers in every column. Got a frame with other types in it. "
            "Select the columns of scores, one per class."
        )
    return values


def resolve_classes(
    classes: Any, *, n_classes: int, source_prior: Any, scores: Any, labels: Any
) -> Vector | None:
    """The class of every score column, or None where labels are the indices themselves.

    In this order: ``classes`` as given; the keys of a ``source_prior`` mapping; where labels are
    names, the columns of a frame of scores, or else the sorted names.
    """
    if classes is None and isinstance(source_prior, Mapping):
        classes = list(source_prior)
    if classes is None and not _are_indices(labels):
        classes = list(scores.columns) if _is_frame(scores) else sorted(set(_values(labels)))
    if classes is None:
        return None
    found = as_classes(classes)
    if found.size != n_classes or len(set(found.tolist())) != n_classes:
        raise OptionError(
            f"`classes` must name {n_classes} different classes, one per entry of `source_prior`. "
            f"Got {found.size}: {_few(found.tolist())}. Pass classes=… in the order of the scores."
        )
    return found


def encode_labels(labels: Any, classes: Vector | None, ignore_index: Any) -> tuple[Any, int | None]:
    """Class indices, and the index that marks samples to leave out."""
    if classes is None or is_range(classes):
        return (labels.to_numpy() if _has_to_numpy(labels) else labels), ignore_index
    namespace(labels)
    host = _values(labels)
    index = {name: i for i, name in enumerate(classes.tolist())}
    flat = np.asarray(host, dtype=object).reshape(-1)
    codes = np.fromiter((index.get(name, IGNORED - 1) for name in flat), np.int64, flat.size)
    if ignore_index is not None:
        codes[flat == ignore_index] = IGNORED
    unknown = np.flatnonzero(codes == IGNORED - 1)
    if unknown.size:
        raise LabelsError(
            f"`labels` must be among the classes, {_few(classes.tolist())}. "
            f"Got labels[{unknown[0]}]={flat[unknown[0]]!r}. "
            f"Correct the label, or pass all classes as `classes`."
        )
    return codes.reshape(np.shape(host)), None if ignore_index is None else IGNORED


def is_range(classes: Vector) -> bool:
    """Whether the classes are 0 … K−1, so that names and indices are the same."""
    return classes.dtype.kind in "iu" and bool((classes == np.arange(classes.size)).all())


def as_classes(classes: Any) -> Vector:
    """Class names as a vector: of one type if they have one."""
    values = list(classes.tolist() if hasattr(classes, "tolist") else classes)
    same = len({type(value) for value in values}) == 1
    return np.asarray(values) if same else np.asarray(values, dtype=object)


def _values(labels: Any) -> Any:
    """Labels as (nested) Python values, so that 1 and np.int64(1) are one class."""
    array = labels.to_numpy() if _has_to_numpy(labels) else labels
    array = array if isinstance(array, list | tuple) else to_numpy(array)
    return np.asarray(array).tolist()


def _are_indices(labels: Any) -> bool:
    if _has_to_numpy(labels):
        labels = labels.to_numpy()
    if hasattr(labels, "dtype"):
        return (
            str(labels.dtype)
            .rsplit(".", maxsplit=1)[-1]
            .startswith(("int", "uint", "bool", "float"))
        )
    return np.asarray(labels).dtype.kind in "iubf"


def _has_to_numpy(values: Any) -> bool:
    return hasattr(values, "to_numpy")


def _is_frame(values: Any) -> bool:
    return _has_to_numpy(values) and hasattr(values, "columns")


def _few(names: Sequence[Any], n: int = 6) -> str:
    shown = ", ".join(repr(name) for name in names[:n])
    return shown + (", …" if len(names) > n else "")
