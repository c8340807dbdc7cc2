"""Commands say on which data, and on which class mix, a number was measured."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import COUNTS, NAMES, data, is_one_sentence, write

import reprior as rp

MIX = "is measured on VAL's own class mix"
PROBABILITIES = "measured on TEST's own class mix"


def fit(run, job, *more):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json", *more,
    )  # fmt: skip
    assert result.code == 0, result.err
    return result


@pytest.fixture
def tilted(job):
    """A target prior far from VAL's mix, which is about uniform."""
    (job / "target.json").write_text(json.dumps(dict(zip(NAMES, [0.8, 0.1, 0.1], strict=True))))
    return job / "target.json"


def test_the_mix_of_the_metric(job, run, tilted):
    assert MIX in fit(run, job, "--target-prior", tilted, "--metric", "accuracy").err
    assert MIX in fit(run, job, "--target-prior", tilted, "--metric", "iou[cat]").err
    assert MIX not in fit(run, job, "--metric", "accuracy").err
    assert MIX not in fit(run, job, "--target-prior", tilted).err
    assert MIX not in fit(run, job, "--target-prior", tilted, "--metric", "recall[cat]").err


def test_weights_that_make_the_target_mix_are_honest(job, run, tilted):
    scores, labels = data(0)
    share = np.bincount(labels) / labels.size
    weight = (np.array([0.8, 0.1, 0.1]) / share)[labels]
    np.savez(
        job / "w.npz", scores=scores, labels=labels, weight=weight, class_names=np.array(NAMES)
    )
    result = run(
        "fit", job / "w.npz", "--counts", job / "counts.json", "--kind", "logits",
        "--target-prior", tilted, "--metric", "accuracy", "-o", job / "w.json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert MIX not in result.err


def test_the_mix_of_probabilities(job, run, tilted):
    fit(run, job)
    assert PROBABILITIES not in run("evaluate", job / "cal.json", job / "test.csv").err
    fit(run, job, "--target-prior", tilted)
    assert PROBABILITIES in run("evaluate", job / "cal.json", job / "test.csv").err


def test_no_strength_has_a_hint(job, run):
    (job / "counts.json").write_text(json.dumps(COUNTS[::-1].tolist()))
    assert "order of the scores" in fit(run, job).err
    (job / "counts.json").write_text(json.dumps(COUNTS.tolist()))
    assert "order of the scores" not in fit(run, job).err


def test_counts_of_the_tuning_labels(job, run):
    arguments = ["fit", job / "val.csv", "--kind", "logits", "-o", job / "cal.json"]
    result = run(*arguments, "--counts-from-labels", job / "val.csv")
    assert result.code == 0
    assert "never comes from the validation or test labels" in result.err
    write(job / "train.csv", data(2))
    other = run(*arguments, "--counts-from-labels", job / "train.csv")
    assert "never comes from" not in other.err


def page(run, fitted, test):
    return run(
        "report", fitted / "cal.json", fitted / "val.csv", "--test", test,
        "-o", fitted / "page.html", "--json",
    )  # fmt: skip


def test_a_page_that_is_judged_on_the_tuning_data(fitted, run):
    again = fitted / "again.csv"
    again.write_bytes((fitted / "val.csv").read_bytes())
    for test in (fitted / "val.csv", again):
        result = page(run, fitted, test)
        assert result.json["judged_on_test"] is False
        assert "--test is what the calibrator was tuned on" in result.err
    other = page(run, fitted, fitted / "test.csv")
    assert other.json["judged_on_test"] is True
    assert "tuned on" not in other.err


def test_a_page_of_a_calibrator_that_does_not_say(fitted, run):
    calibrator = rp.load(fitted / "cal.json")
    calibrator.provenance_ = None
    calibrator.save(fitted / "cal.json")
    assert page(run, fitted, fitted / "test.csv").json["judged_on_test"] is None


def test_groups_need_counts(fitted, run):
    result = run("evaluate", fitted / "cal.json", fitted / "test.csv", "--groups", "5", "10")
    assert is_one_sentence(result)
    assert "--groups must come with --counts" in result.err
