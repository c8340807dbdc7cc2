"""PriorDisplay: the source prior, the target prior, and the mix of the predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.exceptions import Argument, OptionError
from reprior.report.plots.before_after import before_and_after, names_of
from reprior.report.plots.drawing import (
    AFTER,
    BEFORE,
    CHOSEN,
    CYCLE,
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

__all__ = ["PriorDisplay"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: More classes than this are drawn as the means of this many groups.
MOST_CLASSES = 40

SOURCE = "source prior"
TARGET = "target prior"
LABELS = "labels"
PREDICTED = ("predicted, before", "predicted, after")
_LOOKS: dict[str, dict[str, Any]] = {
    SOURCE: {"marker": "s", "color": CHOSEN},
    TARGET: {"marker": "D", "color": CYCLE[1]},
    LABELS: {"marker": "x", "color": CYCLE[5]},
    PREDICTED[0]: {"marker": "o", "color": BEFORE},
    PREDICTED[1]: {"marker": "o", "color": AFTER},
}


class PriorDisplay:
    """Shares of the classes: in training, in the target, among labels and predictions.

    Make one with :meth:`from_calibrator`, :meth:`from_evaluation` or :meth:`from_profile`.

    Parameters
    ----------
    shares : mapping of str to array of shape (K,)
        Distributions over the classes, by what they are called. The first one gives the order.
    classes : sequence, optional
        Names of the K classes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    order_ : array of shape (K,)
        The classes, the largest share first.
    lines_ : dict of str to matplotlib Line2D
        Every distribution: points, or lines over groups of classes.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> from matplotlib.figure import Figure
    >>> logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, [0, 0, 1, 1])
    >>> display = PriorDisplay.from_calibrator(
    ...     calibrator, logits, [0, 0, 1, 1], ax=Figure().subplots()
    ... )
    >>> display.shares["predicted, before"], display.shares["predicted, after"]
    (array([0.75, 0.25]), array([0.5, 0.5]))
    """

    def __init__(
        self, *, shares: Mapping[str, Vector], classes: Sequence[Any] | None = None
    ) -> None:
        self.shares = shares
        self.classes = classes

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        scores: Any = None,
        labels: Any = None,
        *,
        sample_weight: Any = None,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> PriorDisplay:
        """Draw a calibrator's priors and, with scores and labels, what it predicts on them.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted one.
        scores, labels, sample_weight
            As for :meth:`reprior.PosteriorCalibrator.fit`; or neither.
        ax, line_kw
            As for :meth:`plot`.
        """
        if (scores is None) != (labels is None):
            missing, given = ("scores", "labels") if scores is None else ("labels", "scores")
            raise OptionError(
                [
                    Argument("scores"),
                    " and ",
                    Argument("labels"),
                    (
                        f" must be given together. Got no {missing}. Pass both, or leave out the "
                        f"{given}."
                    ),
                ],
            )
        calibrator.as_affine()  # refuses one that is not fitted
        pair = None
        if scores is not None:
            pair = before_and_after(calibrator, scores, labels, sample_weight).counts()
        shares = _shares(calibrator.source_prior_, calibrator.target_prior_, pair)
        return cls(shares=shares, classes=names_of(calibrator)).plot(ax=ax, line_kw=line_kw)

    @classmethod
    def from_evaluation(
        cls,
        evaluation: Evaluation,
        calibrator: PosteriorCalibrator,
        *,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> PriorDisplay:
        """Draw what was counted chunk by chunk, for data that do not fit into memory.

        Parameters
        ----------
        evaluation : reprior.engines.Evaluation
            What :func:`reprior.engines.evaluate` returned.
        calibrator : PosteriorCalibrator
            The one that was evaluated: its priors are drawn, too.
        ax, line_kw
            As for :meth:`plot`.
        """
        pair = (evaluation.before, evaluation.after)
        shares = _shares(calibrator.source_prior_, calibrator.target_prior_, pair)
        return cls(shares=shares, classes=names_of(calibrator)).plot(ax=ax, line_kw=line_kw)

    @classmethod
    def from_profile(
        cls,
        profile: StrengthProfile,
        strength: float,
        *,
        classes: Sequence[Any] | None = None,
        ax: Any = None,
        line_kw: Mapping[str, Any] | None = None,
    ) -> PriorDisplay:
        """Draw a profile's priors, labels and predictions, uncorrected and at one strength.

        Parameters
        ----------
        profile : StrengthProfile
            Of labelled scores.
        strength : float
            λ.
        classes : sequence, optional
            Names of the K classes.
        ax, line_kw
            As for :meth:`plot`.
        """
        if profile.source_prior is None or profile.target_prior is None:
            raise OptionError(
                argument="profile",
                rule="must be of two priors",
                got="one along another direction",
                remedy="Draw its metrics with StrengthCurveDisplay.",
            )
        pair = (profile.baseline, profile.counts(strength))
        shares = _shares(profile.source_prior, profile.target_prior, pair)
        return cls(shares=shares, classes=classes).plot(ax=ax, line_kw=line_kw)

    def plot(self, ax: Any = None, *, line_kw: Mapping[str, Any] | None = None) -> PriorDisplay:
        """Draw, on a logarithmic axis on which 0 has a place.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw. A new figure where it is not given.
        line_kw : dict, optional
            Options of the points, or lines, of all distributions.

        Returns
        -------
        PriorDisplay
            Itself.
        """
        first = next(iter(self.shares.values()))
        self.order_ = np.argsort(-first, kind="stable")
        few = first.size <= MOST_CLASSES
        height = max(2.6, 0.28 * first.size + 1.4) if few else 4.2
        (self.ax_,) = axes(ax, figsize=(6.4, height))
        self.figure_ = self.ax_.figure
        self.lines_: dict[str, Any] = {}
        draw = self._points if few else self._means
        for name, share in self.shares.items():
            looks = artist_options("line_kw", line_kw, label=name, **_LOOKS.get(name, {}))
            draw(name, share, looks)
        if few:
            self._name_rows(first.size)
        self._scale("x" if few else "y")
        self.ax_.legend(ncols=3, fontsize="small", **LEGEND_ABOVE)
        return self

    def _scale(self, axis: str) -> None:
        """Logarithmic; where a share is 0, linear from 0 to the smallest of the others."""
        every = np.concatenate([np.asarray(share) for share in self.shares.values()])
        least = float(every[every > 0].min())
        if every.min() > 0:
            self.ax_.set(**{f"{axis}scale": "log"})
            return
        scale = {"linthresh": 10 ** np.floor(np.log10(least)), "linscale": 0.6}
        (self.ax_.set_xscale if axis == "x" else self.ax_.set_yscale)("symlog", **scale)
        self.ax_.set(**{f"{axis}lim": (-0.1 * scale["linthresh"], None)})

    def _points(self, name: str, share: Vector, looks: dict[str, Any]) -> None:
        options = {"linestyle": "none", "markersize": 6, "alpha": 0.85, "clip_on": False}
        (self.lines_[name],) = self.ax_.plot(
            share[self.order_], np.arange(share.size), **{**options, **looks}
        )

    def _means(self, name: str, share: Vector, looks: dict[str, Any]) -> None:
        runs = groups(self.order_, MOST_CLASSES)
        rank = np.cumsum([run.size for run in runs])
        (self.lines_[name],) = self.ax_.plot(
            rank - np.array([run.size for run in runs]) / 2 + 0.5,
            [share[run].mean() for run in runs],
            **{"markersize": 4, **looks},
        )
        self.ax_.set(
            xlabel=f"rank in the {next(iter(self.shares))}, means of {len(runs)} groups",
            ylabel="share of a class",
        )

    def _name_rows(self, n_classes: int) -> None:
        names = class_names(self.classes, n_classes)
        self.ax_.set_yticks(range(n_classes), [names[k] for k in self.order_])
        self.ax_.set(ylim=(n_classes - 0.5, -0.5), xlabel="share")
        self.ax_.grid(axis="y", alpha=0.25)


def _shares(
    source: Vector, target: Vector, pair: tuple[ClassCounts, ClassCounts] | None
) -> dict[str, Vector]:
    shares = {SOURCE: source, TARGET: target}
    if pair is None:
        return shares
    shares[LABELS] = pair[0].support / pair[0].support.sum()
    for name, counts in zip(PREDICTED, pair, strict=True):
        shares[name] = counts.predicted / counts.predicted.sum()
    return shares
