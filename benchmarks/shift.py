"""The target prior by EM, BBSE and RLLS against abstention and quapy, at no worse an estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.special import softmax

import reprior as rp
from benchmarks.timing import Row, compare

#: Target samples and classes, and validation samples.
SHAPE, N_LABELS = (100_000, 100), 20_000

#: How far a sample's own class stands out of unit noise, and the largest class over the smallest.
LEAD, IMBALANCE = 2.5, 20.0

#: Of a peer's time that an estimate may take.
BAR = 1.0

#: By how much our error may be above a peer's: both end near the same optimum, RLLS's peers within
#: the tolerance of a cone solver, and those of EM where a step is below 1e-4 or 1e-6.
SAME = {"em": 1e-3, "bbse": 1e-6, "bbse_soft": 1e-6, "rlls": 1e-3, "rlls_soft": 1e-3}

PAIRS = 5


class Problem:
    """A model that knows the densities, trained on one mix and used on its reverse."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        prior = rp.prior_from_counts(IMBALANCE ** -np.linspace(0, 1, SHAPE[1]))
        self.labels = np.r_[np.arange(SHAPE[1]), rng.choice(SHAPE[1], N_LABELS - SHAPE[1], p=prior)]
        self.source = rp.prior_from_labels(self.labels)  # what both peers take it for
        classes = rng.choice(SHAPE[1], SHAPE[0], p=prior[::-1])
        self.truth = np.bincount(classes, minlength=SHAPE[1]) / SHAPE[0]
        self.scores, self.seen = (self._scores(rng, y) for y in (classes, self.labels))

    def _scores(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        evidence = rng.standard_normal((labels.size, SHAPE[1]))
        evidence[np.arange(labels.size), labels] += LEAD
        return LEAD * evidence + np.log(self.source)

    def posteriors(self) -> tuple[np.ndarray, np.ndarray]:
        """Of target and validation. The peers read these, where all begin with a model's logits."""
        return softmax(self.scores, axis=1), softmax(self.seen, axis=1)

    def ours(self, method: str) -> np.ndarray:
        validation = None if method == "em" else (self.seen, self.labels)
        return rp.estimate_target_prior(
            self.scores, source_prior=self.source, method=method, validation=validation
        )

    def error(self, prior: np.ndarray) -> float:
        """The share of the mix that is in the wrong place."""
        return float(0.5 * np.abs(prior - self.truth).sum())

    def likelihood(self, prior: np.ndarray) -> float:
        return float(np.log(softmax(self.scores, axis=1) @ (prior / self.source)).mean())


Estimate = Callable[[], np.ndarray]


def abstention(problem: Problem) -> Iterator[tuple[str, str, Estimate]]:
    from abstention import label_shift

    one_hot = np.eye(SHAPE[1])[problem.labels]

    def of_weights(weights: Any) -> np.ndarray:
        prior = np.asarray(weights) * problem.source
        return np.asarray(prior / prior.sum())

    def em() -> np.ndarray:
        adapter = label_shift.EMImbalanceAdapter(estimate_priors_from_valid_labels=True)
        return of_weights(adapter(*problem.posteriors(), one_hot).multipliers)

    def moments(adapter: Any) -> np.ndarray:
        return of_weights(adapter(one_hot, *problem.posteriors()).multipliers)

    yield "em", "abstention EMImbalanceAdapter", em
    for soft in (False, True):
        name = f"bbse{'_soft' if soft else ''}"
        bbse = label_shift.BBSEImbalanceAdapter(soft=soft)
        yield name, "abstention BBSEImbalanceAdapter", partial(moments, bbse)
    if find_spec("cvxpy") is None:
        print("cvxpy is not installed, by which abstention solves RLLS: left out")
        return
    rlls = label_shift.RLLSImbalanceAdapter(soft=True)
    yield "rlls_soft", "abstention RLLSImbalanceAdapter", partial(moments, rlls)


def quapy(problem: Problem) -> Iterator[tuple[str, str, Estimate]]:
    from quapy.functional import normalize_prevalence
    from quapy.method.aggregative import ACC, EMQ, PACC

    classes = np.arange(SHAPE[1])

    def em() -> np.ndarray:
        return np.asarray(EMQ.EM(problem.source.copy(), problem.posteriors()[0])[0])

    def solved(rates: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        how = {"method": "inversion", "solver": "exact-raise"}
        return np.asarray(
            normalize_prevalence(ACC.solve_adjustment(rates, predicted, **how), "clip")
        )

    def acc() -> np.ndarray:
        # Decisions need no probabilities.
        decided = problem.seen.argmax(axis=1)
        counts = np.bincount(problem.scores.argmax(axis=1), minlength=SHAPE[1])
        rates = ACC.getPteCondEstim(classes, problem.labels, decided)
        return solved(rates, counts / counts.sum())

    def pacc() -> np.ndarray:
        posterior, seen = problem.posteriors()
        rates = PACC.getPteCondEstim(classes, problem.labels, seen)
        return solved(rates, posterior.mean(axis=0))

    yield "em", "quapy EMQ.EM", em
    yield "bbse", "quapy ACC, inversion", acc
    yield "bbse_soft", "quapy PACC, inversion", pacc


PEERS = {"abstention": abstention, "quapy": quapy}


def refuse_worse(problem: Problem, method: str, mine: np.ndarray, theirs: np.ndarray) -> None:
    """End the run where our estimate is worse than the peer's."""
    pair = problem.error(mine), problem.error(theirs)
    if not pair[0] <= pair[1] + SAME[method]:
        raise SystemExit(f"The error of {method} must be at most the peer's, {pair[1]}: {pair[0]}.")
    if method == "em" and not problem.likelihood(mine) >= problem.likelihood(theirs) - 1e-12:
        raise SystemExit("The likelihood of our prior must be at least that of the peer's.")


def rows() -> Iterator[Row]:
    problem = Problem()
    for package, make in PEERS.items():
        if find_spec(package) is None:
            print(f"{package} is not installed: left out")
            continue
        for method, name, estimate in make(problem):
            mine, theirs = problem.ours(method), estimate()
            refuse_worse(problem, method, mine, theirs)
            errors = f"error {problem.error(mine):.4f} to {problem.error(theirs):.4f}"
            what = f"{method}, {SHAPE[0]:,} x {SHAPE[1]}, {errors}"
            ours = partial(problem.ours, method)
            yield compare(what, ours, name, estimate, bar=BAR, pairs=PAIRS)
