r"""Constraints that are promised: strengths at which they hold on new data, by Learn-then-Test.

Every strength of a fixed grid is a hypothesis, "the constraint is broken there", with a p-value
from the tuning labels. Testing in an order that does not depend on the labels, up to the first
hypothesis that is not rejected, keeps the chance of any false rejection below the level [1]_: with
probability ``certify``, over the draw of the tuning labels, the constraint holds at *every*
strength that passes, and so at the one that is chosen among them.

The order may depend on the predictions: for the precision of the class of the largest slope,
strengths at which the test would fail even if all samples predicted as it were right are left out.

**Numbers.** Each sample that counts is right or wrong, so the count of right ones is binomial:

==================  ======================================  ========================
metric              right                                   of
==================  ======================================  ========================
``accuracy``        Σ TP                                    all samples
``recall[k]``       TP                                      S, given
``specificity[k]``  N − S − P + TP                          N − S, given
``precision[k]``    TP                                      P, given
``iou[k]``          TP                                      S + P − TP, given
``f1[k] ≥ a``       as ``iou[k] ≥ a / (2 − a)``
``worst_recall``    as ``recall[k]`` of every class: the largest p-value
==================  ======================================  ========================

**The baseline.** ``metric >= baseline − c`` compares two decisions on the same samples. Where it is
broken by a hair, losses (right at 0, wrong at λ) are as frequent as gains, but for an excess that
hits each sample with probability c. With probability 1 − β the excess is at least w, the β-quantile
of Bin(n, c); without it each change is a gain with probability ½ at most. So

.. math:: p = β + P\bigl(\mathrm{Bin}(g + l - w,\, ½) \geq g\bigr)

with g gains and l losses. A sample that becomes right and then wrong again is one gain and one
loss more, which makes p larger. For ``f·baseline`` the excess is c = (1 − f)·B + offset, with a
lower confidence bound in place of the baseline B.

References
----------
.. [1] Angelopoulos, Bates, Candès, Jordan, Lei. "Learn then Test: Calibrating Predictive Algorithms
   to Achieve Risk Control", Annals of Applied Statistics 19, 2025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from reprior.core.binomial import binomial_tail, certain_count, rate_bound, trials_needed
from reprior.core.checks import check_finite_number
from reprior.exceptions import Argument, InfeasibleError, OptionError, Setting
from reprior.metrics.count_metrics import CountMetric
from reprior.profile.binning import BinnedSwitches
from reprior.profile.constants import AFTER_ZERO, EQUAL_VALUES, shown_bound
from reprior.profile.objective import Best, Constraint, best_of_steps
from reprior.profile.passes import Table
from reprior.profile.samples import ruled_out
from reprior.profile.sweep import Steps
from reprior.profile.switches import SWITCHES_AT_ONCE, Switches

if TYPE_CHECKING:
    from reprior.profile.profile import StrengthProfile

__all__ = [
    "POINTS_PER_UNIT",
    "best_certified",
    "certifiable",
    "check_certify",
    "paired_p_values",
    "refuse_uncertifiable",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: The grid of strengths has a step of 0.01.
POINTS_PER_UNIT = 100

#: The share of the level that each quantity besides the test may miss its bound with.
BOUND_SHARE = 0.25

#: Quotients closer to a whole number than this are one.
ROUNDING = 1e-9

#: The smallest probability of a promise: below it, the level of the test was passed.
LEAST_PROBABILITY = 0.5

RECALL = (1.0, 1.0, 0.0, 0.0)
PRECISION = (1.0, 0.0, 1.0, 0.0)
IOU = (1.0, 1.0, 1.0, -1.0)
F1 = (2.0, 1.0, 1.0, 0.0)


def check_certify(certify: Any) -> float | None:
    """Return the probability of a promise, between 0 and 1; None for none."""
    if certify is None:
        return None
    hint = "Pass 0.95, or None for constraints that hold on the tuning labels only."
    level = check_finite_number("certify", certify, positive=True, hint=hint)
    if level >= 1:
        raise OptionError(
            argument="certify",
            rule="must be a probability below 1",
            got=f"{level:g}",
            remedy="Pass 0.95: no number of labels makes a constraint certain.",
        )
    if level < LEAST_PROBABILITY:
        raise OptionError(
            argument="certify",
            rule=f"must be at least {LEAST_PROBABILITY:g}: it is the probability that the promise "
            f"holds, not that it is broken",
            got=f"{level:g}",
            remedy=f"Pass {1 - level:.6g}.",
        )
    return level


# --------------------------------------------------------------------------------- what can be


def refuse_uncertifiable(constraint: Constraint) -> None:
    """Refuse to promise a constraint whose metric, or form, has no test."""
    metric = constraint.metric
    assert isinstance(metric, CountMetric)  # noqa: S101 - resolved
    reason = _no_test(metric)
    remedy = (
        "Limit accuracy, worst_recall, or a ratio of one class: recall[k], specificity[k], "
        "precision[k], iou[k] or f1[k]."
    )
    if not reason and _is_worst_recall(metric) and constraint.relation == "<=":
        reason, remedy = "that would be a promise that some class is bad", "Write >= and a number."
    if not reason and constraint.factor:
        reason, remedy = _no_comparison(constraint, metric)
    if reason:
        raise OptionError(
            argument="subject_to",
            rule=["must be of metrics that ", Argument("certify"), " can test"],
            got=f"{constraint.text!r}: {reason}",
            remedy=[remedy, " Or leave ", Argument("certify"), " out."],
        )


def certifiable(constraint: Constraint) -> bool:
    """Whether a constraint whose metric is resolved can be promised."""
    try:
        refuse_uncertifiable(constraint)
    except OptionError:
        return False
    return True


def _no_test(metric: CountMetric) -> str:
    """Return why a metric has no exact test; "" where it has one."""
    if type(metric) is not CountMetric:
        return f"{metric.name} depends on all counts at once and is no share of samples"
    if _is_accuracy(metric) or _is_worst_recall(metric):
        return ""
    if metric.average == "one":
        if metric.form in (RECALL, PRECISION, IOU, F1):
            return ""
        return f"{metric.name} is no share of samples, nor a function of one"
    return f"{metric.name} is a mean over classes and no share of samples"


def _is_accuracy(metric: CountMetric) -> bool:
    return metric.average == "pooled" and metric.form == RECALL and not metric.complement


def _is_worst_recall(metric: CountMetric) -> bool:
    least = metric.mean == "least" and metric.average == "labelled"
    return least and metric.form == RECALL and not metric.complement and not metric.chance


def _no_comparison(constraint: Constraint, metric: CountMetric) -> tuple[str, str]:
    """Return why a comparison with the baseline cannot be promised, and the remedy; or ""."""
    if not _is_accuracy(metric) and (metric.average != "one" or metric.form != RECALL):
        return (
            f"{metric.name} before and after is of different samples, which cannot be compared "
            f"one by one",
            "Write a number in place of the baseline.",
        )
    kept = constraint.relation == ">=" and 0 < constraint.factor <= 1 and constraint.offset <= 0
    if not kept:
        return (
            "strengths are tested outward from 0, and the uncorrected model itself must keep it",
            "Write it as 'metric >= baseline - c' or 'metric >= f * baseline' with f below 1.",
        )
    return "", ""


def _refuse_profile(profile: StrengthProfile, constraints: Sequence[Constraint]) -> None:
    """Refuse profiles whose counts are not those of single samples, or not exact on the grid."""
    if profile._of_images:
        raise OptionError(
            argument="certify",
            rule="must be left out for maps and samples with images: the pixels of an image are "
            "not drawn independently",
            got=f"{profile.n_samples:,} samples of images",
            remedy="Pass one sample per image, or leave it out.",
        )
    if profile.weighted:
        raise OptionError(
            argument="sample_weight",
            rule=[
                "must be left out with ",
                Argument("certify"),
                ": the tests count samples that are drawn independently, each once",
            ],
            got="weights",
            remedy=["Leave the weights out, or ", Argument("certify"), "."],
        )
    _refuse_missing_class(profile, constraints)
    compared = [rule.text for rule in constraints if rule.factor]
    low, high = profile.bounds
    if compared and not low <= 0.0 <= high:
        ruled_out = ", as a target prior of 0 rules a class out" if low == AFTER_ZERO else ""
        raise OptionError(
            argument="bounds",
            rule=f"must contain 0 to promise {compared[0]!r}, which is about the uncorrected model",
            got=f"{'above 0' if ruled_out else f'{low:g}'} to {high:g}{ruled_out}",
            remedy="Write a number in place of the baseline.",
        )
    width = profile.resolution
    if width is None:
        return
    per_point = 1 / (width * POINTS_PER_UNIT)
    if compared or round(per_point) < 1 or abs(round(per_point) / per_point - 1) > ROUNDING:
        raise OptionError(
            argument="resolution",
            rule=[
                "must be left out to compare with the baseline"
                if compared
                else "must divide 0.01, the step of the strengths that are tested,",
                " with ",
                Argument("certify"),
            ],
            got=f"bins of {width:g}",
            remedy=["Pass ", Setting("resolution", None), ", which keeps every switch."],
        )


def _refuse_missing_class(profile: StrengthProfile, constraints: Sequence[Constraint]) -> None:
    """Refuse to promise the recall of every class where a class has no labels."""
    absent = profile._support(profile._counts) == 0
    if profile.target_prior is not None:
        absent &= ~ruled_out(profile.target_prior, profile.bounds)
    for rule in constraints:
        metric = rule.metric
        assert isinstance(metric, CountMetric)  # noqa: S101 - resolved
        missing = np.flatnonzero(absent & metric.eligible(absent.size))
        if _is_worst_recall(metric) and missing.size:
            raise OptionError(
                argument="subject_to",
                rule=[
                    "must be about classes with labels, to be promised by ",
                    Argument("certify"),
                ],
                got=f"{rule.text!r}, and no label of class {missing[0]}",
                remedy="Add labels of the class, or limit the recalls of the others, recall[k].",
            )


# --------------------------------------------------------------------------------------- counts


def _grid(bounds: tuple[float, float], resolution: float | None) -> Vector:
    """Return the multiples of 0.01 within the bounds, and on the grid of a binned profile."""
    low, high = (round(end * POINTS_PER_UNIT, 9) for end in bounds)
    first = math.ceil(low) + (bounds[0] == AFTER_ZERO)
    points = np.arange(first, math.floor(high) + 1) / POINTS_PER_UNIT
    if resolution is not None:  # the same floats as its own
        points = np.round(points / resolution) * resolution
    if not points.size:
        raise OptionError(
            argument="bounds",
            rule=["must contain a multiple of 0.01 with ", Argument("certify")],
            got=f"({bounds[0]:g}, {bounds[1]:g})",
            remedy="Widen them.",
        )
    return np.asarray(points)


class _Counts(NamedTuple):
    """Counts of every class on a grid: (G, K), and the support (K,).

    ``entered`` and ``left`` count the samples of a class that became right, and wrong, from the
    lower bound on; None where switches are summed in bins.
    """

    true_positive: Vector
    predicted: Vector
    support: Vector
    entered: Vector | None
    left: Vector | None


def _counts(profile: StrengthProfile, grid: Vector) -> _Counts:
    """Count every class at every strength of the grid."""
    switches, K = profile._switches, profile.n_classes
    won, lost, entered, left = np.zeros((4, grid.size + 1, K), np.int64)
    binned = isinstance(switches, BinnedSwitches)
    if isinstance(switches, Switches):
        for start in range(0, len(switches), SWITCHES_AT_ONCE):
            part = switches.taken(slice(start, start + SWITCHES_AT_ONCE))
            count, point = part.counts(), np.searchsorted(grid, part.position)
            for total, right, party in (
                (won, entered, part.winner),
                (lost, left, part.loser),
            ):
                np.add.at(total, (point, party), count)
                hit = part.label == party
                np.add.at(right, (point[hit], party[hit]), count[hit])
    else:
        events = switches.events
        point = np.searchsorted(grid, events.position)
        np.add.at(won, (point, events.klass), events.predicted)
        np.add.at(entered, (point, events.klass), events.true_positive)
    won, lost, entered, left = (
        np.cumsum(table[:-1], axis=0) for table in (won, lost, entered, left)
    )
    table = profile._counts
    return _Counts(
        table[Table.TRUE_POSITIVE] + entered - left,
        table[Table.PREDICTED] + won - lost,
        np.asarray(profile._support(table)),
        None if binned else entered,
        None if binned else left,
    )


# ---------------------------------------------------------------------------------------- tests

#: Indices of the grid in the order of their tests, and the level of each test.
Sequence_: TypeAlias = tuple[Vector, float]


def _passing(p_values: Vector, sequences: Sequence[Sequence_]) -> Vector:
    """Return which points pass: in each sequence those before the first that fails."""
    passed = np.zeros(p_values.size, bool)
    for order, level in sequences:
        fails = p_values[order] > level
        passed[order[: int(np.argmax(fails)) if fails.any() else order.size]] = True
    return passed


@dataclass(frozen=True, eq=False)
class _Part:
    """A constraint on one or several rates, all to be above ``threshold``: (G, J) counts.

    ``labels`` are the labels that the trials come from, and ``names`` what they are labels of.
    """

    right: Vector
    trials: Vector
    threshold: float
    sequences: list[Sequence_]
    labels: Vector
    names: list[str]

    def passing(self) -> Vector:
        """Return which points of the grid pass."""
        return _passing(self.p_values(), self.sequences)

    def p_values(self) -> Vector:
        """Return the largest p-value at every point."""
        return np.asarray(binomial_tail(self.right, self.trials, self.threshold).max(axis=1))

    def rates(self) -> Vector:
        """Return the observed rates; 0 without trials."""
        empty = np.zeros(self.right.shape)
        return np.divide(self.right, self.trials, out=empty, where=self.trials > 0)

    def needed(self, point: int, level: float) -> tuple[int | None, int]:
        """Return how many labels a test at this point needs, and of which of the rates."""
        needs: list[float] = []
        for j, (rate, trials) in enumerate(
            zip(self.rates()[point], self.trials[point], strict=True)
        ):
            n = trials_needed(float(rate), self.threshold, level)
            # Fewer are never needed than there are, if the test fails.
            scaled = math.inf if n is None else math.ceil(n * self.labels[j] / max(trials, 1))
            tail = float(binomial_tail(self.right[point, j], trials, self.threshold))
            needs.append(0 if tail <= level else max(scaled, self.labels[j] + 1))
        worst = int(np.argmax(needs))
        return (None if math.isinf(needs[worst]) else int(needs[worst])), worst


def _safe_end(metric: CountMetric, relation: str, w: Vector) -> int:
    """Return 0 or −1 where the rate is safest at the lower, or upper, end of the bounds.

    A class of small slope loses samples as λ grows, and so its recall; of large slope, it gains
    samples and loses precision and specificity. 1 where neither end is known to be safe.
    """
    if metric.average != "one" or metric.form not in (RECALL, PRECISION):
        return 1
    gains = bool(w[metric.of_class] > w[np.isfinite(w)].mean())
    rises = gains != (metric.complement or metric.form == PRECISION)
    return -1 if rises == (relation == ">=") else 0


def _sequences(
    safe_end: int, grid: Vector, bounds: tuple[float, float], level: float
) -> list[Sequence_]:
    """Return the orders of tests: from 0 where it is the safe end of the bounds, else both ends."""
    up, down = np.arange(grid.size), np.arange(grid.size)[::-1]
    if safe_end == 0 and shown_bound(bounds[0]) == 0.0:
        return [(up, level)]
    if safe_end == -1 and bounds[1] == 0.0:
        return [(down, level)]
    return [(up, level / 2), (down, level / 2)]


def _parts(
    constraint: Constraint,
    counts: _Counts,
    w: Vector,
    grid: Vector,
    bounds: tuple[float, float],
    level: float,
) -> list[_Part]:
    """Return the tests of a constraint that has a number."""
    metric, threshold = constraint.metric, constraint.offset
    assert isinstance(metric, CountMetric)  # noqa: S101 - resolved
    tp, predicted, support = counts.true_positive, counts.predicted, counts.support
    n = int(support.sum())
    if _is_worst_recall(metric):
        labelled = (support > 0) & metric.eligible(support.size)
        gains = w > w[np.isfinite(w)].mean()
        parts = []
        # Classes that lose samples as λ grows are safe at the lower end, the others at the upper.
        for chosen, order in ((~gains, 1), (gains, -1)):
            k = np.flatnonzero(chosen & labelled)
            if k.size:
                trials = np.broadcast_to(support[k], (grid.size, k.size))
                sequences = [(np.arange(grid.size)[::order], level / 2)]
                names = [f"class {i}" for i in k]
                parts.append(_Part(tp[:, k], trials, threshold, sequences, support[k], names))
        return parts
    sequences = _sequences(_safe_end(metric, constraint.relation, w), grid, bounds, level)
    if _is_accuracy(metric):
        right, trials = tp.sum(axis=1), np.full(grid.size, n)
        labels, name = n, ""
    else:
        j = int(metric.of_class or 0)
        right, trials, labels = tp[:, j], predicted[:, j], int(support[j])
        name = f"class {j}"
        of_class = np.full(grid.size, labels)
        if metric.complement:
            right = n - of_class - trials + right
            of_class, trials, labels = n - of_class, n - trials, n - labels
            name = f"classes other than {j}"
        if metric.form == RECALL:
            trials = of_class
        elif metric.form in (IOU, F1):
            trials = of_class + trials - right
            if metric.form == F1:
                threshold = threshold / (2.0 - threshold) if threshold < 2.0 else threshold
    if constraint.relation == "<=":
        right, threshold = trials - right, 1.0 - threshold
    if metric.average == "one" and metric.form == PRECISION and w[j] == w.max():
        # How many are predicted depends on no label. Where so few are that the test fails even if
        # all are right, it would only end the sequence. The samples predicted as the class of the
        # largest slope only grow along λ; of other classes they may change, and which points are
        # left out would say something about the rest.
        least = np.asarray(binomial_tail(trials, trials, threshold))
        sequences = [(order[least[order] <= own], own) for order, own in sequences]
    return [
        _Part(right[:, None], trials[:, None], threshold, sequences, np.array([labels]), [name])
    ]


def _compared(
    constraint: Constraint, profile: StrengthProfile, counts: _Counts, grid: Vector, level: float
) -> Vector:
    """Return which points keep a constraint on the baseline, tested outward from λ = 0."""
    metric = constraint.metric
    assert isinstance(metric, CountMetric)  # noqa: S101 - resolved
    chosen = metric.eligible(profile.n_classes)
    zero = int(np.searchsorted(grid, 0.0))
    gained, lost = _changes(profile, metric, counts, grid)
    support = counts.support
    n = int(support[~chosen].sum() if metric.complement else support[chosen].sum())
    start = profile._counts[Table.TRUE_POSITIVE_AT_0]
    right = int(start[chosen].sum())
    if metric.complement:
        predicted = int(profile._counts[Table.PREDICTED_AT_0][chosen].sum())
        right = n - predicted + right
    passed = np.zeros(grid.size, bool)
    passed[zero] = True  # the decisions there are those of the baseline
    directions = [d for d in (1, -1) if 0 <= zero + d < grid.size]
    for direction in directions:
        own = level / len(directions)
        order = np.arange(zero, grid.size if direction == 1 else -1, direction)[1:]
        p = paired_p_values(gained[order], lost[order], n, right, constraint, own)
        fails = p > own
        passed[order[: int(np.argmax(fails)) if fails.any() else order.size]] = True
    return passed


def _changes(
    profile: StrengthProfile, metric: CountMetric, counts: _Counts, grid: Vector
) -> tuple[Vector, Vector]:
    """Return how many samples became right, and wrong, between λ = 0 and each point, (G,)."""
    zero = int(np.searchsorted(grid, 0.0))
    if metric.complement:
        entered, left = _false_positives(profile._switches, int(metric.of_class or 0), grid)
    else:
        chosen = metric.eligible(profile.n_classes)
        assert counts.entered is not None  # noqa: S101 - bins are refused
        assert counts.left is not None  # noqa: S101 - bins are refused
        entered, left = (t[:, chosen].sum(axis=1) for t in (counts.entered, counts.left))
    entered, left = entered - entered[zero], left - left[zero]
    after = np.arange(entered.size) >= zero
    # Below 0 a switch is undone: a sample that would enter at it is lost.
    return np.where(after, entered, -left), np.where(after, left, -entered)


def _false_positives(
    switches: Switches | BinnedSwitches, k: int, grid: Vector
) -> tuple[Vector, Vector]:
    """Return how many samples of other classes stopped, and began, to be predicted as k, (G,)."""
    assert isinstance(switches, Switches)  # noqa: S101 - bins are refused
    other = switches.label != k
    totals = []
    for party in (switches.loser, switches.winner):
        rows = np.flatnonzero(other & (party == k))
        moved = switches.taken(rows)
        point = np.searchsorted(grid, moved.position)
        totals.append(np.cumsum(np.bincount(point, moved.counts(), grid.size + 1)[:-1]))
    return totals[0].astype(np.int64), totals[1].astype(np.int64)


def paired_p_values(
    gained: Vector, lost: Vector, n: int, right: int, constraint: Constraint, level: float
) -> Vector:
    """Return the p-values that ``right`` of n fall below f·baseline + offset."""
    spent = 0.0
    excess = -constraint.offset
    if constraint.factor < 1.0:
        excess += (1.0 - constraint.factor) * rate_bound(right, n, BOUND_SHARE * level)
        spent += BOUND_SHARE * level
    w = 0
    if excess > 0:
        w = certain_count(n, min(excess, 1.0), BOUND_SHARE * level)
        spent += BOUND_SHARE * level
    changes = gained + lost - w
    tail = binomial_tail(gained, np.maximum(changes, 0), 0.5)
    # Fewer losses than the excess: impossible where the constraint is broken, but for β.
    tail = np.where(lost < w, 0.0, tail)
    # Hidden pairs of a gain and a loss make p larger only where gains prevail.
    return np.minimum(1.0, spent + np.where((lost >= w) & (2 * gained < changes + 1), 1.0, tail))


# --------------------------------------------------------------------------------------- choice


def best_certified(
    profile: StrengthProfile,
    steps: Steps,
    constraints: Sequence[Constraint],
    certify: float,
) -> Best:
    """Return the best strength of the grid at which every constraint is promised.

    Parameters
    ----------
    profile : StrengthProfile
        Of the tuning labels.
    steps : Steps
        What is maximised, along the strength.
    constraints : sequence of Constraint
        Resolved.
    certify : float
        The probability with which each of them holds on new data, between 0 and 1.
    """
    if not constraints:
        raise OptionError(
            argument="certify",
            rule=["must be given with ", Argument("subject_to"), ", which it promises"],
            got=f"{certify:g} without constraints",
            remedy=["Pass a constraint, such as ", Setting("subject_to", "recall[0] >= 0.9"), "."],
        )
    for constraint in constraints:
        refuse_uncertifiable(constraint)
    _refuse_profile(profile, constraints)
    grid = _grid(profile.bounds, profile.resolution)
    counts = _counts(profile, grid)
    w = profile.direction
    if w is None:  # any fixed order is valid: start at the lower bound
        w = np.zeros(profile.n_classes)
    level = 1.0 - certify
    parts: list[tuple[Constraint, _Part]] = []
    passed = []
    for constraint in constraints:
        if constraint.factor:
            passed.append(_compared(constraint, profile, counts, grid, level))
            continue
        for part in _parts(constraint, counts, w, grid, profile.bounds, level):
            parts.append((constraint, part))
            passed.append(part.passing())
    certified = np.all(passed, axis=0)
    if not certified.any():
        _refuse(grid, parts, certify)
    return _best_point(Steps(grid, steps.at(grid)), certified)


def _best_point(steps: Steps, certified: Vector) -> Best:
    """Return the best certified point: 0 if it is as good as any, else the middle of its run."""
    grid = steps.start
    bounds = float(grid[0]), float(grid[-1])
    best = best_of_steps(steps, bounds, certified)
    low, high = best.interval
    run = grid[(grid >= low) & ((grid < high) | (high >= bounds[1]))]
    point = np.searchsorted(grid, run)
    run = run[(steps.value[point] >= best.value - EQUAL_VALUES) & certified[point]]
    strength = best.strength if best.strength == 0.0 else float(run[(run.size - 1) // 2])
    return replace(
        best, strength=strength, interval=(float(run[0]), float(run[-1])), certified=True
    )


def _refuse_hardly_predicted(
    rule: Constraint, part: _Part, level: float, certify: float
) -> NoReturn:
    """Raise the error that a precision has too few samples to test at every strength."""
    most, have = int(part.trials.max()), int(part.labels[0])
    n = trials_needed(1.0, part.threshold, level)
    need = None if n is None or not most else max(math.ceil(n * have / most), have + 1)
    first = "Widen " if need is None else f"Use about {need:,} labels of {part.names[0]}, widen "
    raise InfeasibleError(
        argument="subject_to",
        rule=["must be possible to promise with ", Setting("certify", certify)],
        got=f"{rule.text!r}, and at most {most:,} samples predicted as {part.names[0]} within the "
        f"bounds",
        remedy=[first, Argument("bounds"), ", or drop the constraint."],
        labels_needed=need,
    )


def _refuse(grid: Vector, parts: Sequence[tuple[Constraint, _Part]], certify: float) -> NoReturn:
    """Raise the error that no strength can be promised, with the labels that are needed."""
    empty = [(rule, part) for rule, part in parts if not part.passing().any()]
    found: list[tuple[float, Constraint, _Part, int, int]] = []
    for rule, part in empty:
        needs = []
        for order, own in part.sequences:
            if not order.size:
                _refuse_hardly_predicted(rule, part, own, certify)
            n, j = part.needed(int(order[0]), own)
            needs.append((math.inf if n is None else n, rule, part, int(order[0]), j))
        found.append(min(needs, key=lambda each: each[0]))
    if not empty:  # each passes somewhere, but not all at one strength
        slack = np.min([(part.rates() - part.threshold).min(axis=1) for _, part in parts], axis=0)
        point = int(np.argmax(slack))
        for rule, part in parts:
            n, j = part.needed(point, min(own for _, own in part.sequences))
            found.append((math.inf if n is None else n, rule, part, point, j))
    need, rule, part, point, j = max(found, key=lambda each: each[0])
    whose = f" of {part.names[j]}" if part.names[j] else ""
    have = int(part.labels[j])
    rate = float(part.rates()[point, j])
    where = f"{rate:.4g} in {int(part.trials[point, j]):,} cases at strength {grid[point]:g}"
    remedy: list[Any] = [f"Use about {need:,.0f} labels{whose}"]
    if math.isinf(need) or not need:
        remedy = [
            "No number of labels helps there: tests begin where the constraint is safest, at an "
            "end of the bounds. Choose ",
            Argument("bounds"),
            ", by other data, one end of which keeps the constraint",
        ]
    together = "" if empty else ", though not with the others at one strength"
    raise InfeasibleError(
        argument="subject_to",
        rule=["must be possible to promise with ", Setting("certify", certify)],
        got=f"{rule.text!r}{together}, and {have:,} labels{whose}: a rate of {where}",
        remedy=[*remedy, ", loosen the constraint, or lower ", Argument("certify"), "."],
        strength=float(grid[point]),
        labels_needed=None if math.isinf(need) or not need else int(need),
    )
