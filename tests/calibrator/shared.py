"""What the tests of the calibrator share: labelled scores of a model that is far too sure."""

from __future__ import annotations

import warnings

import numpy as np

import reprior as rp

COUNTS = np.array([600, 200, 60, 20])
PRIOR = rp.prior_from_counts(COUNTS)
N, K = 800, COUNTS.size
NAMES = ["ant", "bee", "cat", "dog"]


def case(seed=7, n=N, labels_prior=None):
    """Logits that are 1.4 times too large, each class's off by a little, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(K, n, p=labels_prior)
    z = rng.standard_normal((n, K)) + 1.6 * np.eye(K)[labels] + np.log(PRIOR)
    return 1.4 * (z + np.array([0.0, 0.3, -0.3, 0.2])), labels


def fit(options, scores=None, labels=None, **more):
    """A fitted calibrator; warnings of bounds and few labels are ignored."""
    if scores is None:
        scores, labels = case()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RepriorWarning)
        return rp.PosteriorCalibrator(PRIOR, **options).fit(scores, labels, **more)


#: One of every kind: a name, and the options.
VALID = {
    "plain": {},
    "tempered": {"temperature": 1.7},
    "fit": {"temperature": "fit"},
    "log_loss": {"metric": "log_loss"},
    "log_loss-fit": {"metric": "log_loss", "temperature": "fit"},
    "log_loss-number": {"metric": "log_loss", "temperature": 2.0},
    "log_loss-bcts": {"metric": "log_loss", "temperature": "bcts"},
    "log_loss-vector": {"metric": "log_loss", "temperature": "vector"},
    "per_class": {"tune": "per_class", "metric": "macro_f1"},
    "per_class-fit": {"tune": "per_class", "temperature": "fit"},
    "per_class-cv": {"tune": "per_class", "cv": 2},
    "separate": {"separate": True},
    "separate-number": {"separate": True, "temperature": 1.3},
    "separate-bcts": {"separate": True, "temperature": "bcts"},
    "separate-vector-per_class": {
        "separate": True, "temperature": "vector", "tune": "per_class",
    },
    "smooth": {"selection": "smooth"},
    "one_se-constrained": {"selection": "one_se", "subject_to": "accuracy >= baseline - 0.05"},
    "balanced_log_loss": {"selection": "balanced_log_loss"},
    "cv-bootstrap": {"cv": 3, "n_bootstrap": 20, "selection": "shrunk"},
}  # fmt: skip
