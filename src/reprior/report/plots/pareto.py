"""ParetoDisplay: what one metric costs the other, over all strengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.core.rebalance import strength_text
from reprior.metrics.count_metrics import CountMetric
from reprior.report.plots.before_after import names_of, profile_of
from reprior.report.plots.drawing import (
    AFTER,
    BEFORE,
    CHOSEN,
    FAINT,
    LEGEND,
    artist_options,
    axes,
    axis_label,
)
from reprior.report.plots.strength import MOST_STEPS, find_metrics

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.profile.objective import ParetoFront
    from reprior.profile.profile import StrengthProfile

__all__ = ["ParetoDisplay"]

Vector: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = tuple[float, float]


class ParetoDisplay:
    """Two metrics against each other: all strengths, and those that are worth a choice.

    Make one with :meth:`from_calibrator` or :meth:`from_profile`.

    Parameters
    ----------
    front : ParetoFront
        Strengths where neither metric improves without the other getting worse.
    path : (values_a, values_b)
        Both metrics at all strengths, in order.
    names : (str, str)
        What the metrics are called.
    baseline : (float, float)
        Both metrics of the uncorrected model.
    chosen : (float, float), optional
        Both metrics at the chosen strength.
    strength : float, optional
        The chosen strength.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    line_, path_, baseline_ : matplotlib Line2D
        The front, the path over all strengths, the uncorrected model.
    chosen_ : matplotlib Line2D or None
        The chosen strength.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> from matplotlib.figure import Figure
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> profile = rp.StrengthProfile.from_scores(logits, [0, 0, 0, 1], source_prior=[0.8, 0.2])
    >>> display = ParetoDisplay.from_profile(
    ...     profile, "recall[0]", "recall[1]", ax=Figure().subplots()
    ... )
    >>> display.ax_.get_xlabel(), display.line_.get_ydata()
    ('recall of 0', array([1.]))
    """

    def __init__(
        self,
        *,
        front: ParetoFront,
        path: tuple[Vector, Vector],
        names: tuple[str, str],
        baseline: Point,
        chosen: Point | None = None,
        strength: float | None = None,
    ) -> None:
        self.front = front
        self.path = path
        self.names = names
        self.baseline = baseline
        self.chosen = chosen
        self.strength = strength

    @classmethod
    def from_profile(
        cls,
        profile: StrengthProfile,
        metric_a: str | CountMetric = "accuracy",
        metric_b: str | CountMetric = "balanced_accuracy",
        *,
        strength: float | None = None,
        classes: Sequence[Any] | None = None,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        path_kw: Mapping[str, Any] | None = None,
    ) -> ParetoDisplay:
        """Draw two metrics of a profile.

        Parameters
        ----------
        profile : StrengthProfile
            Of labelled scores.
        metric_a, metric_b : str or CountMetric
            The metrics on the horizontal and on the vertical axis.
        strength : float, optional
            A strength to mark.
        classes : sequence, optional
            Class names, for metrics such as ``"recall[cat]"``.
        ax, line_kw, path_kw
            As for :meth:`plot`.
        """
        a, b = find_metrics([metric_a, metric_b], profile, classes)
        strengths = np.union1d(profile.curve(a)[0], profile.curve(b)[0])
        if strengths.size > MOST_STEPS:
            strengths = np.linspace(*profile.bounds, MOST_STEPS)
        chosen = None
        if strength is not None:
            chosen = (profile.evaluate(a, strength), profile.evaluate(b, strength))
        display = cls(
            front=profile.pareto(a, b),
            path=(profile.evaluate(a, strengths), profile.evaluate(b, strengths)),
            names=(a.name, b.name),
            baseline=(a(profile.baseline), b(profile.baseline)),
            chosen=chosen,
            strength=strength,
        )
        return display.plot(ax=ax, line_kw=line_kw, path_kw=path_kw)

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        metric_a: str | CountMetric = "accuracy",
        metric_b: str | CountMetric | None = None,
        *,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        path_kw: Mapping[str, Any] | None = None,
    ) -> ParetoDisplay:
        """Draw two metrics of a calibrator's tuning data, and mark the strength it chose.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            Fitted in this session: a loaded one has no profile.
        metric_a, metric_b : str or CountMetric
            The metrics on the horizontal and on the vertical axis. The second is the one that
            was tuned where it is not given.
        ax, line_kw, path_kw
            As for :meth:`plot`.
        """
        return cls.from_profile(
            profile_of(calibrator, "Fit it here, or draw a profile with from_profile."),
            metric_a,
            calibrator.metric if metric_b is None else metric_b,
            strength=calibrator.strength_,
            classes=names_of(calibrator),
            ax=ax,
            line_kw=line_kw,
            path_kw=path_kw,
        )

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: Mapping[str, Any] | None = None,
        path_kw: Mapping[str, Any] | None = None,
    ) -> ParetoDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. A new figure where it is not given.
        line_kw : dict, optional
            Options of the front.
        path_kw : dict, optional
            Options of the path over all strengths.

        Returns
        -------
        ParetoDisplay
            Itself.
        """
        (self.ax_,) = axes(ax)
        self.figure_ = self.ax_.figure
        (self.path_,) = self.ax_.plot(
            *self.path,
            **artist_options(
                "path_kw", path_kw, color=FAINT, linewidth=1, zorder=1, label="all strengths"
            ),
        )
        # Between neighbouring points no strength does better than the worse of both.
        front = {"color": AFTER, "linewidth": 2, "marker": ".", "drawstyle": "steps-post"}
        front["zorder"] = 2
        front["label"] = "Pareto front"
        (self.line_,) = self.ax_.plot(
            self.front.values_a,
            self.front.values_b,
            **artist_options("line_kw", line_kw, **front),
        )
        self.baseline_ = self._point(self.baseline, BEFORE, "uncorrected, λ = 0")
        self.chosen_ = None
        if self.chosen is not None and self.strength is not None:
            self.chosen_ = self._point(
                self.chosen, CHOSEN, f"chosen, λ = {strength_text(self.strength)}"
            )
        self.ax_.set(xlabel=axis_label(self.names[0]), ylabel=axis_label(self.names[1]))
        self.ax_.legend(loc="best", **LEGEND)
        return self

    def _point(self, where: Point, colour: str, label: str) -> Any:
        (point,) = self.ax_.plot(
            *where,
            "o",
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=2,
            markersize=8,
            label=label,
            zorder=3,
        )
        return point
