"""ReliabilityDisplay: how often predictions are right, by how sure the model is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.exceptions import OptionError
from reprior.metrics.calibration import ReliabilityCurve, reliability_curve
from reprior.report.plots.before_after import before_and_after
from reprior.report.plots.drawing import AFTER, BEFORE, CYCLE, FAINT, LEGEND, artist_options, axes

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.engines.evaluation import Evaluation

__all__ = ["ReliabilityDisplay"]

#: Area of a marker, in points²: of an empty bin, and what a bin with all samples has on top.
SMALLEST_MARKER = 12.0
MARKER_RANGE = 300.0

#: Samples, or with weights the share of all, that a bin must hold to be joined to its neighbours.
FEWEST, FEWEST_SHARE = 3, 0.003


class ReliabilityDisplay:
    """Accuracy against confidence of the predicted class, with the calibration error (ECE).

    The larger a marker, the larger the share of the samples in its bin. Make one with
    :meth:`from_calibrator`, :meth:`from_evaluation` or :meth:`from_predictions`.

    Parameters
    ----------
    curves : mapping of str to ReliabilityCurve
        What to draw, by what it is called.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    lines_ : list of matplotlib Line2D
        The curve of each, over the bins that hold at least three samples.
    markers_ : list of matplotlib PathCollection
        The bins of each.
    diagonal_ : matplotlib Line2D
        Where accuracy and confidence are the same.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ReliabilityDisplay.from_predictions(
    ...     [[0.9, 0.1], [0.6, 0.4]], [0, 1], n_bins=2, ax=Figure().subplots()
    ... )
    >>> display.lines_[0].get_label()
    'model (ECE 0.250)'
    """

    def __init__(self, *, curves: Mapping[str, ReliabilityCurve]) -> None:
        self.curves = curves

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        scores: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        n_bins: int = 15,
        binning: str = "equal_width",
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        marker_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw the model as it is and as re-calibrated.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted one.
        scores, labels, sample_weight
            As for :meth:`reprior.PosteriorCalibrator.fit`: other data than it was tuned on.
        n_bins, binning
            As for :func:`reprior.metrics.reliability_curve`.
        ax, line_kw, marker_kw
            As for :meth:`plot`.
        """
        seen = before_and_after(calibrator, scores, labels, sample_weight)
        posteriors = {"before": seen.posterior_before, "after": seen.posterior_after}
        curves = {
            name: reliability_curve(
                posterior,
                seen.labels,
                kind="probs",
                class_axis=seen.class_axis,
                ignore_index=seen.ignore_index,
                sample_weight=seen.weight,
                n_bins=n_bins,
                binning=binning,
            )
            for name, posterior in posteriors.items()
        }
        return cls(curves=curves).plot(ax=ax, line_kw=line_kw, marker_kw=marker_kw)

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Evaluation,
        *,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        marker_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw what was summed chunk by chunk, for data that do not fit into memory.

        Parameters
        ----------
        evaluation : reprior.engines.Evaluation
            What :func:`reprior.engines.evaluate` returned.
        ax, line_kw, marker_kw
            As for :meth:`plot`.
        """
        curves = {
            "before": evaluation.reliability_before.curve(),
            "after": evaluation.reliability_after.curve(),
        }
        return cls(curves=curves).plot(ax=ax, line_kw=line_kw, marker_kw=marker_kw)

    @classmethod
    def from_predictions(
        cls,
        scores: Any,
        labels: Any,
        *,
        kind: str = "probs",
        class_axis: int = -1,
        ignore_index: int | None = None,
        sample_weight: Any = None,
        n_bins: int = 15,
        binning: str = "equal_width",
        name: str = "model",
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
        marker_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw one set of scores.

        Parameters
        ----------
        scores, labels, kind, class_axis, ignore_index, sample_weight, n_bins, binning
            As for :func:`reprior.metrics.reliability_curve`.
        name : str, default "model"
            What it is called in the legend.
        ax, line_kw, marker_kw
            As for :meth:`plot`.
        """
        curve = reliability_curve(
            scores,
            labels,
            kind=kind,
            class_axis=class_axis,
            ignore_index=ignore_index,
            sample_weight=sample_weight,
            n_bins=n_bins,
            binning=binning,
        )
        return cls(curves={name: curve}).plot(ax=ax, line_kw=line_kw, marker_kw=marker_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kw: Mapping[str, Any] | None = None,
        marker_kw: Mapping[str, Any] | None = None,
    ) -> ReliabilityDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. A new figure where it is not given.
        line_kw : dict, optional
            Options of the curves.
        marker_kw : dict, optional
            Options of the markers of the bins.

        Returns
        -------
        ReliabilityDisplay
            Itself.
        """
        if not self.curves:
            raise OptionError(
                argument="curves",
                rule="must hold at least one curve",
                got="none",
                remedy="Use ReliabilityDisplay.from_calibrator or from_predictions.",
            )
        (self.ax_,) = axes(ax, figsize=(5.2, 4.8))
        self.figure_ = self.ax_.figure
        (self.diagonal_,) = self.ax_.plot(
            [0, 1], [0, 1], color=FAINT, linewidth=1, linestyle="--", zorder=1
        )
        self.lines_: list[Any] = []
        self.markers_: list[Any] = []
        for (name, curve), colour in zip(self.curves.items(), self._colours(), strict=False):
            self._draw(name, curve, colour, line_kw, marker_kw)
        self.ax_.set(
            xlim=(0, 1), ylim=(0, 1), xlabel="confidence of the predicted class", ylabel="accuracy"
        )
        self.ax_.set_aspect("equal")
        self.ax_.legend(loc="upper left", **LEGEND)
        return self

    def _colours(self) -> list[str]:
        if list(self.curves)[:2] == ["before", "after"]:
            return [BEFORE, AFTER, *CYCLE[1:]]
        return [CYCLE[i % len(CYCLE)] for i in range(len(self.curves))]

    def _draw(
        self, name: str, curve: ReliabilityCurve, colour: str, line_kw: Any, marker_kw: Any
    ) -> None:
        full = np.flatnonzero(curve.count > 0)
        x = curve.confidence[full]
        y = curve.accuracy[full]
        joined = np.flatnonzero(curve.count >= _least(curve.count))
        label = f"{name} (ECE {curve.expected_calibration_error:.3f})"
        options = artist_options("line_kw", line_kw, color=colour, linewidth=1.5, zorder=2)
        ends = curve.confidence[joined], curve.accuracy[joined]
        (line,) = self.ax_.plot(*ends, **{"label": label, **options})
        share = curve.count[full] / curve.count.sum()
        dots = {"color": line.get_color(), "linewidth": 0, "zorder": 3, "clip_on": False}
        dots |= {"alpha": 0.6, "s": SMALLEST_MARKER + MARKER_RANGE * share}
        self.lines_.append(line)
        self.markers_.append(
            self.ax_.scatter(x, y, **artist_options("marker_kw", marker_kw, **dots))
        )


def _least(count: Any) -> float:
    """Return what a bin must hold to be joined to others: one or two samples make a spike.

    Weights need not be numbers of samples: of these, a bin needs a share.
    """
    are_numbers = bool((count % 1 == 0).all())
    return FEWEST if are_numbers else FEWEST_SHARE * float(count.sum())
