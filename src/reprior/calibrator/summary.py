"""The text summary of a fitted calibrator, and what any tuned model costs other metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reprior import _html
from reprior.core.rebalance import strength_text
from reprior.metrics.count_metrics import COUNT_METRICS, CountMetric, find_metric
from reprior.metrics.counts import ClassCounts
from reprior.profile.certificates import certifiable
from reprior.profile.objective import Constraint
from reprior.tuning.problem import DEFAULT_SELECTION

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.core.score_map import ScoreMap
    from reprior.fusion import Blend

__all__ = [
    "CorrectedModel",
    "TunedModel",
    "change_tables",
    "cost_line",
    "cost_sentence",
    "counted_metrics",
    "has_other_mix",
    "limiting_rules",
    "map_lines",
    "metric_losses",
    "metric_name",
    "price_of_promise",
    "promise_lines",
    "promise_sentence",
    "summary_html",
    "summary_text",
    "trust_lines",
    "tuned_for",
]

LISTED = 3
"""Classes that gain most, and that lose most, in an HTML view."""

ERRORS = ("log_loss",)
"""Rows of which less is better."""

SHOWN = 6
"""Entries of a vector that are shown."""

NOTICEABLE_LOSS = 0.02
"""A metric that loses more than this is named, with a rule that limits the loss to this."""

NOTICEABLE_SHIFT = 0.1
"""Two class mixes whose total variation distance is larger are not the same."""


class TunedModel(Protocol):
    """A fitted calibrator, fusion or blend: what was tuned, by which rules, for which classes."""

    @property
    def metric(self) -> str | CountMetric:
        """The metric that was tuned."""

    @property
    def subject_to(self) -> Any:
        """The constraints, as text or parsed; None where there are none."""

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The classes in the order of the scores."""


class CorrectedModel(TunedModel, Protocol):
    """A tuned model with a corrected prior."""

    @property
    def target_prior_(self) -> np.ndarray[Any, Any]:
        """The class distribution to decide for."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The strengths to search."""


def found_metric(model: TunedModel, metric: str | CountMetric | None = None) -> CountMetric:
    """Return the tuned metric of a model, or another one by its names of classes and groups."""
    names = model.classes_.tolist()
    return find_metric(
        model.metric if metric is None else metric,
        n_classes=len(names),
        classes=names,
        class_groups=getattr(model, "class_groups", None),
    )


def metric_name(metric: str | CountMetric) -> str:
    """Return the name of a metric."""
    return metric.name if isinstance(metric, CountMetric) else metric


def summary_text(calibrator: PosteriorCalibrator) -> str:
    """Return the maps, how they were tuned, and the metrics before and after."""
    lines = [*map_lines(calibrator), f"tuned for    {tuned_for(calibrator)}"]
    rules = [rule.text for rule in Constraint.parse_all(calibrator.subject_to)]
    if rules:
        lines.append(f"subject to   {', '.join(rules)}")
    if calibrator._model:
        lines.append(f"before       {calibrator._model}")
    lines += promise_lines(calibrator)
    profile = calibrator.profile_
    if profile is None:
        return "\n".join([*lines, "(loaded or retargeted: no tuning data at hand)"])
    lines += [
        f"tuned on     {profile.n_samples} samples of {profile.n_classes} classes",
        *trust_lines(calibrator),
        "",
        f"{'on the tuning labels':<22}{'before':>9}{'after':>9}{'change':>9}",
    ]
    shown = {}
    if calibrator.counts_ is not None:
        shown = counted_metrics(calibrator, profile.baseline, calibrator.counts_)
    if calibrator.log_loss_ is not None:
        shown["log_loss (target mix)"] = calibrator.log_loss_
    for label, (before, after) in shown.items():
        lines.append(f"{label:<22}{before:>9.4f}{after:>9.4f}{after - before:>+9.4f}")
    if calibrator.counts_ is not None:
        lines += cost_line(calibrator, profile.baseline, calibrator.counts_)
    return "\n".join(lines)


def promise_sentence(calibrator: PosteriorCalibrator) -> str:
    """Return what is promised on new data, and on which assumption; "" where nothing is."""
    if not calibrator.certified_ or calibrator.certify is None:
        return ""
    rules = Constraint.parse_all(calibrator.subject_to)
    each = "each " if len(rules) > 1 else ""
    return (
        f"{' and '.join(rule.text for rule in rules)}: {each}with a probability of "
        f"{100 * calibrator.certify:g} % on new data of the tuning mix, if samples are drawn "
        f"independently"
    )


def price_of_promise(calibrator: PosteriorCalibrator) -> str:
    """Return what the promise costs on the tuning labels; "" where that is not known."""
    profile = calibrator.profile_
    if not calibrator.certified_ or profile is None:
        return ""
    metric = found_metric(calibrator)
    rules = [
        replace(rule, metric=found_metric(calibrator, rule.metric))
        for rule in Constraint.parse_all(calibrator.subject_to, metric)
    ]
    best = profile.best(metric, subject_to=rules)
    strength = strength_text(best.strength)
    return (
        f"{abs(best.value - calibrator.best_score_):.4f} of {metric.name} on the tuning labels: "
        f"{best.value:.4f} at strength {strength} keeps them there, without a promise"
    )


def promise_lines(calibrator: PosteriorCalibrator) -> list[str]:
    """Return lines on what is promised and what it costs, if anything is."""
    said = {"promised": promise_sentence(calibrator), "it costs": price_of_promise(calibrator)}
    return [f"{name:<13}{sentence}" for name, sentence in said.items() if sentence]


def summary_html(calibrator: PosteriorCalibrator) -> str:
    """Return the summary as an HTML view, with a curve and the classes that change most."""
    title = type(calibrator).__name__
    if not hasattr(calibrator, "strength_"):
        return _html.view(
            title, _html.facts({"Tuned for": metric_name(calibrator.metric)}), "<p>Not fitted.</p>"
        )
    profile = calibrator.profile_
    rules = [rule.text for rule in Constraint.parse_all(calibrator.subject_to)]
    shown = {
        "Strength λ": _strength_and_ties(calibrator),
        "Tuned for": tuned_for(calibrator),
        "Subject to": ", ".join(rules),
        "Before": calibrator._model,
        "Promised": promise_sentence(calibrator),
        "The promise costs": price_of_promise(calibrator),
        "Temperature": f"{calibrator.temperature_:.4f}" if calibrator.temperature_ != 1.0 else "",
        "Per class": _vectors_in_words(calibrator._decision),
        "Probabilities": "" if calibrator.probability_map_ is None else "by a map of their own",
    }
    if profile is None:
        note = "<p>Loaded or retargeted: no tuning data at hand.</p>"
        return _html.view(title, _html.facts(shown), note)
    shown["Tuned on"] = f"{profile.n_samples:,} samples of {profile.n_classes:,} classes"
    heading = ""
    for line in trust_lines(calibrator):
        heading = line[:13].strip().capitalize() or heading
        shown[heading] = "; ".join(filter(None, [shown.get(heading, ""), line[13:].strip()]))
    parts = [_html.facts(shown)]
    if calibrator.counts_ is None:
        return _html.view(title, *parts)
    before, after = profile.baseline, calibrator.counts_
    if not is_log_loss_metric(calibrator.metric) and calibrator._decision.biases is None:
        parts.append(_strength_curve(calibrator, after))
    metrics = counted_metrics(calibrator, before, after)
    if calibrator.log_loss_ is not None:
        metrics["log_loss (target mix)"] = calibrator.log_loss_
    return _html.view(title, *parts, *change_tables(calibrator, metrics, before, after))


def change_tables(
    model: TunedModel,
    metrics: dict[str, tuple[float, float]],
    before: ClassCounts,
    after: ClassCounts,
) -> list[str]:
    """Return HTML tables of the metrics, and of the classes whose recall changes most."""
    heads = ("before", "after", "change")
    rows = _html.metric_rows(metrics, ERRORS)
    tables = [_html.table(("on the tuning labels", *heads), rows)]
    changes = class_change_rows(model.classes_.tolist(), before, after)
    if changes:
        first = "recall of the classes that change most"
        tables.append(_html.table((first, "labels", *heads), changes))
    return tables


def is_log_loss_metric(metric: str | CountMetric) -> bool:
    """Whether the strength was fitted by log-loss, so that there is no curve of a count metric."""
    return metric_name(metric) == "log_loss"


def class_change_rows(names: list[Any], before: ClassCounts, after: ClassCounts) -> list[Any]:
    """Return rows of the classes whose recall gains most, then of those that lose most."""
    recall = COUNT_METRICS["macro_recall"]
    old, new = recall.per_class(before), recall.per_class(after)
    change = np.nan_to_num(new - old)
    order = np.argsort(-change, kind="stable")
    up = [k for k in order[:LISTED] if change[k] > 0]
    down = [k for k in order[-LISTED:] if change[k] < 0]
    return [
        (
            names[k],
            f"{before.support[k]:,.6g}",
            f"{old[k]:.4f}",
            f"{new[k]:.4f}",
            _html.Change(float(change[k])),
        )
        for k in (*up, *down)
    ]


def _strength_and_ties(calibrator: PosteriorCalibrator) -> str:
    low, high = calibrator.strength_interval_
    n_digits = digits_apart(low, high)
    ties = f" (ties: {low:.{n_digits}f} to {high:.{n_digits}f})" if low < high else ""
    return strength_text(calibrator.strength_) + ties


def _vectors_in_words(score_map: ScoreMap) -> str:
    held = {"a bias": score_map.biases, "a scale": score_map.scales}
    return " and ".join(words for words, vector in held.items() if vector is not None)


def _strength_curve(calibrator: PosteriorCalibrator, after: ClassCounts) -> str:
    profile, name = calibrator.profile_, metric_name(calibrator.metric)
    assert profile is not None  # noqa: S101 - the caller has one
    metric = find_metric(
        calibrator.metric, n_classes=profile.n_classes, classes=calibrator.classes_.tolist()
    )
    x, y = profile.curve(metric)
    high = profile.bounds[1]
    known = calibrator.uncertainty_
    band = calibrator.strength_interval_ if known is None else known.strength_interval
    return _html.curve(
        np.append(x, high),
        np.append(y, y[-1]),
        labels=("strength λ", name),
        band=band,
        mark=(calibrator.strength_, metric(after)),
    )


def tuned_for(calibrator: PosteriorCalibrator | Blend) -> str:
    """Return the metric, and how its strength was selected if not by the default rule."""
    rule = calibrator.selection
    lost = " (a function of Python, which no file holds)" if calibrator._lost_function else ""
    return (
        metric_name(calibrator.metric)
        + lost
        + ("" if rule == DEFAULT_SELECTION else f", by {rule}")
    )


def counted_metrics(
    model: TunedModel, before: ClassCounts, after: ClassCounts
) -> dict[str, tuple[float, float]]:
    """Return every count metric before and after, the tuned one among them."""
    # macro_recall is balanced_accuracy.
    shown = {name: each for name, each in COUNT_METRICS.items() if name != "macro_recall"}
    if metric_name(model.metric) != "log_loss":
        tuned = found_metric(model)
        shown.setdefault(tuned.name, tuned)
    return {name: (each(before), each(after)) for name, each in shown.items()}


def metric_losses(
    model: TunedModel, before: ClassCounts, after: ClassCounts
) -> dict[str, tuple[float, float]]:
    """Return the metrics that lose noticeably by tuning another one, before and after.

    Metrics that ``subject_to`` limits are left out: their loss is agreed.
    """
    rules = Constraint.parse_all(model.subject_to, model.metric)
    agreed = {
        found_metric(model, metric).name
        for metric in (model.metric, *(rule.metric for rule in rules))
        if metric_name(metric) != "log_loss"
    }
    return {
        name: (old, new)
        for name, (old, new) in counted_metrics(model, before, after).items()
        if name not in agreed and old - new > NOTICEABLE_LOSS
    }


def has_other_mix(calibrator: PosteriorCalibrator, counts: ClassCounts) -> bool:
    """Whether the class mix of labels differs noticeably from the target prior.

    The difference is the total variation distance, half the sum of absolute differences.
    """
    support = np.asarray(counts.support, dtype=np.float64)
    distance = np.abs(support / support.sum() - calibrator.target_prior_).sum() / 2
    return bool(distance > NOTICEABLE_SHIFT)


def limiting_rules(model: CorrectedModel, losses: Iterable[str]) -> list[str]:
    """Return a rule for ``subject_to`` per loss; none where they may not hold or be given.

    The uncorrected model satisfies them all, so the bounds must contain its strength, 0.
    """
    low, high = model.bounds
    has_baseline = low <= 0.0 <= high and bool(model.target_prior_.all())
    if metric_name(model.metric) == "log_loss" or not has_baseline:
        return []
    rules = [f"{name} >= baseline - {NOTICEABLE_LOSS:g}" for name in losses]
    if getattr(model, "certify", None) is None:
        return rules
    parsed = Constraint.parse_all(rules)
    known = [replace(rule, metric=found_metric(model, rule.metric)) for rule in parsed]
    return [rule.text for rule in known if certifiable(rule)]


def cost_sentence(
    model: TunedModel, losses: dict[str, tuple[float, float]], option: str | None
) -> str:
    """Return a sentence on what other metrics lose, and which ``option`` limits the loss."""
    lost = ", ".join(f"{name} {old:.3f} → {new:.3f}" for name, (old, new) in losses.items())
    limit = "" if option is None else f"; to limit that, pass {option}"
    return f"tuning for {metric_name(model.metric)} costs: {lost}{limit}"


def cost_line(model: CorrectedModel, before: ClassCounts, after: ClassCounts) -> list[str]:
    """Return an empty line and the cost with a ``subject_to`` to copy, if metrics lose."""
    losses = metric_losses(model, before, after)
    if not losses:
        return []
    rules = limiting_rules(model, losses)
    given = Constraint.parse_all(model.subject_to)
    option = f"subject_to={[*(rule.text for rule in given), *rules]!r}" if rules else None
    if option and not all(isinstance(rule.metric, str) for rule in given):
        option = f"{rules!r} in subject_to as well"  # metrics without a name cannot be written
    return ["", cost_sentence(model, losses, option)]


def map_lines(
    calibrator: PosteriorCalibrator, equal: str = "  (ties: {low} to {high})"
) -> list[str]:
    """Return lines on the map of the scores, or on the two maps for decisions and probabilities.

    ``equal`` is the format of the interval of strengths that do equally well.
    """
    low, high = calibrator.strength_interval_
    n_digits = digits_apart(low, high)
    width = single_bin_width(calibrator)
    if width is not None:
        equal = f", the best of a grid of {width:g}"
    else:
        equal = (
            equal.format(low=f"{low:.{n_digits}f}", high=f"{high:.{n_digits}f}")
            if low < high
            else ""
        )
    decision = calibrator._decision
    probability = calibrator.probability_map_
    lines = [
        f"strength     {decision.strength:.{n_digits}f}{equal}",
        f"temperature  {decision.temperature:.4f}",
        *_vector_lines(decision, calibrator.shrinkage_),
    ]
    if probability is None:
        return lines
    return [
        "map for decisions, used by predict:",
        *(f"  {line}" for line in lines),
        "map for probabilities, used by predict_proba:",
        f"  strength     {probability.strength:.4f}",
        f"  temperature  {probability.temperature:.4f}",
        *(f"  {line}" for line in _vector_lines(probability, None)),
    ]


def single_bin_width(calibrator: PosteriorCalibrator) -> float | None:
    """Return the width of the bins, where the best strength is one point of their grid.

    Nothing is known of strengths inside of a bin. None where several points are equally good, or
    where the profile is not binned.
    """
    low, high = calibrator.strength_interval_
    width = None if calibrator.profile_ is None else calibrator.profile_.resolution
    is_single = width is not None and calibrator.strength_ == low and high - low < 1.5 * width
    return width if is_single else None


def digits_apart(low: float, high: float) -> int:
    """Return how many digits separate the ends of an interval: four, or up to ten if it is narrow.

    Examples
    --------
    >>> digits_apart(0.5, 0.7), digits_apart(0.59501, 0.595018), digits_apart(0.5, 0.5)
    (4, 5, 4)
    """
    separating = (n for n in range(4, 11) if f"{low:.{n}f}" != f"{high:.{n}f}")
    return next(separating, 10 if low < high else 4)


def trust_lines(calibrator: Any) -> list[str]:
    """Return lines on the cross-validated score and on the intervals, if there are any."""
    lines = []
    name = metric_name(calibrator.metric)
    folds = calibrator.cross_validation_
    uncertainty = calibrator.uncertainty_
    if folds is not None:
        lines.append(
            f"held out     {name} {folds.score:.4f}, {folds.baseline_score:.4f} before: "
            f"cross-validated"
        )
    if uncertainty is not None:
        share = f"{uncertainty.confidence:.0%}"
        lines += [
            f"{share} sure     strength {_range(uncertainty.strength_interval)}",
            f"             {name} {_range(uncertainty.value_interval)} on other samples",
            f"             gain {_range(uncertainty.gain_interval, '+.4f')}",
        ]
    return lines


def _vector_lines(score_map: ScoreMap, shrinkage: float | None) -> list[str]:
    lines = []
    if score_map.biases is not None:
        shrinkage_text = "" if shrinkage is None else f"  (shrinkage {shrinkage:g})"
        lines.append(f"biases       {_few(score_map.biases)}{shrinkage_text}")
    if score_map.scales is not None:
        lines.append(f"scales       {_few(score_map.scales)}")
    return lines


def _few(values: Any) -> str:
    shown = ", ".join(f"{value:.3g}" for value in values[:SHOWN].tolist())
    return shown + (", …" if values.size > SHOWN else "")


def _range(ends: tuple[float, float], format_spec: str = ".4f") -> str:
    return f"{ends[0]:{format_spec}} to {ends[1]:{format_spec}}"
