"""Moments, BBSE, and how a confusion matrix is conditioned."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from tests.support.label_shift import world

from reprior import RepriorWarning, estimate_target_prior
from reprior.core.shift import (
    Moments,
    bbse,
    clipped_prior,
    conditioning,
    penalty_factor,
    predict,
    regularised_weights,
    rlls,
)
from reprior.core.shift.moments import _BoundedRidge

EXACT = 1e-12
"""Solutions of well-conditioned systems by two routes in float64."""


def problem(seed, n_classes=3, separation=3.0):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    target, _ = here.draw(rng, 300, here.target)
    return target, *here.validation(rng, 200), here.source


def joint_confusion(scores, labels, soft):
    """Lipton's C: the mean of prediction ⊗ one-hot label, one sample at a time."""
    n, k = scores.shape
    total = np.zeros((k, k))
    for row, label in zip(scores, labels, strict=True):
        predicted = softmax(row) if soft else np.eye(k)[row.argmax()]
        total += np.outer(predicted, np.eye(k)[label])
    return total / n


@given(st.integers(0, 200), st.integers(2, 5), st.booleans())
def test_it_is_the_published_definition(seed, n_classes, soft):
    target, scores, labels, source = problem(seed, n_classes)
    if not soft and np.unique(scores.argmax(axis=1)).size < n_classes:
        return  # C has no inverse: another test
    C = joint_confusion(scores, labels, soft)
    seen = softmax(target, axis=1) if soft else np.eye(n_classes)[target.argmax(axis=1)]
    weights = np.linalg.inv(C) @ seen.mean(axis=0)
    expected = weights * np.bincount(labels) / labels.size
    predicted, known = (predict(z, soft=soft) for z in (target, scores))
    found = Moments(predicted.mean(), known.class_means(labels), labels.size)
    np.testing.assert_allclose(bbse(found, source), expected, atol=1e-9 * np.abs(weights).max())


def test_stacks_are_solved_one_by_one():
    rng = np.random.default_rng(0)
    matrices = 0.7 * np.eye(3) + 0.3 * rng.dirichlet(np.ones(3), (5, 3)).swapaxes(1, 2)
    predicted = rng.dirichlet(np.ones(3), 5)
    source = np.full(3, 1 / 3)
    found = bbse(Moments(predicted, matrices, 100), source)
    for matrix, mean, prior in zip(matrices, predicted, found, strict=True):
        np.testing.assert_allclose(matrix @ prior, mean, atol=EXACT)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[0.6, 0.6, 0.1], [0.4, 0.4, 0.1], [0.0, 0.0, 0.8]]),  # two classes alike
        np.array([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7], [0.0, 0.0, 0.0]]),  # one never predicted
        np.full((3, 3), 1 / 3) + 1e-17 * np.eye(3),  # nothing is told apart
    ],
)
def test_a_singular_matrix_stays_near_the_source(matrix):
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    found = bbse(Moments(matrix @ target, matrix, 100), source)
    np.testing.assert_allclose(matrix @ found, matrix @ target, atol=1e-10)
    # The nearest of all solutions: it is unchanged along the null space of the matrix.
    blind = np.linalg.svd(matrix)[2][np.linalg.matrix_rank(matrix) :]
    np.testing.assert_allclose(blind @ (found - source), 0, atol=1e-10)


@st.composite
def singular_stacks(draw):
    """Confusion matrices of counts, some with a column that is that of another class, or a mix."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    k, n = draw(st.integers(2, 12)), draw(st.integers(1, 6))
    matrices = np.empty((n, k, k))
    singular = np.zeros(n, bool)
    for i in range(n):
        counts = np.array(
            [rng.multinomial(m, rng.dirichlet(np.ones(k))) for m in rng.integers(2, 90, k)]
        )
        if draw(st.booleans()):
            first, second = rng.choice(k, 2, replace=False)
            counts[second] = counts[first] * rng.integers(1, 50)
            if k > 2 and draw(st.booleans()):
                third = rng.choice(np.setdiff1d(np.arange(k), [first, second]))
                counts[second] += counts[third] * rng.integers(1, 50)
            singular[i] = True
        matrices[i] = (counts / counts.sum(axis=1, keepdims=True)).T
    return matrices, singular, rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), n)


CUTOFF = 1e-11
"""Singular values of random counts are above this, those that should be 0 far below."""


@given(singular_stacks())
def test_a_matrix_that_rounding_makes_regular_is_singular_all_the_same(drawn):
    matrices, singular, source, targets = drawn
    predicted = np.einsum("bij,bj->bi", matrices, targets)
    found = bbse(Moments(predicted, matrices, 100), source)
    for matrix, mean, prior, is_singular in zip(matrices, predicted, found, singular, strict=True):
        balanced = np.eye(source.size) - 1 / source.size
        nearest = np.linalg.pinv(matrix @ balanced, rcond=CUTOFF) @ (mean - matrix @ source)
        kept = np.linalg.svd(matrix, compute_uv=False)
        if is_singular or kept[-1] < CUTOFF * kept[0]:
            smallest = kept[kept > CUTOFF * kept[0]][-1]
            np.testing.assert_allclose(prior, source + balanced @ nearest, atol=1e-9 / smallest)
        np.testing.assert_allclose(matrix @ prior, mean, atol=1e-9)


def test_classes_that_look_alike_share_equally():
    """Hard predictions of a last class that is the one before it for all that the model sees."""
    k = 5
    for seed in range(30):
        rng = np.random.default_rng(seed)
        counts = np.stack(
            [rng.multinomial(m, rng.dirichlet(np.ones(k))) for m in rng.integers(5, 60, k)], axis=1
        )
        counts[:, -1] = counts[:, -2] * 3
        labels = np.repeat(np.tile(np.arange(k), k), counts.ravel())
        seen = np.eye(k)[np.repeat(np.repeat(np.arange(k), k), counts.ravel())]
        with pytest.warns(RepriorWarning, match="singular"):
            prior = estimate_target_prior(
                np.eye(k)[rng.choice(k, 200, p=rng.dirichlet(np.ones(k)))],
                source_prior=np.full(k, 1 / k),
                method="bbse",
                kind="probs",
                validation=(seen, labels),
            )
        np.testing.assert_allclose(prior[-1], prior[-2], atol=1e-9)


def test_truncation():
    source = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(
        clipped_prior(np.array([1.1, -0.2, 0.1]), source), [11 / 12, 0, 1 / 12]
    )
    np.testing.assert_array_equal(clipped_prior(np.array([-0.1, 0.0, 0.0]), source), source)
    stack = clipped_prior(np.array([[0.2, 0.3, 0.5], [0.0, 0.0, 0.0]]), source)
    np.testing.assert_allclose(stack, [[0.2, 0.3, 0.5], source])


class TestConditioning:
    def of(self, scores, labels, soft=False):
        seen = predict(scores, soft=soft)
        return conditioning(seen, labels, seen.class_means(labels))

    def test_a_perfect_model(self):
        labels = np.repeat([0, 1, 2], 5)
        found = self.of(10.0 * np.eye(3)[labels], labels)
        assert found.condition_number == pytest.approx(1)
        assert found.smallest_singular_value == pytest.approx(1)
        assert found.standard_error == 0
        assert not found.near_singular

    def test_a_single_label_of_a_class_tells_nothing_of_its_spread(self):
        rng = np.random.default_rng(3)
        labels = np.array([0] * 5 + [1] * 5 + [2])
        found = self.of(10.0 * np.eye(3)[labels] + rng.normal(size=(11, 3)), labels, soft=True)
        assert found.standard_error == np.inf
        assert found.near_singular
        assert np.isfinite(found.condition_number)

    def test_a_class_that_is_never_predicted(self):
        labels = np.repeat([0, 1, 2], 50)
        scores = 10.0 * np.eye(3)[np.minimum(labels, 1)]
        found = self.of(scores, labels)
        assert found.condition_number == np.inf
        assert found.near_singular

    @pytest.mark.parametrize("smallest", [0.3, 2e-3, 5e-4, 1e-7, 0.0])
    def test_singular_values_are_those_of_the_decomposition(self, smallest):
        # Those of well-conditioned matrices are computed from the squared matrix.
        rng = np.random.default_rng(5)
        left, right = (np.linalg.qr(rng.normal(size=(4, 4)))[0] for _ in range(2))
        matrix = left * [1.0, 0.7, 0.5, smallest] @ right.T
        seen, labels = predict(rng.normal(size=(40, 4)), soft=True), np.arange(40) % 4
        found = conditioning(seen, labels, matrix)
        assert found.smallest_singular_value == pytest.approx(smallest, rel=1e-8, abs=1e-15)
        expected = 1 / smallest if smallest else np.inf
        assert found.condition_number == pytest.approx(expected, rel=1e-8)
        along = seen.probabilities() @ left[:, 3]
        variances = [along[labels == k].var(ddof=1) / 10 for k in range(4)]
        error = np.sqrt(right[:, 3] ** 2 @ variances)
        assert found.standard_error == pytest.approx(error, rel=1e-6)

    @pytest.mark.parametrize("soft", [False, True])
    def test_its_standard_error_is_that_of_new_samples(self, soft):
        rng = np.random.default_rng(2)
        here = world(rng, 3, 1.5)
        found = [self.of(*here.validation(rng, 1500), soft=soft) for _ in range(150)]
        spread = np.std([each.smallest_singular_value for each in found])
        # The spread of 150 is known to 1/√300 = 6 %: three times that, and first-order errors.
        assert np.mean([each.standard_error for each in found]) == pytest.approx(spread, rel=0.25)

    @pytest.mark.parametrize("soft", [False, True])
    def test_classes_that_look_alike_are_recognised(self, soft):
        rng = np.random.default_rng(4)
        means = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 0.0]])
        here = world(rng)._replace(means=means, source=np.array([0.4, 0.3, 0.3]))
        jitter = np.array([0.0, 0.4, 0.0])  # a model that does not know that they are alike
        found = []
        for _ in range(100):
            scores, labels = here.validation(rng, 300)
            noise = rng.normal(size=scores.shape) * jitter
            found.append(self.of(scores + noise, labels, soft=soft).near_singular)
        assert np.mean(found) > 0.85  # 95 %, less four standard errors of 100 trials


@pytest.mark.parametrize("method", ["em", "bbse", "bbse_soft", "rlls", "rlls_soft"])
def test_single_labels_are_warned_of(method):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        here = world(rng, 3, 3.0)
        seen = here.draw(rng, 60, np.full(3, 1 / 3))
        first = [int(np.argmax(seen[1] == k)) for k in range(3)]
        with pytest.warns(RepriorWarning, match="a single validation label"):
            estimate_target_prior(
                here.draw(rng, 100, here.target)[0],
                source_prior=here.source,
                method=method,
                validation=(seen[0][first], seen[1][first]),
                calibration=(1.0, 0.0),
            )


ROUNDING = 1e-11
"""By how much our objective may be above that of another optimiser. It is of the order of 1; where
an exact fit is best, ours misses it by a λ that is not quite 0."""


def regularised_problem(seed, n_classes, told_apart):
    """A confusion matrix, a source prior, and frequencies of predictions that need not fit."""
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(n_classes), n_classes).T
    matrix = told_apart * np.eye(n_classes) + (1 - told_apart) * matrix
    source = rng.dirichlet(np.full(n_classes, 2.0))
    target = rng.dirichlet(np.full(n_classes, 0.3))
    predicted = rng.multinomial(200, matrix @ target) / 200
    return matrix * source, predicted - matrix @ source


def objective(theta, joint, excess, rho):
    return float(np.linalg.norm(joint @ theta - excess) + rho * np.linalg.norm(theta))


def gradient(theta, joint, excess, rho):
    residual, tiny = joint @ theta - excess, np.finfo(float).tiny
    first = joint.T @ residual / max(np.linalg.norm(residual), tiny)
    return first + rho * theta / max(np.linalg.norm(theta), tiny)


def generic(joint, excess, rho):
    """The best that a generic bounded optimiser finds from several starts."""
    n = excess.size
    starts = [np.full(n, 0.1), np.full(n, -0.5), np.linalg.lstsq(joint, excess, rcond=None)[0]]
    found = [
        minimize(
            objective,
            np.maximum(start, -1),
            args=(joint, excess, rho),
            jac=gradient,
            method="L-BFGS-B",
            bounds=[(-1, None)] * n,
            options={"maxiter": 5000, "ftol": 1e-15},
        ).x
        for start in starts
    ]
    return min((*found, np.zeros(n)), key=lambda theta: objective(theta, joint, excess, rho))


@given(
    st.integers(0, 1000),
    st.integers(2, 7),
    st.sampled_from([0.0, 0.5, 0.9]),
    st.floats(-4.0, -0.3),
)
def test_no_generic_optimiser_finds_less(seed, n_classes, told_apart, exponent):
    joint, excess = regularised_problem(seed, n_classes, told_apart)
    rho = 10.0**exponent
    theta = regularised_weights(joint, excess, rho)
    assert theta.min() >= -1
    ours = objective(theta, joint, excess, rho)
    assert ours <= objective(generic(joint, excess, rho), joint, excess, rho) + ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_where_both_norms_are_smooth_the_slope_is_0(seed):
    joint, excess = regularised_problem(seed, 5, 0.2)
    rho = 0.05
    theta = regularised_weights(joint, excess, rho)
    residual = np.linalg.norm(joint @ theta - excess)
    if residual < 1e-6 or np.linalg.norm(theta) < 1e-6:
        return  # a corner, where there is no slope
    slope = gradient(theta, joint, excess, rho)
    free = theta > -1
    np.testing.assert_allclose(slope[free], 0, atol=1e-8)
    assert (slope[~free] >= -1e-8).all()


def test_some_of_these_are_bounded_and_some_are_corners():
    # So that the tests above are about something.
    bounded = exact = nothing = 0
    for seed in range(60):
        joint, excess = regularised_problem(seed, 5, (0.0, 0.5, 0.9)[seed % 3])
        theta = regularised_weights(joint, excess, 10.0 ** (-3 + seed % 4))
        bounded += bool((theta == -1).any())
        exact += bool(np.linalg.norm(joint @ theta - excess) < 1e-12)
        nothing += bool((theta == 0).all())
    assert min(bounded, exact, nothing) >= 3


def test_a_small_penalty_changes_nothing():
    matrix = np.array([[0.9, 0.1, 0.1], [0.05, 0.8, 0.1], [0.05, 0.1, 0.8]])
    source, target = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    found = Moments(matrix @ target, matrix, 100_000)
    np.testing.assert_allclose(rlls(found, source), target, atol=1e-10)
    np.testing.assert_allclose(bbse(found, source), target, atol=1e-10)


def test_a_large_penalty_leaves_the_source():
    joint, excess = regularised_problem(0, 4, 0.5)
    np.testing.assert_array_equal(regularised_weights(joint, excess, 10.0), np.zeros(4))


def test_nothing_to_explain():
    joint, _ = regularised_problem(0, 4, 0.5)
    np.testing.assert_allclose(regularised_weights(joint, np.zeros(4), 0.01), 0, atol=1e-12)


def test_regularised_stacks_are_solved_one_by_one():
    each = [regularised_problem(seed, 4, 0.3) for seed in range(12)]
    found = regularised_weights(
        np.stack([a for a, _ in each]), np.stack([b for _, b in each]), 0.02
    )
    for (joint, excess), theta in zip(each, found, strict=True):
        np.testing.assert_allclose(theta, regularised_weights(joint, excess, 0.02), atol=1e-9)
    assert (found == -1).any()  # some need the bounds


def test_classes_that_are_never_predicted():
    matrix = np.array([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7], [0.0, 0.0, 0.0]])
    source = np.array([0.5, 0.3, 0.2])
    # On the target it is: no prior explains that.
    found = rlls(Moments(np.array([0.4, 0.4, 0.2]), matrix, 500), source)
    assert np.isfinite(found).all()
    assert found.min() >= 0


def test_penalty():
    n, k = 1000, 3
    log_term = 2 * math.log(2 * k / 0.05)
    expected = 0.01 * 3 * (log_term / (3 * n) + math.sqrt(log_term / n))
    assert penalty_factor(k, n) == pytest.approx(expected)


def test_pivoting_that_cycles_ends():
    # Kostreva's matrix: exchanging all wrong variables at once cycles between the same two sets.
    ridge = object.__new__(_BoundedRidge)
    ridge.joint, ridge.excess = np.eye(3), np.zeros(3)
    ridge.square = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    ridge.linear = np.array([1.0, 1.0, 1.0])
    ridge.free = np.zeros(3, dtype=bool)
    w = ridge(math.log(1e-12)) + 1.0
    np.testing.assert_allclose(w, 1 / 3, atol=1e-9)
