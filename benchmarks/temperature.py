"""Temperature, alone, with strength or with biases, against libraries, at no worse log-loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax

import reprior as rp
from benchmarks.profile import scores_of
from benchmarks.timing import Row, compare, has
from reprior.core.log_loss import fit_log_loss
from reprior.core.scaling import fit_scaling
from reprior.core.temperature import fit_temperature

#: Samples and classes, mean lead of the true class over unit noise, and the factor of
#: overconfidence.
SHAPE, LEAD, TRUTH = (100_000, 100), 5.0, 2.0

#: The allowed time of a fit, relative to a peer's and to one `log_softmax` of the same scores.
BAR, SCALE_BAR = 0.2, 2.0

#: How much a log-loss may exceed a peer's: rounding of a mean over 100,000 samples.
ROUNDING = 1e-12

#: Number of paired runs; fewer with a peer that takes ten seconds or more.
PAIRS, FEWER = 5, 3


class Peer(NamedTuple):
    """A library that fits the same parameters: name, fit function, and log-loss of the result."""

    name: str
    fit: Callable[[], Any]
    log_loss: Callable[[Any], float]
    pairs: int = PAIRS


def log_loss(u: np.ndarray, labels: np.ndarray) -> float:
    return float(-log_softmax(u, axis=1)[np.arange(labels.size), labels].mean())


class Scores:
    """A scikit-learn classifier whose decision function returns its input."""

    _estimator_type = "classifier"

    def __init__(self, n_classes: int) -> None:
        self.classes_ = np.arange(n_classes)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, x: np.ndarray, y: np.ndarray) -> Scores:  # noqa: ARG002 - theirs to name
        return self

    def decision_function(self, x: np.ndarray) -> np.ndarray:
        return x

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x.argmax(axis=1))


def scikit_learn(logits: np.ndarray, labels: np.ndarray) -> Peer:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    model = CalibratedClassifierCV(FrozenEstimator(Scores(logits.shape[1])), method="temperature")
    return Peer(
        'sklearn CalibratedClassifierCV(…, method="temperature")',
        lambda: model.fit(logits, labels),
        lambda fit: log_loss(logits * fit.calibrated_classifiers_[0].calibrators[0].beta_, labels),
    )


def scikit_learn_alone(logits: np.ndarray, labels: np.ndarray) -> Peer:
    """The private solver without folds, copies of the scores and checks."""
    from sklearn.calibration import _TemperatureScaling

    return Peer(
        "sklearn.calibration._TemperatureScaling, the fit inside",
        lambda: _TemperatureScaling().fit(logits, labels),
        lambda fit: log_loss(logits * fit.beta_, labels),
    )


def netcal(logits: np.ndarray, labels: np.ndarray) -> Peer:
    from netcal.scaling import TemperatureScaling

    # Reads probabilities, of which it takes the logarithm.
    probs = softmax(logits, axis=1)
    return Peer(
        "netcal TemperatureScaling",
        lambda: TemperatureScaling().fit(probs, labels, tensorboard=False),
        lambda fit: log_loss(logits * np.ravel(fit.temperature)[0], labels),  # it multiplies
    )


def probmetrics(logits: np.ndarray, labels: np.ndarray) -> Peer:
    from probmetrics.calibrators import TemperatureScalingCalibrator

    # Reads probabilities, of which it takes the logarithm.
    probs = softmax(logits, axis=1)
    return Peer(
        "probmetrics TemperatureScalingCalibrator",
        lambda: TemperatureScalingCalibrator().fit(probs, labels),
        lambda fit: log_loss(logits * float(fit.invtemp_), labels),
        FEWER,
    )


def abstention(logits: np.ndarray, labels: np.ndarray, *, biases: bool = False) -> Peer:
    from abstention.calibration import TempScaling

    one_hot = np.eye(logits.shape[1])[labels]
    positions = "all" if biases else []
    # The fit returns a function that computes the posterior.
    return Peer(
        f"abstention TempScaling(bias_positions={positions!r})",
        lambda: TempScaling(bias_positions=positions)(logits, one_hot),
        lambda fit: float(-np.log(fit(logits)[np.arange(labels.size), labels]).mean()),
        FEWER if biases else PAIRS,
    )


#: The peers, by package.
TEMPERATURES = {
    "sklearn": (scikit_learn, scikit_learn_alone),
    "netcal": (netcal,),
    "probmetrics": (probmetrics,),
    "abstention": (abstention,),
}
INSTALL = {"sklearn": "scikit-learn"}


def against(what: str, fit: Callable[[], Any], loss: float, peer: Peer) -> Row:
    """One row, if our log-loss on the tuning labels is at most the peer's."""
    theirs = peer.log_loss(peer.fit())
    if not loss <= theirs + ROUNDING:
        raise SystemExit(
            f"The log-loss of {what} must be at most {theirs}, as {peer.name} has it. Got {loss}."
        )
    told = f"{what}, log-loss {loss:.6f} to {theirs:.6f}"
    return compare(told, fit, peer.name, peer.fit, bar=BAR, pairs=peer.pairs, warm=True)


def rows() -> Iterator[Row]:
    logits, labels, prior = scores_of(SHAPE, LEAD)
    logits = TRUTH * logits.astype(np.float64)
    size = f"{SHAPE[0]:,} x {SHAPE[1]}"
    alone = partial(fit_temperature, logits, labels)
    jointly = partial(fit_log_loss, logits, labels, source_prior=prior)
    biased = partial(fit_scaling, logits, labels, penalty=0.0)
    yield compare(
        f"temperature, {size}", alone, "scipy.special.log_softmax",
        partial(log_softmax, logits, axis=1), bar=SCALE_BAR, pairs=PAIRS,
    )  # fmt: skip
    both, line = jointly(), biased()
    tilted = rp.log_rebalance(logits, prior, strength=both.strength, temperature=both.temperature)
    losses = log_loss(logits / alone().temperature, labels), log_loss(tilted, labels)
    peers = [make for package, made in TEMPERATURES.items()
             if has(package, INSTALL.get(package)) for make in made]  # fmt: skip
    for make in peers:
        peer = make(logits, labels)
        yield against(f"temperature, {size}", alone, losses[0], peer)
        yield against(f"temperature and strength, {size}", jointly, losses[1], peer)
    if abstention in peers:
        loss = log_loss(line.scale * logits + line.bias, labels)
        peer = abstention(logits, labels, biases=True)
        yield against(f"bias-corrected temperature, {size}", biased, loss, peer)
