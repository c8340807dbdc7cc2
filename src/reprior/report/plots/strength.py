"""StrengthCurveDisplay: metrics over the strength, with the optimum and its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.calibrator.summary import digits_apart
from reprior.core.rebalance import strength_text
from reprior.exceptions import OptionError
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.profile.objective import SubjectTo
from reprior.report.plots.before_after import names_of, profile_of
from reprior.report.plots.drawing import (
    CHOSEN,
    CYCLE,
    LEGEND_ABOVE,
    artist_options,
    axes,
    axis_label,
)

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.profile.profile import StrengthProfile

__all__ = ["MOST_STEPS", "Metrics", "StrengthCurveDisplay", "find_metrics"]

Vector: TypeAlias = np.ndarray[Any, Any]
Metrics: TypeAlias = str | CountMetric | Sequence[str | CountMetric]

#: A curve of more steps is drawn at this many evenly spaced strengths: no eye sees more.
MOST_STEPS = 20_000


class StrengthCurveDisplay:
    r"""Metrics of the profiled samples as step functions of the strength λ.

    Make one with :meth:`from_calibrator` or :meth:`from_profile`.

    Parameters
    ----------
    curves : mapping of str to (strengths, values)
        Step functions by the name of the metric: ``values[i]`` holds from ``strengths[i]`` to
        the next strength. See :meth:`reprior.StrengthProfile.curve`.
    bounds : (float, float)
        The strengths that are covered.
    strength : float, optional
        The strength to mark.
    interval : (float, float), optional
        Strengths that do equally well, to be shaded.
    value : float, optional
        The value of the first metric at ``strength``.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    lines_ : list of matplotlib Line2D
        The curve of every metric.
    best_line_, best_point_, interval_ : matplotlib artists or None
        The marked strength, its value, the shaded interval.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> from matplotlib.figure import Figure
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> profile = rp.StrengthProfile.from_scores(logits, [0, 0, 1, 1], source_prior=[0.8, 0.2])
    >>> display = StrengthCurveDisplay.from_profile(profile, ax=Figure().subplots())
    >>> display.ax_.get_xlabel(), display.lines_[0].get_ydata()
    ('strength λ', array([0.75, 1.  , 0.75, 0.5 , 0.5 ]))
    """

    def __init__(
        self,
        *,
        curves: Mapping[str, tuple[Vector, Vector]],
        bounds: tuple[float, float],
        strength: float | None = None,
        interval: tuple[float, float] | None = None,
        value: float | None = None,
    ) -> None:
        self.curves = curves
        self.bounds = bounds
        self.strength = strength
        self.interval = interval
        self.value = value

    @classmethod
    def from_profile(
        cls,
        profile: StrengthProfile,
        metrics: Metrics = "balanced_accuracy",
        *,
        subject_to: SubjectTo = None,
        classes: Sequence[Any] | None = None,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        best_kw: Mapping[str, Any] | None = None,
        interval_kw: Mapping[str, Any] | None = None,
    ) -> StrengthCurveDisplay:
        """Draw metrics of a profile; the optimum of the first of them is marked.

        Parameters
        ----------
        profile : StrengthProfile
            Of labelled scores.
        metrics : str, CountMetric or a sequence of them, default "balanced_accuracy"
            What to draw.
        subject_to : str or sequence of str, optional
            Constraints on the optimum, such as ``"accuracy >= baseline - 0.01"``.
        classes : sequence, optional
            Class names, for metrics such as ``"recall[cat]"``.
        ax, line_kw, best_kw, interval_kw
            As for :meth:`plot`.
        """
        found_metrics = find_metrics(metrics, profile, classes)
        best = profile.best(found_metrics[0], subject_to=subject_to)
        display = cls(
            curves={metric.name: _curve(profile, metric) for metric in found_metrics},
            bounds=profile.bounds,
            strength=best.strength,
            interval=best.interval,
            value=best.value,
        )
        return display.plot(ax=ax, line_kw=line_kw, best_kw=best_kw, interval_kw=interval_kw)

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        metrics: Metrics | None = None,
        *,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        best_kw: Mapping[str, Any] | None = None,
        interval_kw: Mapping[str, Any] | None = None,
    ) -> StrengthCurveDisplay:
        """Draw metrics of a calibrator's tuning data, and mark the strength it chose.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            Fitted in this session: a loaded one has no profile.
        metrics : str, CountMetric or a sequence of them, optional
            What to draw: the metric it was tuned for where nothing is given.
        ax, line_kw, best_kw, interval_kw
            As for :meth:`plot`.
        """
        profile = profile_of(calibrator, "Fit it here, or draw a profile with from_profile.")
        asked = calibrator.metric if metrics is None else metrics
        found_metrics = find_metrics(asked, profile, names_of(calibrator))
        low, high = profile.bounds
        inside = low <= calibrator.strength_ <= high
        display = cls(
            curves={metric.name: _curve(profile, metric) for metric in found_metrics},
            bounds=profile.bounds,
            strength=calibrator.strength_,
            interval=calibrator.strength_interval_,
            value=profile.evaluate(found_metrics[0], calibrator.strength_) if inside else None,
        )
        return display.plot(ax=ax, line_kw=line_kw, best_kw=best_kw, interval_kw=interval_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: Mapping[str, Any] | None = None,
        best_kw: Mapping[str, Any] | None = None,
        interval_kw: Mapping[str, Any] | None = None,
    ) -> StrengthCurveDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. A new figure where it is not given.
        line_kw : dict, optional
            Options of the curves, such as ``{"linewidth": 1}``.
        best_kw : dict, optional
            Options of the line at the marked strength.
        interval_kw : dict, optional
            Options of the shaded interval.

        Returns
        -------
        StrengthCurveDisplay
            Itself.
        """
        (self.ax_,) = axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_ = []
        for i, (name, (strengths, values)) in enumerate(self.curves.items()):
            # The last step lasts until the upper bound.
            x = np.append(strengths, self.bounds[1])
            y = np.append(values, values[-1])
            options = artist_options(
                "line_kw", line_kw, color=CYCLE[i % len(CYCLE)], label=axis_label(name)
            )
            self.lines_ += self.ax_.plot(x, y, **{"drawstyle": "steps-post", **options})
        self._mark(best_kw, interval_kw)
        several = len(self.curves) > 1
        self.ax_.set(
            xlim=self.bounds,
            xlabel="strength λ",
            ylabel="value" if several else axis_label(next(iter(self.curves))),
        )
        if several or self.strength is not None:
            left = {**LEGEND_ABOVE, "loc": "lower left", "bbox_to_anchor": (0, 1)}
            self.ax_.legend(ncols=2, fontsize="small", **left)
        return self

    def _mark(self, best_kw: Any, interval_kw: Any) -> None:
        self.best_line_ = self.best_point_ = self.interval_ = None
        if self.strength is None:
            return
        digits = 4 if self.interval is None else digits_apart(*self.interval)
        line = {"color": CHOSEN, "linewidth": 1.2, "linestyle": "--", "zorder": 1}
        rounded = f"{self.strength:.{digits}f}" if digits > 4 else strength_text(self.strength)
        line["label"] = f"λ = {rounded}"
        self.best_line_ = self.ax_.axvline(
            self.strength, **artist_options("best_kw", best_kw, **line)
        )
        if self.interval is not None:
            low, high = self.interval
            shade = {"color": CHOSEN, "alpha": 0.25, "linewidth": 0, "zorder": 0.5}
            shade["label"] = f"ties: {low:.{digits}f} to {high:.{digits}f}"
            self.interval_ = self.ax_.axvspan(
                low, high, **artist_options("interval_kw", interval_kw, **shade)
            )
        if self.value is not None:
            (self.best_point_,) = self.ax_.plot(
                self.strength,
                self.value,
                "o",
                markerfacecolor="white",
                markeredgecolor=self.best_line_.get_color(),
                markeredgewidth=1.8,
                zorder=3,
            )


def find_metrics(
    metrics: Metrics, profile: StrengthProfile, classes: Sequence[Any] | Vector | None
) -> list[CountMetric]:
    """The metrics of these names; at least one."""
    several = [metrics] if isinstance(metrics, str | CountMetric) else list(metrics)
    if not several:
        raise OptionError(
            argument="metrics",
            rule="must name at least one metric",
            got="none",
            remedy="Pass for example metrics=['balanced_accuracy', 'accuracy'].",
        )
    names = None if classes is None else [str(name) for name in classes]
    return [find_metric(one, n_classes=profile.n_classes, classes=names) for one in several]


def _curve(profile: StrengthProfile, metric: CountMetric) -> tuple[Vector, Vector]:
    strengths, values = profile.curve(metric)
    if strengths.size <= MOST_STEPS:
        return strengths, values
    even = np.linspace(*profile.bounds, MOST_STEPS)
    return even, profile.evaluate(metric, even)
