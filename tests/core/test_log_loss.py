"""Temperature and strength by log-loss."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from tests.support.backends import EPS, WIDE_BACKENDS
from tests.support.miscalibrated import balanced, draw_samples, labelled, log_loss
from tests.support.properties import FEWER_EXAMPLES

import reprior as rp
from reprior import (
    LabelsError,
    LogLossFit,
    OptionError,
    PriorError,
    RepriorError,
    RepriorWarning,
    fit_log_loss,
    fit_temperature,
)
from reprior.core import JointLoss, best_at_strength, best_jointly, kernels, minimise_jointly
from reprior.core import weighted_rows as rows_module

FIT = 1e-6
"""Of 1/T and λ: scipy stops where the loss no longer falls by 1e-16, to the square root of that."""


def oracle(z, y, v, w, start=(1.0, 1.0)):
    """Minimise the log-loss, by its definition and without derivatives."""
    found = minimize(
        lambda x: log_loss(x[0] * z + x[1] * w, y, v),
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 4000, "maxfev": 4000},
    )
    return found.x, found.fun


def assert_same(a: LogLossFit, b: LogLossFit, rtol: float = 1e-7) -> None:
    found, expected = ((f.temperature, f.strength, f.log_loss) for f in (a, b))
    np.testing.assert_allclose(found, expected, rtol=rtol)


# ---------------------------------------------------------------------------------- oracles


@FEWER_EXAMPLES
@given(st.integers(0, 10**6), st.sampled_from([2, 3, 6]), st.floats(0.3, 6), st.floats(1.5, 100))
def test_it_is_the_optimum_of_a_plain_minimiser(seed, n_classes, temperature, imbalance):
    z, y, prior = draw_samples(
        np.random.default_rng(seed), 300, n_classes, temperature=temperature, imbalance=imbalance
    )
    w = -np.log(prior * n_classes)
    fit = fit_log_loss(z, y, source_prior=prior, bounds=(-50, 50), temperature_bounds=(1e-4, 1e4))
    (inverse, strength), loss = oracle(z, y, balanced(y, n_classes), w, (1 / temperature, 1.0))
    assert fit.log_loss == pytest.approx(loss, abs=1e-9)
    assert 1 / fit.temperature == pytest.approx(inverse, rel=FIT, abs=FIT)
    assert fit.strength == pytest.approx(strength, rel=FIT, abs=FIT)
    assert fit.converged
    assert not fit.at_bound


def test_the_truth_is_found(rng):
    z, y, prior = draw_samples(rng, 40_000, temperature=3.0)
    fit = fit_log_loss(z, y, source_prior=prior)
    assert fit.temperature == pytest.approx(3.0, rel=0.05)
    assert fit.strength == pytest.approx(1.0, rel=0.05)
    assert fit.decision_strength == fit.strength * fit.temperature


def test_one_after_the_other_is_worse(rng):
    # Temperature first takes over what is the strength's work, and never gives it back.
    z, y, prior = draw_samples(rng, 4000, temperature=1.0, imbalance=100.0)
    w, v = -np.log(prior * 4), balanced(y, 4)
    first = minimize_scalar(lambda a: log_loss(np.exp(a) * z, y, v), bracket=(-1, 1)).x
    second = minimize_scalar(lambda b: log_loss(np.exp(first) * z + b * w, y, v), bracket=(0, 2))
    fit = fit_log_loss(z, y, source_prior=prior)
    assert fit.temperature == pytest.approx(1.0, abs=0.1)
    assert np.exp(-first) > 2.0
    assert second.fun > fit.log_loss + 0.1


def test_it_is_the_log_loss_of_rebalance(rng):
    z, y, prior = draw_samples(rng, 300)
    fit = fit_log_loss(z, y, source_prior=prior)
    log_p = rp.log_rebalance(z, prior, strength=fit.strength, temperature=fit.temperature)
    assert fit.log_loss == pytest.approx(log_loss(log_p, y, balanced(y, 4)), rel=1e-10)
    # As calibrators count strengths: softmax((z + strength·w) / T).
    tilted = (z - fit.decision_strength * np.log(prior)) / fit.temperature
    assert log_loss(tilted, y, balanced(y, 4)) == pytest.approx(fit.log_loss, rel=1e-10)


@pytest.mark.parametrize("settled", [0.0, 0.7, 1.5])
def test_a_settled_strength_leaves_the_temperature(settled, rng):
    z, y, prior = draw_samples(rng)
    w, v = -np.log(prior * 4), balanced(y, 4)
    fit = fit_log_loss(z, y, source_prior=prior, decision_strength=settled)
    expected = minimize_scalar(
        lambda a: log_loss((z + settled * w) * np.exp(a), y, v), bracket=(-1, 1), tol=1e-12
    )
    assert 1 / fit.temperature == pytest.approx(np.exp(expected.x), rel=FIT)
    assert fit.log_loss == pytest.approx(expected.fun, abs=1e-12)
    assert fit.decision_strength == pytest.approx(settled)


@given(st.integers(0, 10**6))
def test_derivatives_are_those_of_finite_differences(seed):
    z, y, prior = draw_samples(np.random.default_rng(seed), 50)
    loss, x, h = JointLoss(labelled(z, y), -np.log(prior)), np.array([0.6, 1.3]), 1e-5
    here = loss(*x)
    for i, step in enumerate(np.eye(2) * h):
        above, below = loss(*(x + step)), loss(*(x - step))
        assert here.slope[i] == pytest.approx((above.value - below.value) / (2 * h), abs=1e-6)
        np.testing.assert_allclose(
            here.curvature[i], (above.slope - below.slope) / (2 * h), atol=1e-5
        )


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_it_is_convex_along_any_segment(seed, share):
    rng = np.random.default_rng(seed)
    z, y, prior = draw_samples(rng, 40)
    loss = JointLoss(labelled(z, y), -np.log(prior))
    a, b = np.stack([rng.uniform(0.01, 5, 2), rng.uniform(-5, 5, 2)], axis=1)
    between = loss(*(share * a + (1 - share) * b)).value
    assert between <= share * loss(*a).value + (1 - share) * loss(*b).value + 1e-9


# ---------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("n_classes", [3, 40])
def test_numbers_added_to_rows_and_the_order_of_classes_do_not_matter(n_classes, rng):
    z, y, prior = draw_samples(rng, 800, n_classes)
    expected = fit_log_loss(z, y, source_prior=prior)
    moved = fit_log_loss(z + 50 * rng.normal(size=(800, 1)), y, source_prior=prior)
    assert_same(moved, expected)
    order = rng.permutation(n_classes)
    turned = fit_log_loss(z[:, order], np.argsort(order)[y], source_prior=prior[order])
    assert_same(turned, expected)


def test_weights_are_repetition(rng):
    z, y, prior = draw_samples(rng)
    times = rng.integers(0, 4, size=y.size)
    target = [0.1, 0.2, 0.3, 0.4]
    weighted = fit_log_loss(
        z, y, source_prior=prior, target_prior=target, sample_weight=5.0 * times
    )
    repeated = fit_log_loss(
        z.repeat(times, axis=0), y.repeat(times), source_prior=prior, target_prior=target
    )
    assert_same(weighted, repeated)


def test_the_labels_stand_for_the_target(rng):
    z, y, prior = draw_samples(rng)
    target, mix = np.array([0.1, 0.2, 0.3, 0.4]), np.bincount(y) / y.size
    found = fit_log_loss(z, y, source_prior=prior, target_prior=target)
    given_mix = fit_log_loss(z, y, source_prior=prior, target_prior=target, label_prior=mix)
    by_hand = fit_log_loss(
        z,
        y,
        source_prior=prior,
        target_prior=target,
        label_prior=np.full(4, 0.25),
        sample_weight=(0.25 / mix)[y],
    )
    assert_same(given_mix, found)
    assert_same(by_hand, found)
    other = fit_log_loss(
        z, y, source_prior=prior, target_prior=target, label_prior=[0.7, 0.1, 0.1, 0.1]
    )
    assert other.strength != pytest.approx(found.strength, rel=1e-3)


def test_ignored_samples_do_not_count_whatever_they_hold(rng):
    z, y, prior = draw_samples(rng)
    expected = fit_log_loss(z[20:], y[20:], source_prior=prior)
    z[:20], y[:20] = np.nan, 255
    assert_same(fit_log_loss(z, y, source_prior=prior, ignore_index=255), expected)


def test_a_class_of_target_prior_0_is_left_out(rng):
    z, y, prior = draw_samples(rng)
    target = np.array([0.5, 0.0, 0.25, 0.25])
    found = fit_log_loss(z, y, source_prior=prior, target_prior=target)
    kept = y != 1
    rest = prior[[0, 2, 3]] / (1 - prior[1])
    without = fit_log_loss(
        z[kept][:, [0, 2, 3]],
        np.array([0, -1, 1, 2])[y[kept]],
        source_prior=rest,
        target_prior=target[[0, 2, 3]],
    )
    # The source prior of the other classes is the same up to a factor, which changes no slope.
    assert_same(found, without)


@pytest.mark.parametrize("shape", [(400,), (400, 1)])
def test_one_score_for_two_classes(shape, rng):
    z, y, prior = draw_samples(rng, n_classes=2)
    single = (z[:, 1] - z[:, 0]).reshape(shape)
    assert_same(fit_log_loss(single, y, source_prior=prior), fit_log_loss(z, y, source_prior=prior))


def test_classes_on_another_axis(rng):
    z, y, prior = draw_samples(rng)
    maps = np.moveaxis(z.reshape(4, 10, 10, 4), -1, 1)
    found = fit_log_loss(maps, y.reshape(4, 10, 10), source_prior=prior, class_axis=1)
    assert_same(found, fit_log_loss(z, y, source_prior=prior))


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_probabilities_are_as_good_as_logits(kind, rng):
    z, y, prior = draw_samples(rng, temperature=1.0)
    log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    scores = np.exp(log_p) if kind == "probs" else log_p
    found = fit_log_loss(scores, y, source_prior=prior, kind=kind)
    assert_same(found, fit_log_loss(z, y, source_prior=prior))


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_array_libraries_agree(backend, rng):
    z, y, prior = draw_samples(rng)
    expected = fit_log_loss(z, y, source_prior=prior)
    found = fit_log_loss(backend.make(z), backend.make_integers(y), source_prior=prior)
    # The loss is known to the dtype's precision, its minimum to the square root of that.
    assert found.log_loss == pytest.approx(expected.log_loss, rel=100 * EPS[backend.dtype])
    assert_same(found, expected, rtol=max(FIT, 4 * EPS[backend.dtype] ** 0.5))
    assert found.converged


def test_many_rows_start_from_a_sample(monkeypatch, rng):
    z, y, prior = draw_samples(rng, 4000)
    expected = fit_log_loss(z, y, source_prior=prior)
    monkeypatch.setattr(rows_module, "SAMPLE_FROM", 1)
    monkeypatch.setattr(rows_module, "SAMPLE_ITEMS", 500)
    monkeypatch.setattr(rows_module, "SAMPLE_ROWS", 100)
    found = fit_log_loss(z, y, source_prior=prior)
    assert_same(found, expected)
    assert found.n_iterations < expected.n_iterations


def test_parts_of_a_loss_add(rng):
    z, y, prior = draw_samples(rng)
    w, v = -np.log(prior), balanced(y, 4)
    parts = [JointLoss(labelled(z[p], y[p], v[p]), w) for p in (slice(100), slice(100, 400))]

    def summed(inverse, strength):
        both = [part(inverse, strength) for part in parts]
        return type(both[0])(*map(sum, zip(*both, strict=True)))

    assert_same(minimise_jointly(summed), best_jointly(labelled(z, y, v), w))


# ---------------------------------------------------------------------------------- edges, words


def test_equal_priors_leave_the_temperature(rng):
    z, y, prior = draw_samples(rng)
    with pytest.warns(RepriorWarning, match="the strength has no effect") as caught:
        fit = fit_log_loss(z, y, source_prior=prior, target_prior=prior)
    assert caught[0].filename == __file__
    mix = prior / (np.bincount(y) / y.size)
    expected = fit_temperature(z, y, sample_weight=mix[y])
    assert fit.temperature == pytest.approx(expected.temperature, rel=1e-7)
    assert fit.decision_strength == pytest.approx(1.0)


def test_separable_data_end_at_the_bound_with_a_warning():
    z, y = 10.0 * np.eye(3), np.arange(3)
    with pytest.warns(RepriorWarning, match=r"bound T=0.01 of `temperature_bounds`") as caught:
        fit = fit_log_loss(z, y, source_prior=[0.6, 0.3, 0.1])
    assert [warning.filename for warning in caught] == [__file__]
    assert fit.at_bound
    assert fit.temperature == 0.01
    assert fit.log_loss == pytest.approx(0.0, abs=1e-12)


def test_scores_that_mislead_end_at_the_hot_bound():
    z, y = 10.0 * np.eye(3), (np.arange(3) + 1) % 3
    with pytest.warns(RepriorWarning, match=r"bound T=50 of `temperature_bounds`"):
        fit = fit_log_loss(z, y, source_prior=[0.6, 0.3, 0.1], temperature_bounds=(0.5, 50))
    assert fit.temperature == 50.0


def test_a_strength_at_its_bound_is_warned_of(rng):
    z, y, prior = draw_samples(rng, temperature=1.0)
    with pytest.warns(RepriorWarning, match=r"bound strength=0.5 of softmax") as caught:
        fit = fit_log_loss(z, y, source_prior=prior, bounds=(0.0, 0.5))
    assert [warning.filename for warning in caught] == [__file__]
    assert fit.strength == 0.5
    assert fit.at_bound
    expected = minimize_scalar(
        lambda a: log_loss(a * z - 0.5 * np.log(prior), y, balanced(y, 4)), bracket=(0.5, 1)
    )
    assert 1 / fit.temperature == pytest.approx(expected.x, rel=FIT)


def test_a_usual_fit_warns_of_nothing_and_changes_nothing(rng):
    z, y, prior = draw_samples(rng)
    before = z.copy(), y.copy(), prior.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_log_loss(z, y, source_prior=prior)
    for a, b in zip(before, (z, y, prior), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_pieces_agree_with_the_whole(rng):
    z, y, prior = draw_samples(rng)
    data, w = labelled(z, y, balanced(y, 4)), -np.log(prior * 4)
    assert_same(best_jointly(data, w), fit_log_loss(z, y, source_prior=prior))
    settled = fit_log_loss(z, y, source_prior=prior, decision_strength=0.8)
    assert_same(best_at_strength(data, w, 0.8), settled)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"kind": "odds"}, OptionError, "`kind` must be"),
        ({"source_prior": [0.5, 0.6]}, PriorError, "`source_prior` must sum to 1"),
        ({"target_prior": [1.0, 0.0]}, PriorError, r"at least two classes.* Got 1\. Pass the mix"),
        ({"label_prior": [0.5, 0.6]}, PriorError, "`label_prior` must sum to 1"),
        ({"label_prior": [0.0, 1.0]}, PriorError, r"Got label_prior\[0\]=0 and labels of class 0"),
        ({"bounds": (2, 1)}, OptionError, "`bounds` must be .* bounds reversed"),
        ({"temperature_bounds": (0, 1)}, OptionError, r"`temperature_bounds\[0\]` must be .*above"),
        ({"decision_strength": np.inf}, OptionError, "`decision_strength` must be a finite number"),
        ({"labels": np.array([0, 2])}, LabelsError, "labels"),
        (
            {
                "scores": np.zeros((2, 3)),
                "source_prior": [0.2, 0.3, 0.5],
                "target_prior": [0.5, 0.5, 0.0],
                "bounds": (-1, 1),
            },
            PriorError,
            r"Got target_prior\[2\]=0 and bounds from -1, which would divide by 0",
        ),
    ],
)
def test_error_sentences(options, error, words):
    given_ = {
        "scores": np.array([[1.0, 2.0], [2.0, 1.0]]),
        "labels": np.array([0, 1]),
        "source_prior": [0.3, 0.7],
        **options,
    }
    with pytest.raises(error, match=words) as caught:
        fit_log_loss(given_.pop("scores"), given_.pop("labels"), **given_)
    assert isinstance(caught.value, RepriorError)
    assert isinstance(caught.value, ValueError)


def test_a_fit_that_does_not_converge_is_warned_of(rng, monkeypatch):
    monkeypatch.setattr("reprior.core.minimise.MAX_PASSES", 2)
    z, y, prior = draw_samples(rng, 300, 3, temperature=3.0, imbalance=20)
    with pytest.warns(RepriorWarning, match=r"did not converge in \d passes") as said:
        fit = fit_log_loss(z, y, source_prior=prior)
    assert not fit.converged
    assert said[0].filename == __file__


def test_a_class_without_labels_is_left_out_of_the_fit(rng):
    z, y, prior = draw_samples(rng)
    kept, seen = y != 2, np.array([True, True, False, True])
    z, y = z[kept], y[kept]
    fit = fit_log_loss(z, y, source_prior=prior)
    alone = fit_log_loss(
        z[:, seen], np.cumsum(seen)[y] - 1, source_prior=prior[seen] / prior[seen].sum()
    )
    assert fit.temperature == pytest.approx(alone.temperature, rel=1e-6)
    assert fit.strength == pytest.approx(alone.strength, rel=1e-6)
    w = -np.log(4 * prior)
    expected = log_loss(z / fit.temperature + fit.strength * w, y, balanced(y, 4))
    assert fit.log_loss == pytest.approx(expected, abs=1e-12)


def test_where_the_labelled_classes_have_equal_priors_the_strength_is_that_of_the_priors(rng):
    z, y, _ = draw_samples(rng)
    kept = y < 2
    fit = fit_log_loss(z[kept], y[kept], source_prior=[0.3, 0.3, 0.2, 0.2])
    assert fit.decision_strength == pytest.approx(1.0)
    assert fit.converged


def fits(z, labels):
    """Yield every fit by log-loss of some scores."""
    prior = np.full(3, 1 / 3)
    yield lambda: rp.fit_temperature(z, labels)
    yield lambda: rp.fit_log_loss(z, labels, source_prior=[0.5, 0.3, 0.2])
    yield lambda: rp.fit_scaling(z, labels, source_prior=prior, scaling="vector")


@pytest.mark.parametrize("dtype, size", [("f4", 3e38), ("f8", 1e31), ("f8", 1.7e308)])
@pytest.mark.parametrize("native", [True, False])
def test_logits_whose_log_loss_overflows_are_refused(dtype, size, native, rng, monkeypatch):
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    labels = rng.integers(3, size=50)
    z = rng.normal(size=(50, 3)).astype(dtype)
    z[7, labels[7]], z[7, labels[7] - 1] = -size, size
    for fit in fits(z, labels):
        with pytest.raises(rp.ScoresError, match=r"within 1e\+30 .* class \d of sample 7"):
            fit()


def test_numbers_added_to_rows_may_be_huge():
    z = np.array([[1e31, 1e31], [-1e31, -1e31], *[[2.0, 0.0]] * 3, [0.0, 2.0]])
    labels = np.array([0, 1, 0, 0, 0, 0])
    near = np.where(np.abs(z) > 1e30, 0.0, z)
    expected = rp.fit_temperature(near, labels).temperature
    assert rp.fit_temperature(z, labels).temperature == pytest.approx(expected, rel=FIT)


@pytest.mark.parametrize("size", [1e20, 3e38])
@pytest.mark.parametrize("native", [True, False])
def test_classes_masked_by_huge_negative_logits_are_fine(size, native, rng, monkeypatch):
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    labels = rng.integers(3, size=200)
    z = (rng.normal(size=(200, 3)) + np.eye(3)[labels]).astype(np.float32)
    z[::3, 2] = np.where(labels[::3] == 2, z[::3, 2], -size)
    impossible = np.where(z < -1e19, -np.inf, z)
    for masked, without in zip(fits(z, labels), fits(impossible, labels), strict=True):
        assert masked().log_loss == pytest.approx(without().log_loss, rel=1e-5)
