"""The likeliest mistakes: Python names the argument that was typed, the command line the option."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from tests.support.command_line import COUNTS, NAMES, data, is_one_sentence

import reprior as rp

SCORES, LABELS = data(0)
PRIOR = COUNTS / COUNTS.sum()


def fit(prior=PRIOR, scores=SCORES, labels=LABELS, sample_weight=None, **options):
    rp.PosteriorCalibrator(prior, **options).fit(scores, labels, sample_weight=sample_weight)


def changed(values, index, value):
    copy = np.array(values, dtype=type(value) if isinstance(value, float) else None)
    copy[index] = value
    return copy


def written(path, value):
    path.write_text(json.dumps(value))
    return path


def arrays(folder, *, scores=SCORES, labels=LABELS, **more):
    np.savez(folder / "made.npz", scores=scores, labels=labels, class_names=np.array(NAMES), **more)
    return folder / "made.npz"


PROBS = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)

#: What only a user of Python can type: no sentence of a command has it.
PYTHON_ALONE = ("`", "=None", "=True", "find_metric", "numpy", "rp.", "np.")

#: What Python is given, what it says, and what the command is given and says.
OPTIONS = {
    "unknown metric": (
        lambda: fit(metric="balanced_acuracy"),
        "`metric` must be one of",
        ["--metric", "balanced_acuracy"],
        "--metric must be one of",
    ),
    "a metric that ranks": (
        lambda: fit(metric="roc_auc"),
        "`metric` must be decided by hard labels",
        ["--metric", "roc_auc"],
        "--metric must be decided by hard labels",
    ),
    "a class that is not there": (
        lambda: fit(metric="recall[cow]", classes=NAMES, labels=np.array(NAMES)[LABELS]),
        "`metric` must name a class that exists, one of 'cat', 'dog', 'owl'. Got 'cow'",
        ["--metric", "recall[cow]"],
        "--metric must name a class that exists, one of 'cat', 'dog', 'owl'. Got 'cow'",
    ),
    "a typo in a constraint": (
        lambda: fit(subject_to="acuracy >= 0.5"),
        "Got 'acuracy'. Did you mean 'accuracy'?",
        ["--subject-to", "acuracy >= 0.5"],
        "Got 'acuracy'. Did you mean 'accuracy'?",
    ),
    "a constraint without a number": (
        lambda: fit(subject_to="accuracy"),
        "`subject_to` must read like",
        ["--subject-to", "accuracy"],
        "--subject-to must read like",
    ),
    "a constraint that nothing satisfies": (
        lambda: fit(subject_to="accuracy >= 0.999"),
        "tune a bias for every class (tune='per_class')",
        ["--subject-to", "accuracy >= 0.999"],
        "tune a bias for every class (--tune per_class)",
    ),
    "an unknown kind": (
        lambda: fit(kind="logit"),
        "`kind` must be one of 'logits', 'probs', 'log_probs'. Got 'logit'. Did you mean 'logits'?",
        ["--kind", "logit"],
        "'--kind': 'logit' is not one of logits, probs, log_probs. Did you mean 'logits'?",
    ),
    "an unknown way to tune": (
        lambda: fit(tune="class"),
        "`tune` must be one of 'strength', 'per_class'",
        ["--tune", "class"],
        "'--tune': 'class' is not one of strength, per_class",
    ),
    "more folds than samples": (
        lambda: fit(cv=1000),
        "Got 1000. Pass cv=3",
        ["--cv", "1000"],
        "Got 1000. Pass --cv 3",
    ),
    "logits under log_probs": (
        lambda: fit(kind="log_probs"),
        "must be at most 0 under kind='log_probs'. Got scores[3, 0]=2.19532. Pass kind='logits'",
        ["--kind", "log_probs"],
        "must be at most 0 under --kind log_probs. Got row 3, class 0 ('cat'): 2.19532. Pass "
        "--kind logits",
    ),
    "log-loss under a constraint": (
        lambda: fit(metric="log_loss", subject_to="accuracy >= 0.5"),
        "`subject_to` must be None with metric='log_loss'",
        ["--metric", "log_loss", "--subject-to", "accuracy >= 0.5"],
        "--subject-to must be left out with --metric log_loss",
    ),
    "a scaling without two maps": (
        lambda: fit(temperature="bcts"),
        "`separate` must be True with temperature='bcts'",
        ["--temperature", "bcts"],
        "--separate must be given with --temperature bcts",
    ),
    "too few replicates": (
        lambda: fit(n_bootstrap=5),
        "Pass n_bootstrap=1000",
        ["--bootstrap", "5"],
        "Pass --bootstrap 1000",
    ),
    "one fold": (lambda: fit(cv=1), "`cv` must be at least", ["--cv", "1"], "--cv must be at"),
    "a negative seed": (
        lambda: fit(random_state=-1),
        "`random_state` must be None, a whole number",
        ["--seed", "-1"],
        "--seed must be a whole number",
    ),
    "bounds reversed": (
        lambda: fit(bounds=(2.0, 0.0)),
        "Pass bounds=(0, 2)",
        ["--bounds", "2", "0"],
        "Pass --bounds 0 2",
    ),
    "a negative temperature": (
        lambda: fit(temperature=-1.0),
        "`temperature` must be a finite number above 0",
        ["--temperature", "-1"],
        "--temperature must be a finite number above 0",
    ),
    "an unknown selection": (
        lambda: fit(selection="baged"),
        "Got 'baged'. Did you mean 'bagged'?",
        ["--selection", "baged"],
        "'--selection': 'baged' is not one of max, smooth, bagged, one_se, shrunk, "
        "balanced_log_loss. Did you mean 'bagged'?",
    ),
    "scores of the wrong kind": (
        lambda: fit(kind="probs"),
        "Pass kind='logits'",
        ["--kind", "probs"],
        "Pass --kind logits",
    ),
}


@pytest.mark.parametrize("mistake", OPTIONS)
def test_options(job, run, mistake):
    do, in_python, options, in_options = OPTIONS[mistake]
    with pytest.raises(rp.RepriorError) as caught:
        do()
    assert in_python in str(caught.value)
    kind = [] if "--kind" in options else ["--kind", "logits"]
    result = run("fit", job / "val.csv", "--counts", job / "counts.json", *kind,
                 "-o", job / "cal.json", *options)  # fmt: skip
    assert is_one_sentence(result)
    assert in_options in result.err
    assert not [word for word in PYTHON_ALONE if word in result.err]


#: What Python and files are given: the scores, labels, weights or counts.
VALUES = {
    "NaN in scores": (
        {"scores": changed(SCORES, (4, 2), np.nan)},
        "`scores` must not contain NaN or +inf. Got scores[4, 2]=nan",
        "VAL must be finite numbers. Got NaN in row 4 of",
    ),
    "labels out of range": (
        {"labels": changed(LABELS, 3, 255)},
        "pass ignore_index=255",
        "pass --ignore-index 255",
    ),
    "labels of another length": (
        {"labels": LABELS[:-1]},
        "`labels` must have one entry per sample. Got shape (299,) for samples of shape (300,)",
        "--labels must have one entry per sample. Got 299 in 'labels' and 300 rows",
    ),
    "labels that are no integers": (
        {"labels": LABELS + 0.5},
        "`labels` must be integers (class indices). Got dtype float64",
        "--labels must be integers or names. Got 2.5 in row 0 of",
    ),
    "infinite scores": (
        {"scores": changed(SCORES, (0, 1), np.inf)},
        "`scores` must not contain NaN or +inf. Got scores[0, 1]=inf",
        "VAL must be finite numbers. Got +inf in row 0 of",
    ),
    "nothing left to count": (
        {"labels": np.full(300, 255), "ignore_index": 255},
        "Check `ignore_index` and `sample_weight`",
        "Check --ignore-index and the weights",
    ),
    "percentages": (
        {"scores": 100 * PROBS, "kind": "probs"},
        "Pass kind='logits'",
        "divide them by 100",
    ),
}


@pytest.mark.parametrize("mistake", VALUES)
def test_values(job, run, mistake):
    given, in_python, in_options = VALUES[mistake]
    with pytest.raises(rp.RepriorError) as caught:
        fit(**given)
    assert in_python in str(caught.value)
    path = arrays(job, **{name: given[name] for name in ("scores", "labels") if name in given})
    options = ["--kind", given.get("kind", "logits")]
    if "ignore_index" in given:
        options += ["--ignore-index", given["ignore_index"]]
    counts = job / "counts.json"
    result = run("fit", path, "--counts", counts, *options, "-o", job / "cal.json")
    assert is_one_sentence(result)
    assert in_options in result.err
    assert not [word for word in PYTHON_ALONE if word in result.err]


#: Numbers per class: in Python's words and in those of the options they were given by.
NUMBERS = {
    "a count of zero": (
        lambda: rp.prior_from_counts([900, 90, 0]),
        "Got counts[2]=0. Drop the class, or pass smoothing=1.",
        {"--counts": [900, 90, 0]},
        "Got counts of class 2 ('owl') = 0. Drop the class, or pass --smoothing 1.",
    ),
    "counts of the wrong length": (
        lambda: fit(prior=[0.9, 0.1]),
        "Got 3 on axis -1 of shape (300, 3), and 2 classes in the prior.",
        {"--counts": [900, 100]},
        "counts.json' must hold counts of the 3 classes",
    ),
    "a weight of zero": (
        lambda: rp.prior_from_counts(COUNTS, weights=[1, 0, 1]),
        "`weights` must be positive for every class. Got weights[1]=0",
        {"--counts": COUNTS.tolist(), "--weights": [1, 0, 1]},
        "--weights must be positive for every class. Got weights of class 1 ('dog') = 0",
    ),
    "a source prior with a zero": (
        lambda: fit(prior=[0.9, 0.1, 0.0]),
        "`source_prior` must be positive for every class. Got source_prior[2]=0",
        {"--source-prior": [0.9, 0.1, 0.0]},
        "--source-prior must be positive for every class. Got source prior of class 2 ('owl') = 0",
    ),
    "a target prior that does not sum to 1": (
        lambda: fit(target_prior=[0.5, 0.5, 0.5]),
        "`target_prior` must sum to 1. Got a sum of 1.5",
        {"--counts": COUNTS.tolist(), "--target-prior": [0.5, 0.5, 0.5]},
        "target-prior.json' must hold probabilities that sum to 1. Got a sum of 1.5",
    ),
}


@pytest.mark.parametrize("mistake", NUMBERS)
def test_numbers_of_the_classes(job, run, mistake):
    do, in_python, files, in_options = NUMBERS[mistake]
    with pytest.raises(rp.RepriorError) as caught:
        do()
    assert in_python in str(caught.value)
    options = [
        each
        for name, value in files.items()
        for each in (name, written(job / f"{name.strip('-')}.json", value))
    ]
    result = run("fit", job / "val.csv", "--kind", "logits", "-o", job / "cal.json", *options)
    assert is_one_sentence(result)
    assert in_options in result.err
    assert not [word for word in PYTHON_ALONE if word in result.err]


def test_files(job, run):
    """What only files can be: each is named, with the option that helps."""
    (job / "empty.csv").write_text("")
    (job / "bare.csv").write_text("cat,dog,owl\n1,2,3\n")
    (job / "two.csv").write_text("cat,dog,label\n1,2,cat\n")
    common = ["--kind", "logits", "-o", job / "cal.json"]
    counts = ["--counts", job / "counts.json"]
    for arguments, words in [
        (["empty.csv", *counts, *common], "empty.csv"),
        (["bare.csv", *counts, *common], "name a file of labels with --labels"),
        (["two.csv", *counts, *common], "counts.json"),
        (["val.csv", *common], "One of --counts and --counts-from-labels must say"),
        (["val.csv", *counts, "-o", job / "cal.json"], "--kind must be given"),
    ]:
        result = run("fit", job / arguments[0], *arguments[1:])
        assert is_one_sentence(result)
        assert words in result.err


def test_a_calibrator_knows_the_kind(job, run):
    """No option changes the kind of a calibrator's scores: none is advised."""
    result = run("fit", arrays(job, scores=PROBS), "--counts", job / "counts.json", "--kind",
                 "probs", "-o", job / "cal.json")  # fmt: skip
    assert result.code == 0, result.err
    result = run("apply", job / "cal.json", arrays(job, scores=3 * PROBS), "-o", job / "out.npz")
    assert is_one_sentence(result)
    assert "under the calibrator's kind, probs" in result.err
    assert "Give scores of the calibrator's kind." in result.err


def test_a_warning_points_at_the_line_that_was_typed():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rp.rebalance(PROBS, PRIOR)
        fit(scores=PROBS)
    assert {each.filename for each in caught} == {__file__}
    assert any("pass kind='probs'" in str(each.message) for each in caught)


def test_a_note_names_options(job, run):
    result = run("fit", arrays(job, scores=PROBS), "--counts", job / "counts.json", "--kind",
                 "logits", "-o", job / "cal.json")  # fmt: skip
    assert result.code == 0, result.err
    notes = [line for line in result.err.splitlines() if line.startswith("note: ")]
    assert any("were declared as --kind logits" in note for note in notes), notes
    assert any("pass --kind probs" in note for note in notes), notes
