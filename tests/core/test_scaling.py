"""Bias-corrected temperature scaling and vector scaling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.support.backends import EPS, WIDE_BACKENDS
from tests.support.miscalibrated import balanced, draw_samples, labelled, log_loss

from reprior import (
    LabelsError,
    OptionError,
    PriorError,
    RepriorError,
    RepriorWarning,
    fit_log_loss,
    fit_scaling,
)
from reprior.core import SCALINGS, ScalingLoss, affine_posterior, scaling

FIT = 1e-6
"""Of scales and biases; our fit ends where the loss can fall by 1e-14, scipy's about there."""

LOSS = 1e-8
"""Of the log-loss: at the minimum of it and the penalty together, it falls with the biases."""


def oracle(z, y, v, joint, w, *, scaling, alpha=1.0):
    """Minimise the penalised log-loss, written down from the formula of the docstring."""
    k, delta, n = z.shape[1], 1 / joint.temperature, 1 / np.sum(v**2)
    n_scales = k if scaling == "vector" else 1

    def parts(x):
        return x[:n_scales], x[n_scales:]

    def loss(x):
        a, b = parts(x)
        held = np.sum((a / delta - 1) ** 2) + np.sum((b - joint.strength * w) ** 2)
        return log_loss(a * z + b, y, v) + alpha / (2 * n) * held

    def gradient(x):
        a, b = parts(x)
        u = a * z + b
        p = np.exp(u - np.logaddexp.reduce(u, axis=1, keepdims=True))
        rest = v[:, None] * (p - np.eye(k)[y])
        by_a = (rest * z).sum(axis=0) if scaling == "vector" else np.array([(rest * z).sum()])
        by_a = by_a + alpha / n * (a / delta - 1) / delta
        return np.concatenate([by_a, rest.sum(axis=0) + alpha / n * (b - joint.strength * w)])

    start = np.concatenate([np.full(n_scales, delta), joint.strength * w])
    found = minimize(loss, start, jac=gradient, method="BFGS", options={"gtol": 1e-10})
    a, b = parts(found.x)
    return np.broadcast_to(a, k), b, log_loss(a * z + b, y, v)


@pytest.mark.parametrize("how", SCALINGS)
@pytest.mark.parametrize("n_classes", [2, 3, 8])
@pytest.mark.parametrize("alpha", [1.0, 30.0])
def test_it_is_the_optimum_of_a_plain_minimiser(how, n_classes, alpha, rng):
    z, y, prior = draw_samples(rng, 500, n_classes)
    z = z + np.linspace(-1, 1, n_classes)  # wrong in a way that no prior explains
    fit = fit_scaling(z, y, scaling=how, source_prior=prior, penalty=alpha)
    v, w = balanced(y, n_classes), -np.log(prior * n_classes)
    scale, bias, loss = oracle(z, y, v, fit.joint, w, scaling=how, alpha=alpha)
    assert fit.log_loss == pytest.approx(loss, abs=LOSS)
    np.testing.assert_allclose(fit.scale, scale, atol=FIT)
    np.testing.assert_allclose(fit.bias, bias, atol=FIT)
    assert fit.converged
    assert fit.joint == fit_log_loss(z, y, source_prior=prior)
    assert fit.log_loss <= fit.joint.log_loss + 1e-12


@pytest.mark.parametrize("how", SCALINGS)
def test_without_a_source_prior_the_labels_count_as_they_come(how, rng):
    z, y, _ = draw_samples(rng, 500)
    z = z + np.linspace(-1, 1, 4)
    fit = fit_scaling(z, y, scaling=how)
    scale, bias, loss = oracle(z, y, np.full(500, 1 / 500), fit.joint, np.zeros(4), scaling=how)
    assert fit.log_loss == pytest.approx(loss, abs=LOSS)
    np.testing.assert_allclose(fit.scale, scale, atol=FIT)
    np.testing.assert_allclose(fit.bias, bias, atol=FIT)


def test_without_penalty_it_is_the_plain_maximum_of_the_likelihood(rng):
    z, y, _ = draw_samples(rng, 500)
    fit = fit_scaling(z, y, scaling="bcts", penalty=0)
    v = np.full(500, 1 / 500)
    scale, bias, loss = oracle(z, y, v, fit.joint, np.zeros(4), scaling="bcts", alpha=0.0)
    assert fit.log_loss == pytest.approx(loss, abs=LOSS)
    np.testing.assert_allclose(fit.scale, scale, atol=1e-5)
    np.testing.assert_allclose(fit.bias - fit.bias.mean(), bias - bias.mean(), atol=1e-5)


def test_what_one_number_cannot_mend_a_bias_can(rng):
    z, y, prior = draw_samples(rng, 5000)
    wrong = z + np.array([0.0, 3.0, 0.0, 0.0])
    joint = fit_log_loss(wrong, y, source_prior=prior)
    bcts = fit_scaling(wrong, y, source_prior=prior)
    vector = fit_scaling(wrong, y, scaling="vector", source_prior=prior)
    truth = fit_log_loss(z, y, source_prior=prior).log_loss
    assert joint.log_loss > bcts.log_loss + 0.1
    assert bcts.log_loss == pytest.approx(truth, abs=0.01)
    assert vector.log_loss <= bcts.log_loss + 1e-6
    assert np.ptp(bcts.scale) == 0.0


def test_a_large_penalty_is_the_joint_fit(rng):
    z, y, prior = draw_samples(rng, 500)
    fit = fit_scaling(z, y, scaling="vector", source_prior=prior, penalty=1e9)
    np.testing.assert_allclose(fit.scale, 1 / fit.joint.temperature, rtol=1e-5)
    expected = -fit.joint.strength * np.log(prior * 4)
    np.testing.assert_allclose(fit.bias, expected, atol=1e-5)


@pytest.mark.parametrize("how", SCALINGS)
def test_its_log_loss_is_that_of_the_posterior(how, rng):
    z, y, prior = draw_samples(rng, 300)
    fit = fit_scaling(z, y, scaling=how, source_prior=prior)
    log_p = affine_posterior(z, fit.scale, fit.bias, log=True)
    assert fit.log_loss == pytest.approx(log_loss(log_p, y, balanced(y, 4)), abs=1e-10)


# ---------------------------------------------------------------------------------- identities


def assert_same(a, b, atol=FIT):
    np.testing.assert_allclose(a.scale, b.scale, atol=atol)
    np.testing.assert_allclose(a.bias, b.bias, atol=atol)
    assert a.log_loss == pytest.approx(b.log_loss, abs=atol)


@pytest.mark.parametrize("how", SCALINGS)
@pytest.mark.parametrize("n_classes", [4, 36])
def test_the_order_of_classes_does_not_matter(how, n_classes, rng):
    z, y, prior = draw_samples(rng, 900, n_classes)
    expected = fit_scaling(z, y, scaling=how, source_prior=prior)
    order = rng.permutation(n_classes)
    found = fit_scaling(z[:, order], np.argsort(order)[y], scaling=how, source_prior=prior[order])
    np.testing.assert_allclose(found.scale, expected.scale[order], atol=FIT)
    np.testing.assert_allclose(found.bias, expected.bias[order], atol=FIT)


def test_numbers_added_to_rows_do_not_matter_to_bcts(rng):
    z, y, prior = draw_samples(rng)
    moved = z + 10 * rng.normal(size=(400, 1))
    assert_same(fit_scaling(moved, y, source_prior=prior), fit_scaling(z, y, source_prior=prior))


@pytest.mark.parametrize("how", SCALINGS)
def test_weights_are_repetition_but_for_the_number_of_samples(how, rng):
    # The penalty counts samples: n labels of weight 2 are n labels, and 2n are 2n.
    z, y, prior = draw_samples(rng)
    twice = fit_scaling(
        np.repeat(z, 2, axis=0), np.repeat(y, 2), scaling=how, source_prior=prior, penalty=2.0
    )
    assert_same(twice, fit_scaling(z, y, scaling=how, source_prior=prior))
    weighted = fit_scaling(
        z, y, scaling=how, source_prior=prior, sample_weight=np.full(y.size, 7.0)
    )
    assert_same(weighted, fit_scaling(z, y, scaling=how, source_prior=prior))


def test_ignored_samples_do_not_count(rng):
    z, y, prior = draw_samples(rng)
    expected = fit_scaling(z[20:], y[20:], source_prior=prior)
    z[:20], y[:20] = np.nan, 255
    assert_same(fit_scaling(z, y, source_prior=prior, ignore_index=255), expected)


@pytest.mark.parametrize("how", SCALINGS)
@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_array_libraries_agree(backend, how, rng):
    z, y, prior = draw_samples(rng)
    expected = fit_scaling(z, y, scaling=how, source_prior=prior)
    found = fit_scaling(backend.make(z), backend.make_integers(y), scaling=how, source_prior=prior)
    assert found.log_loss == pytest.approx(expected.log_loss, abs=100 * EPS[backend.dtype])
    assert_same(found, expected, atol=max(FIT, 10 * EPS[backend.dtype] ** 0.5))
    assert found.converged


@pytest.mark.parametrize("how", SCALINGS)
def test_a_sample_and_a_rough_preconditioner_end_at_the_same(how, rng, monkeypatch):
    z, y, prior = draw_samples(rng, 3000, 5)
    expected = fit_scaling(z, y, scaling=how, source_prior=prior)
    monkeypatch.setattr(scaling, "SAMPLE_SCORES", 5000)
    assert_same(fit_scaling(z, y, scaling=how, source_prior=prior), expected)
    monkeypatch.setattr(scaling, "MOST_INVERTED", 0)
    assert_same(fit_scaling(z, y, scaling=how, source_prior=prior), expected)


# ---------------------------------------------------------------------------------- edges, words


def test_a_class_that_the_target_does_not_have(rng):
    z, y, prior = draw_samples(rng)
    fit = fit_scaling(z, y, source_prior=prior, target_prior=[0.5, 0.0, 0.25, 0.25])
    assert fit.bias[1] == -np.inf
    assert np.isfinite(np.delete(fit.bias, 1)).all()
    assert np.isfinite(fit.scale).all()
    posterior = affine_posterior(z, fit.scale, fit.bias)
    np.testing.assert_array_equal(posterior[:, 1], 0.0)
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0)


@pytest.mark.parametrize("how", SCALINGS)
def test_a_class_without_labels_keeps_what_the_priors_say(how, rng):
    z, y, prior = draw_samples(rng)
    z[:, 2] = -1e3  # nor has it any probability, so that nothing pulls
    kept = y != 2
    fit = fit_scaling(z[kept], y[kept], scaling=how, source_prior=prior, penalty=1.0)
    assert fit.bias[2] == pytest.approx(-fit.joint.strength * np.log(4 * prior[2]), abs=1e-6)


@pytest.mark.parametrize("how", SCALINGS)
@pytest.mark.parametrize("target", ["uniform", [0.4, 0.1, 0.3, 0.2]])
def test_nothing_is_learnt_of_a_class_without_labels(how, target, rng):
    """The fit is that of the other classes alone, and the prior's correction of this one."""
    z, y, prior = draw_samples(rng)
    kept, seen = y != 2, np.array([True, True, False, True])
    z, y = z[kept], y[kept]
    fit = fit_scaling(z, y, scaling=how, source_prior=prior, target_prior=target)
    t = np.full(4, 0.25) if isinstance(target, str) else np.array(target)
    alone = fit_scaling(
        z[:, seen],
        np.cumsum(seen)[y] - 1,
        scaling=how,
        source_prior=prior[seen] / prior[seen].sum(),
        target_prior=t[seen] / t[seen].sum(),
    )
    np.testing.assert_allclose(fit.scale[seen], alone.scale, atol=FIT)
    np.testing.assert_allclose(fit.bias[seen] - fit.bias[0], alone.bias - alone.bias[0], atol=FIT)
    assert fit.bias[2] == pytest.approx(fit.joint.strength * np.log(t[2] / prior[2]))
    assert fit.scale[2] == pytest.approx(
        fit.scale[0] if how == "bcts" else 1 / fit.joint.temperature
    )
    v = (t / np.bincount(y, minlength=4).clip(1))[y]
    assert fit.log_loss == pytest.approx(
        log_loss(fit.scale * z + fit.bias, y, v / v.sum()), abs=1e-12
    )


def test_a_class_without_labels_is_found_again_on_the_target():
    rng, prior = np.random.default_rng(0), np.array([0.7, 0.2, 0.1])

    def draw(n, mix):
        y = rng.choice(3, n, p=mix)
        return 2 * (rng.normal(size=(n, 3)) + 1.3 * np.eye(3)[y]) + np.log(prior), y

    (z, y), (test, truth) = draw(900, prior), draw(3000, np.full(3, 1 / 3))
    few = y < 2
    fit = fit_scaling(z[few], y[few], source_prior=prior)
    found = affine_posterior(test, fit.scale, fit.bias).argmax(axis=1)
    assert (found[truth == 2] == 2).mean() > (test.argmax(axis=1)[truth == 2] == 2).mean()


@pytest.mark.parametrize("how", SCALINGS)
def test_separable_data_have_an_end(how):
    z, y = np.repeat(6.0 * np.eye(3), 5, axis=0), np.repeat(np.arange(3), 5)
    fit = fit_scaling(z, y, scaling=how, source_prior=[0.6, 0.3, 0.1])
    assert fit.converged
    assert fit.joint.at_bound
    assert np.isfinite(fit.scale).all()
    assert fit.log_loss < 0.05


def test_without_a_penalty_they_have_none_and_a_warning_says_so():
    z, y = np.repeat(2 * np.eye(3), 5, axis=0), np.repeat(np.arange(3), 5)
    with pytest.warns(RepriorWarning, match=r"did not converge.*\(it was 0\)") as caught:
        fit_scaling(z, y, penalty=0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"kind": "odds"}, OptionError, "`kind` must be"),
        ({"scaling": "matrix"}, OptionError, "`scaling` must be"),
        ({"penalty": -1}, OptionError, "`penalty` must be a finite number of at least 0"),
        (
            {"source_prior": None, "target_prior": [0.5, 0.5]},
            PriorError,
            "`source_prior` must be given where `target_prior` or `label_prior` is",
        ),
        (
            {"source_prior": None, "label_prior": [0.5, 0.5]},
            PriorError,
            "`source_prior` must be given where",
        ),
        ({"label_prior": [0.5, 0.6]}, PriorError, "`label_prior` must sum to 1"),
        ({"target_prior": [1.0, 0.0]}, PriorError, "at least two classes"),
        (
            {"labels": np.array([1, 1]), "penalty": 0},
            OptionError,
            r"Got penalty=0 and no label of class 0\. Pass penalty=1",
        ),
        (
            {"labels": np.array([1, 1])},
            LabelsError,
            r"`labels` must be of at least two of the classes .* Got 1\. Pass labels of more",
        ),
    ],
)
def test_error_sentences(options, error, words):
    given_ = {"labels": np.array([0, 1]), "source_prior": [0.3, 0.7], **options}
    with pytest.raises(error, match=words) as caught:
        fit_scaling(np.array([[1.0, 2.0], [2.0, 1.0]]), given_.pop("labels"), **given_)
    assert isinstance(caught.value, RepriorError)


@pytest.mark.parametrize("gone", range(4))
def test_bcts_has_one_scale_whatever_class_is_gone(rng, gone):
    # Of four classes: of two, the joint fit is this one.
    z, y, prior = draw_samples(rng, 400, 4, temperature=2.0, imbalance=10)
    target = np.where(np.arange(4) == gone, 0.0, 1 / 3)
    fit = fit_scaling(z, y, source_prior=prior, target_prior=target)
    assert np.unique(fit.scale).size == 1
    assert 1.0 / fit.scale[gone] != pytest.approx(fit.joint.temperature, rel=1e-6)
    kept = y != gone
    p = affine_posterior(z[kept], fit.scale, fit.bias, kind="logits", class_axis=-1, log=True)
    v = 1.0 / np.bincount(y, minlength=4)[y[kept]]
    loss = -(v @ p[np.arange(v.size), y[kept]]) / v.sum()
    assert loss == pytest.approx(fit.log_loss, rel=1e-9)


def test_bounds_are_those_of_the_joint_fit(rng):
    z, y, prior = draw_samples(rng, 400, 3, temperature=2.0, imbalance=10)
    fit = fit_scaling(z, y, source_prior=prior, bounds=(0.0, 0.2))
    assert (fit.joint.strength, fit.joint.at_bound) == (0.2, True)
    with pytest.raises(PriorError, match="divide by 0"):
        fit_scaling(z, y, source_prior=prior, target_prior=[0.5, 0.5, 0.0], bounds=(-1.0, 1.0))


def test_a_joint_fit_that_does_not_come_to_rest_is_said(rng, monkeypatch):
    monkeypatch.setattr("reprior.core.minimise.MAX_PASSES", 2)
    z, y, prior = draw_samples(rng, 400, 3, temperature=3.0, imbalance=20)
    with pytest.warns(RepriorWarning, match="did not converge"):
        assert not fit_scaling(z, y, source_prior=prior).joint.converged


PENALTY = 0.03


def problem(seed, *, per_class, n=120, n_classes=4, penalty=PENALTY, dtype=np.float64):
    rng = np.random.default_rng(seed)
    z, y, prior = draw_samples(rng, n, n_classes)
    v = balanced(y, n_classes)
    data, centre = labelled(z.astype(dtype), y, v), (0.6, -np.log(prior))
    loss = ScalingLoss(data, centre, penalty=penalty, per_class=per_class)
    return loss, (z, y, v), 0.3 * rng.normal(size=loss.size)


@given(st.integers(0, 10**6), st.booleans())
def test_it_is_its_definition(seed, per_class):
    loss, (z, y, v), point = problem(seed, per_class=per_class)
    s, r = (point[:4], point[4:]) if per_class else (point[0], point[1:])
    scale, bias = loss.unpacked(point)
    np.testing.assert_allclose(scale, np.broadcast_to(0.6 * (1 + s), 4))
    np.testing.assert_allclose(bias, loss.centre[1] + r)
    value = log_loss(scale * z + bias, y, v)
    expected = value + 0.5 * PENALTY * (np.sum(np.square(s)) + np.sum(r**2))
    assert loss(point)[0] == pytest.approx(expected, abs=1e-12)
    assert loss.penalised(point) == pytest.approx(expected - value, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans())
def test_the_gradient_is_that_of_finite_differences(seed, per_class):
    loss, _, point = problem(seed, per_class=per_class)
    steps = 1e-6 * np.eye(loss.size)
    expected = [(loss(point + h)[0] - loss(point - h)[0]) / 2e-6 for h in steps]
    np.testing.assert_allclose(loss(point)[1], expected, atol=1e-8)


@pytest.mark.parametrize("per_class", [True, False])
def test_a_number_added_to_all_biases_is_left_out(per_class):
    loss, _, point = problem(5, per_class=per_class)
    found = loss.centred(point)
    value, gained = loss(point)[0], loss.penalised(point) - loss.penalised(found)
    assert loss(found)[0] == pytest.approx(value - gained, abs=1e-12)
    assert gained > 0
    np.testing.assert_array_equal(found[: loss.n_scales], point[: loss.n_scales])
    assert np.ptp(point[loss.n_scales :] - found[loss.n_scales :]) < 1e-12
    assert found[loss.n_scales :].sum() == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 10**6), st.booleans(), st.floats(0, 1))
def test_it_is_convex_along_any_segment(seed, per_class, share):
    loss, _, a = problem(seed, per_class=per_class)
    b = np.random.default_rng(seed + 1).normal(size=loss.size)
    between = loss(share * a + (1 - share) * b)[0]
    assert between <= share * loss(a)[0] + (1 - share) * loss(b)[0] + 1e-12


def hessian(loss, point):
    steps = 1e-5 * np.eye(loss.size)
    return np.array([(loss(point + h)[1] - loss(point - h)[1]) / 2e-5 for h in steps])


@pytest.mark.parametrize("per_class", [True, False])
def test_the_preconditioner_inverts_the_second_derivatives(per_class):
    loss, _, point = problem(1, per_class=per_class)
    solve, h = loss.preconditioner(point, loss.data), hessian(loss, point)
    rng = np.random.default_rng(2)
    # Steps and gradients do not add a number to all biases; nor do these.
    for _ in range(5):
        step = rng.normal(size=loss.size)
        step[loss.n_scales :] -= step[loss.n_scales :].mean()
        np.testing.assert_allclose(solve(h @ step), step, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("per_class", [True, False])
def test_of_many_numbers_it_inverts_those_of_each_class(per_class, monkeypatch):
    loss, _, point = problem(1, per_class=per_class)
    monkeypatch.setattr(scaling, "MOST_INVERTED", 3)
    solve, h = loss.preconditioner(point, loss.data), hessian(loss, point)
    kept = np.eye(loss.size, dtype=bool)
    if per_class:
        kept |= np.roll(kept, 4, axis=0)
    gradient = np.random.default_rng(2).normal(size=loss.size)
    expected = np.linalg.solve(np.where(kept, h, 0.0), gradient)
    np.testing.assert_allclose(solve(gradient), expected, rtol=1e-4)


def test_a_class_without_curvature_can_be_solved_by():
    rng = np.random.default_rng(0)
    z, y, _ = draw_samples(rng, 60, 4)
    z[:, 3] = -1e4  # no mass, no labels, no penalty
    kept = y != 3
    data = labelled(z[kept], y[kept])
    loss = ScalingLoss(data, (1.0, np.zeros(4)), penalty=0.0, per_class=True)
    assert np.isfinite(loss.preconditioner(np.zeros(8), data)(loss(np.zeros(8))[1])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_knows_how_exact_it_is(dtype):
    loss, _, point = problem(3, per_class=True, dtype=dtype)
    exact, _, _ = problem(3, per_class=True)
    assert loss.noise == 8 * EPS[np.dtype(dtype).name]
    assert abs(loss(point)[0] - exact(point)[0]) <= loss.noise * max(1.0, exact(point)[0])
