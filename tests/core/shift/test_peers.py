"""EM, BBSE and RLLS beside abstention and quapy, where the definitions coincide.

They do where the source prior is the class mix of the validation labels. abstention gives weights,
which are made a prior here; quapy cuts single classes at 1 before it makes the sum 1, which differs
where a solution is above 1. RLLS is solved by a general cone solver in both, to its own tolerance.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from tests.support.label_shift import world

import reprior as rp
from reprior.core.shift import Moments, penalty_factor, predict

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore"),  # the peers', of what they use
]

SAME = 1e-6
SOLVER = 1e-4
"""cvxpy's solvers end near the minimum, not at it; and it is flat."""


class Problem:
    """Scores of a shifted target, and labelled ones, none of whose classes is hard to tell."""

    def __init__(self, seed, separation=5.0):
        rng = np.random.default_rng(seed)
        self.n_classes = 2 + seed % 4
        while True:
            here = world(rng, self.n_classes, separation)
            self.scores, _ = here.draw(rng, 600, here.target)
            self.seen, self.labels = here.validation(rng, 500)
            if np.unique(self.seen.argmax(axis=1)).size == self.n_classes:
                break
        self.mix = np.bincount(self.labels) / self.labels.size
        self.one_hot = np.eye(self.n_classes)[self.labels]
        self.target, self.source = softmax(self.scores, axis=1), softmax(self.seen, axis=1)

    def ours(self, method):
        validation = None if method == "em" else (self.seen, self.labels)
        return rp.estimate_target_prior(
            self.scores, source_prior=self.mix, method=method, validation=validation
        )

    def of_weights(self, weights):
        prior = np.asarray(weights) * self.mix
        return prior / prior.sum()


@pytest.fixture(params=range(12))
def problem(request):
    return Problem(request.param)


@pytest.fixture
def label_shift():
    return pytest.importorskip("abstention.label_shift", reason="abstention is not installed")


@pytest.fixture
def aggregative():
    return pytest.importorskip("quapy.method.aggregative", reason="quapy is not installed")


@pytest.fixture
def normalised():
    functional = pytest.importorskip("quapy.functional", reason="quapy is not installed")

    def normalise(solution):
        if solution.max() > 1:
            pytest.skip("SKIPPED: quapy cuts a solution above 1, which is another definition")
        return functional.normalize_prevalence(solution, "clip")

    return normalise


class TestAbstention:
    def test_em(self, problem, label_shift):
        adapter = label_shift.EMImbalanceAdapter(
            estimate_priors_from_valid_labels=True, tolerance=1e-15, max_iterations=200_000
        )
        found = adapter(problem.target, problem.source, problem.one_hot)
        expected = problem.of_weights(found.multipliers)
        np.testing.assert_allclose(problem.ours("em"), expected, atol=SAME)

    @pytest.mark.parametrize("method", ["bbse", "bbse_soft"])
    def test_bbse(self, problem, label_shift, method):
        adapter = label_shift.BBSEImbalanceAdapter(soft=method.endswith("soft"))
        found = adapter(problem.one_hot, problem.target, problem.source)
        expected = problem.of_weights(found.multipliers)
        np.testing.assert_allclose(problem.ours(method), expected, atol=SAME)

    @pytest.mark.parametrize("method", ["rlls", "rlls_soft"])
    def test_rlls(self, problem, label_shift, method):
        pytest.importorskip("cvxpy", reason="cvxpy is not installed")
        soft = method.endswith("soft")
        adapter = label_shift.RLLSImbalanceAdapter(soft=soft)
        found = adapter(problem.one_hot, problem.target, problem.source)
        expected = problem.of_weights(found.multipliers)
        np.testing.assert_allclose(problem.ours(method), expected, atol=SOLVER)
        rho = adapter.compute_3deltaC(problem.n_classes, problem.labels.size, 0.05)
        ours = penalty_factor(problem.n_classes, problem.labels.size)
        assert ours == pytest.approx(adapter.alpha * rho)


@pytest.mark.parametrize("method", ["rlls", "rlls_soft"])
def test_rlls_by_a_cone_solver_that_is_made_to_go_on(problem, method):
    # The objective of both peers, solved as exactly as can be.
    cp = pytest.importorskip("cvxpy", reason="cvxpy is not installed")
    soft = method.endswith("soft")
    target, source = (predict(z, soft=soft) for z in (problem.scores, problem.seen))
    labels = problem.labels
    found = Moments(target.mean(), source.class_means(labels), labels.size)
    joint, excess = found.confusion * problem.mix, found.predicted - source.mean()
    rho = penalty_factor(problem.n_classes, problem.labels.size)
    theta = cp.Variable(problem.n_classes)
    objective = cp.norm2(joint @ theta - excess) + rho * cp.norm2(theta)
    cp.Problem(cp.Minimize(objective), [theta >= -1]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13
    )
    expected = problem.of_weights(1 + np.maximum(theta.value, -1))
    np.testing.assert_allclose(problem.ours(method), expected, atol=SAME)


class TestQuapy:
    def test_emq(self, problem, aggregative, monkeypatch):
        monkeypatch.setattr(aggregative.EMQ, "MAX_ITER", 200_000)
        expected, _ = aggregative.EMQ.EM(problem.mix.copy(), problem.target, epsilon=1e-15)
        np.testing.assert_allclose(problem.ours("em"), expected, atol=SAME)

    def test_acc(self, problem, aggregative, normalised):
        classes = np.arange(problem.n_classes)
        rates = aggregative.ACC.getPteCondEstim(
            classes, problem.labels, problem.source.argmax(axis=1)
        )
        counts = np.bincount(problem.target.argmax(axis=1), minlength=problem.n_classes)
        solution = aggregative.ACC.solve_adjustment(
            rates, counts / counts.sum(), method="inversion", solver="exact-raise"
        )
        np.testing.assert_allclose(problem.ours("bbse"), normalised(solution), atol=SAME)

    def test_pacc(self, problem, aggregative, normalised):
        classes = np.arange(problem.n_classes)
        rates = aggregative.PACC.getPteCondEstim(classes, problem.labels, problem.source)
        solution = aggregative.ACC.solve_adjustment(
            rates, problem.target.mean(axis=0), method="inversion", solver="exact-raise"
        )
        np.testing.assert_allclose(problem.ours("bbse_soft"), normalised(solution), atol=SAME)
