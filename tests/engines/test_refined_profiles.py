"""The best of bins, looked into once more, is the best of all switches to the bit."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chunked_scores import flat, quietly, weighted

from reprior import StrengthProfile
from reprior.engines import chunked, fit, profiling, refined
from reprior.exceptions import OptionError
from reprior.metrics import find_metric
from reprior.profile import GainTable


def mild(seed, n):
    """Scores whose best strength lies well within the bounds."""
    return flat(seed, n, shift=0.4)


METRICS = ["balanced_accuracy", "accuracy", "mean_iou", "macro_f1", "recall[2]", "precision[1]"]


@pytest.fixture
def coarse(monkeypatch):
    """Few switches are too many, and bins are wide: most of the bests lie inside of one."""
    monkeypatch.setattr(chunked, "MOST_SWITCHES", 60)
    monkeypatch.setattr(chunked, "AUTO_RESOLUTION", 0.05)


def same(a, b):
    assert a.strength_ == b.strength_
    assert a.strength_interval_ == b.strength_interval_
    assert a.best_score_ == b.best_score_


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "make", [mild, lambda seed, n: weighted(mild(seed, n))], ids=["plain", "weighted"]
)
def test_the_exact_best(metric, make):
    looked = 0
    for seed in range(6):
        data = make(seed, 150)
        exact, _ = quietly(fit, data.calibrator(metric=metric), data.chunks([40]), resolution=None)
        bins, _ = quietly(fit, data.calibrator(metric=metric), data.chunks([40]))
        found, said = quietly(
            fit, data.calibrator(metric=metric), data.chunks([70, 100]), resolution="refine"
        )
        assert bins.profile_.resolution == found.profile_.resolution == 0.05
        assert bins.profile_.bounds != exact.profile_.bounds or (
            bins.best_score_ <= exact.best_score_
        )
        if any("too many to keep" in sentence for sentence in said):
            continue
        looked += 1
        same(found, exact)
        assert found.profile_.best(metric).uncertainty == 0.0
    assert looked >= 3


@pytest.mark.usefixtures("coarse")
def test_under_constraints():
    data = flat(3, 200)
    rules = ["accuracy >= baseline - 0.05", "recall[0] <= 0.99"]
    options = {"metric": "balanced_accuracy", "subject_to": rules}
    exact, _ = quietly(fit, data.calibrator(**options), data.chunks([]), resolution=None)
    found, said = quietly(fit, data.calibrator(**options), data.chunks([50]), resolution="refine")
    assert not [sentence for sentence in said if "too many" in sentence]
    same(found, exact)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(METRICS[:4]))
def test_any_data(seed, metric):
    most, width = chunked.MOST_SWITCHES, chunked.AUTO_RESOLUTION
    chunked.MOST_SWITCHES, chunked.AUTO_RESOLUTION = 30, 0.02
    try:
        data = flat(seed, 60)
        data = replace(data, scores=data.scores.round(1))  # ties, and equal strengths
        found, said = quietly(
            fit, data.calibrator(metric=metric), data.chunks([30]), resolution="refine"
        )
        exact, _ = quietly(fit, data.calibrator(metric=metric), data.chunks([]), resolution=None)
        if not any("too many to keep" in sentence for sentence in said):
            same(found, exact)
    finally:
        chunked.MOST_SWITCHES, chunked.AUTO_RESOLUTION = most, width


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("metric", METRICS[:4])
def test_the_error_of_bins_is_within_what_is_stated(metric):
    """The exact best is at most the mass of a bin above the best of the grid."""
    for seed in range(5):
        data = mild(seed, 150).with_options(bounds=(0.0, 8.0))  # which is not widened
        bins, _ = quietly(fit, data.calibrator(metric=metric), data.chunks([]))
        exact, _ = quietly(fit, data.calibrator(metric=metric), data.chunks([]), resolution=None)
        profile = bins.profile_
        a, b = bins.strength_interval_
        assert profile.evaluate(metric, bins.strength_) == bins.best_score_
        assert exact.profile_.evaluate(metric, bins.strength_) == bins.best_score_
        assert bins.best_score_ <= exact.best_score_
        if metric == "accuracy":  # of which a sample is worth its share
            mass = profile._switches.mass.max() / profile.n_samples
            assert exact.best_score_ - bins.best_score_ <= mass + 1e-12
        assert a <= bins.strength_ <= b


def test_too_many_near_the_best_are_said(monkeypatch):
    monkeypatch.setattr(chunked, "MOST_SWITCHES", 5)
    monkeypatch.setattr(chunked, "AUTO_RESOLUTION", 0.5)
    data = flat(0, 200)
    bins, _ = quietly(fit, data.calibrator(), data.chunks([]))
    found, said = quietly(fit, data.calibrator(), data.chunks([]), resolution="refine")
    assert any("lie in bins that can hold the best strength, too many" in s for s in said)
    same(found, bins)
    assert found.profile_.best("balanced_accuracy").uncertainty > 0


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(
    "why, words, doubt",
    [
        ("weights", "no bound holds to the last bit for sums of fractional sample weights", True),
        ("classes", "there are too many classes to count what each of them gains", True),
        ("log_loss", "a fit by log-loss looks for no count metric", False),
    ],
)
def test_what_is_not_refined_says_why(monkeypatch, why, words, doubt):
    data = flat(0, 200)
    if why == "weights":
        data = replace(data, weight=np.random.default_rng(0).random(200))
    if why == "classes":
        monkeypatch.setattr(profiling, "MOST_CELLS", 1)
    options = {"metric": "log_loss"} if why == "log_loss" else {}
    bins, _ = quietly(fit, data.calibrator(**options), data.chunks([]))
    found, said = quietly(fit, data.calibrator(**options), data.chunks([]), resolution="refine")
    same(found, bins)
    (sentence,) = (each for each in said if "'refine'" in each)
    assert words in sentence
    assert "switches lie in bins" not in sentence
    assert ("of the samples change their class" in sentence) == doubt


@pytest.mark.usefixtures("coarse")
def test_the_reason_outlives_a_checkpoint(tmp_path):
    data = flat(0, 200)
    data = replace(data, weight=np.random.default_rng(0).random(200))
    for _ in range(2):
        how = {"resolution": "refine", "checkpoint": tmp_path}
        _, said = quietly(fit, data.calibrator(), data.chunks([]), **how)
        assert sum("fractional sample weights" in each for each in said) == 1


def test_few_switches_are_exact_without_a_second_pass():
    data, passes = flat(0, 40).with_options(bounds=(0.0, 8.0)), []

    class Counted(list):
        def __iter__(self):
            passes.append(1)
            return super().__iter__()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(data.calibrator(), Counted(data.chunks([20])), resolution="refine")
        whole = fit(data.calibrator(), Counted(data.chunks([20])), resolution=None)
    same(found, whole)
    assert found.profile_.resolution is None


@pytest.mark.usefixtures("coarse")
def test_other_metrics_of_a_refined_profile_are_those_of_its_bins():
    data = mild(0, 150)
    bins, _ = quietly(fit, data.calibrator(), data.chunks([]))
    found, _ = quietly(fit, data.calibrator(), data.chunks([]), resolution="refine")
    assert found.profile_.best("balanced_accuracy").uncertainty == 0
    for metric in ("accuracy", "mean_iou"):
        best = found.profile_.best(metric)
        assert best.value >= bins.profile_.best(metric).value
        assert found.profile_.evaluate(metric, best.strength) == pytest.approx(best.value)


@pytest.mark.usefixtures("coarse")
def test_data_that_change_between_the_passes_are_refused():
    data, other = flat(0, 150), flat(1, 150)

    class Changing(list):
        n = 0

        def __iter__(self):
            self.n += 1
            # the first looks at the labels alone, the second counts
            return iter(data.chunks([]) if self.n < 4 else other.chunks([]))

    with pytest.raises(OptionError, match="same samples in every pass"):
        quietly(fit, data.calibrator(), Changing(), resolution="refine")


def test_counted_switches_are_compared_too():
    # What is left of a difference has rows that stand for several samples.
    def profile_of(seed, n):
        data = mild(seed, n)
        return StrengthProfile.from_scores(data.scores, data.labels, source_prior=data.prior)

    whole, some = profile_of(0, 150), profile_of(1, 20)
    counted = (whole + some) - some
    assert counted._switches.count is not None
    metric, binned = find_metric("balanced_accuracy", n_classes=4), whole.binned(0.05)
    gains = GainTable(whole.bounds, 0.05, 4, weighted=False)
    gains.add(whole._switches)
    look = partial(refined, binned, gains, metric, [], most=1000)
    assert look(lambda: [counted]).best(metric) == whole.best(metric)
    with pytest.raises(OptionError, match=r"Got \d+ switches near the best, and then \d+\. Leave"):
        look(lambda: [counted - profile_of(0, 150)])


def test_a_wrong_word_is_refused():
    data = flat(0, 20)
    with pytest.raises(OptionError, match=r"'auto', 'refine' or None\. Got 'finer'"):
        fit(data.calibrator(), data.chunks([]), resolution="finer")
    assert isinstance(fit(data.calibrator(), data.chunks([])).profile_, StrengthProfile)
