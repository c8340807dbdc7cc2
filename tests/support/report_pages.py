"""Reading a page back, and what it should say by brute force."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np

import reprior as rp
from reprior.files import Chunk

DATA = re.compile(r'<script type="application/json" id="report-data">(.*?)</script>', re.DOTALL)


def page_json(path) -> dict[str, Any]:
    """The numbers inside a page."""
    return json.loads(DATA.search(path.read_text(encoding="utf-8"))[1])


def unpack(packed):
    if packed is None:
        return None
    return np.frombuffer(base64.b64decode(packed["data"]), f"<{packed['type']}")


def column(table, name, default):
    found = unpack(table[name])
    return np.full(table["size"], default) if found is None else found


def replay(one_set, strength, n_classes, *, weighted=False, of="joint switches"):
    """The joint table (label, prediction) at a strength: rows at the start, then switches."""
    base, switches = (one_set[name] for name in of.split())
    mass = "weight" if weighted else "count"
    joint = np.zeros((n_classes + 1, n_classes + 1))
    np.add.at(joint, (unpack(base["label"]), unpack(base["after"])), column(base, mass, 1))
    until = np.searchsorted(unpack(switches["position"]), strength, side="right")
    label, before, after = (unpack(switches[n])[:until] for n in ("label", "before", "after"))
    value = column(switches, mass, 1)[:until]
    np.add.at(joint, (label, after), value)
    np.add.at(joint, (label, before), -value)
    return joint


def slopes_of(calibrator):
    """w = log P_t − log P_s of a calibrator."""
    with np.errstate(divide="ignore"):
        return np.log(calibrator.target_prior_) - np.log(calibrator.source_prior_)


def brute_joint(log_scores, labels, slopes, strength, weight=None):
    """The same by one arg max; no ties at a random strength."""
    k = slopes.size
    lines = log_scores if strength == 0 else log_scores + strength * slopes
    joint = np.zeros((k, k))
    np.add.at(joint, (labels, lines.argmax(axis=1)), 1.0 if weight is None else weight)
    return joint


def make_scores(rng, n=300, k=5, lead=2.0, imbalance=30.0):
    """Logits of a model of long-tailed classes, labels, and training counts."""
    counts = np.maximum(1, np.round(400 * imbalance ** -np.linspace(0, 1, k))).astype(int)
    labels = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), labels] += lead * rng.random(n)
    return logits + np.log(counts / counts.sum()), labels, counts


def fitted(logits, labels, counts, **options):
    return rp.PosteriorCalibrator(rp.prior_from_counts(counts), **options).fit(logits, labels)


def chunked(scores, labels, weight=None, size=64):
    return [
        Chunk(
            scores[i : i + size],
            labels[i : i + size],
            None if weight is None else weight[i : i + size],
            start=i,
        )
        for i in range(0, len(labels), size)
    ]
