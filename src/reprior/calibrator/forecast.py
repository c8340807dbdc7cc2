r"""What a calibrator is expected to do on unlabelled scores, before and after its correction.

Under label shift, P(x|y) and so P(predicted|y) stay what they were on labelled data, and only the
class mix P_t(y) is another one. The mix is estimated from the predictions on the unlabelled scores
by black-box shift estimation [1]_, and the labelled counts are re-weighted to it:

.. math:: \hat M_{ij} = P(\text{predicted } j \mid y = i), \qquad
    \hat P_t = \arg\operatorname{solve}_p \; \hat M^\top p = \hat μ, \qquad
    N_{ij} = \hat P_t(i)\, \hat M_{ij}

with μ the frequencies of the predictions there. A metric of the counts N is its forecast.

**Intervals** are percentiles of a joint bootstrap: the labelled samples are drawn again within each
class, the predictions on the unlabelled scores among all. The decisions before and after are made
for the same labelled samples; as only their two matrices are kept, as many samples as possible are
taken to be decided alike by both.

References
----------
.. [1] Lipton, Wang, Smola. "Detecting and Correcting for Label Shift with Black Box Predictors",
   ICML 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reprior._warnings import warn
from reprior.core.arrays import to_numpy
from reprior.core.checks import check_finite_number
from reprior.core.shift.moments import Moments, bbse, clipped_prior, conditioning
from reprior.core.shift.predictions import HardPredictions, is_empty_batch, read_validation
from reprior.core.shift.report import SAMPLES_PER_CLASS, SHOWN_CLASSES, conditioning_warning
from reprior.exceptions import LabelsError, OptionError, PriorError, ScoresError, Words
from reprior.metrics.count_metrics import Agreement, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts

if TYPE_CHECKING:
    from reprior.calibrator.posterior import PosteriorCalibrator

__all__ = [
    "MOST_CONFUSED",
    "Confusions",
    "Forecast",
    "confusion_table",
    "forecast_mix",
    "forecast_scores",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Classes up to which a calibrator keeps its confusion matrices.
MOST_CONFUSED = 256

#: Bootstrap replicates.
REPLICATES = 500

#: Entries of the matrices of a group of replicates: 32 MB.
GROUP_ENTRIES = 1 << 22


class Confusions(NamedTuple):
    """Counts (K, K) of labelled samples, by class and decision, before and after correction."""

    before: Vector
    after: Vector


@dataclass(frozen=True, eq=False)
class Forecast:
    """The expected metric where scores have no labels, by :meth:`PosteriorCalibrator.forecast`.

    It holds under label shift: classes look as they did in tuning, and only their mix has changed.

    Attributes
    ----------
    metric : str
        The metric.
    before, after : float
        Its expected value for the model as it is, and for the calibrator.
    before_interval, after_interval : (float, float)
        Intervals for the population that the samples were drawn from, independently.
    target_prior : ndarray of shape (K,)
        The estimated class mix.
    confidence : float
        The confidence of the intervals.
    advice : str
        Whether to :meth:`~PosteriorCalibrator.retarget`, as a sentence.
    """

    metric: str
    before: float
    after: float
    before_interval: tuple[float, float]
    after_interval: tuple[float, float]
    target_prior: Vector
    confidence: float = 0.9
    advice: str = ""

    def summary(self, classes: Sequence[Any] | None = None) -> str:
        """Return the forecast as text.

        Parameters
        ----------
        classes : sequence of length K, optional
            Names of the classes. By default, their indices.
        """
        names = [
            str(name) for name in (range(self.target_prior.size) if classes is None else classes)
        ]
        share = f"{100 * self.confidence:g} % interval"
        lines = [f"{'expected ' + self.metric:<28}{'':>8}   {share}"]
        for when, value, (low, high) in (
            ("before", self.before, self.before_interval),
            ("after", self.after, self.after_interval),
        ):
            lines.append(f"  {when:<26}{value:>8.4f}   {low:.4f} to {high:.4f}")
        order = np.sort(np.argsort(-self.target_prior, kind="stable")[:SHOWN_CLASSES])
        mix = ", ".join(f"{names[k]} {self.target_prior[k]:.3f}" for k in order)
        rest = "" if order.size == len(names) else ", …"
        return "\n".join([*lines, f"class mix there: {mix}{rest}", f"retarget? {self.advice}"])


def forecast_scores(
    calibrator: PosteriorCalibrator,
    scores: Any,
    metric: str | CountMetric,
    *,
    confidence: float,
    validation: Any,
    seed: int,
) -> Forecast:
    """Return the forecast for unlabelled scores; the arguments are those of the method."""
    found, level = _checked(calibrator, metric, confidence)
    confusions = _confusions(calibrator, validation)
    decided = _decisions(calibrator, scores)
    n_classes = calibrator.source_prior_.size
    n = int(decided[0].size)
    if n < SAMPLES_PER_CLASS * n_classes:
        raise ScoresError(
            argument="scores",
            rule=f"must hold at least {SAMPLES_PER_CLASS} samples per class, "
            f"{SAMPLES_PER_CLASS * n_classes}, for a class mix that is more than noise",
            got=f"{n} samples",
            remedy="Gather more scores.",
        )
    which = _better(confusions)
    predicted = np.bincount(decided[which], minlength=n_classes)
    used = confusions[which]
    prior = _solved(used, predicted)
    labels = np.repeat(np.arange(n_classes), used.sum(axis=1))
    columns = np.tile(np.arange(n_classes), n_classes)
    predictions = HardPredictions(np.repeat(columns, used.reshape(-1)), n_classes)
    text = conditioning_warning(conditioning(predictions, labels, _rates(used).T))
    if text:
        warn(text)
    rng = np.random.default_rng(seed)
    return _forecast(calibrator, found, confusions, which, predicted, prior, level, rng)


def forecast_mix(
    calibrator: PosteriorCalibrator,
    prior: Vector,
    n_samples: float,
    metric: str | CountMetric,
    *,
    confidence: float,
    seed: int,
) -> Forecast:
    """Return the forecast for a class mix that is known as well as so many predictions tell."""
    found, level = _checked(calibrator, metric, confidence)
    confusions = _confusions(calibrator, None)
    which = _better(confusions)
    predicted = n_samples * (prior @ _rates(confusions[which]))
    rng = np.random.default_rng(seed)
    return _forecast(calibrator, found, confusions, which, predicted, prior, level, rng)


# --------------------------------------------------------------------------------------- checks


def _checked(
    calibrator: PosteriorCalibrator, metric: str | CountMetric, confidence: float
) -> tuple[CountMetric, float]:
    """Return the metric and the confidence; refuse what no forecast is for."""
    level = check_finite_number("confidence", confidence, positive=True, hint="Pass 0.9.")
    if level >= 1:
        raise OptionError(
            argument="confidence",
            rule="must be below 1",
            got=f"{level:g}",
            remedy="Pass 0.9 for intervals of 90 %.",
        )
    if not isinstance(metric, str | CountMetric):
        raise OptionError(
            argument="metric",
            rule="must be a name or a CountMetric",
            got=type(metric).__name__,
            remedy="Pass for example 'accuracy'; labelled scores go into "
            "validation=(scores, labels).",
        )
    names = calibrator.classes_.tolist()
    found = find_metric(metric, n_classes=len(names), classes=names)
    if type(found) not in (CountMetric, Agreement):
        raise OptionError(
            argument="metric",
            rule="must be one of the counts per class",
            got=f"{found.name!r}, which needs more than these",
            remedy="Pass for example 'accuracy', 'macro_f1' or 'cohen_kappa'.",
        )
    if not calibrator.target_prior_.all():
        raise PriorError(
            argument="target_prior",
            rule="must be positive for every class, to forecast",
            got="a class of 0, about which the calibrator decides nothing",
            remedy="Fit without the class.",
        )
    return found, level


def _confusions(calibrator: PosteriorCalibrator, validation: Any) -> Confusions:
    """Return the confusion matrices of validation samples, or of the tuning data."""
    n_classes = calibrator.source_prior_.size
    if validation is not None:
        samples = read_validation(
            validation,
            n_classes,
            lambda scores: np.stack(_decisions(calibrator, scores), axis=1),
            class_axis=calibrator.class_axis,
            ignore_index=calibrator.ignore_index,
        )
        return Confusions(
            *(confusion_table(samples.labels, decided, n_classes) for decided in samples.rows.T)
        )
    confusions = calibrator._confusions
    if confusions is None:
        raise OptionError(
            argument="validation",
            rule="must be given: this calibrator holds no confusion matrices of its tuning data",
            got="None",
            remedy=[
                "Pass labelled scores as ",
                Words("validation=(scores, labels)", "--validation FILE"),
                ". They are kept by a fit without sample weights and bins, with at most "
                f"{MOST_CONFUSED} classes, and not after retarget.",
            ],
        )
    support = confusions.before.sum(axis=1)
    if not support.all():
        raise LabelsError(
            argument="validation",
            rule="must be given, as the tuning data have no labels of some class: how a class is "
            "seen is learnt from them",
            got=f"none of class {calibrator.classes_.tolist()[int(np.argmin(support))]!r}",
            remedy="Pass labelled scores of every class.",
        )
    return confusions


def _decisions(calibrator: PosteriorCalibrator, scores: Any) -> tuple[Vector, Vector]:
    """Return the decided classes (N,) of the model as it is, and of the calibrator."""
    if is_empty_batch(scores, calibrator.source_prior_.size, calibrator.class_axis):
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    before = to_numpy(calibrator.uncorrected()._decided(scores)).reshape(-1)
    return before, to_numpy(calibrator._decided(scores)).reshape(-1)


# -------------------------------------------------------------------------------------- numbers


def confusion_table(labels: Vector, decided: Vector, n_classes: int) -> Vector:
    """Return the counts [true, decided]."""
    flat = np.bincount(labels * n_classes + decided, minlength=n_classes**2)
    return flat.reshape(n_classes, n_classes)


def _rates(table: Vector) -> Vector:
    """Return P(decided|true), a row per class."""
    rates: Vector = table / table.sum(axis=-1, keepdims=True)
    return rates


def _better(confusions: Confusions) -> int:
    """Return which of the matrices tells the classes apart better: 0 before, 1 after."""
    smallest = [np.linalg.svd(_rates(each), compute_uv=False)[-1] for each in confusions]
    return int(smallest[1] >= smallest[0])


def _solved(table: Vector, predicted: Vector) -> Vector:
    """Return the class mix that explains the predictions."""
    support = table.sum(axis=1)
    source = support / support.sum()
    moments = Moments(predicted / predicted.sum(), _rates(table).T, int(support.sum()))
    return clipped_prior(bbse(moments, source), source)


def _expected(metric: CountMetric, rates: Vector, prior: Vector) -> float:
    """Return the metric of the counts that are expected under a mix; NaN where it is not defined.

    A class without samples has no recall in counts, but it keeps the one it has.
    """
    if does_not_move(metric):
        prior = np.full(prior.size, 1.0 / prior.size)
    elif metric.average == "one" and not metric.complement and prior[metric.of_class] == 0:
        return float("nan")
    return metric(ClassCounts(prior * np.diagonal(rates), prior @ rates, prior))


def _forecast(
    calibrator: PosteriorCalibrator,
    metric: CountMetric,
    confusions: Confusions,
    which: int,
    predicted: Vector,
    prior: Vector,
    confidence: float,
    rng: np.random.Generator,
) -> Forecast:
    """Return the forecast for a mix and what is predicted under it, with intervals."""
    expected = [_expected(metric, _rates(each), prior) for each in confusions]
    if np.isnan(expected).any():
        raise OptionError(
            argument="metric",
            rule="must be about classes that the estimated mix contains",
            got=f"{metric.name!r}, and an estimated share of 0",
            remedy="Forecast its recall, or a metric of all classes.",
        )
    drawn_priors = []
    values: list[list[float]] = [[], []]
    support = confusions.before.sum(axis=1)
    source = support / support.sum()
    n = max(1, round(float(predicted.sum())))
    frequencies = predicted / predicted.sum()
    group = max(1, GROUP_ENTRIES // source.size**2)
    for start in range(0, REPLICATES, group):
        size = min(group, REPLICATES - start)
        tables = _drawn(confusions, size, rng)
        rates = [_rates(each) for each in tables]
        seen = rng.multinomial(n, frequencies, size=size) / n
        moments = Moments(seen, np.swapaxes(rates[which], -1, -2), int(support.sum()))
        priors = clipped_prior(bbse(moments, source), source)
        drawn_priors.append(priors)
        for of_map, each in zip(values, rates, strict=True):
            of_map += [
                _expected(metric, matrix, mix) for matrix, mix in zip(each, priors, strict=True)
            ]
    ends = [0.5 - confidence / 2, 0.5 + confidence / 2]
    intervals = [np.nanquantile(of_map, ends).tolist() for of_map in values]
    return Forecast(
        metric=metric.name,
        before=expected[0],
        after=expected[1],
        before_interval=(intervals[0][0], intervals[0][1]),
        after_interval=(intervals[1][0], intervals[1][1]),
        target_prior=prior,
        confidence=confidence,
        advice=_advice(calibrator, metric, prior, np.concatenate(drawn_priors), confidence),
    )


def _drawn(confusions: Confusions, size: int, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Draw the labelled samples of every class again, (size, K, K) before and after.

    As many samples as possible are decided alike by both maps, as nearly all are.
    """
    alike = np.minimum(confusions.before, confusions.after)
    support = confusions.before.sum(axis=1)
    moved = support - alike.sum(axis=1)
    shares = np.concatenate([alike, moved[:, None]], axis=1) / support[:, None]
    stays = rng.multinomial(support, shares, size=(size, support.size))
    drawn = []
    for table in confusions:
        rest = table - alike
        # A class of which no sample moves draws 0 of them, from whatever shares.
        rest = np.where(moved[:, None] > 0, rest, np.eye(support.size, dtype=rest.dtype))
        rates = rest / rest.sum(axis=1, keepdims=True)
        drawn.append(stays[..., :-1] + rng.multinomial(stays[..., -1], rates))
    return drawn[0], drawn[1]


# --------------------------------------------------------------------------------------- advice


def does_not_move(metric: CountMetric) -> bool:
    """Whether a metric is a function of the recalls, which label shift leaves alone."""
    own = metric.average in ("labelled", "one", "seen") and type(metric) is CountMetric
    return own and metric.form == (1.0, 1.0, 0.0, 0.0) and not metric.complement


def _advice(
    calibrator: PosteriorCalibrator,
    metric: CountMetric,
    prior: Vector,
    drawn: Vector,
    confidence: float,
) -> str:
    """Return whether to retarget, in a sentence."""
    if does_not_move(metric):
        return (
            f"No: {metric.name} does not move under label shift, because the recall of each class "
            f"stays what it is."
        )
    target = calibrator.target_prior_
    apart = 0.5 * float(np.abs(prior - target).sum())
    noise = float(np.quantile(0.5 * np.abs(drawn - prior).sum(axis=1), confidence))
    if apart <= noise:
        return (
            f"No: the class mix differs from the target prior by {apart:.1%} of the samples, which "
            f"is within the noise of {noise:.1%}."
        )
    differs = (
        f"the class mix differs from the target prior by {apart:.1%} of the samples, more than the "
        f"noise of {noise:.1%}"
    )
    if calibrator._decision.plain and calibrator.strength_ == 0.0:
        return f"No: {differs}, but at strength 0 the model stays as it is for any target prior."
    own = _balanced_metric(calibrator)
    if own:
        return (
            f"Only for accuracy: {differs}. retarget(forecast.target_prior) decides for the mix "
            f"there, which serves accuracy on this mix only and costs {own}, which the calibrator "
            f"is tuned for, with a uniform target prior."
        )
    if metric.average == "pooled":
        return f"Yes: {differs}. retarget(forecast.target_prior) decides for the mix there."
    return (
        f"Perhaps: {differs}. retarget(forecast.target_prior) decides for the mix there, which "
        f"serves accuracy; whether it serves {metric.name}, labelled samples of that mix tell."
    )


def _balanced_metric(calibrator: PosteriorCalibrator) -> str:
    """Return the metric of the recalls that a calibrator of uniform target is tuned for, or ""."""
    target = calibrator.target_prior_
    own = calibrator.metric
    if isinstance(own, str):
        if own == "log_loss":
            return ""
        names = calibrator.classes_.tolist()
        groups = calibrator.class_groups
        try:
            own = find_metric(own, n_classes=len(names), classes=names, class_groups=groups)
        except OptionError:  # a file keeps only the name of a function
            return ""
    balanced = own.average == "labelled" and does_not_move(own)
    return own.name if balanced and np.allclose(target, 1.0 / target.size) else ""
