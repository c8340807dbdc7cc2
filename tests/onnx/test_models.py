"""Whole models: the exported one decides as Python does, on 10,000 samples each."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import skl2onnx
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from tests.support.onnx_models import POSTERIOR, TIE, assert_follows, calibrator, exported, run

import reprior as rp
from reprior.onnx import fold, fold_report

NAMES = np.array(["ant", "bee", "cow"])
MODELS = [
    LogisticRegression(),
    HistGradientBoostingClassifier(max_iter=15, random_state=0),
    RandomForestClassifier(20, max_depth=6, random_state=0),
    MLPClassifier((16,), learning_rate_init=0.02, tol=5e-3, random_state=0),
    GaussianNB(),
]


def missing_values_as_integers(monkeypatch):
    """skl2onnx 1.20 alone hands booleans to protobuf 7, which takes integers; our converter not."""
    from skl2onnx.common import tree_ensemble

    plain = tree_ensemble.add_node

    def add_node(*values, nodes_missing_value_tracks_true=0, **named):
        tracks = int(nodes_missing_value_tracks_true)
        return plain(*values, nodes_missing_value_tracks_true=tracks, **named)

    monkeypatch.setattr(tree_ensemble, "add_node", add_node)


def data(n_classes: int):
    X, y = make_classification(
        12_000, n_features=8, n_informative=5, n_classes=n_classes, class_sep=0.7,
        weights=[0.8] if n_classes == 2 else [0.8, 0.14], random_state=0,
    )  # fmt: skip
    return X.astype(np.float32), y


def tuned(model, X, y, names):
    prior = rp.prior_from_counts(np.bincount(y))
    cal = rp.PosteriorCalibrator(prior, kind="probs", classes=names)
    return cal.fit(model.predict_proba(X), y if names is None else names[y])


@pytest.mark.parametrize("n_classes, named", [(3, True), (2, False)])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_scikit_learn(model, n_classes, named, monkeypatch):
    if isinstance(model, HistGradientBoostingClassifier):  # as it is, not in our wrapper
        missing_values_as_integers(monkeypatch)
    X, y = data(n_classes)
    names = NAMES[:n_classes] if named else None
    model.fit(X[:2000], y[:2000] if names is None else names[y[:2000]])
    cal = tuned(model, X[:2000], y[:2000], names)
    exports = skl2onnx.to_onnx(model, X[:1], options={"zipmap": named})
    before = run(exports, X[2000:])
    after = run(fold(exports, cal), X[2000:])
    label, posterior = list(after.values())
    scores = list(before.values())[1]
    if named:  # dictionaries
        posterior = np.array([[row[name] for name in names.tolist()] for row in posterior])
        scores = np.array([[row[name] for name in names.tolist()] for row in scores])
    assert len(X[2000:]) == 10_000
    assert_follows(cal.predict_proba(scores), cal.predict(scores), posterior, label)
    # And against scikit-learn's own numbers, where single precision took no other branch.
    python = model.predict_proba(X[2000:])
    same = np.abs(python - scores).max(1) < 1e-6
    assert same.mean() > 0.95
    assert_follows(
        cal.predict_proba(python[same]), cal.predict(python[same]), posterior[same], label[same]
    )
    if not isinstance(model, LogisticRegression):
        assert (cal.predict(scores) != next(iter(before.values()))).any()


def torch_cnn():
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.Tanh(), nn.AvgPool2d(4), nn.Flatten()
            )
            self.head = nn.Linear(8 * 4, 5)

        def forward(self, x):
            z = self.head(8 * self.body(x))
            p = z.softmax(1)
            return z, p, p.argmax(1)

    return Net()


def test_torch_cnn():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    model = exported(torch_cnn(), torch.zeros(2, 3, 8, 8), ["z", "p", "label"], {0: "n"})
    cal = calibrator()
    folded = fold_report(model, cal)
    x = np.random.default_rng(0).normal(size=(10_000, 3, 8, 8)).astype(np.float32)
    z, after = run(model, x)["z"], run(folded.model, x)
    assert_follows(cal.predict_proba(z), cal.predict(z), after["p"], after["label"])
    assert (after["label"] != z.argmax(1)).mean() > 0.02
    assert folded.added == []


@pytest.mark.parametrize("upsampled", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_segmentation(upsampled):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch import nn

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
            self.head = nn.Conv2d(8, 5, 1)

        def forward(self, x):
            z = self.head(self.body(x))
            if upsampled:
                z = nn.functional.interpolate(z, scale_factor=2, mode="bilinear")
            return z, z.argmax(1)

    axes = {0: "n", 2: "h", 3: "w"}
    model = exported(Net(), torch.zeros(2, 3, 8, 8), ["z", "label"], axes)
    cal = calibrator(class_axis=1)
    folded = fold_report(model, cal)
    assert folded.added == []
    assert folded.where.startswith("in the weights of Conv")
    x = np.random.default_rng(0).normal(size=(4, 3, 40, 64)).astype(np.float32) * 3
    z, after = run(model, x)["z"], run(folded.model, x)
    posterior = np.moveaxis(cal.predict_proba(z), 1, -1).reshape(-1, 5)
    found = np.exp(after["z"] - after["z"].max(1, keepdims=True))
    found = np.moveaxis(found / found.sum(1, keepdims=True), 1, -1).reshape(-1, 5)
    assert len(found) >= 10_000
    assert_follows(posterior, cal.predict(z).ravel(), found, after["label"].ravel())


def test_many_classes_in_torch_mlp():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 100), nn.LogSoftmax(1))
    model = exported(net, torch.zeros(2, 8), ["log_p"], {0: "n"})
    cal = calibrator(100, temperature=1.3)
    x = np.random.default_rng(0).normal(size=(10_000, 8)).astype(np.float32)
    scores, after = run(model, x)["log_p"], run(fold(model, cal), x)["log_p"]
    posterior = cal.predict_proba(scores)
    assert np.abs(np.exp(after) - posterior).max() <= POSTERIOR
    top = np.sort(posterior, axis=1)
    clear = top[:, -1] - top[:, -2] > TIE
    assert (after.argmax(1) == cal.predict(scores))[clear].all()
    onnx.checker.check_model(fold(model, cal))
