"""``reprior forecast``: what Python says, in words and as JSON, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reprior as rp

SOURCE = np.array([0.7, 0.2, 0.1])


def drawn(n, prior, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, n, p=prior)
    return rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels] + np.log(SOURCE), labels


@pytest.fixture
def folder(tmp_path, run):
    scores, labels = drawn(2_000, SOURCE, 0)
    np.savez(tmp_path / "val.npz", scores=scores, labels=labels)
    np.savez(tmp_path / "new.npz", scores=drawn(1_000, [0.2, 0.3, 0.5], 1)[0])
    np.savez(tmp_path / "few.npz", scores=scores[:5])
    (tmp_path / "counts.json").write_text(json.dumps([700, 200, 100]))
    fitted = run(
        "fit", str(tmp_path / "val.npz"), "--counts", str(tmp_path / "counts.json"), "--kind",
        "logits", "-o", str(tmp_path / "cal.json"),
    )  # fmt: skip
    assert fitted.code == 0, fitted.err
    return tmp_path


def arguments(folder, *more, scores="new.npz"):
    return "forecast", str(folder / "cal.json"), str(folder / scores), *more


def test_it_is_what_python_forecasts(run, folder):
    expected = rp.load(folder / "cal.json").forecast(
        np.load(folder / "new.npz")["scores"], "macro_f1"
    )
    result = json.loads(run(*arguments(folder, "--metric", "macro_f1", "--json")).out)
    assert result["before"] == {
        "expected": expected.before,
        "interval": list(expected.before_interval),
    }
    assert result["after"]["interval"] == list(expected.after_interval)
    assert result["target_prior"] == expected.target_prior.tolist()
    assert result["advice"] == expected.advice
    said = run(*arguments(folder))
    assert said.code == 0, said.err
    assert "accuracy at the class mix of 1,000 samples, with intervals of 90 %" in " ".join(
        said.out.split()
    )
    text = " ".join(said.out.split())
    assert "Should you retarget? Only for accuracy: the class mix differs" in text
    assert "reprior fit VAL … --target-prior estimate --target-scores SCORES decides" in text


def test_validation_replaces_the_tuning_data(run, folder):
    more = ("--validation", str(folder / "val.npz"), "--json")
    with_file = json.loads(run(*arguments(folder, *more)).out)
    without = json.loads(run(*arguments(folder, "--json")).out)
    assert with_file["after"] == without["after"]


@pytest.mark.parametrize(
    "more, words",
    [
        (("--metric", "log_loss"), "--metric must be decided by hard labels"),
        (("--labels", "val.npz"), "--labels must be those of --validation"),
        (("--weight-column", "w"), "--weight-column must not be given here"),
        (("--confidence", "1"), "--confidence"),
    ],
)
def test_refusals(run, folder, more, words):
    said = run(*arguments(folder, *more))
    assert said.code == 2
    assert words in said.err


def test_too_few_scores(run, folder):
    said = run(*arguments(folder, scores="few.npz"))
    assert said.code == 2
    assert "at least 4 samples per class, 12" in said.err
