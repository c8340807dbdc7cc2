"""Bootstrap replicates of an estimated target prior."""

from __future__ import annotations

import numpy as np
import pytest
from tests.core.shift.shifted import world

import reprior as rp
from reprior.core.shift import METHODS, bootstrap
from reprior.core.shift.em import Likelihood
from reprior.core.shift.predictions import SoftPredictions, predictions


def problem(seed=0, n=200, n_labels=150, separation=2.5):
    rng = np.random.default_rng(seed)
    here = world(rng, 3, separation)
    scores, _ = here.draw(rng, n, here.target)
    return here, scores, here.validation(rng, n_labels)


def report(scores, here, validation, method, **options):
    options = {"n_replicates": 60, **options}
    return rp.estimate_target_prior_report(
        scores, source_prior=here.source, method=method,
        validation=None if method == "em" else validation, **options,
    )  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_replicates(method):
    here, scores, validation = problem()
    a, b, c = (
        report(scores, here, validation, method, random_state=seed)
        for seed in (7, np.random.default_rng(7), 8)
    )
    np.testing.assert_array_equal(a.replicates, b.replicates)
    assert not np.array_equal(a.replicates, c.replicates)
    assert a.replicates.shape == (60, 3)
    np.testing.assert_allclose(a.replicates.sum(axis=1), 1)
    assert (a.replicates >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_how_replicates_are_grouped_makes_no_difference(method, monkeypatch):
    here, scores, validation = problem()
    whole = report(scores, here, validation, method, n_replicates=11)
    monkeypatch.setattr(bootstrap, "GROUP_ITEMS", 8 * 9 * 11 if method != "em" else 800)
    np.testing.assert_allclose(  # four replicates at a time, or sums over blocks of samples
        report(scores, here, validation, method, n_replicates=11).replicates,
        whole.replicates, atol=1e-9,
    )  # fmt: skip


def test_of_very_many_classes_replicates_are_by_em(monkeypatch):
    here, scores, validation = problem()
    known = report(scores, here, validation, "em").replicates
    monkeypatch.setattr(bootstrap, "MOST_CLASSES", 2)
    told = []
    found = report(scores, here, validation, "em", progress=told.append).replicates
    np.testing.assert_allclose(found, known, atol=1e-5)
    assert told == [60]


@pytest.mark.parametrize("method", ["bbse", "bbse_soft"])
def test_replicates_are_estimates_of_samples_drawn_again(method):
    # Against the definition: draw, estimate, look at the spread of many.
    here, scores, (seen, labels) = problem(1)
    found = report(scores, here, (seen, labels), method, n_replicates=400).replicates
    rng = np.random.default_rng(0)
    slow = []
    for _ in range(400):
        target = scores[rng.integers(len(scores), size=len(scores))]
        again = np.concatenate(
            [rng.choice(np.flatnonzero(labels == k), (labels == k).sum()) for k in range(3)]
        )
        slow.append(
            rp.estimate_target_prior(
                target, source_prior=here.source, method=method,
                validation=(seen[again], labels[again]),
            )
        )  # fmt: skip
    # Both spreads are known to 1/√800 = 3.5 %, their means to a twentieth of the spread.
    spread = np.std(slow, axis=0)
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.2)
    np.testing.assert_allclose(found.mean(axis=0), np.mean(slow, axis=0), atol=0.3 * spread.max())


@pytest.mark.parametrize("method", ["em", "bbse", "bbse_soft"])
def test_intervals_cover_what_they_say(method):
    # Of 120 intervals of 90 % around a truth that is drawn anew, 96 to 119 hold it, but for a
    # chance below one in a thousand if each does so with 90 %; EM's own few per cent are in it.
    rng = np.random.default_rng(5)
    here = world(rng, 2, 1.5)._replace(
        source=np.array([0.7, 0.3]), means=np.array([[0.0, 0.0], [2.0, 0.0]])
    )
    held = 0
    for _ in range(120):
        target = rng.dirichlet([4.0, 4.0])
        scores, _ = here.draw(rng, 150, target)
        found = report(
            scores, here, here.validation(rng, 300), method, n_replicates=120, random_state=rng
        )
        low, high = found.intervals[1]
        held += low <= target[1] <= high
    assert 96 <= held <= 119


def test_more_confidence_is_wider_and_more_data_narrower():
    here, scores, validation = problem(2, 2000)
    wide = report(scores, here, validation, "em", confidence=0.99)
    narrow = report(scores, here, validation, "em", confidence=0.5)
    assert (np.diff(wide.intervals) > np.diff(narrow.intervals)).all()
    few = report(scores[:100], here, validation, "em", confidence=0.5)
    assert np.diff(few.intervals).mean() > 2 * np.diff(narrow.intervals).mean()


def test_a_class_whose_estimate_is_0_may_come_back():
    rng = np.random.default_rng(3)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [1.0, 0.0], [6.0, 0.0]]), source=np.full(3, 1 / 3)
    )
    scores, _ = here.draw(rng, 60, np.array([0.97, 0.0, 0.03]))
    likelihood = Likelihood(scores, here.source)
    estimate = np.array([0.97, 0.0, 0.03])
    found = bootstrap.em_replicates(likelihood, estimate, here.source, 100, rng)
    again = bootstrap.em_replicates(likelihood, here.source, here.source, 100, rng)
    assert 0.01 < again[:, 1].mean() < 0.1  # what the samples say
    np.testing.assert_allclose(found[:, 1].mean(), again[:, 1].mean(), atol=0.03)


def test_soft_predictions_are_multiplied_out_a_class_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(60) % 3)
    found = predictions(rng.normal(size=(60, 3)), soft=True)
    expected = [found.probabilities()[labels == k] for k in range(3)]
    sizes, whole = [], SoftPredictions.probabilities
    monkeypatch.setattr(
        SoftPredictions, "probabilities", lambda self: sizes.append(len(self)) or whole(self)
    )
    means = bootstrap._class_means(found, labels, 7, np.random.default_rng(1))
    assert sizes == [20, 20, 20]
    again = np.random.default_rng(1)
    for k in range(3):
        column = bootstrap._weighted_means(expected[k], 7, again)
        np.testing.assert_array_equal(means[:, :, k], column)
