"""The container of labelled scores that every fit works on, and the priors beside it.

:meth:`Samples.of` checks scores, labels and weights once, where they enter. From there on they keep
this type: a pass reads them block by block, as log-scores for array code (:meth:`Samples.read`) or
in place for the kernels (:meth:`Samples.read_strided`). Both return a :class:`Block`: samples of a
positive weight, and log-scores without NaN and +inf.

:class:`Priors` holds what is not about the samples: source and target prior, slopes, bounds and
resolution. :class:`Line` holds the same of a line in any other direction. They are checked once
too, and passed beside the samples. Where each sample has a direction of its own, samples hold it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias

import array_api_compat
import numpy as np

from reprior.core import kernels
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    as_array,
    constant,
    device_of,
    is_floating,
    is_numpy_namespace,
    namespace,
    to_numpy,
)
from reprior.core.binary import expand, is_single_score, resolve_class_axis
from reprior.core.checks import (
    check_bounds,
    check_finite_number,
    check_kind,
    check_labels,
    check_sample_weight,
    first_index,
)
from reprior.core.kernels import strided_rows
from reprior.core.logspace import (
    FEW_SCORES,
    ROW_SUM_TOLERANCE,
    are_distributions,
    are_hard,
    as_scores,
    excluded_row,
    log_scores,
    refuse_scores,
    row_element,
    sum_tolerance,
    warn_if_probs,
    warn_if_single_probs,
    warn_of_probs,
)
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    LikelyProbabilitiesWarning,
    OptionError,
    ScoresError,
    Setting,
)
from reprior.metrics.counts import image_numbers
from reprior.profile.constants import AFTER_ZERO

__all__ = [
    "Block",
    "Line",
    "Priors",
    "ProbabilityDetector",
    "Samples",
    "refuse_nothing",
    "ruled_out",
    "without_likely_probabilities",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Index: TypeAlias = tuple[Any, ...]

#: Scores of one kind that pass every check, for samples that are left out.
_HARMLESS = {"logits": 0.0, "probs": 0.0, "log_probs": -1.0}


class Block(NamedTuple):
    """Log-scores (n, K) with labels (n,), and weights and images (n,) or None."""

    scores: Array
    labels: Vector
    weights: Vector | None
    slopes: Array | None = None
    """The slope of every score (n, K); None where all samples share one direction."""
    to_scores: bool = False
    """Whether ``slopes`` are the log-scores at λ = 1 instead, of which the scores must be taken."""
    images: Vector | None = None


@dataclass(frozen=True, eq=False)
class Priors:
    """Source and target prior, slopes, and the strengths that are searched.

    Parameters
    ----------
    source, target : array of shape (K,)
        P_s and P_t.
    slopes : array of shape (K,)
        w = log P_t − log P_s; −inf for a class of target prior 0.
    bounds : (float, float)
        The strengths.
    resolution : float, optional
        Width of the bins in which switches are summed; None keeps each.
    label : array of shape (K,), optional
        P_l, the prior of the labels, if it is known better than by their frequencies.
    """

    source: Vector
    target: Vector
    slopes: Vector
    bounds: tuple[float, float]
    resolution: float | None = None
    label: Vector | None = None

    @classmethod
    def of(
        cls,
        source_prior: Any,
        target_prior: Any,
        bounds: Any,
        *,
        resolution: float | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Priors:
        """Check what does not depend on the samples: both priors, bounds and resolution.

        ``classes`` are the names of the scores' columns, where they have names.
        """
        low, high = check_bounds(bounds)
        if resolution is not None:
            resolution = check_finite_number("resolution", resolution, positive=True)
        source = as_prior(source_prior, name="source_prior", classes=classes)
        target = as_target_prior(target_prior, n_classes=source.size, classes=classes)
        return replace(cls.between(source, target, (low, high)), resolution=resolution)

    @classmethod
    def between(
        cls,
        source: Vector,
        target: Vector,
        bounds: tuple[float, float],
        *,
        label: Vector | None = None,
    ) -> Priors:
        """Make priors of parts that are checked; refuse bounds that do not go with them."""
        low, _ = bounds
        if low < 0 and (target == 0).any():
            gone = int(np.argmax(target == 0))
            raise OptionError(
                argument="bounds",
                rule=["must not reach below 0 where ", Argument("target_prior"), " has a 0"],
                got=[
                    Element("bounds", (), f"({low:g}, {bounds[1]:g})"),
                    " and ",
                    Element("target_prior", (gone,), 0),
                ],
                remedy="Start the bounds at 0.",
            )
        return cls(source, target, slopes(source, target), bounds, None, label)

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.source.size)

    @property
    def excluded(self) -> tuple[int, ...]:
        """Classes whose samples are left out: see :func:`ruled_out`."""
        return tuple(np.flatnonzero(ruled_out(self.target, self.bounds)).tolist())


@dataclass(frozen=True, eq=False)
class Line:
    """A line in any direction, and the part of it that is searched: what :class:`Priors` are else.

    Parameters
    ----------
    slopes : array of shape (K,), or None
        The direction, if all samples share it. If not, the samples have it.
    bounds : (float, float)
        The strengths.
    n_classes : int
        K.
    resolution : float, optional
        Width of the bins in which switches are summed; None keeps each.
    """

    slopes: Vector | None
    bounds: tuple[float, float]
    n_classes: int
    resolution: float | None = None

    source: ClassVar[None] = None
    target: ClassVar[None] = None
    excluded: ClassVar[tuple[int, ...]] = ()

    @classmethod
    def of(
        cls, slopes: Vector | None, bounds: Any, n_classes: int, resolution: float | None = None
    ) -> Line:
        """Check bounds and resolution, and a shared direction."""
        low, high = check_bounds(bounds)
        if resolution is not None:
            resolution = check_finite_number("resolution", resolution, positive=True)
        if slopes is not None:
            _refuse_values(
                slopes,
                ~np.isfinite(slopes),
                "must be finite where all samples share it",
                "To rule a class out, give it -inf in a direction of the scores' shape.",
            )
            if (slopes[1:] == slopes[:-1]).all():
                refuse_equal_slopes()
        return cls(slopes, (low, high), n_classes, resolution)


def _refuse_values(direction: Vector, bad: Vector, rule: str, remedy: str) -> None:
    if not bad.any():
        return
    where = first_index(bad)
    got = Element("direction", where, float(direction[where]))
    raise ScoresError(argument="direction", rule=rule, got=got, remedy=remedy)


def refuse_parallel(direction: Any, n_classes: int, class_axis: int) -> None:
    """Refuse a direction that is equal for all classes in every sample; Dask arrays are computed.

    A pass over the direction: for where no prediction switches.
    """
    xp = namespace(direction)
    values = as_array(direction, xp)
    single = values.ndim == 1 and n_classes == 2
    if single or values.shape[class_axis] == 1:
        moves = values != 0
    else:
        moves = xp.max(values, axis=class_axis) != xp.min(values, axis=class_axis)
    if not bool(moves.any()):
        refuse_equal_slopes()


def refuse_equal_slopes() -> NoReturn:
    """Raise the error that no strength changes a decision, because classes move alike."""
    raise ScoresError(
        argument="direction",
        rule="must differ between the classes, or no strength changes a decision",
        got="equal numbers for all classes",
        remedy="Pass the direction in which the scores of the classes move apart.",
    )


def ruled_out(target_prior: Vector, bounds: tuple[float, float]) -> Vector:
    """Return which classes are excluded: those of target prior 0, if bounds start just after 0.

    At λ = 0 such a class is predicted as the model predicts it, at any strength above 0 never.
    Bounds that start just after 0 mean that it must never be, and its samples are left out.
    """
    gone: Vector = (target_prior == 0) & (bounds[0] == AFTER_ZERO)
    return gone


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled scores, checked: the class axis last, labels and weights in the host's memory.

    Make them with :meth:`of`.

    Parameters
    ----------
    scores : array of shape (..., K)
        In the host's memory as NumPy, on a device of their own in their library.
    labels : int64 array of the shape of the scores without the class axis
        Class indices.
    weights : float64 array of the labels' shape, or None
        A weight per sample.
    kind : {"logits", "probs", "log_probs"}
        What the scores are.
    n_classes : int
        K.
    ignore_index : int or None
        The label of samples that are left out.
    xp : namespace
        The library of the scores.
    class_axis : int
        Where the class axis was: errors name indices in the user's order.
    tolerance : float
        How far a row of probabilities may be from 1.
    single_score : bool
        Whether there was one score per sample, of the second of two classes.
    one_sample : bool
        Whether the scores were given without an axis of samples.
    excluded : tuple of int
        Classes whose samples are left out, because no prediction could be right for them.
    direction : array of the scores' shape, or None
        The direction of each sample; None where all share one.
    towards : str or None
        What the direction is, if it is scores too: a kind. The line then leads from the scores to
        these, and the direction is the difference of their logarithms.
    towards_tolerance : float
        ``tolerance`` of these.
    images : integer array of the labels' shape, or None
        The image of every sample, where samples are pixels of images.
    """

    scores: Array
    labels: Vector
    weights: Vector | None
    kind: str
    n_classes: int
    ignore_index: int | None = None
    xp: Namespace = np
    class_axis: int = -1
    tolerance: float = ROW_SUM_TOLERANCE
    single_score: bool = False
    one_sample: bool = False
    excluded: tuple[int, ...] = ()
    direction: Array | None = None
    towards: str | None = None
    towards_tolerance: float = ROW_SUM_TOLERANCE
    images: Vector | None = None

    @classmethod
    def of(
        cls,
        scores: Any,
        labels: Any,
        sample_weight: Any = None,
        *,
        n_classes: int,
        kind: str = "logits",
        class_axis: int = -1,
        ignore_index: int | None = None,
        excluded: tuple[int, ...] = (),
        part: bool = False,
        direction: Any = None,
        towards: str | None = None,
        image_ids: Any = None,
        first_image: int | None = None,
    ) -> Samples:
        """Check scores, labels and weights, except what takes a pass over the scores.

        Parameters
        ----------
        scores, labels, sample_weight, kind, class_axis, ignore_index
            As :meth:`reprior.StrengthProfile.from_scores` takes them.
        n_classes : int
            K, by the prior.
        excluded : tuple of int
            Classes whose samples are left out.
        part : bool
            Whether these are one part of the samples. Then all of them may be left out, and there
            is no warning of logits that look like probabilities: :class:`ProbabilityDetector` looks
            at all parts together.
        direction : array of the scores' shape, optional
            The direction of each sample.
        towards : {"logits", "probs", "log_probs"}, optional
            Says that ``direction`` is scores too, of this kind, to which the line leads at λ = 1.
        image_ids : integer array, optional
            The image of every sample, of the labels' shape or of their first axis. Without them
            every entry of the first axis of maps is an image.
        first_image : int, optional
            The number of the first of these. Without it a part of the samples has no images.

        Examples
        --------
        >>> samples = Samples.of(2 * np.eye(2), np.array([0, 1]), n_classes=2, kind="logits")
        >>> samples.read().labels
        array([0, 1])
        """
        check_kind(kind)
        xp, z, host_labels, weights = _one_library(
            scores, labels, sample_weight, direction, keep=kind == "logits" and direction is None
        )
        z = as_scores(z, xp)
        other = None if direction is None else _direction_like(z, direction, xp)
        _refuse_labels_as_scores(z, host_labels, n_classes, xp)
        axis = resolve_class_axis(z.shape, n_classes, class_axis)
        one_sample = z.ndim == 1 and n_classes != 2
        if one_sample:
            host_labels, weights = _at_least_1d(host_labels), _at_least_1d(weights)
        shape = _samples_shape(z.shape, axis, one_sample)
        check_labels(host_labels, n_classes=n_classes, shape=shape, ignore_index=ignore_index)
        if weights is not None:
            if not part or weights.any() or weights.shape != shape:
                check_sample_weight(weights, shape)
            weights = kernels.contiguous(weights, np.float64)
        if image_ids is None and first_image is not None and host_labels.ndim > 1:
            image_ids = np.arange(first_image, first_image + host_labels.shape[0])
        images = None
        if not part or image_ids is not None:
            images = image_numbers(image_ids, host_labels.shape)
        samples = cls(
            scores=z,
            labels=kernels.contiguous(host_labels, np.int64),
            weights=weights,
            kind=kind,
            n_classes=n_classes,
            ignore_index=ignore_index,
            xp=xp,
            class_axis=max(axis, 1) if z.ndim == 1 and not one_sample else axis,
            tolerance=sum_tolerance(getattr(scores, "dtype", z.dtype), kind, n_classes),
            single_score=not one_sample and is_single_score(z.shape, n_classes, axis),
            one_sample=one_sample,
            excluded=excluded,
            direction=other,
            towards=towards,
            towards_tolerance=sum_tolerance(
                getattr(direction, "dtype", z.dtype), towards or kind, n_classes
            ),
            images=images,
        )
        if not part and not samples.any_counts:
            refuse_nothing(samples.labels.size)
        samples = _classes_last(samples, axis, part)
        if not part and kind == "logits":
            warn_if_probs(samples.scores, axis=-1, xp=xp)
        elif not part:
            detector = ProbabilityDetector()
            detector.add(samples)
            detector.warn()
        return samples

    @property
    def n_scores(self) -> int:
        """Number of scores, N·K."""
        return self.labels.size * self.n_classes

    @property
    def of_images(self) -> bool:
        """Whether the samples are pixels of images, as far as labels and images tell."""
        return self.images is not None or self.labels.ndim > 1

    @property
    def any_counts(self) -> bool:
        """Whether any sample is neither ignored nor of weight 0."""
        weighs = None if self.weights is None else self.weights != 0
        if self.ignore_index is None:
            return bool(self.labels.size if weighs is None else weighs.any())
        counts = self.labels != self.ignore_index
        return bool(np.any(counts if weighs is None else counts & weighs))

    @cached_property
    def view(self) -> Vector | None:
        """The logits as the kernels read them in place, or None."""
        return kernels.host_view(self.scores) if self.kind == "logits" else None

    def blocks(self, n_scores: int) -> list[Index]:
        """Return indices of blocks of whole rows with about ``n_scores`` scores each."""
        return list(_blocks(self.labels.shape, max(1, n_scores // self.n_classes)))

    @cached_property
    def direction_view(self) -> Vector | None:
        """The direction as the kernels read it in place, or None."""
        in_place = self.direction is not None and self.towards in (None, "logits")
        return kernels.host_view(self.direction) if in_place else None

    def read_strided(self, index: Index) -> Block:
        """Return the samples of one block for the profile kernel.

        Scores and slopes are (outer, inner, K), logits without a copy; labels are int64, −1 for
        samples that do not count. The kernel finds NaN and +inf among logits itself.
        """
        view, along = self.view, self.direction_view
        to_scores = False
        if view is None or (self.direction is not None and along is None):
            block = self.read(index, check=False)
            labels, weights = block.labels.astype(np.int64, copy=False), block.weights
            images = block.images
            scores = strided_rows(block.scores)
            slopes = None if block.slopes is None else strided_rows(block.slopes)
        else:
            labels, weights, images = self._columns(index)
            scores = strided_rows(view[(*index, ...)])
            slopes = None if along is None else strided_rows(along[(*index, ...)])
            to_scores = self.towards is not None
            left_out = self._left_out(labels, weights)
            if left_out is not None:
                labels = np.where(left_out, -1, labels)
        if weights is not None:
            weights = kernels.contiguous(weights, np.float64)
        return Block(
            scores, kernels.contiguous(labels, np.int64), weights, slopes, to_scores, images
        )

    def read(self, index: Index = (slice(None),), *, check: bool = True) -> Block:
        """Return the samples of one block, or all, that count.

        Without ``check`` the caller finds NaN and +inf among logits itself.
        """
        labels, weights, images = self._columns(index)
        rows = [self.scores] if self.direction is None else [self.scores, self.direction]
        rows = [self.xp.reshape(each[(*index, ...)], (-1, self.n_classes)) for each in rows]
        left_out = self._left_out(labels, weights)
        if left_out is not None and left_out.any():
            kept = np.flatnonzero(~left_out)
            labels, weights = labels[kept], None if weights is None else weights[kept]
            images = None if images is None else images[kept]
            where = kept if is_numpy_namespace(self.xp) else constant(kept, self.xp, like=rows[0])
            rows = [self.xp.take(each, where, axis=0) for each in rows]
        if not labels.size:
            slopes = rows[1] if len(rows) > 1 else None
            return Block(rows[0], labels, weights, slopes, images=images)
        scores = self._log_scores(rows[0], check)
        slopes = None if self.direction is None else self._slopes(scores, rows[1], check)
        return Block(scores, labels, weights, slopes, images=images)

    def _columns(self, index: Index) -> tuple[Vector, Vector | None, Vector | None]:
        """Return labels, weights and images of one block, (n,)."""
        columns = (self.labels, self.weights, self.images)
        block: Any = tuple(None if each is None else each[index].reshape(-1) for each in columns)
        labels, weights, images = block
        return labels, weights, images

    def _slopes(self, scores: Array, direction: Array, check: bool) -> Array:
        """Return the slopes of some rows in float64; 0 for classes that the scores rule out."""
        xp = self.xp
        wide = accumulation_dtype(xp, device_of(scores))
        ends = direction
        if self.towards is not None:
            there = replace(self, kind=self.towards, tolerance=self.towards_tolerance)
            ends = there._log_scores(direction, check=False, on_error=self.refuse)
        if check and not float(xp.max(ends)) < np.inf:
            self.refuse()
        ends = xp.astype(ends, wide)
        if self.towards is None:
            return ends
        own = xp.astype(scores, wide)
        with np.errstate(invalid="ignore"):  # −inf less −inf
            return xp.where(own > -xp.inf, ends - own, xp.zeros_like(own))

    def refuse(self, possible: Vector | bool = True, *, low: float = 0.0) -> NoReturn:
        """Raise an error that names the first invalid score, or value of a direction.

        ``possible`` says which classes have a positive target prior: a row in which none of them is
        possible is invalid too. ``low`` is the lower bound of the strengths.
        """
        axis = self.class_axis
        host, gone = self._filled(self.scores, self.kind)
        refuse_scores(self._as_given(host), self.kind, axis=axis, tolerance=self.tolerance)
        if self.direction is None:
            gone = (gone | ~np.asarray(possible)).all(axis=-1)
            where = () if self.one_sample else first_index(gone)
            raise excluded_row(row_element(where, self._as_given(host).ndim, axis))
        other, gone_too = self._filled(self.direction, self.towards or "logits")
        given = self._as_given(other)
        if self.towards is not None:
            tolerance = self.towards_tolerance
            refuse_scores(given, self.towards, axis=axis, tolerance=tolerance, name="direction")
        _refuse_values(
            given,
            ~(given < np.inf),
            "must be finite, or -inf for a class that is impossible above strength 0",
            "Drop the sample, or correct its direction.",
        )
        if low < 0.0:
            _refuse_values(
                given,
                self._as_given(gone_too),
                "must leave every class possible where the bounds reach below 0",
                "Start the bounds at 0.",
            )
        row = () if self.one_sample else first_index(np.all(gone | gone_too, axis=-1))
        raise ScoresError(
            argument="direction",
            rule=["must leave some class possible that ", Argument("scores"), " leaves possible"],
            got=[row_element(row, given.ndim, axis, "direction"), ", which leaves none"],
            remedy="Give classes of probability 0 a small one, or drop the sample.",
        )

    def _filled(self, values: Array, kind: str) -> tuple[Vector, Vector]:
        """Return scores on the host with valid ones for samples left out, and which are 0."""
        host, left_out = to_numpy(values), self.left_out()
        if left_out is not None:
            even = 1 / self.n_classes
            fill = {"logits": 0.0, "probs": even, "log_probs": np.log(even)}
            host = np.where(left_out[..., None], fill[kind], host)
        return host, host == (0.0 if kind == "probs" else -np.inf)

    def _as_given(self, host: Vector) -> Vector:
        """Return scores with the class axis where the user had it."""
        return host[0] if self.one_sample else np.moveaxis(host, -1, self.class_axis)

    def left_out(self) -> Vector | None:
        """Return which samples are ignored, of weight 0 or excluded; None if none can be."""
        return self._left_out(self.labels, self.weights)

    def excluding(self, classes: tuple[int, ...]) -> Samples:
        """Return the samples without those of some classes."""
        return self if classes == self.excluded else replace(self, excluded=classes)

    def excluded_support(self) -> tuple[Vector, Vector]:
        """Return the number of excluded samples of each class, (K,), and their weight."""
        kept = self.excluding(())._left_out(self.labels, self.weights)
        there = np.isin(self.labels, self.excluded)
        there = there if kept is None else there & ~kept
        labels, weights = self.labels[there], self.weights
        amounts = None if weights is None else weights[there]
        number = np.bincount(labels, minlength=self.n_classes)
        return number, np.bincount(labels, amounts, minlength=self.n_classes)

    def counted(self) -> Samples:
        """Return the samples that count, as log-scores (n, K) on the host, of kind "logits"."""
        block = self.read()
        return Samples(
            scores=to_numpy(block.scores),
            labels=block.labels,
            weights=block.weights,
            kind="logits",
            n_classes=self.n_classes,
            direction=None if block.slopes is None else to_numpy(block.slopes),
            images=block.images,
        )

    def taken(self, index: Vector) -> Samples:
        """Return some of the samples, by indices or a mask."""
        weights = None if self.weights is None else self.weights[index]
        along = None if self.direction is None else self.direction[index]
        return replace(
            self,
            scores=self.scores[index],
            labels=self.labels[index],
            weights=weights,
            direction=along,
            images=None if self.images is None else self.images[index],
        )

    def reweighted(self, weights: Vector) -> Samples:
        """Return the samples with other weights, of the labels' shape."""
        return replace(self, weights=weights)

    def importance(self, ratio: Vector) -> Vector:
        """Return the weights v_i·r(y_i), r = P_t / P_l (K,), that give labels the target's mix."""
        weights = np.ones(self.labels.shape) if self.weights is None else self.weights
        weights = np.where(self.labels == self.ignore_index, 0.0, weights)
        return np.asarray(weights * ratio[np.where(weights > 0, self.labels, 0)])

    def copied(self) -> Samples:
        """Copy the samples."""
        return replace(
            self,
            scores=self.xp.asarray(self.scores, copy=True),
            labels=self.labels.copy(),
            weights=None if self.weights is None else self.weights.copy(),
            direction=None
            if self.direction is None
            else self.xp.asarray(self.direction, copy=True),
        )

    @classmethod
    def concatenate(cls, parts: Sequence[Samples]) -> Samples:
        """Concatenate the samples of parts; return a single part unchanged."""
        if len(parts) == 1:
            return parts[0]
        weights = [part.weights for part in parts]
        directions = [part.direction for part in parts]
        return replace(
            parts[0],
            scores=np.concatenate([to_numpy(part.scores) for part in parts]),
            labels=np.concatenate([part.labels for part in parts]),
            weights=None
            if any(each is None for each in weights)
            else np.concatenate([each for each in weights if each is not None]),
            direction=None
            if directions[0] is None
            else np.concatenate([to_numpy(each) for each in directions]),
            images=None
            if any(part.images is None for part in parts)
            else np.concatenate([part.images for part in parts]),
            xp=namespace(),
            tolerance=max(part.tolerance for part in parts),
            towards_tolerance=max(part.towards_tolerance for part in parts),
        )

    def _left_out(self, labels: Vector, weights: Vector | None) -> Vector | None:
        out = None if self.ignore_index is None else labels == self.ignore_index
        if weights is not None:
            out = weights == 0 if out is None else out | (weights == 0)
        if self.excluded:
            gone = np.isin(labels, self.excluded)
            out = gone if out is None else out | gone
        return out

    def _log_scores(
        self, scores: Array, check: bool, *, on_error: Callable[[], NoReturn] | None = None
    ) -> Array:
        """Return logits in their own precision, or logarithms of probabilities in float64."""
        xp = self.xp
        if self.kind != "logits":
            try:
                scores = xp.astype(scores, xp.float64)
                return log_scores(scores, self.kind, axis=-1, xp=xp, tolerance=self.tolerance)
            except ScoresError:
                (on_error or self.refuse)()
        if scores.dtype not in (xp.float32, xp.float64):
            small = str(scores.dtype).endswith("float16")
            scores = xp.astype(scores, xp.float32 if small else xp.float64)
        if check and not float(xp.max(scores)) < np.inf:
            self.refuse()
        return scores


class ProbabilityDetector:
    """Detects whether logits look like probabilities, or predicted labels, in all parts."""

    def __init__(self) -> None:
        self.possible, self.single_score, self.n_samples = True, False, 0
        self.hard = True

    def add(self, samples: Samples) -> None:
        """Look at one more part of the samples."""
        z = samples.scores[..., 1:] if samples.single_score else samples.scores
        self.look(z, samples.kind, samples.single_score, samples.labels.size, samples.xp)

    def look(self, z: Array, kind: str, single_score: bool, n_samples: int, xp: Namespace) -> None:
        """Look at the scores of one more part, the classes last."""
        self.possible = self.possible and kind != "log_probs"
        if not self.possible:
            return
        self.single_score = single_score
        self.n_samples += n_samples
        # The first row settles nearly every case, without a pass over the rest.
        first = z[(*(0,) * (z.ndim - 1), ...)]
        if kind == "probs":  # which are suspicious only as labels
            self.possible = are_hard(first, xp) and are_hard(z, xp)
            return
        self.possible = _like_probs(first, single_score, xp) and _like_probs(z, single_score, xp)
        self.hard = self.hard and self.possible and are_hard(z, xp)

    def merge(self, other: ProbabilityDetector) -> None:
        """Add what another detector has seen."""
        self.possible = self.possible and other.possible
        self.single_score = self.single_score or other.single_score
        self.hard = self.hard and other.hard
        self.n_samples += other.n_samples

    def warn(self) -> None:
        """Warn if every part looks like probabilities."""
        if self.possible and self.n_samples >= (FEW_SCORES if self.single_score else 1):
            warn_of_probs(single_score=self.single_score, hard=self.hard)


@contextmanager
def without_likely_probabilities() -> Iterator[None]:
    """Do not warn part by part: a :class:`ProbabilityDetector` judges all parts together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LikelyProbabilitiesWarning)
        yield


def _refuse_labels_as_scores(z: Array, labels: Vector, n_classes: int, xp: Namespace) -> None:
    """Refuse scores and labels in the wrong order, and predicted labels in the place of scores."""
    shape = tuple(z.shape)
    has_class_axis = labels.ndim == z.ndim + 1
    if not (has_class_axis or labels.shape == shape) or not _are_whole(z, xp):
        return
    # NaN is a missing label.
    fractions = labels.dtype.kind == "f" and (labels > np.floor(labels)).any()
    one_hot = ((labels == 0) | (labels == 1)).all()
    if fractions or (n_classes > 2 and has_class_axis and not one_hot):
        raise ScoresError(
            argument="scores",
            rule=["must come before ", Argument("labels")],
            got=f"integers of shape {shape} and then numbers of shape {labels.shape}",
            remedy="Pass the scores first, then the labels.",
        )
    if n_classes > 2 and labels.shape == shape and n_classes not in shape:
        raise ScoresError(
            argument="scores",
            rule="must hold a score per class for every sample, not the predicted labels",
            got=f"integers of the labels' shape, {shape}",
            remedy=[
                "Pass the model's logits, or its probabilities with ",
                Setting("kind", "probs"),
                ".",
            ],
        )


def _are_whole(z: Array, xp: Namespace) -> bool:
    """Return whether all scores are whole numbers, as labels are."""
    if not is_floating(z.dtype) or 0 in z.shape:
        return bool(xp.isdtype(z.dtype, "integral"))
    first = z[(0,) * z.ndim]  # settles nearly every case, without a pass over the rest
    return bool(first == xp.floor(first)) and bool(xp.all(z == xp.floor(z)))


def refuse_nothing(n_samples: int) -> NoReturn:
    """Raise the error that no sample counts."""
    raise LabelsError(
        argument="labels",
        rule="must leave at least one sample to count",
        got=f"{n_samples} samples, all of them ignored or of weight 0",
        remedy=["Check ", Argument("ignore_index"), " and ", Argument("sample_weight"), "."],
    )


def _like_probs(z: Array, single_score: bool, xp: Namespace) -> bool:
    if single_score:
        return bool((xp.min(z) >= 0.0) & (xp.max(z) <= 1.0))
    return are_distributions(z, -1, xp)


def _at_least_1d(values: Vector | None) -> Any:
    return None if values is None else np.atleast_1d(values)


def _samples_shape(shape: Any, axis: int, one_sample: bool) -> tuple[int, ...]:
    """Return the shape that labels must have."""
    if one_sample:
        return (1,)
    if len(shape) == 1:
        return tuple(shape)
    return tuple(length for i, length in enumerate(shape) if i != axis)


def _is_bfloat16(scores: Any) -> bool:
    view = kernels.host_view(scores)
    return view is not None and view.dtype == np.uint16


def _one_library(
    scores: Any, labels: Any, sample_weight: Any, direction: Any, *, keep: bool
) -> tuple[Namespace, Array, Vector, Vector | None]:
    """Return the library of the scores, the scores, and labels and weights as NumPy arrays.

    Scores in the host's memory become NumPy arrays. Scores on a GPU stay there, and bfloat16, which
    NumPy lacks, stays in its library if the kernels read it.
    """
    xp = namespace(scores, labels, sample_weight, direction)
    if _on_host(scores) and not (keep and _is_bfloat16(scores)):
        scores = to_numpy(scores)
        xp = namespace(scores)
    weights = None if sample_weight is None else to_numpy(sample_weight)
    return xp, scores, to_numpy(labels), weights


def _direction_like(scores: Array, direction: Any, xp: Namespace) -> Array:
    """Return a direction per sample as scores are kept; refuse another library or shape."""
    values = as_scores(
        to_numpy(direction) if _on_host(direction) else direction, xp, name="direction"
    )
    if tuple(values.shape) != tuple(scores.shape):
        raise ScoresError(
            argument="direction",
            rule=["must have the shape of ", Argument("scores"), ", or one number per class"],
            got=f"shape {tuple(values.shape)} for scores of shape {tuple(scores.shape)}",
            remedy="Pass a number per sample and class, in the same order.",
        )
    return values


def _on_host(array: Any) -> bool:
    """Tell whether an array of another library is in the host's memory."""
    return bool(array_api_compat.is_jax_array(array)) or (
        array_api_compat.is_torch_array(array) and array.device.type == "cpu"
    )


def _classes_last(samples: Samples, axis: int, part: bool) -> Samples:
    """Return samples with all K classes on the last axis; expand single scores of two classes."""
    single = samples.single_score and not samples.one_sample
    if single and not part and samples.kind == "logits":
        warn_if_single_probs(samples.scores, xp=samples.xp)
    scores = _class_axis_last(samples, samples.scores, samples.kind, axis)
    if samples.direction is None:
        return replace(samples, scores=scores)
    kind = samples.towards or "logits"
    direction = _class_axis_last(samples, samples.direction, kind, axis, "direction")
    return replace(samples, scores=scores, direction=direction)


def _class_axis_last(
    samples: Samples, z: Array, kind: str, axis: int, name: str = "scores"
) -> Array:
    """Return scores, or a direction, with all K classes on the last axis."""
    xp = samples.xp
    if samples.one_sample:
        return z[None, :]
    if not samples.single_score:
        return z if axis == z.ndim - 1 else xp.moveaxis(z, axis, -1)
    left_out = samples.left_out()
    if left_out is not None and left_out.any():
        mask = left_out if z.ndim == 1 else np.expand_dims(left_out, axis)
        harmless = xp.full_like(z, _HARMLESS[kind])
        z = xp.where(constant(mask, xp, like=z), harmless, z)
    columns = expand(z, kind, xp=xp, class_axis=axis, name=name)
    return xp.moveaxis(columns, samples.class_axis, -1)


def _blocks(shape: tuple[int, ...], n_rows: int) -> Iterator[Index]:
    """Cut ``shape`` along its first axis; cut entries that are too large further."""
    inner = prod(shape[1:])
    if inner <= n_rows or len(shape) == 1:
        step = max(1, n_rows // inner)
        for start in range(0, shape[0], step):
            yield (slice(start, min(start + step, shape[0])),)
        return
    for i in range(shape[0]):
        for rest in _blocks(shape[1:], n_rows):
            yield (i, *rest)
