"""ClassChangeDisplay: every class before and after, from the most common to the rarest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice
from reprior.exceptions import OptionError
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.report.plots.before_after import before_and_after, names_of
from reprior.report.plots.drawing import (
    AFTER,
    BEFORE,
    CHOSEN,
    LEGEND_ABOVE,
    artist_options,
    axes,
    class_names,
    groups,
)

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.engines.evaluation import Evaluation
    from reprior.metrics.counts import ClassCounts
    from reprior.profile.profile import StrengthProfile

__all__ = ["ClassChangeDisplay", "class_sizes"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: More classes than this are drawn as the means of this many groups.
MOST_CLASSES = 40

_AVERAGED = {
    "recall": "macro_recall",
    "precision": "macro_precision",
    "iou": "mean_iou",
    "f1": "macro_f1",
}


class ClassChangeDisplay:
    """Recall, or another ratio, of every class before and after, by training count.

    The class with the most training samples is at the top. With more than 40 classes, means of
    40 groups of classes that are neighbours in training count. Make one with
    :meth:`from_calibrator`, :meth:`from_evaluation` or :meth:`from_profile`.

    Parameters
    ----------
    before, after : arrays of shape (K,)
        The ratio of every class; NaN for one without samples, which is left out.
    sizes : array of shape (K,)
        Training counts, or the source prior: the order.
    classes : sequence, optional
        Names of the K classes.
    metric : str, default "recall"
        What the ratio is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    order_ : array
        The classes that were drawn, the largest first.
    before_, after_ : matplotlib PathCollection or Line2D
        The ratios: points, or lines over groups.
    segments_ : matplotlib LineCollection or None
        From before to after.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> from matplotlib.figure import Figure
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, [0, 0, 1, 1])
    >>> display = ClassChangeDisplay.from_calibrator(
    ...     calibrator, logits, [0, 0, 1, 1], ax=Figure().subplots()
    ... )
    >>> display.before, display.after
    (array([1. , 0.5]), array([1., 1.]))
    """

    def __init__(
        self,
        *,
        before: Vector,
        after: Vector,
        sizes: Vector,
        classes: Sequence[Any] | None = None,
        metric: str = "recall",
    ) -> None:
        self.before = before
        self.after = after
        self.sizes = sizes
        self.classes = classes
        self.metric = metric

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        scores: Any,
        labels: Any,
        *,
        metric: str = "recall",
        counts: Any = None,
        sample_weight: Any = None,
        ax: Any = None,
        before_kw: Mapping[str, Any] | None = None,
        after_kw: Mapping[str, Any] | None = None,
        segment_kw: Mapping[str, Any] | None = None,
    ) -> ClassChangeDisplay:
        """Draw what a calibrator does to the classes of labelled scores.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted one.
        scores, labels, sample_weight
            As for :meth:`reprior.PosteriorCalibrator.fit`: other data than it was tuned on.
        metric : {"recall", "precision", "iou", "f1"}, default "recall"
            The ratio of every class.
        counts : array-like of shape (K,) or {class: count}, optional
            Training samples of every class, for order and names; the source prior without them.
        ax, before_kw, after_kw, segment_kw
            As for :meth:`plot`.
        """
        check_choice("metric", metric, _AVERAGED)
        names = names_of(calibrator)
        sizes = class_sizes(counts, calibrator.source_prior_, names)
        return cls._drawn(
            before_and_after(calibrator, scores, labels, sample_weight).counts(),
            sizes,
            metric,
            names,
            ax,
            before_kw,
            after_kw,
            segment_kw,
        )

    @classmethod
    def from_profile(
        cls,
        profile: StrengthProfile,
        strength: float,
        *,
        metric: str = "recall",
        counts: Any = None,
        classes: Sequence[Any] | None = None,
        ax: Any = None,
        before_kw: Mapping[str, Any] | None = None,
        after_kw: Mapping[str, Any] | None = None,
        segment_kw: Mapping[str, Any] | None = None,
    ) -> ClassChangeDisplay:
        """Draw the classes of a profile, uncorrected and at one strength.

        Parameters
        ----------
        profile : StrengthProfile
            Of labelled scores.
        strength : float
            λ.
        classes : sequence, optional
            Names of the K classes.
        metric, counts, ax, before_kw, after_kw, segment_kw
            As for :meth:`from_calibrator`.
        """
        check_choice("metric", metric, _AVERAGED)
        prior = profile.source_prior
        if prior is None:  # along another direction than the priors'
            prior = np.asarray(profile.baseline.support / profile.baseline.support.sum())
        sizes = class_sizes(counts, prior, classes)
        return cls._drawn(
            (profile.baseline, profile.counts(strength)),
            sizes,
            metric,
            classes,
            ax,
            before_kw,
            after_kw,
            segment_kw,
        )

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Evaluation,
        counts: Any,
        *,
        metric: str = "recall",
        classes: Sequence[Any] | None = None,
        ax: Any = None,
        before_kw: Mapping[str, Any] | None = None,
        after_kw: Mapping[str, Any] | None = None,
        segment_kw: Mapping[str, Any] | None = None,
    ) -> ClassChangeDisplay:
        """Draw what was counted chunk by chunk, for data that do not fit into memory.

        Parameters
        ----------
        evaluation : reprior.engines.Evaluation
            What :func:`reprior.engines.evaluate` returned.
        counts : array-like of shape (K,) or {class: count}
            Training samples of every class, or the source prior.
        classes : sequence, optional
            Names of the K classes.
        metric, ax, before_kw, after_kw, segment_kw
            As for :meth:`from_calibrator`.
        """
        check_choice("metric", metric, _AVERAGED)
        sizes = class_sizes(counts, evaluation.before.support, classes)
        return cls._drawn(
            (evaluation.before, evaluation.after),
            sizes,
            metric,
            classes,
            ax,
            before_kw,
            after_kw,
            segment_kw,
        )

    @classmethod
    def _drawn(
        cls,
        pair: tuple[ClassCounts, ClassCounts],
        sizes: Vector,
        metric: str,
        classes: Any,
        ax: Any,
        before_kw: Any,
        after_kw: Any,
        segment_kw: Any,
    ) -> ClassChangeDisplay:
        ratio = COUNT_METRICS[_AVERAGED[metric]].per_class
        before, after = map(ratio, pair)
        display = cls(before=before, after=after, sizes=sizes, classes=classes, metric=metric)
        return display.plot(ax=ax, before_kw=before_kw, after_kw=after_kw, segment_kw=segment_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        before_kw: Mapping[str, Any] | None = None,
        after_kw: Mapping[str, Any] | None = None,
        segment_kw: Mapping[str, Any] | None = None,
    ) -> ClassChangeDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. A new figure where it is not given.
        before_kw, after_kw : dict, optional
            Options of the points, or lines, of before and after.
        segment_kw : dict, optional
            Options of the segments between them.

        Returns
        -------
        ClassChangeDisplay
            Itself.
        """
        known = np.flatnonzero(np.isfinite(self.before) | np.isfinite(self.after))
        self.order_ = known[np.argsort(-np.asarray(self.sizes)[known], kind="stable")]
        few = self.order_.size <= MOST_CLASSES
        height = max(2.4, 0.28 * self.order_.size + 1.2) if few else 4.2
        (self.ax_,) = axes(ax, figsize=(6.4, height))
        self.figure_ = self.ax_.figure
        old = artist_options("before_kw", before_kw, color=BEFORE, label="before", zorder=3)
        new = artist_options("after_kw", after_kw, color=AFTER, label="after", zorder=3)
        (self._points if few else self._means)(old, new, segment_kw)
        self.ax_.legend(ncols=2, **LEGEND_ABOVE)
        return self

    def _points(self, old: dict[str, Any], new: dict[str, Any], segment_kw: Any) -> None:
        rows = np.arange(self.order_.size)
        before = self.before[self.order_]
        after = self.after[self.order_]
        colours = np.where(after < before, CHOSEN, AFTER)
        options = artist_options("segment_kw", segment_kw, linewidth=2.5, alpha=0.6)
        colours = options.pop("color", colours)
        self.segments_ = self.ax_.hlines(rows, before, after, **{"colors": colours, **options})
        self.before_ = self.ax_.scatter(before, rows, clip_on=False, **{"s": 28, **old})
        self.after_ = self.ax_.scatter(after, rows, clip_on=False, **{"s": 42, **new})
        names = class_names(self.classes, len(self.sizes))
        counted = np.asarray(self.sizes).sum() > 1.5  # a prior sums to 1
        self.ax_.set_yticks(
            rows, [names[k] + (f" ({self.sizes[k]:,.0f})" if counted else "") for k in self.order_]
        )
        self.ax_.set(xlim=(0, 1), ylim=(rows.size - 0.5, -0.5), xlabel=_word(self.metric))
        if counted:
            self.ax_.set_ylabel("class (training samples)")
        self.ax_.grid(axis="y", alpha=0.25)

    def _means(self, old: dict[str, Any], new: dict[str, Any], segment_kw: Any) -> None:
        artist_options("segment_kw", segment_kw)  # a wrong type is refused here as well
        self.segments_ = None
        runs = groups(self.order_, MOST_CLASSES)
        rank = np.cumsum([run.size for run in runs])
        centre = rank - np.array([run.size for run in runs]) / 2 + 0.5
        lines = []
        for values, options in ((self.before, old), (self.after, new)):
            means = [_mean(values[run]) for run in runs]
            lines += self.ax_.plot(centre, means, **{"marker": ".", **options})
        self.before_, self.after_ = lines
        each = (
            f"{runs[-1].size}"
            if runs[0].size == runs[-1].size
            else (f"{runs[-1].size} or {runs[0].size}")
        )
        self.ax_.set(
            ylim=(0, 1),
            xlabel=f"rank in training count, groups of {each} classes",
            ylabel=f"mean {_word(self.metric)}",
        )


def class_sizes(counts: Any, otherwise: Vector, classes: Any) -> Vector:
    """Training counts in the order of the classes; ``otherwise`` where there are none."""
    if counts is None:
        return otherwise
    names = range(otherwise.size) if classes is None else classes
    if isinstance(counts, Mapping):
        missing = [name for name in names if name not in counts]
        if missing:
            raise OptionError(
                argument="counts",
                rule="must have every class",
                got=f"none for {missing[0]!r}",
                remedy="Add it, with 0 where there were no samples.",
            )
        counts = [counts[name] for name in names]
    sizes = np.asarray(counts, dtype=np.float64)
    if sizes.shape != otherwise.shape:
        raise OptionError(
            argument="counts",
            rule=f"must be one number per class, {otherwise.size}",
            got=f"shape {sizes.shape}",
            remedy="Pass the training samples of every class.",
        )
    return sizes


def _mean(values: Vector) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else float("nan")


def _word(metric: str) -> str:
    return {"iou": "IoU", "f1": "F1"}.get(metric, metric)
