"""The strength profile: the class counts of a labelled set at every strength, from one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from reprior import _html
from reprior.core.arrays import namespace, to_numpy
from reprior.core.checks import (
    check_class_axis,
    check_finite_number,
    column_names,
    index_of,
    refuse_reordered,
)
from reprior.core.logspace import as_scores
from reprior.core.prior import slopes
from reprior.core.rebalance import strength_text
from reprior.exceptions import Argument, Element, LabelsError, OptionError, Setting
from reprior.metrics.cells import pairs_for
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts, PairCounts
from reprior.profile.binning import BinnedSwitches
from reprior.profile.certificates import best_certified, check_certify
from reprior.profile.merging import ProfileSum, combined
from reprior.profile.objective import (
    Best,
    Constraint,
    ParetoFront,
    SubjectTo,
    best_of_steps,
    check_within,
    feasible_steps,
    pareto_front,
    refuse_unlabelled,
    widest_best,
)
from reprior.profile.passes import PART_SCORES, Counted, Pairs, Table, run_parts, run_pass
from reprior.profile.samples import Line, Priors, Samples, refuse_parallel, ruled_out
from reprior.profile.sweep import Steps, sweep, value_of
from reprior.profile.switches import Switches, SwitchTable, switch_table

__all__ = ["StrengthProfile"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The least share of the weight that a class may have: sums of float64 that come and go leave up to
#: 1e-12 of the total behind, which must stay small beside the class.
LEAST_SHARE = 1e-10


class StrengthProfile:
    r"""Class counts of a labelled set for all strengths of the prior correction at once.

    Every class's score is a line in the strength, :math:`s_k(λ) = z_k + λ\,w_k` with slope
    :math:`w_k = \log P_t(k) - \log P_s(k)`, and a sample's prediction is the line on top. It
    changes at a few exact breakpoints only; from these follow, for every class and every λ, the
    true positives and the predicted, and from them every count metric.

    Make one with :meth:`from_scores`, or with :meth:`along` for lines in any other direction. ``+``
    joins the profiles of two sets of samples, ``-`` takes one out again. All results are NumPy
    arrays and Python floats.

    Attributes
    ----------
    source_prior, target_prior : ndarray of shape (K,), or None
        P_s and P_t; None along any other direction.
    bounds : (float, float)
        The strengths covered.
    resolution : float or None
        Width of the bins, None for an exact profile.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> profile = StrengthProfile.from_scores(logits, [0, 0, 1, 1], source_prior=[0.8, 0.2])
    >>> best = profile.best("balanced_accuracy")
    >>> best.value, [round(end, 3) for end in best.interval]
    (1.0, [0.289, 0.721])
    >>> profile.evaluate("accuracy", [0.0, 0.5, 2.0])
    array([0.75, 1.  , 0.5 ])
    """

    def __init__(
        self,
        *,
        source_prior: Vector | None,
        target_prior: Vector | None,
        bounds: tuple[float, float],
        resolution: float | None,
        counts: Vector,
        sums: Vector | None,
        switches: Switches | BinnedSwitches,
        direction: Vector | None = None,
        pairs: Pairs | None = None,
        of_images: bool = False,
    ) -> None:
        self.source_prior = source_prior
        self.target_prior = target_prior
        self._direction = direction
        self.bounds = bounds
        self.resolution = resolution
        self._counts = counts
        self._sums = sums
        self._switches = switches
        self._pairs = pairs
        self._of_images = of_images or (pairs is not None and pairs.start.image is not None)
        self._steps: dict[CountMetric, Steps] = {}

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        labels: Any,
        *,
        source_prior: Any,
        target_prior: Any = "uniform",
        kind: str = "logits",
        bounds: tuple[float, float] = (0.0, 2.0),
        class_axis: int = -1,
        ignore_index: int | None = None,
        sample_weight: Any = None,
        resolution: float | None = None,
        image_ids: Any = None,
    ) -> StrengthProfile:
        """Profile labelled scores.

        Parameters
        ----------
        scores : array of shape (N, K), (N, K, H, W), … or (N,) for two classes
            The model's outputs on labelled data it was not trained on. Of Dask arrays every
            chunk is profiled where it is, by Dask's threads or cluster.
        labels : integer array
            Class indices, of the scores' shape without the class axis, from the same library.
        source_prior : array-like of shape (K,)
            P_s, the class distribution the model was trained on. Where the scores are a frame,
            also {column: probability}, or a Series with the columns' names; so is P_t.
        target_prior : "uniform" or array-like of shape (K,), default "uniform"
            P_t. A class of target prior 0 is out of play at every strength above 0.
        kind : {"logits", "probs", "log_probs"}, default "logits"
            What the scores are.
        bounds : (float, float), default (0, 2)
            Strengths to cover.
        class_axis : int, default -1
            The axis of the classes in ``scores``.
        ignore_index : int, optional
            A label that marks samples to leave out.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        resolution : float, optional
            Sum the switches on a grid of strengths this wide instead of keeping each: the profile,
            and the sum of any number of such profiles, stays small. Values at multiples of it stay
            exact.
        image_ids : integer array, optional
            The image of every sample, for metrics per image: of the labels' shape, or of their
            first axis. Without it every entry of the first axis of maps is an image.
        """
        priors = Priors.of(
            source_prior, target_prior, bounds, resolution=resolution, classes=column_names(scores)
        )
        if array_api_compat.is_dask_array(scores):
            from reprior.profile.dask_arrays import DaskArrays, profile_of

            arrays = DaskArrays(
                scores,
                labels,
                sample_weight,
                n_classes=priors.n_classes,
                kind=kind,
                class_axis=class_axis,
                ignore_index=ignore_index,
            )
            return profile_of(arrays, priors)
        samples = Samples.of(
            scores,
            labels,
            sample_weight,
            n_classes=priors.n_classes,
            kind=kind,
            class_axis=class_axis,
            ignore_index=ignore_index,
            excluded=priors.excluded,
            image_ids=image_ids,
        )
        return cls.of(samples, priors)._numbered(image_ids)

    @classmethod
    def along(
        cls,
        scores: Any,
        direction: Any,
        labels: Any,
        *,
        bounds: tuple[float, float] = (0.0, 1.0),
        kind: str = "logits",
        class_axis: int = -1,
        ignore_index: int | None = None,
        sample_weight: Any = None,
        resolution: float | None = None,
        image_ids: Any = None,
    ) -> StrengthProfile:
        r"""Profile labelled scores along any line: :math:`s_k(λ) = a_k + λ\,b_k`.

        The scores a are where the line starts, b is its direction: one for all samples, or one for
        each. With the log-posteriors of two models, ``direction = log_p2 - log_p1`` is the weight
        between them (see :class:`reprior.Blend`); with the logarithm of a prior that differs by
        sample it is how far to trust that prior. Everything that a profile has follows, without a
        grid: the best λ, constraints, Pareto fronts. Only the priors are None.

        Parameters
        ----------
        scores : array of shape (N, K), (N, K, H, W), … or (N,) for two classes
            a, the scores at λ = 0. Of Dask arrays every chunk is profiled where it is.
        direction : array of shape (K,), or of the scores' shape
            b, in logarithms whatever ``kind`` is. Finite; where each sample has its own, also −inf
            for a class that is impossible above λ = 0. For one score per sample, that of the second
            class.
        labels : integer array
            Class indices, of the scores' shape without the class axis, from the same library.
        bounds : (float, float), default (0, 1)
            Strengths to cover.
        kind : {"logits", "probs", "log_probs"}, default "logits"
            What the scores are. The line starts at the logarithms of probabilities.
        class_axis, ignore_index, sample_weight, resolution, image_ids
            As in :meth:`from_scores`.

        Examples
        --------
        >>> import numpy as np
        >>> first = np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 0.5], [0.0, 2.0]])
        >>> second = np.array([[0.0, 1.0], [3.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> profile = StrengthProfile.along(first, second - first, [0, 0, 0, 1])
        >>> profile.evaluate("accuracy", [0.0, 0.4, 1.0])
        array([0.75, 1.  , 0.75])
        >>> [round(end, 3) for end in profile.best("accuracy").interval]
        [0.333, 0.5]
        """
        shape = np.shape(scores)
        one_sample = len(shape) == 1 and np.ndim(labels) == 0
        n_classes = shape[0] if one_sample else 2
        if len(shape) > 1:
            n_classes = max(2, shape[check_class_axis(shape, class_axis)])
        given = np.shape(direction)
        columns = column_names(scores)
        own_names = index_of(direction) if len(given) == 1 else column_names(direction)
        refuse_reordered(own_names, columns, name="direction", of=Argument("scores"))
        shared = None
        if given == (n_classes,) and (one_sample or given != shape):
            numbers = as_scores(direction, namespace(direction), name="direction")
            shared, direction = np.asarray(to_numpy(numbers), np.float64), None
        line = Line.of(shared, bounds, n_classes, resolution)
        how: dict[str, Any] = {
            "n_classes": n_classes,
            "kind": kind,
            "class_axis": class_axis,
            "ignore_index": ignore_index,
            "direction": direction,
        }
        if array_api_compat.is_dask_array(scores):
            from reprior.profile.dask_arrays import DaskArrays, profile_of

            profile = profile_of(DaskArrays(scores, labels, sample_weight, **how), line)
        else:
            samples = Samples.of(scores, labels, sample_weight, image_ids=image_ids, **how)
            profile = cls.of(samples, line)._numbered(image_ids)
        if direction is not None and not profile.n_switches:
            refuse_parallel(direction, n_classes, class_axis)
        return profile

    def _numbered(self, image_ids: Any) -> StrengthProfile:
        """Return the profile, which notes that its images have numbers that nobody gave."""
        pairs = self._pairs
        if image_ids is not None or pairs is None or pairs.start.image is None:
            return self
        return self._like(pairs=pairs._replace(numbered=True))

    @classmethod
    def of(cls, samples: Samples, priors: Priors | Line) -> StrengthProfile:
        """Profile checked samples."""
        width = priors.resolution
        if width is None or samples.n_scores <= PART_SCORES:
            exact = width is None
            counted = run_pass(samples, priors.slopes, priors.bounds, pairs=exact)
            profile = cls.counted(priors, counted, of_images=samples.of_images)
            return profile if width is None else profile.binned(width)
        total = ProfileSum(exact_up_to=0, resolution=width)
        for part in cls.parts(samples, priors):
            total.bin(part)
        return total.total()

    @classmethod
    def parts(cls, samples: Samples, priors: Priors | Line) -> Iterator[StrengthProfile]:
        """Yield exact profiles of consecutive rows; bin each before the next."""
        for part in run_parts(samples, priors.slopes, priors.bounds):
            yield cls.counted(priors, part, of_images=samples.of_images)

    @classmethod
    def counted(
        cls, priors: Priors | Line, counted: Counted, *, of_images: bool = False
    ) -> StrengthProfile:
        """Return the exact profile of counts and switches that a pass found."""
        return cls(
            source_prior=priors.source,
            target_prior=priors.target,
            resolution=None,
            bounds=priors.bounds,
            counts=counted.counts,
            sums=counted.sums,
            switches=counted.switches,
            pairs=counted.pairs,
            direction=priors.slopes if isinstance(priors, Line) else None,
            of_images=of_images,
        )

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self._counts.shape[1])

    @property
    def direction(self) -> Vector | None:
        """The slope of every class, (K,): log P_t − log P_s; None where each sample has its own."""
        if self.source_prior is None or self.target_prior is None:
            return self._direction
        return slopes(self.source_prior, self.target_prior)

    @property
    def n_samples(self) -> int:
        """Number of samples, ignored and weightless ones not counted."""
        return int(self._support(self._counts).sum())

    @property
    def n_ruled_out(self) -> Vector:
        """Samples of each class that were left out because it is not to be, (K,).

        Those of classes of target prior 0, if the bounds start just after 0, as a calibrator's do
        then.
        """
        return np.asarray(self._counts[Table.SUPPORT] - self._support(self._counts))

    @property
    def n_switches(self) -> int:
        """Number of changes of a prediction within the bounds."""
        return self._switches.total

    @property
    def switches(self) -> SwitchTable:
        """Every switch, by strength: from it all counts at all strengths can be built.

        Only of an exact profile: a binned one has summed them up.
        """
        if isinstance(self._switches, BinnedSwitches):
            raise OptionError(
                argument="switches",
                rule="must be asked of an exact profile",
                got=[
                    "one with ",
                    Element("resolution", (), f"{self.resolution:g}"),
                    ", which keeps sums per bin only",
                ],
                remedy=["Make the profile with ", Setting("resolution", None), "."],
            )
        return switch_table(self._switches)

    def binned(self, resolution: float) -> StrengthProfile:
        """Return the profile with its switches summed on a grid of strengths this wide.

        It is what :meth:`from_scores` gives with that ``resolution``. A binned profile is returned
        unchanged; its resolution cannot change.
        """
        width = check_finite_number("resolution", resolution, positive=True)
        if isinstance(self._switches, BinnedSwitches):
            if width == self.resolution:
                return self
            raise OptionError(
                argument="resolution",
                rule=f"must be that of the profile, {self.resolution:g}, once it is binned",
                got=f"{width:g}",
                remedy="Bin the exact profile.",
            )
        binned = BinnedSwitches.of(self._switches, width, self.bounds[1])
        return self._like(switches=binned, resolution=width, pairs=None)

    @property
    def weighted(self) -> bool:
        """Whether the samples have weights."""
        return self._sums is not None

    @property
    def baseline(self) -> ClassCounts:
        """Counts of the uncorrected model, at λ = 0, also where 0 is outside the bounds."""
        pairs = None if self._pairs is None else self._pairs.origin
        return self._class_counts(Table.TRUE_POSITIVE_AT_0, Table.PREDICTED_AT_0, pairs)

    def counts(self, strength: float) -> ClassCounts:
        """Counts of every class at one strength.

        Examples
        --------
        >>> import numpy as np
        >>> profile = StrengthProfile.from_scores(
        ...     np.array([[1.0, 0.0], [0.5, 0.0]]), [0, 1], source_prior=[0.8, 0.2]
        ... )
        >>> profile.counts(0.5).predicted
        array([1, 1])
        """
        strength = float(check_within(strength, self.bounds))
        start, pairs = self._start, None
        if start.pairs is not None and isinstance(self._switches, Switches):
            pairs = _moved(start.pairs, self._switches, strength)
        gains = self._switches.gains(strength, self.n_classes)
        n_predicted = self._counts[Table.PREDICTED] + gains.predicted
        here = n_predicted > 0  # where no sample is left, sums of weights leave rounding errors
        return ClassCounts(
            (start.true_positive + gains.weighted_true_positive) * here,
            (start.predicted + gains.weighted_predicted) * here,
            start.support,
            n_predicted=n_predicted,
            n_labelled=start.n_labelled,
            pairs=pairs,
        )

    @property
    def _start(self) -> ClassCounts:
        """Counts at the lower bound."""
        pairs = None if self._pairs is None else self._pairs.start
        return self._class_counts(Table.TRUE_POSITIVE, Table.PREDICTED, pairs)

    def evaluate(self, metric: str | CountMetric, strengths: Any) -> Any:
        """The metric at the given strengths: a float for a number, an array for an array."""
        at = check_within(strengths, self.bounds)
        values = self._steps_of(metric).at(at)
        return float(values) if np.ndim(at) == 0 else values

    def curve(self, metric: str | CountMetric) -> tuple[Vector, Vector]:
        """The metric as a step function: ``values[i]`` holds from ``strengths[i]`` to the next.

        Returns
        -------
        strengths, values : ndarray
            Equally long. The first strength is the lower bound; neighbours differ in value.
        """
        steps = self._steps_of(metric)
        return steps.start.copy(), steps.value.copy()

    def best(
        self,
        metric: str | CountMetric,
        *,
        subject_to: SubjectTo = None,
        certify: float | None = None,
    ) -> Best:
        """The strength at which the metric is largest, over the continuum of strengths.

        Parameters
        ----------
        metric : str or CountMetric
            A name such as ``"balanced_accuracy"``, ``"mean_iou"`` or ``"recall[3]"``.
        subject_to : str or sequence of str, optional
            Constraints such as ``"mean_iou >= baseline - 0.005"``; the baseline is the
            uncorrected model.
        certify : float, optional
            Promise the constraints: each holds on new data of the tuning mix with this probability,
            such as 0.95, over the draw of the tuning labels. The samples must be drawn
            independently, so not the pixels of images. Only strengths that are multiples of 0.01
            are tested and chosen from. For accuracy, worst_recall, and the recall, specificity,
            precision, IoU and F1 of a class; see the guide "Promised constraints". An
            :class:`~reprior.InfeasibleError` with ``labels_needed`` where there are too few labels.

        Returns
        -------
        Best
            Strength 0 where it is within the bounds, satisfies the constraints, and no strength is
            better. Else the middle of the best interval; among equally good ones the widest, then
            the one nearest 0. See :class:`reprior.Best` for a switch in the middle.
        """
        level = check_certify(certify)
        if level is None:
            return self._chosen(best_of_steps, metric, subject_to)
        found = self._metric(metric)
        rules = [
            replace(rule, metric=self._metric(rule.metric, "subject_to"))
            for rule in Constraint.parse_all(subject_to, found)
        ]
        best = best_certified(self, self._steps_of(found).utility(found), rules, level)
        return replace(best, value=found.utility(best.value))

    def _widest_best(self, metric: str | CountMetric, *, subject_to: SubjectTo = None) -> Best:
        """Return the best without preference for strength 0: biases and other rules start there."""
        return self._chosen(widest_best, metric, subject_to)

    def _chosen(
        self, choose: Callable[..., Best], metric: str | CountMetric, subject_to: SubjectTo
    ) -> Best:
        """Apply ``choose`` to the steps of the metric; round to the grid of a binned profile."""
        found = self._metric(metric)
        steps, feasible = self._feasible(self._steps_of(found), subject_to, found)
        steps = steps.utility(found)
        if isinstance(self._switches, Switches):
            best = choose(steps, self.bounds, feasible, switches=self._switches.position)
            return replace(best, value=found.utility(best.value))
        best, width = choose(steps, self.bounds, feasible), self.resolution
        assert width is not None  # noqa: S101 - a binned profile has one
        low, high = best.interval
        on_grid = round(best.strength / width) * width
        strength = on_grid if low <= on_grid < high else low
        return replace(best, strength=strength, uncertainty=self._doubt(strength))

    def _doubt(self, strength: float) -> float:
        """Return the share of the weight that switches in the bin of a strength; 0 without bins."""
        if isinstance(self._switches, Switches) or self.resolution is None:
            return 0.0
        moved = self._switches.mass_after(strength, self.resolution)
        return moved / float(self._support(self._table).sum())

    def pareto(self, metric_a: str | CountMetric, metric_b: str | CountMetric) -> ParetoFront:
        """Strengths where neither metric improves without the other getting worse."""
        a, b = self._metric(metric_a), self._metric(metric_b)
        front = pareto_front(
            self._steps_of(a).utility(a), self._steps_of(b).utility(b), self.bounds[1]
        )
        values = a.utility(front.values_a), b.utility(front.values_b)
        return ParetoFront(front.strengths, *values)

    def __add__(self, other: object) -> StrengthProfile:
        """Profile of the samples of both, which have equal classes, priors, bounds, resolution.

        Images of the same ``image_ids`` are one image. Where neither had ids, all are different.
        """
        return combined(self, other, "add")

    def __radd__(self, other: object) -> StrengthProfile:
        """Let ``sum(profiles)`` work, which starts with 0."""
        return self if other == 0 else combined(self, other, "add")

    def __sub__(self, other: object) -> StrengthProfile:
        """Profile without the samples of ``other``, which are a part of these."""
        return combined(self, other, "subtract")

    def _repr_html_(self) -> str:
        """Return the profile as HTML, for notebooks: metrics at 0 and at their largest, a curve."""
        low, high = self.bounds
        shown = {
            "Samples": f"{self.n_samples:,} of {self.n_classes:,} classes",
            "Switches": f"{self.n_switches:,}",
            "Strengths": f"{strength_text(low)} to {strength_text(high)}",
            "Resolution": "" if self.resolution is None else f"{self.resolution:g}",
        }
        names = [name for name in COUNT_METRICS if name != "macro_recall"]
        rows = []
        for name in names:
            best, before = self.best(name), COUNT_METRICS[name](self.baseline)
            values = (f"{before:.4f}", f"{best.value:.4f}", _html.Change(best.value - before))
            rows.append((name, *values, strength_text(best.strength)))
        x, y = self.curve("balanced_accuracy")
        best = self.best("balanced_accuracy")
        figure = _html.curve(
            np.append(x, high),
            np.append(y, y[-1]),
            labels=("strength λ", "balanced accuracy"),
            band=best.interval,
            mark=(best.strength, best.value),
        )
        heads = ("metric", "at 0", "largest", "change", "there λ is")
        return _html.view("StrengthProfile", _html.facts(shown), figure, _html.table(heads, rows))

    def __repr__(self) -> str:
        low, high = self.bounds
        grid = "" if self.resolution is None else f", resolution={self.resolution:g}"
        return (
            f"StrengthProfile({self.n_samples} samples, {self.n_classes} classes, "
            f"{self.n_switches} switches, bounds=({low:g}, {high:g}){grid})"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the profile to an npz file, atomically and without pickle."""
        from reprior.profile import storage

        storage.write_profile(path, self)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> StrengthProfile:
        """Read a profile that :meth:`save` wrote."""
        from reprior.profile import storage

        return cls(**storage.read_profile(path))

    def to_bytes(self) -> bytes:
        """Return the bytes that :meth:`save` writes."""
        from reprior.profile import storage

        return storage.pack_profile(self)

    @classmethod
    def from_bytes(cls, content: bytes) -> StrengthProfile:
        """Read a profile from the bytes of :meth:`to_bytes`."""
        from reprior.profile import storage

        return cls(**storage.unpack_profile(content))

    def _like(self, **changed: Any) -> StrengthProfile:
        """Return a profile of the same problem with some of its parts replaced."""
        parts: dict[str, Any] = {
            "source_prior": self.source_prior,
            "target_prior": self.target_prior,
            "bounds": self.bounds,
            "resolution": self.resolution,
            "counts": self._counts,
            "sums": self._sums,
            "switches": self._switches,
            "direction": self._direction,
            "pairs": self._pairs,
            "of_images": self._of_images,
        }
        return StrengthProfile(**{**parts, **changed})

    @property
    def _table(self) -> Vector:
        return self._counts if self._sums is None else self._sums

    def _class_counts(
        self, true_positive: int, predicted: int, pairs: PairCounts | None = None
    ) -> ClassCounts:
        table = self._table
        return ClassCounts(
            table[true_positive],
            table[predicted],
            self._support(table),
            n_predicted=self._counts[predicted],
            n_labelled=self._support(self._counts),
            pairs=pairs,
        )

    def _support(self, table: Vector) -> Vector:
        """Return the support, 0 for classes that are ruled out."""
        if self.target_prior is None:
            return np.asarray(table[Table.SUPPORT])
        gone = ruled_out(self.target_prior, self.bounds)
        return np.where(gone, 0, table[Table.SUPPORT]) if gone.any() else table[Table.SUPPORT]

    def _metric(self, metric: str | CountMetric, name: str = "metric") -> CountMetric:
        found = find_metric(metric, n_classes=self.n_classes, argument=name)
        chosen = found.eligible(self.n_classes)
        if not chosen.all() and not found.has_labels(self._support(self._counts) > 0):
            target = self.target_prior
            excluded = target is not None and not target[chosen].any()
            refuse_unlabelled(found, name, ruled_out=excluded)
        if found.needs != "classes":
            self._refuse_without_pairs(found, name)
        return found

    def _refuse_without_pairs(self, metric: CountMetric, name: str) -> None:
        """Refuse a metric that needs more than counts per class, where these are all there is."""
        needed = "labels and predictions in pairs"
        if self._pairs is None:
            exact = self.resolution is None
            raise OptionError(
                argument=name,
                rule=f"must be a metric of class counts for a profile without {needed}",
                got=f"{metric.name!r}, and "
                + (
                    "a profile of an earlier version, or a sum of different ones"
                    if exact
                    else "one that is binned"
                ),
                remedy=[
                    "Make the profile from the scores, with ",
                    Setting("resolution", None),
                    ", or choose another metric.",
                ],
            )
        start, image = self._start, getattr(self._switches, "image", None)
        lost = metric.needs == "images" and image is None and self.n_switches
        pairs_for(
            metric, replace(start, pairs=self._pairs.start.without_images()) if lost else start
        )

    def _refuse_light_classes(self) -> None:
        """Refuse weights beside which a class disappears in rounding."""
        if self._sums is None:
            return
        support = self._support(self._sums)
        total = support.sum()
        light = (self._support(self._counts) > 0) & (support < LEAST_SHARE * total)
        if light.any():
            k = int(np.argmax(light))
            raise LabelsError(
                argument="sample_weight",
                rule=f"must give every class with labels at least {LEAST_SHARE:g} of the weight",
                got=f"{support[k]:g} of {total:g} for class {k}, which rounding would hide",
                remedy="Check the largest weights, or drop the class.",
            )

    def _steps_of(self, metric: str | CountMetric) -> Steps:
        found = self._metric(metric)
        if found not in self._steps:
            self._refuse_light_classes()
            self._steps[found] = sweep(self._start, self._switches, self.bounds[0], found)
        return self._steps[found]

    def _feasible(
        self, steps: Steps, subject_to: SubjectTo, metric: CountMetric | None = None
    ) -> tuple[Steps, Vector | None]:
        """Return the steps, cut where a constraint starts or stops to hold, and where all hold.

        A constraint may name the ``metric`` of the steps.
        """
        constraints = Constraint.parse_all(subject_to, metric)
        if not constraints:
            return steps, None
        limits = []
        for constraint in constraints:
            metric = self._metric(constraint.metric, "subject_to")
            limits.append((constraint, self._steps_of(metric), value_of(self.baseline, metric)))
        return feasible_steps(steps, limits, self.bounds[1])


def _moved(pairs: PairCounts, switches: Switches, strength: float) -> PairCounts:
    """Return the pairs after all switches up to a strength."""
    some = switches.taken(np.flatnonzero(switches.position <= strength))
    image = some.image if pairs.image is not None else None
    count, weight = some.counts(), some.weight
    left = None if weight is None else -weight
    before = PairCounts(some.label, some.loser, -count, left, image)
    after = PairCounts(some.label, some.winner, count, weight, image)
    return PairCounts.concatenate([pairs, after, before]).summed()
