"""Decisions of least expected cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import EPS, WIDE_BACKENDS, library_of

from reprior import OptionError, RepriorError, ScoresError, decide, expected_costs


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 6))
def test_all_decisions_are_enumerated(seed, n_classes, n_decisions):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), 20)
    costs = rng.normal(size=(n_classes, n_decisions))
    found, expected = decide(p, costs), expected_costs(p, costs)
    for i, row in enumerate(p):
        each = [sum(row[k] * costs[k, d] for k in range(n_classes)) for d in range(n_decisions)]
        np.testing.assert_allclose(expected[i], each, atol=1e-12)
        assert each[found[i]] <= min(each) + 1e-12


def test_the_rule_is_the_cheapest_of_all_rules():
    # Three kinds of samples, three classes: every one of the 27 rules is tried.
    rng = np.random.default_rng(0)
    kinds, costs = rng.dirichlet(np.ones(3), 3), rng.uniform(size=(3, 3))
    how_often = np.array([0.5, 0.3, 0.2])

    def risk(rule):
        return sum(how_often[i] * kinds[i] @ costs[:, d] for i, d in enumerate(rule))

    rules = np.stack(np.meshgrid(*[range(3)] * 3), axis=-1).reshape(-1, 3)
    assert risk(decide(kinds, costs)) == pytest.approx(min(map(risk, rules)))


@given(st.integers(0, 10**6))
def test_equal_costs_are_the_arg_max(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), 30)
    np.testing.assert_array_equal(decide(p, 1 - np.eye(4)), p.argmax(axis=1))


@given(st.integers(0, 10**6))
def test_costs_of_the_true_class_alone_are_a_prior(seed):
    rng = np.random.default_rng(seed)
    p, c = rng.dirichlet(np.ones(4), 30), rng.uniform(0.1, 10, size=4)
    np.testing.assert_array_equal(decide(p, c[:, None] * (1 - np.eye(4))), (c * p).argmax(axis=1))


@given(st.integers(0, 10**6))
def test_a_constant_per_true_class_and_a_factor_change_nothing(seed):
    rng = np.random.default_rng(seed)
    p, costs = rng.dirichlet(np.ones(3), 30), rng.normal(size=(3, 4))
    moved = 7.0 * (costs + rng.normal(size=(3, 1)))
    np.testing.assert_array_equal(decide(p, moved), decide(p, costs))


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_two_classes_have_a_threshold(t):
    p = np.linspace(0.01, 0.99, 99)  # of class 1, one number per sample
    costs = [[0, t], [1 - t, 0]]
    expected = np.where(np.isclose(p, t), 2, p > t)
    np.testing.assert_array_equal(np.where(np.isclose(p, t), 2, decide(p, costs)), expected)
    np.testing.assert_array_equal(
        decide(p, costs)[~np.isclose(p, t)],
        decide(np.stack([1 - p, p], axis=1), costs)[~np.isclose(p, t)],
    )
    assert expected_costs(p, costs).shape == (99, 2)
    assert decide(p[:, None], costs).shape == (99,)


def test_the_lowest_of_equals():
    assert decide(np.full((1, 3), 1 / 3), np.ones((3, 3))).tolist() == [0]


def test_to_abstain_is_a_decision():
    costs = np.hstack([1 - np.eye(3), np.full((3, 1), 0.3)])
    p = np.array([[0.8, 0.1, 0.1], [0.5, 0.3, 0.2]])
    assert decide(p, costs).tolist() == [0, 3]


def test_classes_on_another_axis(rng):
    p = np.moveaxis(rng.dirichlet(np.ones(3), (2, 4, 5)), -1, 1)
    costs = rng.normal(size=(3, 2))
    found, expected = decide(p, costs, class_axis=1), expected_costs(p, costs, class_axis=1)
    assert found.shape == (2, 4, 5)
    assert expected.shape == (2, 2, 4, 5)
    rows = np.moveaxis(p, 1, -1).reshape(-1, 3)
    np.testing.assert_array_equal(found.reshape(-1), decide(rows, costs))


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_array_libraries_agree(backend, rng):
    p, costs = rng.dirichlet(np.ones(4), 20), rng.normal(size=(4, 3))
    given_ = backend.make(p)
    found = expected_costs(given_, costs)
    assert library_of(found) == library_of(given_)
    assert found.dtype == given_.dtype
    tolerance = 16 * EPS[backend.dtype]
    np.testing.assert_allclose(np.asarray(found), p @ costs, atol=tolerance)
    decided = decide(given_, costs)
    assert library_of(decided) == library_of(given_)
    np.testing.assert_array_equal(np.asarray(decided), (p @ costs).argmin(axis=1))


@pytest.mark.parametrize(
    "posterior, costs, error, words",
    [
        ([[0.5, 0.5]], [["a", "b"], ["c", "d"]], OptionError, "`costs` must be numbers. Got dtype"),
        (
            [[0.5, 0.5]],
            [1.0, 2.0],
            OptionError,
            r"shape \(K, D\).* Got shape \(2,\)\. Pass costs\[",
        ),
        ([[0.5, 0.5]], [[1.0], [2.0]], OptionError, r"at least two classes and two decisions"),
        ([[0.5, 0.5]], [[0, np.inf], [1, 0]], OptionError, r"Got costs\[0, 1\]=inf\. Give"),
        ([[0.7, 0.7]], [[0, 1], [1, 0]], ScoresError, "`posterior` must sum .* or take their soft"),
        ([[3.0, -2]], [[0, 1], [1, 0]], ScoresError, "Take their softmax first if these are the"),
        ([3.0, -2], [[0, 1], [1, 0]], ScoresError, "or take their softmax first if these are raw"),
        ([[0.2, 0.3, 0.5]], [[0, 1], [1, 0]], RepriorError, "classes"),
    ],
)
def test_error_sentences(posterior, costs, error, words):
    with pytest.raises(error, match=words) as caught:
        decide(np.array(posterior), costs)
    assert isinstance(caught.value, RepriorError)


LARGE = 1e8
"""Beside which a difference of 1 is lost in float32."""


@pytest.mark.parametrize("backend", [b for b in WIDE_BACKENDS if b.library != "jax"], ids=str)
def test_costs_keep_the_digits_that_decide(backend):
    near = [[LARGE, LARGE + 1], [LARGE + 1, LARGE]]
    assert np.asarray(decide(backend.make(np.array([[0.4, 0.6]])), near)).tolist() == [1]


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_a_cost_beyond_float32_is_a_cost(backend):
    sure = backend.make(np.array([[1.0, 0.0], [0.5, 0.5]]))
    if backend.library != "jax":  # whose smallest float32 is too large for 1 beside 1e39
        assert np.asarray(decide(sure, [[1, 0], [1e39, 0]])).tolist() == [1, 1]
    assert np.asarray(decide(sure, [[0, 1], [1e39, 0]])).tolist() == [0, 1]


def test_expected_costs_are_rounded_last():
    p = np.array([[1, 0], [0.5, 0.5]], np.float32)
    found = expected_costs(p, [[1, 0], [1e39, 0]])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[1, 0], [np.inf, 0]], np.float32))
    costs = np.array([[LARGE, -LARGE + 1], [-LARGE + 1, LARGE]])
    np.testing.assert_array_equal(expected_costs(p, costs)[1], np.array([0.5, 0.5], np.float32))
