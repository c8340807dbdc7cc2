"""``reprior fit --certify``: what is promised, in words and as JSON, and what cannot be."""

from __future__ import annotations

import json

import numpy as np
import pytest

SOURCE = np.array([0.7, 0.2, 0.1])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.choice(3, 2_000, p=SOURCE)
    scores = rng.normal(size=(2_000, 3)) + 2 * np.eye(3)[labels] + np.log(SOURCE)
    np.savez(tmp_path / "val.npz", scores=scores, labels=labels)
    (tmp_path / "counts.json").write_text(json.dumps([700, 200, 100]))
    return tmp_path


def arguments(folder, *more):
    return [
        "fit", str(folder / "val.npz"), "--counts", str(folder / "counts.json"), "--kind", "logits",
        "-o", str(folder / "cal.json"), *more,
    ]  # fmt: skip


def test_the_promise_is_said(run, folder):
    rule = ("--subject-to", "recall[0] >= 0.8", "--certify", "0.95")
    said = run(*arguments(folder, *rule))
    assert said.code == 0, said.err
    words = " ".join(said.out.split())
    assert "promised recall[0] >= 0.8: with a probability of 95 % on new data" in words
    assert "it costs 0.0" in words
    result = json.loads(run(*arguments(folder, *rule, "--json")).out)
    assert result["certified"] == 0.95
    assert json.loads((folder / "cal.json").read_text())["promise"] == {
        "certify": 0.95,
        "subject_to": ["recall[0] >= 0.8"],
    }


@pytest.mark.parametrize(
    "options, words",
    [
        (("--certify", "0.9"), "--certify must be given with --subject-to"),
        (("--certify", "2", "--subject-to", "accuracy >= 0.1"), "--certify must be a probability"),
        (("--certify", "0.9", "--subject-to", "mean_iou >= 0.1"), "no share of samples"),
        (("--certify", "0.9", "--subject-to", "recall[2] >= 0.97"), "labels of class 2"),
    ],
)
def test_refusals(run, folder, options, words):
    said = run(*arguments(folder, *options))
    assert said.code == 2
    assert words in said.err
    assert not (folder / "cal.json").exists()
