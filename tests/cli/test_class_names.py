"""Numbers by name need scores with names: nothing is labelled anew by an order that is guessed."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import COUNTS, NAMES, data, is_one_sentence, write

import reprior as rp

NAMED = {"owl": 10, "cat": 900, "dog": 90}


@pytest.fixture
def unnamed(job):
    """Scores without class names, and numbers by name in another order."""
    scores, labels = data(0)
    np.savez(job / "val.npz", scores=scores, labels=labels)
    (job / "named.json").write_text(json.dumps(NAMED))
    (job / "prior.json").write_text(json.dumps({k: n / 1000 for k, n in NAMED.items()}))
    (job / "classes.txt").write_text("\n".join(NAMES))
    return job


def fit(run, folder, *more, scores="val.npz"):
    return run("fit", folder / scores, "--kind", "logits", "-o", folder / "cal.json", *more)


@pytest.mark.parametrize(
    "options",
    [
        ["--counts", "named.json"],
        ["--source-prior", "prior.json"],
        ["--counts", "counts.json", "--target-prior", "prior.json"],
        ["--counts", "counts.json", "--weights", "named.json"],
    ],
)
def test_numbers_by_name_need_class_names(unnamed, run, options):
    options = [unnamed / each if each.endswith("json") else each for each in options]
    result = fit(run, unnamed, *options)
    assert is_one_sentence(result)
    assert "Pass --classes FILE" in result.err
    assert not (unnamed / "cal.json").exists()
    named = fit(run, unnamed, *options, "--classes", unnamed / "classes.txt")
    assert named.code == 0, named.err


@pytest.mark.parametrize("form", ["npy", "zarr"])
def test_arrays_of_other_formats_have_no_names_either(unnamed, run, form):
    more = write(unnamed / f"val.{form}", data(0))
    counts = ["--counts", unnamed / "named.json"]
    assert is_one_sentence(fit(run, unnamed, *more, *counts, scores=f"val.{form}"))


def test_classes_put_them_in_order(unnamed, run):
    names = ["--classes", unnamed / "classes.txt"]
    assert fit(run, unnamed, "--counts", unnamed / "named.json", *names).code == 0
    calibrator = rp.load(unnamed / "cal.json")
    assert calibrator.classes_.tolist() == NAMES
    assert calibrator.source_prior_ == pytest.approx(COUNTS / 1000)


def test_names_that_are_indices_are_matched(unnamed, run):
    (unnamed / "index.json").write_text(json.dumps({"2": 10, "0": 900, "1": 90}))
    assert fit(run, unnamed, "--counts", unnamed / "index.json").code == 0
    assert rp.load(unnamed / "cal.json").source_prior_ == pytest.approx(COUNTS / 1000)


def test_counts_beside_a_calibrator_without_names(unnamed, run):
    assert fit(run, unnamed, "--counts", unnamed / "counts.json").code == 0
    arguments = ["evaluate", unnamed / "cal.json", unnamed / "val.npz"]
    counts = ["--counts", unnamed / "named.json"]
    assert is_one_sentence(run(*arguments, *counts))
    named = run(*arguments, *counts, "--classes", unnamed / "classes.txt", "--json")
    assert named.json["recall_few"]["after"] > 0


def test_training_labels_of_classes_that_are_integers(job, run):
    (job / "v.csv").write_text("1,0,label\n" + "2,1,0\n1,2,1\n" * 5)
    np.save(job / "train.npy", np.repeat([0, 1], [90, 10]))
    arguments = ["fit", job / "v.csv", "--kind", "logits", "-o", job / "cal.json",
                 "--counts-from-labels", job / "train.npy"]  # fmt: skip
    by_index = run(*arguments)
    assert "--labels-as names" in by_index.err
    assert rp.load(job / "cal.json").source_prior_ == pytest.approx([0.9, 0.1])
    assert run(*arguments, "--labels-as", "names").code == 0
    assert rp.load(job / "cal.json").source_prior_ == pytest.approx([0.1, 0.9])


def test_a_column_of_ids_is_named(job, run):
    (job / "ids.csv").write_text("cat,dog,owl,sample_id,label\n1,2,3,7,cat\n1,3,2,8,dog\n")
    result = fit(run, job, "--counts", job / "counts.json", scores="ids.csv")
    assert is_one_sentence(result)
    assert "'sample_id' is not, drop the column" in result.err
    assert "--classes" in result.err


def test_a_class_without_samples_is_named(job, run):
    (job / "zero.json").write_text(json.dumps({**NAMED, "owl": 0}))
    result = fit(run, job, "--counts", job / "zero.json", scores="val.csv")
    assert is_one_sentence(result)
    assert "counts of class 2 ('owl') = 0" in result.err


def test_a_label_to_leave_out_is_named_by_its_option(job, run):
    scores, labels = data(0)
    labels[3] = 255
    np.savez(job / "void.npz", scores=scores, labels=labels)
    result = fit(run, job, "--counts", job / "counts.json", scores="void.npz")
    assert is_one_sentence(result)
    assert "pass --ignore-index 255" in result.err


def test_percentages_are_known(job, run):
    scores, labels = data(0)
    probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.savez(job / "percent.npz", scores=100 * probs, labels=labels)
    result = run("fit", job / "percent.npz", "--kind", "probs", "--counts", job / "counts.json",
                 "-o", job / "cal.json")  # fmt: skip
    assert is_one_sentence(result)
    assert "divide them by 100" in result.err
    assert "scores[" not in result.err


@pytest.fixture
def with_ids(job):
    """Tables with a numeric id in front of the scores, and counts by name."""
    for name in ("val", "test"):
        lines = (job / f"{name}.csv").read_text().splitlines()
        rows = [f"{i}," for i in range(len(lines) - 1)]
        text = [f"{first}{line}" for first, line in zip(["sample_id,", *rows], lines, strict=True)]
        (job / f"ids-{name}.csv").write_text("\n".join(text) + "\n")
    (job / "named.json").write_text(json.dumps(NAMED))
    (job / "prior.json").write_text(json.dumps({k: n / 1000 for k, n in NAMED.items()}))
    return job


@pytest.mark.parametrize(
    "options",
    [
        ["--counts", "named.json"],
        ["--source-prior", "prior.json"],
        ["--counts", "named.json", "--target-prior", "estimate", "--target-scores", "ids-test.csv"],
        ["--counts", "named.json", "--engine", "dask"],
    ],
)
def test_counts_that_name_every_class_say_which_columns_are_scores(with_ids, run, options):
    if "dask" in options:
        pytest.importorskip("dask", reason="dask is not installed")
    options = [with_ids / each if "." in each else each for each in options]
    without = [with_ids / "test.csv" if str(each).endswith("ids-test.csv") else each
               for each in options]  # fmt: skip
    clean = fit(run, with_ids, *without, "--json", scores="val.csv")
    assert clean.code == 0, clean.err
    result = fit(run, with_ids, *options, "--json", scores="ids-val.csv")
    assert result.code == 0, result.err
    assert (result.json["strength"], result.json["best_score"]) == (
        clean.json["strength"], clean.json["best_score"],
    )  # fmt: skip
    assert rp.load(with_ids / "cal.json").classes_.tolist() == NAMES
    assert "the column sample_id of" in result.err
    assert "cannot be scores" in result.err
    done = run("evaluate", with_ids / "cal.json", with_ids / "ids-test.csv")
    assert done.code == 0, done.err


def test_every_command_that_reads_counts_leaves_the_id_out(with_ids, run):
    counts = ["--counts", with_ids / "named.json", "--kind", "logits"]
    val = with_ids / "ids-val.csv"
    fused = run("fuse", "fit", f"a={val}", f"b={val}", *counts, "-o", with_ids / "fusion.json")
    estimated = run("prior", "estimate", val, *counts, "--validation", val)
    for result in (fused, estimated):
        assert result.code == 0, result.err
        assert "the column sample_id of" in result.err


def test_counts_that_lack_a_column_and_name_another_class_are_refused(with_ids, run):
    (with_ids / "other.json").write_text(json.dumps({"cat": 9, "dog": 5, "emu": 1}))
    result = fit(run, with_ids, "--counts", with_ids / "other.json", scores="ids-val.csv")
    assert is_one_sentence(result)
    assert "'sample_id' is not, drop the column" in result.err
