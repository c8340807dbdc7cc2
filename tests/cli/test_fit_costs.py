"""``fit --metric cost --costs FILE`` and ``--class-groups FILE``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reprior as rp

COSTS = [[0, 1, 1], [5, 0, 1], [20, 10, 0]]


@pytest.fixture
def folder(tmp_path, rng):
    """Return a folder with scores, labels, counts and costs of three classes."""
    prior = np.array([0.7, 0.2, 0.1])
    labels = rng.choice(3, 300, p=prior)
    scores = 2.0 * np.eye(3)[labels] + rng.normal(size=(300, 3)) + np.log(prior)
    np.savez(tmp_path / "val.npz", scores=scores, labels=labels, class_names=["a", "b", "c"])
    (tmp_path / "counts.json").write_text("[700, 200, 100]")
    (tmp_path / "costs.json").write_text(json.dumps(COSTS))
    return tmp_path


def options(folder):
    counts = str(folder / "counts.json")
    return ["--counts", counts, "--kind", "logits", "-o", str(folder / "cal.json")]


def test_costs_are_minimised_and_kept(folder, run):
    val, costs = str(folder / "val.npz"), str(folder / "costs.json")
    run("fit", val, *options(folder), "--metric", "cost", "--costs", costs)
    loaded = rp.load(folder / "cal.json")
    assert loaded.metric == rp.Cost(COSTS)
    data = np.load(folder / "val.npz")
    profile = rp.StrengthProfile.from_scores(
        data["scores"], data["labels"], source_prior=[0.7, 0.2, 0.1]
    )
    best = profile.best(rp.Cost(COSTS))
    assert loaded.strength_ == pytest.approx(best.strength, rel=1e-12)
    assert loaded.best_score_ == best.value


def test_groups_are_named(folder, run):
    groups = folder / "groups.json"
    groups.write_text('{"rare": ["b", "c"]}')
    run(
        "fit",
        str(folder / "val.npz"),
        *options(folder),
        "--metric",
        "worst_recall[rare]",
        "--class-groups",
        str(groups),
    )
    assert rp.load(folder / "cal.json").class_groups == {"rare": [1, 2]}


@pytest.mark.parametrize(
    "more, sentence",
    [
        (
            ["--metric", "cost"],
            "--metric cost and --costs must go together. Got one without --costs",
        ),
        (["--costs", "costs.json"], "Got one without --metric cost"),
        (["--class-groups", "costs.json"], "must hold groups of classes"),
        (["--class-groups", "counts.json"], "Write for example"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(folder, run, monkeypatch, more, sentence):
    monkeypatch.chdir(folder)
    done = run("fit", "val.npz", *options(folder), *more)
    assert done.code == 2
    assert sentence in " ".join(done.err.split())
