"""``reprior fit`` beyond one number: every option reaches the calibrator, and apply honours it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import COUNTS, NAMES, data, is_one_sentence, read_output, write

import reprior as rp

PRIOR = rp.prior_from_counts(COUNTS)


def fit(run, job, *options):
    return run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        *options, "-o", job / "cal.json", "--json",
    )  # fmt: skip


def in_python(**options):
    val = data(0)
    calibrator = rp.PosteriorCalibrator(PRIOR, classes=NAMES, **options)
    return calibrator.fit(val.scores, np.array(NAMES)[val.labels])


CASES = [
    (["--metric", "log_loss"], {"metric": "log_loss"}),
    (["--metric", "log_loss", "--temperature", "bcts"],
     {"metric": "log_loss", "temperature": "bcts"}),
    (["--metric", "log_loss", "--temperature", "1.5"], {"metric": "log_loss", "temperature": 1.5}),
    (["--tune", "per_class", "--metric", "macro_f1", "--seed", "3"],
     {"tune": "per_class", "metric": "macro_f1", "random_state": 3}),
    (["--separate", "--temperature", "vector"], {"separate": True, "temperature": "vector"}),
    (["--selection", "one_se", "--cv", "3", "--bootstrap", "30", "--seed", "1"],
     {"selection": "one_se", "cv": 3, "n_bootstrap": 30, "random_state": 1}),
]  # fmt: skip


@pytest.mark.parametrize("options, same", CASES, ids=[" ".join(case[0]) for case in CASES])
def test_options_are_those_of_the_api(job, run, options, same):
    result = fit(run, job, *options)
    assert result.code == 0, result.err
    expected, found = in_python(**same), rp.load(job / "cal.json")
    test = data(1).scores
    np.testing.assert_allclose(found.predict_proba(test), expected.predict_proba(test), atol=1e-6)
    np.testing.assert_array_equal(found.predict(test), expected.predict(test))
    document = result.json
    assert document["strength"] == pytest.approx(expected.strength_, rel=1e-6)
    assert ("probability_map" in document) == expected.separate
    if expected.biases_ is not None:
        np.testing.assert_allclose(document["biases"], expected.biases_, atol=1e-6)
    if expected.cross_validation_ is not None:
        assert document["cross_validation"]["score"] == expected.cross_validation_.score
        assert tuple(document["uncertainty"]["gain"]) == expected.uncertainty_.gain_interval
    if expected.log_loss_ is not None:
        after = document["metrics"]["log_loss"]["after"]
        assert after == pytest.approx(expected.log_loss_[1], rel=1e-6)


def test_a_label_prior_of_a_file(job, run):
    (job / "mix.json").write_text(json.dumps({"owl": 0.2, "cat": 0.5, "dog": 0.3}))
    result = fit(run, job, "--metric", "log_loss", "--label-prior", job / "mix.json")
    with pytest.warns(rp.RepriorWarning, match="searching up to 4"):
        expected = in_python(metric="log_loss", label_prior=[0.5, 0.3, 0.2])
    assert result.json["temperature"] == pytest.approx(expected.temperature_, rel=1e-6)


REFUSED = [
    (["--temperature", "bcts"], "--separate must be given with --temperature bcts"),
    (
        ["--metric", "log_loss", "--subject-to", "accuracy >= 0.5"],
        "--subject-to must be left out with --metric log_loss",
    ),
    (["--tune", "per_class", "--bootstrap", "50"], "--bootstrap must be 0"),
    (["--bootstrap", "5"], "--bootstrap must be 0 or a whole number of at least 20"),
    (["--cv", "1"], "--cv must be at least 2 folds"),
    (
        ["--selection", "balanced_log_loss", "--cv", "3"],
        "--selection must be a rule that needs profiles only",
    ),
    (["--seed", "-1"], "--seed must be a whole number of at least 0. Got -1"),
    (["--tune", "per-class"], "Did you mean 'per_class'?"),
    (["--temperature", "platt"], "neither 'fit' or 'bcts' or 'vector' nor a number"),
    (["--metric", "roc_auc"], "ranks samples"),
    (["--subject-to", "accuracy >= 0.999"], "the nearest is"),
    (["--subject-to", "accuracy >= 90"], "Metrics are fractions: 90 % is 0.9."),
    (["--subject-to", "recall[faill] >= 0.9"], "--subject-to must name a class that exists"),
    (["--subject-to", "recall >= 0.8"], "--subject-to must be one of"),
    (["--metric", "logloss"], "--metric log_loss"),
]


@pytest.mark.parametrize("options, words", REFUSED, ids=[" ".join(case[0]) for case in REFUSED])
def test_what_does_not_go_together_is_one_sentence(job, run, options, words):
    result = fit(run, job, *options)
    assert is_one_sentence(result), result.err
    assert words in result.err
    assert not (job / "cal.json").exists()


def test_the_table_fits_80_columns_and_says_which_map_is_which(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits", "--separate",
        "--tune", "per_class", "--cv", "3", "-o", job / "cal.json",
    )  # fmt: skip
    assert result.code == 0
    assert "map for decisions, used by predict" in result.out
    assert "map for probabilities, used by predict_proba" in result.out
    assert "before: cross-validated" in result.out
    assert "log_loss (target mix)" in result.out
    lines = [line for line in result.out.splitlines() if not line.startswith("Written")]
    assert max(map(len, lines)) <= 80


def test_intervals_are_shown(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "--bootstrap", "50", "-o", job / "cal.json",
    )  # fmt: skip
    assert "90% sure     strength" in result.out
    assert "gain +" in result.out


@pytest.mark.parametrize("separate", [True, False])
def test_apply_and_evaluate_honour_both_maps(job, run, separate):
    more = ["--separate"] if separate else ["--temperature", "fit"]
    fit(run, job, "--tune", "per_class", *more)
    write(job / "test.npz", data(1))
    done = run("apply", job / "cal.json", job / "test.npz", "-o", job / "out.npz")
    assert done.code == 0, done.err
    posterior, predicted = read_output(job / "out.npz")
    calibrator, test = rp.load(job / "cal.json"), data(1)
    np.testing.assert_allclose(posterior, calibrator.predict_proba(test.scores))
    assert predicted == calibrator.predict(test.scores).tolist()
    judged = run("evaluate", job / "cal.json", job / "test.npz", "--format", "json").json
    accuracy = (np.array(predicted) == np.array(NAMES)[test.labels]).mean()
    assert judged["accuracy"]["after"] == pytest.approx(accuracy)
    of_label = posterior[np.arange(test.labels.size), test.labels]
    assert judged["log_loss"]["after"] == pytest.approx(-np.log(of_label).mean())


def test_words_may_be_in_capitals(job, run):
    assert fit(run, job, "--temperature", "FIT", "--resolution", "None").code == 0


def test_counts_are_not_offered_where_a_prior_is_needed(job, run):
    for option in ("--label-prior", "--target-prior"):
        result = fit(run, job, "--metric", "log_loss", option, job / "counts.json")
        assert "These look like counts: divide them by their sum." in result.err
        assert "as counts" not in result.err
