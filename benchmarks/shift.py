"""The target prior by EM, BBSE and RLLS against abstention and quapy, at no worse an estimate.

A model's outputs are logits, or probabilities as in scikit-learn; the peers read probabilities
only. So each is measured from both: from logits the peers' time has a softmax in it, where the
method needs one; from probabilities ours has what it takes to check them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

import reprior as rp
from benchmarks.timing import Row, array_code, compare, has
from reprior.exceptions import RepriorWarning

#: Target samples and classes, and validation samples.
SHAPE, N_LABELS = (100_000, 100), 20_000

#: Lead of the true class over unit noise, and ratio of the largest to the smallest class.
LEAD, IMBALANCE = 2.5, 20.0

#: The allowed time of an estimate, as a share of a peer's.
BAR = 1.0

#: By how much our error may be above a peer's: all solve the same problem, BBSE to rounding, EM's
#: peers to where a step is small, and those of RLLS to the tolerance of a cone solver, which is
#: coarse (SCS). For EM our likelihood, which is what it maximises, must be no smaller than a
#: peer's; tests with a tighter solver show that RLLS reaches its minimum.
SAME = {"em": 1e-5, "bbse": 1e-9, "bbse_soft": 1e-9, "rlls": 5e-4, "rlls_soft": 5e-4}

#: Rounding error of a mean over 100,000 logarithms.
ROUNDING = 1e-12

#: EM and abstention take seconds; the others milliseconds, so they need more repetitions.
SLOW, QUICK = 5, 15

Arrays = tuple[np.ndarray, np.ndarray]
Estimate = Callable[[], np.ndarray]


class Problem:
    """A model that knows the densities, trained on one mix and used on its reverse."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        prior = rp.prior_from_counts(IMBALANCE ** -np.linspace(0, 1, SHAPE[1]))
        self.labels = np.r_[np.arange(SHAPE[1]), rng.choice(SHAPE[1], N_LABELS - SHAPE[1], p=prior)]
        self.source = rp.prior_from_labels(self.labels)  # what both peers take it for
        classes = rng.choice(SHAPE[1], SHAPE[0], p=prior[::-1])
        self.truth = np.bincount(classes, minlength=SHAPE[1]) / SHAPE[0]
        self.logits = self._scores(rng, classes), self._scores(rng, self.labels)

    def _scores(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        evidence = rng.standard_normal((labels.size, SHAPE[1]))
        evidence[np.arange(labels.size), labels] += LEAD
        return LEAD * evidence + np.log(self.source)

    @cached_property
    def probabilities(self) -> Arrays:
        target, seen = self.logits
        return softmax(target, axis=1), softmax(seen, axis=1)

    def error(self, prior: np.ndarray) -> float:
        """Return the total variation distance to the true mix."""
        return float(0.5 * np.abs(prior - self.truth).sum())

    def likelihood(self, prior: np.ndarray) -> float:
        return float(np.log(self.probabilities[0] @ (prior / self.source)).mean())


class Start(NamedTuple):
    """The input of all methods: the model's outputs on target and validation, of one kind."""

    problem: Problem
    kind: str

    @property
    def outputs(self) -> Arrays:
        logits = self.kind == "logits"
        return self.problem.logits if logits else self.problem.probabilities

    def posteriors(self) -> Arrays:
        """Return probabilities, the input of the peers."""
        if self.kind == "probs":
            return self.outputs
        target, seen = self.outputs
        return softmax(target, axis=1), softmax(seen, axis=1)

    def ours(self, method: str) -> np.ndarray:
        target, seen = self.outputs
        validation = None if method == "em" else (seen, self.problem.labels)
        return rp.estimate_target_prior(
            target,
            source_prior=self.problem.source,
            method=method,
            kind=self.kind,
            validation=validation,
        )


def abstention(start: Start) -> Iterator[tuple[str, str, Estimate]]:
    from abstention import label_shift

    one_hot = np.eye(SHAPE[1])[start.problem.labels]
    # Of how abstention writes a product of matrices.
    warnings.filterwarnings("ignore", category=UserWarning, module="cvxpy")

    def of_weights(weights: Any) -> np.ndarray:
        prior = np.asarray(weights) * start.problem.source
        return np.asarray(prior / prior.sum())

    def em() -> np.ndarray:
        # Of the validation samples it uses only the labels.
        target = start.outputs[0] if start.kind == "probs" else softmax(start.outputs[0], axis=1)
        adapter = label_shift.EMImbalanceAdapter(estimate_priors_from_valid_labels=True)
        return of_weights(adapter(target, start.outputs[1], one_hot).multipliers)

    def moments(adapter: Any) -> np.ndarray:
        # Decisions need no probabilities.
        scores = start.posteriors() if adapter.soft else start.outputs
        return of_weights(adapter(one_hot, *scores).multipliers)

    yield "em", "abstention EMImbalanceAdapter", em
    adapters = {"bbse": label_shift.BBSEImbalanceAdapter}
    if has("cvxpy"):  # by which abstention solves RLLS
        adapters["rlls"] = label_shift.RLLSImbalanceAdapter
    for name, adapter in adapters.items():
        for soft in (False, True):
            method = f"{name}_soft" if soft else name
            peer = f"abstention {adapter.__name__}(soft={soft})"
            yield method, peer, partial(moments, adapter(soft=soft))


def quapy(start: Start) -> Iterator[tuple[str, str, Estimate]]:
    from quapy.method.aggregative import ACC, EMQ, PACC, RLLS
    from sklearn.dummy import DummyClassifier

    labels = start.problem.labels
    # A quantifier uses only the classes of its classifier; it gets predictions.
    model = DummyClassifier().fit(np.zeros((labels.size, 1)), labels)

    def em() -> np.ndarray:
        target = start.outputs[0] if start.kind == "probs" else softmax(start.outputs[0], axis=1)
        return np.asarray(EMQ.EM(start.problem.source.copy(), target)[0])

    def estimate(quantifier: Any, predictions: Callable[[], Arrays]) -> np.ndarray:
        target, seen = predictions()
        quantifier.aggregation_fit(seen, labels)
        return np.asarray(quantifier.aggregate(target))

    def decisions() -> Arrays:
        target, seen = start.outputs
        return target.argmax(axis=1), seen.argmax(axis=1)

    trained: dict[str, Any] = {"classifier": model, "fit_classifier": False, "val_split": None}
    acc, pacc = (quantifier(**trained, solver="exact-raise") for quantifier in (ACC, PACC))
    yield "em", "quapy EMQ.EM", em
    yield "bbse", 'quapy ACC(solver="exact-raise")', partial(estimate, acc, decisions)
    yield "bbse_soft", 'quapy PACC(solver="exact-raise")', partial(estimate, pacc, start.posteriors)
    if has("cvxpy"):  # by which quapy solves RLLS
        hard, soft = (RLLS(**trained, mode=mode) for mode in ("hard", "soft"))
        yield "rlls", 'quapy RLLS(mode="hard")', partial(estimate, hard, lambda: start.outputs)
        yield "rlls_soft", 'quapy RLLS(mode="soft")', partial(estimate, soft, start.posteriors)


PEERS = {"abstention": abstention, "quapy": quapy}


def refuse_worse(problem: Problem, method: str, mine: np.ndarray, theirs: np.ndarray) -> None:
    """Exit with an error if our estimate is worse than the peer's."""
    pair = problem.error(mine), problem.error(theirs)
    if not pair[0] <= pair[1] + SAME[method]:
        raise SystemExit(f"The error of {method} must be at most the peer's, {pair[1]}: {pair[0]}.")
    if method == "em" and not problem.likelihood(mine) >= problem.likelihood(theirs) - ROUNDING:
        raise SystemExit("The likelihood of our prior must be at least that of the peer's.")


def rows() -> Iterator[Row]:
    # The warning is correct for these data, but would appear a hundred times.
    warnings.filterwarnings("ignore", "the penalty of RLLS decides", RepriorWarning)
    problem = Problem()
    peers = {package: make for package, make in PEERS.items() if has(package)}
    for kind in ("logits", "probs"):
        start = Start(problem, kind)
        for package, make in peers.items():
            for method, name, estimate in make(start):
                mine, theirs = start.ours(method), estimate()
                refuse_worse(problem, method, mine, theirs)
                errors = f"error {problem.error(mine):.4f} to {problem.error(theirs):.4f}"
                what = f"{method} from {kind}, {SHAPE[0]:,} x {SHAPE[1]}, {errors}"
                pairs = SLOW if method == "em" or package == "abstention" else QUICK
                ours = partial(start.ours, method)
                yield compare(what, ours, name, estimate, bar=BAR, pairs=pairs, warm=True)
                if (package, kind) == ("quapy", "probs") and method.startswith("bbse"):
                    what = f"… in array code, {what}"
                    with array_code():
                        yield compare(what, ours, name, estimate, bar=np.nan, pairs=pairs)
