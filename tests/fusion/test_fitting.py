"""References and strengths: which search, how many passes, and bins where there is too much."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.fusion.shared import PRIOR, modalities

import reprior as rp
from reprior.fusion import fitting as module
from reprior.fusion.fitting import Tuner
from reprior.fusion.stream import stream_of_chunks
from reprior.metrics.count_metrics import COUNT_METRICS


@pytest.fixture
def data(rng):
    return modalities(rng)


def tuner_of(data, **options):
    """A tuner, and how often its data were gone through."""
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
    tuner.found(*found)
    assert len(calls) == passes


def test_the_baseline_is_the_fusion_without_a_correction(data):
    scores, labels = data
    for options in ({}, {"rule": "product"}, {"bounds": (0.5, 2.0)}):
        tuner, _ = tuner_of(data, **options)
        found = tuner.found(*tuner.problem.search(tuner.profile))
        plain = rp.ModalityFusion(PRIOR, class_axis=1, strength=0,
                                  **{k: v for k, v in options.items() if k == "rule"})  # fmt: skip
        plain.fit(scores, labels)
        before = COUNT_METRICS["balanced_accuracy"](found.before)
        assert before == pytest.approx(plain.best_score_, abs=1e-12)


def test_an_exact_search_beats_any_grid(data):
    scores, labels = data
    for order in ("rebalance_first", "flatten_first"):
        fusion = rp.ModalityFusion(PRIOR, class_axis=1, rule="product", order=order)
        fusion.fit(scores, labels)
        for strength in np.linspace(0, 2, 81):
            other = rp.ModalityFusion(PRIOR, class_axis=1, rule="product", order=order,
                                      strength=strength).fit(scores, labels)  # fmt: skip
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
