"""PriorTracker: track the class mix of a model in production, and raise an alarm if it shifts."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from reprior.calibrator.forecast import forecast_mix
from reprior.core.checks import (
    check_finite_number,
    check_kind,
    column_names,
    index_of,
    refuse_reordered,
)
from reprior.core.prior import as_prior
from reprior.core.shift.predictions import (
    Validation,
    each_warning_once,
    is_empty_batch,
    read_log_scores,
    read_validation_rows,
    validation_columns,
)
from reprior.core.shift.recalibration import (
    AffineCalibration,
    as_calibration,
    every_second_label,
    fit_calibration,
)
from reprior.core.shift.report import SAMPLES_PER_CLASS, SHOWN_CLASSES
from reprior.core.shift.tracking import (
    MeanRatios,
    TrackerState,
    TrackingOptions,
    check_label_counts,
    measure_ratios,
    reference_posteriors,
    track,
)
from reprior.exceptions import OptionError
from reprior.files.documents import read_tracker, write_tracker

if TYPE_CHECKING:
    from reprior.calibrator.forecast import Forecast
    from reprior.calibrator.posterior import PosteriorCalibrator
    from reprior.metrics.count_metrics import CountMetric

__all__ = ["PriorTracker"]

Vector: TypeAlias = np.ndarray[Any, Any]
Self = TypeVar("Self", bound="PriorTracker")


class PriorTracker:
    r"""Tracks the class mix of unlabelled scores, batch by batch, and raises an alarm if it shifts.

    The mix is tracked by online EM [1]_: the weight of a sample halves every ``half_life`` samples.
    Classes that the model confuses are tracked more slowly, by the factor by which it confuses
    them, because evidence about them comes in more slowly.

    The alarm is a Shiryaev–Roberts detector [2]_ of the likelihood of the tracked mix, as it was
    before each sample, against that of the reference. **As long as there is no shift, the chance
    of an alarm within n samples is at most n times** ``false_alarm_rate``, and the mean number of
    samples until a false alarm is at least its inverse. This holds for every n and for any division
    of the stream into batches. It assumes that samples are drawn independently from the reference
    mix and that the model's probabilities are calibrated. If they may not be, pass ``validation``:
    the probabilities are first calibrated with every second label of each class, as in
    :func:`reprior.estimate_target_prior`. The other labels measure the mean likelihood ratio
    without a shift, which is then not assumed to be 1; two standard errors are added, and the rate
    holds for 98 % of all validation sets. A shift below the precision of so many labels then raises
    no alarm.

    Batches are not kept. Memory is a few numbers per class, and with ``validation`` per pair of
    classes.

    Parameters
    ----------
    source_prior : array-like of shape (K,)
        P_s, the class mix that the model was trained on.
    reference_prior : array-like of shape (K,), optional
        The mix without a shift; positive. P_s by default.
    half_life : float, default 10000
        The number of samples after which a sample counts half.
    false_alarm_rate : float, default 1e-6
        Per sample. A smaller rate delays the alarm: for every factor of ten by log(10) over the
        information per sample.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        The kind of the scores.
    class_axis : int, default -1
        The axis of the classes.
    calibration : (scale, bias), or a function, optional
        As in :func:`reprior.estimate_target_prior`: by default it is fitted to half of
        ``validation``; (1, 0) leaves the scores as they are. Fit your own to other labels than
        ``validation``, or false alarms are more frequent than stated. A function cannot be saved.
    validation : (scores, labels), optional
        Labelled scores that the model was not trained on, of all classes in any mix: at least three
        of each, or two with a ``calibration``. Labels are class indices, or column names of a frame
        of scores.
    ignore_index : int, optional
        A validation label that marks samples to leave out.

    References
    ----------
    .. [1] Cappé, Moulines. "On-line Expectation–Maximization Algorithm for Latent Data Models",
       Journal of the Royal Statistical Society B 71(3), 2009.
    .. [2] Shin, Ramdas, Rinaldo. "E-detectors: A Nonparametric Framework for Sequential Change
       Detection", New England Journal of Statistics in Data Science 2(2), 2024.

    Examples
    --------
    A model with an accuracy of 0.9, on data that change from half cats to all dogs:

    >>> import numpy as np
    >>> import reprior as rp
    >>> tracker = rp.PriorTracker([0.5, 0.5], half_life=100, kind="probs")
    >>> cats_and_dogs = np.array([[0.9, 0.1], [0.1, 0.9]] * 100)
    >>> tracker.update(cats_and_dogs)
    False
    >>> dogs = np.array([[0.1, 0.9]] * 100)
    >>> tracker.update(dogs)
    True
    >>> tracker.alarm_at, tracker.prior.round(2)
    (272, array([0.28, 0.72]))
    """

    _options: TrackingOptions
    _state: TrackerState

    def __init__(
        self,
        source_prior: Any,
        *,
        reference_prior: Any = None,
        half_life: float = 10_000,
        false_alarm_rate: float = 1e-6,
        kind: str = "logits",
        class_axis: int = -1,
        calibration: Any = None,
        validation: Any = None,
        ignore_index: int | None = None,
    ) -> None:
        check_kind(kind)
        columns = validation_columns(validation)
        self.source_prior = as_prior(source_prior, name="source_prior", classes=columns)
        self._columns = columns or index_of(source_prior)
        self.kind = kind
        self.class_axis = class_axis
        self.half_life = check_finite_number("half_life", half_life, positive=True)
        self.false_alarm_rate = _check_rate(false_alarm_rate)
        self._calibration = as_calibration(calibration, self.source_prior.size)
        # Whether the tracker fits the calibration to the validation labels.
        self._fits_calibration = calibration is None and validation is not None
        self._begin(
            self.source_prior if reference_prior is None else reference_prior,
            None,
            validation,
            ignore_index,
        )

    def update(self, scores: Any) -> bool:
        """Add a batch of unlabelled scores, and return whether there is an alarm.

        Parameters
        ----------
        scores : array of shape (n, K), (n, K, H, W), … or (n,)
            The model's outputs in the order of the stream. A batch without samples changes nothing.
        """
        if is_empty_batch(scores, self.source_prior.size, self.class_axis):
            return self.alarm
        columns = column_names(scores)
        refuse_reordered(columns, self._columns, name="scores", of="those that were given first")
        rows = self._log_scores(scores)
        self._columns = self._columns or columns
        posterior = reference_posteriors(rows, self.source_prior, self._options.reference)
        self._state = track(self._state, posterior, self._options)
        return self.alarm

    @property
    def prior(self) -> Vector:
        """The tracked class mix, (K,): a target prior for ``calibrator.retarget``."""
        prior = self._state.current_prior(self.half_life)
        normalised: Vector = prior / prior.sum()
        return normalised

    @property
    def reference_prior(self) -> Vector:
        """The mix without a shift."""
        return self._options.reference

    @property
    def n_samples(self) -> int:
        """The number of samples since the reference was set."""
        return self._state.n_samples

    @property
    def alarm(self) -> bool:
        """Whether the mix has shifted from the reference. It stays until :meth:`rebase`."""
        return self._state.alarm_at is not None

    @property
    def alarm_at(self) -> int | None:
        """The number of samples after which the alarm came, None without one."""
        return self._state.alarm_at

    @property
    def evidence(self) -> float:
        """The evidence for a shift: log10(1 + R). The alarm comes at log10(1/rate)."""
        return self._state.log_evidence / math.log(10)

    def rebase(
        self,
        reference_prior: Any = None,
        *,
        validation: Any = None,
        ignore_index: int | None = None,
    ) -> None:
        """Set another reference mix, the tracked one by default, and count samples from 0.

        For use after an alarm, when the model has been set to the new mix. The tracked prior and a
        fitted calibration stay. A tracker that was made with ``validation`` needs it again.
        """
        if self._options.ratios is not None and validation is None:
            raise OptionError(
                argument="validation",
                rule="must be given again: the likelihood ratios without a shift depend on the "
                "reference",
                got="None",
                remedy="Pass the labelled scores that the tracker was made with.",
            )
        current = self.prior
        self._begin(
            current if reference_prior is None else reference_prior,
            current,
            validation,
            ignore_index,
        )

    def forecast(
        self,
        calibrator: PosteriorCalibrator,
        metric: str | CountMetric = "accuracy",
        *,
        confidence: float = 0.9,
    ) -> Forecast:
        """Return the metric to expect of a calibrator under the tracked mix.

        Intervals are those of as many predictions as the tracked mix rests on, (Σw)² / Σw² of their
        weights: at most 2.9 half-lives. Decisions tell less of the mix than the probabilities that
        it is tracked by, so they are rather too wide.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted calibrator of the same classes, with the confusion matrices of its tuning data.
        metric, confidence
            As in :meth:`reprior.PosteriorCalibrator.forecast`.

        Examples
        --------
        >>> import numpy as np
        >>> import reprior as rp
        >>> labels = np.repeat([0, 1], [80, 20])
        >>> scores = np.stack([0 * labels, 4 * labels - 2 + np.sin(labels.cumsum())], axis=1)
        >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(scores, labels)
        >>> tracker = rp.PriorTracker([0.8, 0.2], half_life=50)
        >>> alarm = tracker.update(scores[60:])
        >>> tracker.forecast(calibrator).target_prior.round(1)
        array([0.6, 0.4])
        """
        classes = calibrator._fitted.source_prior_.size
        if classes != self.source_prior.size:
            raise OptionError(
                argument="calibrator",
                rule=f"must be of the {self.source_prior.size} classes of the tracker",
                got=f"{classes} classes",
                remedy="Pass the calibrator of the model that is tracked.",
            )
        if calibrator.kind != self.kind:
            raise OptionError(
                argument="calibrator",
                rule=f"must be of scores of kind {self.kind!r}, as the tracker is",
                got=f"kind {calibrator.kind!r}",
                remedy=f"Make the tracker with kind={calibrator.kind!r}.",
            )
        fewest = SAMPLES_PER_CLASS * classes
        if self.n_samples < fewest:
            raise OptionError(
                f"A tracker must have seen at least {fewest} samples, {SAMPLES_PER_CLASS} per "
                f"class, to forecast.",
                got=f"{self.n_samples}",
                remedy="Update it with more scores.",
            )
        decay = 2.0 ** (-1.0 / self.half_life)
        seen = decay**self.n_samples
        effective = (1 - seen) * (1 + decay) / ((1 + seen) * (1 - decay))
        return forecast_mix(
            calibrator, self.prior, effective, metric, confidence=confidence, seed=0
        )

    def summary(self) -> str:
        """Return the state as text."""
        state = f"ALARM after {self.alarm_at:,} samples" if self.alarm else "no alarm"
        rate = self.false_alarm_rate
        lines = [
            f"samples      {self.n_samples:,}  (half-life {self.half_life:g})",
            f"shift        {state}  (evidence {self.evidence:.2f} of {-math.log10(rate):.2f})",
            f"false alarms at most {rate:g} per sample",
            "",
            f"{'class':<8}{'reference':>11}{'now':>9}",
        ]
        reference = self.reference_prior
        prior = self.prior
        order = np.sort(np.argsort(-np.abs(prior - reference), kind="stable")[:SHOWN_CLASSES])
        lines += [f"{k:<8}{reference[k]:>11.4f}{prior[k]:>9.4f}" for k in order]
        if order.size < prior.size:
            lines.append(f"… and {prior.size - order.size:,} classes whose shares change less")
        return "\n".join(lines)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and state to a JSON file, atomically; :meth:`load` continues from it."""
        calibration = self._calibration
        if calibration is not None and not isinstance(calibration, AffineCalibration):
            raise OptionError(
                argument="calibration",
                rule="must be (scale, bias) for a tracker that is saved",
                got="a function",
                remedy="Calibrate the scores before update(), or pass a map that JSON can hold.",
            )
        affine = None
        if calibration is not None:
            affine = [calibration.scale.tolist(), calibration.bias.tolist()]
        state = self._state
        ratios = self._options.ratios
        write_tracker(
            path,
            {
                "source_prior": self.source_prior.tolist(),
                "reference_prior": self.reference_prior.tolist(),
                "half_life": self.half_life,
                "false_alarm_rate": self.false_alarm_rate,
                "kind": self.kind,
                "class_axis": self.class_axis,
                "calibration": affine,
                "fitted": self._fits_calibration,
                "ratios": None if ratios is None else _ratio_fields(ratios),
                "prior": state.prior.tolist(),
                "mass": state.mass.tolist(),
                "waiting": state.waiting,
                "n_samples": state.n_samples,
                "log_evidence": state.log_evidence,
                "alarm_at": state.alarm_at,
            },
        )

    @classmethod
    def load(cls: type[Self], path: str | os.PathLike[str]) -> Self:
        """Read a tracker that :meth:`save` wrote; it continues where that one stopped.

        A file that is truncated, damaged, from a newer version, or not a tracker is refused.

        Examples
        --------
        >>> import reprior as rp
        >>> path = getfixture("tmp_path") / "tracker.json"
        >>> tracker = rp.PriorTracker([0.75, 0.25], half_life=500)
        >>> tracker.update([[2.0, 0.0], [0.0, 3.0]])
        False
        >>> tracker.save(path)
        >>> rp.PriorTracker.load(path).n_samples
        2
        """
        fields = read_tracker(path)
        tracker = cls(
            fields["source_prior"],
            reference_prior=fields["reference_prior"],
            half_life=fields["half_life"],
            false_alarm_rate=fields["false_alarm_rate"],
            kind=fields["kind"],
            class_axis=fields["class_axis"],
            calibration=fields["calibration"],
        )
        tracker._fits_calibration = fields["fitted"]
        if fields["ratios"] is not None:
            ratios = {name: np.asarray(x, np.float64) for name, x in fields["ratios"].items()}
            tracker._options = replace(
                tracker._options, ratios=MeanRatios(ratios["mean"], ratios["covariance"])
            )
        tracker._state = TrackerState(
            prior=np.asarray(fields["prior"], np.float64),
            mass=np.asarray(fields["mass"], np.float64),
            waiting=fields["waiting"],
            n_samples=fields["n_samples"],
            log_evidence=float(fields["log_evidence"]),
            alarm_at=fields["alarm_at"],
        )
        return tracker

    def __repr__(self) -> str:
        return (
            f"PriorTracker({self.source_prior.size} classes, half_life={self.half_life:g}, "
            f"false_alarm_rate={self.false_alarm_rate:g}, n_samples={self.n_samples}, "
            f"alarm={self.alarm})"
        )

    def _begin(
        self, reference_prior: Any, prior: Vector | None, validation: Any, ignore_index: int | None
    ) -> None:
        """Set the reference, and start at ``prior``, or at the reference, without samples."""
        reference = as_prior(
            reference_prior,
            name="reference_prior",
            n_classes=self.source_prior.size,
            classes=self._columns,
        )
        ratios = None
        if validation is not None:
            with each_warning_once():
                samples = read_validation_rows(
                    validation,
                    reference.size,
                    kind=self.kind,
                    class_axis=self.class_axis,
                    calibration=None if self._fits_calibration else self._calibration,
                    ignore_index=ignore_index,
                )
                rows, labels = self._calibrated(samples)
            posterior = reference_posteriors(rows, self.source_prior, reference)
            ratios = measure_ratios(posterior, labels, reference)
        self._options = TrackingOptions(reference, self.half_life, self.false_alarm_rate, ratios)
        self._state = TrackerState.start(reference if prior is None else prior)

    def _calibrated(self, samples: Validation[Vector]) -> Validation[Vector]:
        """Return the calibrated rows by which ratios are measured, and their labels.

        A calibration that the tracker fits is fitted to every second label, and the others measure.
        """
        rows = samples.rows.astype(np.float64)
        check_label_counts(samples.labels, 3 if self._fits_calibration else 2)
        if not self._fits_calibration:
            return Validation(rows, samples.labels)
        fits = every_second_label(samples.labels)
        if self._calibration is None:
            half = Validation(rows[fits], samples.labels[fits])
            self._calibration = fit_calibration(half, self.source_prior)
        return Validation(self._calibration(rows[~fits]), samples.labels[~fits])

    def _log_scores(self, scores: Any) -> Vector:
        rows = read_log_scores(
            scores,
            self.source_prior.size,
            kind=self.kind,
            class_axis=self.class_axis,
            calibration=self._calibration,
        )
        return rows.astype(np.float64, copy=False)


def _ratio_fields(ratios: MeanRatios) -> dict[str, Any]:
    return {"mean": ratios.mean.tolist(), "covariance": ratios.covariance.tolist()}


def _check_rate(value: Any) -> float:
    rate = check_finite_number("false_alarm_rate", value, positive=True, hint="Pass 1e-6.")
    if rate >= 1:
        raise OptionError(
            argument="false_alarm_rate",
            rule="must be below 1: it is a chance per sample",
            got=f"{rate:g}",
            remedy="Pass for example 1e-6.",
        )
    return rate
