"""References and strengths: which search, how many passes, and bins where there is too much."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fusions import PRIOR, modalities

import reprior as rp
from reprior import ClassCounts
from reprior.exceptions import InfeasibleError
from reprior.fusion import fitting as module
from reprior.fusion.fitting import COARSE, Grid, Tuner
from reprior.fusion.stream import stream_of_chunks
from reprior.metrics import COUNT_METRICS
from reprior.profile import Constraint


@pytest.fixture
def data(rng):
    return modalities(rng)


def tuner_of(data, **options):
    """A tuner, and how often its data were read."""
    calls = []

    def source():
        def once():
            yield data
            calls.append(1)  # to the end

        return once()

    fusion = rp.ModalityFusion(PRIOR, class_axis=1, **options)
    return Tuner(fusion, stream_of_chunks(fusion, source)), calls


EXACT = [
    ({"rule": "product"}, ["rgb", "depth"], True),
    ({"rule": "product", "strengths": "per_modality"}, ["rgb", "depth"], False),
    ({"rule": "noisy_or"}, ["rgb", "depth"], False),
    ({"rule": "mean"}, ["rgb", "depth"], False),
    ({"rule": "noisy_or"}, ["rgb"], True),
    ({"rule": "mean", "strengths": "per_modality"}, ["depth"], True),
]


@pytest.mark.parametrize("options, names, exact", EXACT)
def test_the_search_is_exact_where_decisions_are_lines(data, options, names, exact):
    scores, labels = data
    some = {name: scores[name] for name in names}
    assert tuner_of((some, labels), **options)[0].exact == exact
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, **options).fit(some, labels)
    assert fusion.search_ == ("exact" if exact else "grid")
    assert set(fusion.strengths_) == set(names)


@pytest.mark.parametrize(
    "options, passes",
    [({}, 1 + 3), ({"flatten": False}, 3), ({"rule": "product"}, 1 + 1), ({"strength": 0.3}, 2)],
)
def test_how_often_the_data_are_read(data, options, passes):
    tuner, calls = tuner_of(data, **options)
    found = tuner.search() or tuner.problem.search(tuner.profile)
    tuner.finish(*found)
    assert len(calls) == passes


def test_the_baseline_is_the_fusion_without_a_correction(data):
    scores, labels = data
    for options in ({}, {"rule": "product"}, {"bounds": (0.5, 2.0)}):
        tuner, _ = tuner_of(data, **options)
        found = tuner.finish(*tuner.problem.search(tuner.profile))
        plain = rp.ModalityFusion(
            PRIOR, class_axis=1, strength=0, **{k: v for k, v in options.items() if k == "rule"}
        )
        plain.fit(scores, labels)
        before = COUNT_METRICS["balanced_accuracy"](found.before)
        assert before == pytest.approx(plain.best_score_, abs=1e-12)


def test_an_exact_search_beats_any_grid(data):
    scores, labels = data
    for order in ("rebalance_first", "flatten_first"):
        fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule="product", order=order)
        fusion.fit(scores, labels)
        for strength in np.linspace(0, 2, 81):
            other = rp.ModalityFusion(
                PRIOR, class_axis=1, rule="product", order=order, strength=strength
            ).fit(scores, labels)
            assert other.best_score_ <= fusion.best_score_ + 1e-12


def test_too_many_switches_are_summed_in_bins(data, monkeypatch):
    scores, labels = data
    exact = rp.ModalityFusion(PRIOR, class_axis=1, rule="product").fit(scores, labels)
    monkeypatch.setattr(module, "MOST_SWITCHES", 10)
    monkeypatch.setattr(module, "LINES_AT_ONCE", 4 * 15 * 7)
    with pytest.warns(rp.RepriorWarning, match=r"summed in bins of 0.0001") as caught:
        binned = rp.ModalityFusion(PRIOR, class_axis=1, rule="product").fit(scores, labels)
    assert caught[0].filename == __file__
    assert binned.strength_ == pytest.approx(exact.strength_, abs=2e-3)
    assert binned.best_score_ == pytest.approx(exact.best_score_, abs=5e-3)


@pytest.mark.parametrize("options", [{"metric": "recall[3]"}, {"subject_to": "iou[3] >= 0.1"}])
@pytest.mark.parametrize("rule", ["noisy_or", "product"])
def test_a_class_without_labels_is_no_metric(data, options, rule):
    scores, labels = data
    with pytest.raises(rp.OptionError, match=r"of a class that has labels. Got '.*3.', and no"):
        rp.ModalityFusion(PRIOR, class_axis=1, rule=rule, **options).fit(
            scores, np.minimum(labels, 2)
        )


def test_weights_reach_an_exact_search(data):
    scores, labels = data
    weight = np.where(labels == 3, 5.0, 1.0)
    for some in (scores, {"rgb": scores["rgb"]}):
        fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule="product", metric="accuracy")
        fusion.fit(some, labels, sample_weight=weight)
        found = rp.metrics.evaluate("accuracy", labels, fusion.predict(some), sample_weight=weight)
        assert fusion.best_score_ == pytest.approx(found, abs=1e-9)


def test_a_coordinate_without_a_feasible_strength_stays_where_it_is(data, monkeypatch):
    class Blind(module.Grid):
        def best(self, metric, *, subject_to=None):
            if isinstance(self._evaluate, functools.partial):  # along one modality
                raise rp.InfeasibleError("none")
            return super().best(metric, subject_to=subject_to)

    shared = rp.ModalityFusion(PRIOR, class_axis=1).fit(*data)
    monkeypatch.setattr(module, "Grid", Blind)
    own = rp.ModalityFusion(PRIOR, class_axis=1, strengths="per_modality").fit(*data)
    assert own.strengths_ == shared.strengths_


def test_constraints_hold_with_strengths_per_modality(data):
    scores, labels = data
    free = rp.ModalityFusion(PRIOR, class_axis=1).fit(scores, labels)
    accuracy = rp.metrics.evaluate("accuracy", labels, free.predict(scores))
    rule = f"accuracy >= {accuracy - 1e-9}"
    own = rp.ModalityFusion(PRIOR, class_axis=1, strengths="per_modality", subject_to=rule)
    own.fit(scores, labels)
    assert rp.metrics.evaluate("accuracy", labels, own.predict(scores)) >= accuracy - 1e-9
    assert own.best_score_ >= free.best_score_ - 1e-12


ACCURACY = COUNT_METRICS["accuracy"]
TOTAL = 10**6


def counts(share, first=0.5):
    """Of two classes, with that accuracy; ``first`` of the hits are of class 0."""
    hits = np.array([round(share * TOTAL * first), round(share * TOTAL * (1 - first))])
    return ClassCounts(hits, np.full(2, TOTAL // 2), np.full(2, TOTAL // 2))


class Curve:
    """Counts at a strength, each asked for once."""

    def __init__(self, accuracy, first=lambda strength: 0.5):
        self.accuracy, self.first, self.asked, self.passes = accuracy, first, [], 0

    def __call__(self, strengths):
        self.passes += bool(strengths)
        self.asked += list(strengths)
        return [counts(self.accuracy(s), self.first(s)) for s in strengths]

    def grid(self, bounds=(0.0, 2.0)):
        return Grid(self, bounds, lambda: counts(self.accuracy(0.0), self.first(0.0)))


@given(st.floats(0.0, 2.0))
def test_a_single_peak_is_found_to_a_thousandth(peak):
    curve = Curve(lambda s: 1 - 0.3 * abs(s - peak))
    best = curve.grid().best(ACCURACY)
    assert best.strength == pytest.approx(peak, abs=1e-3)
    assert curve.passes <= 3
    # Twice ten new ones on either side; two neighbours that tie are both gone around.
    assert len(curve.asked) == len(set(curve.asked)) <= COARSE + 1 + 60


def test_a_peak_between_two_strengths_of_the_grid_is_found_too():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 1.25))
    assert curve.grid().best(ACCURACY).strength == pytest.approx(1.25, abs=1e-3)


def test_strengths_are_round_numbers():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 0.3))
    assert curve.grid().best(ACCURACY).strength == 0.3
    assert {0.1, 0.2, 0.3, 0.7, 1.1, 2.0} <= set(curve.asked)


def test_the_middle_of_a_plateau():
    best = Curve(lambda s: 0.9 if 0.45 <= s <= 1.05 else 0.5).grid().best(ACCURACY)
    assert best.strength == 0.7  # of 0.7 and 0.8, beside the middle, the one nearer 0
    assert best.interval == (pytest.approx(0.45, abs=0.002), pytest.approx(1.05, abs=0.002))
    assert not best.at_bound


def test_of_two_plateaus_the_wider_then_the_nearer_to_0():
    best = Curve(lambda s: 0.9 if s <= 0.2 or 1.0 <= s <= 1.5 else 0.5).grid().best(ACCURACY)
    assert 1.0 <= best.strength <= 1.5
    best = Curve(lambda s: 0.9 if s in (0.4, 1.6) else 0.5).grid().best(ACCURACY)
    assert best.strength == 0.4
    best = Curve(lambda s: 0.9 if s in (-0.5, 1.0) else 0.5).grid((-1.0, 1.0)).best(ACCURACY)
    assert best.strength == -0.5


def test_bounds_are_told():
    grid = Curve(lambda s: 0.1 * s).grid((0.5, 2.0))
    best = grid.best(ACCURACY)
    assert (best.strength, best.at_bound, best.interval) == (2.0, True, (2.0, 2.0))
    assert ACCURACY(grid.baseline) == 0.0
    flat = Curve(lambda s: 0.5).grid().best(ACCURACY)
    assert flat.interval == (0.0, 2.0)


def test_constraints_limit_the_choice():
    curve = Curve(lambda s: 0.5 + 0.2 * s, first=lambda s: 0.5 - 0.2 * s)
    rule = Constraint.parse("recall[0] >= baseline - 0.1")
    recall = COUNT_METRICS["accuracy"].__class__("r", support=1, average="one", of_class=0)
    rule = Constraint(rule.text, recall, rule.relation, rule.factor, rule.offset)
    best = curve.grid().best(ACCURACY, subject_to=[rule])
    allowed = [
        s for s in np.linspace(0, 2, 2001) if recall(curve([s])[0]) >= recall(curve([0.0])[0]) - 0.1
    ]
    assert best.strength == pytest.approx(max(allowed), abs=1e-3)
    never = Constraint("accuracy >= 2", ACCURACY, ">=", 0.0, 2.0)
    with pytest.raises(InfeasibleError, match="the nearest is"):
        curve.grid().best(ACCURACY, subject_to=[never])
    low = Constraint("accuracy <= 0.5", ACCURACY, "<=", 0.0, 0.5)
    high = Constraint("accuracy >= 0.9", ACCURACY, ">=", 0.0, 0.9)
    with pytest.raises(InfeasibleError, match="satisfies together"):
        curve.grid().best(ACCURACY, subject_to=[low, high])


def test_a_constraint_that_holds_between_the_coarse_points_only():
    """Feasible from 0.443 to 0.447 alone, and nearly so beside it."""
    curve = Curve(lambda s: 0.9 - abs(s - 0.445))
    rule = Constraint("accuracy >= 0.898", ACCURACY, ">=", 0.0, 0.898)
    assert 0.443 <= curve.grid().best(ACCURACY, subject_to=[rule]).strength <= 0.447


def test_the_curve_is_what_was_evaluated():
    curve = Curve(lambda s: 1 - 0.3 * abs(s - 0.6))
    grid = curve.grid()
    best = grid.best(ACCURACY)
    strengths, values = grid.curve(ACCURACY)
    assert strengths.tolist() == sorted(curve.asked)
    assert values.max() == best.value
    np.testing.assert_allclose(values, 1 - 0.3 * np.abs(strengths - 0.6), atol=2e-6)
