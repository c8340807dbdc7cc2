"""``reprior fit``: the numbers of the Python API, from every format, and what it says."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
from tests.support.command_line import (
    COUNTS,
    FORMATS,
    NAMES,
    data,
    installed,
    is_one_sentence,
    write,
    write_counts,
)

import reprior as rp


def fitted_in_python(**options):
    val = data(0)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS), **options)
    return calibrator.fit(val.scores, val.labels)


@pytest.mark.parametrize("extension", FORMATS)
def test_every_format_gives_the_numbers_of_the_api(tmp_path, run, extension):
    more = write(tmp_path / f"val.{extension}", data(0))
    program = installed if extension == "npz" else run  # one with warnings as errors everywhere
    result = program(
        "fit", tmp_path / f"val.{extension}", *more, "--counts", write_counts(tmp_path),
        "--kind", "logits", "-o", tmp_path / "cal.json", "--json", "--quiet",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.err == ""
    expected = fitted_in_python()
    assert result.json["strength"] == expected.strength_
    assert tuple(result.json["interval"]) == expected.strength_interval_
    assert result.json["best_score"] == expected.best_score_
    assert rp.load(tmp_path / "cal.json").strength_ == expected.strength_


@pytest.mark.parametrize("quoted", [True, False], ids=["pattern", "list"])
def test_several_files_are_one(tmp_path, run, quoted):
    whole = data(0)
    for i in range(3):
        part = slice(100 * i, 100 * (i + 1))
        write(tmp_path / f"val-{i}.parquet", type(whole)(whole.scores[part], whole.labels[part]))
    files = [tmp_path / "val-*.parquet"] if quoted else sorted(tmp_path.glob("val-*"))
    result = run(
        "fit", *files, "--counts", write_counts(tmp_path), "--kind", "logits",
        "-o", tmp_path / "cal.json", "--json",
    )  # fmt: skip
    assert result.json["strength"] == fitted_in_python().strength_
    assert result.json["n_samples"] == 300


def test_options_reach_the_calibrator(job, run):
    rule = "mean_iou >= baseline - 0.005"
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "--metric", "recall[owl]", "--subject-to", rule, "--temperature", "fit",
        "--bounds", "0", "1.5", "-o", job / "cal.json", "--json",
    )  # fmt: skip
    expected = fitted_in_python(
        metric="recall[2]", subject_to=rule, temperature="fit", bounds=(0, 1.5)
    )
    assert result.json["strength"] == expected.strength_
    assert result.json["temperature"] == pytest.approx(expected.temperature_, rel=1e-6)
    assert result.json["subject_to"] == [rule]
    assert "recall[owl]" in result.json["metrics"]


def test_what_is_printed_is_marked_as_tuning_data(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    calibrator = fitted_in_python()
    assert f"{calibrator.strength_:.4f}" in result.out
    assert result.out.count("measured on the tuning data") == 2
    assert f"{calibrator.best_score_:.4f}" in result.out
    assert "owl" in result.out


def test_json_has_the_notes_and_the_changes(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json", "--json", "--quiet",
    )  # fmt: skip
    assert result.err == ""
    assert any("order of the classes: cat, dog, owl" in note for note in result.json["notes"])
    assert result.json["measured_on"] == "tuning data"
    changes = {row["class"]: row["change"] for row in result.json["recall_changes"]}
    assert changes["owl"] > 0
    assert set(changes) <= set(NAMES)


def test_named_counts_are_put_in_order(job, run):
    (job / "named.json").write_text(json.dumps({"owl": 10, "cat": 900, "dog": 90}))
    result = run(
        "fit", job / "val.csv", "--counts", job / "named.json", "--kind", "logits",
        "-o", job / "cal.json", "--json",
    )  # fmt: skip
    assert result.json["strength"] == fitted_in_python().strength_
    assert not any("order" in note for note in result.json["notes"])


def test_counts_that_disagree_with_the_names_are_refused(job, run):
    (job / "named.json").write_text(json.dumps({"owl": 10, "cat": 900, "emu": 90}))
    result = run(
        "fit", job / "val.csv", "--counts", job / "named.json", "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "'dog'" in result.err
    assert "'emu'" in result.err
    assert not (job / "cal.json").exists()


def test_too_few_counts_are_refused(job, run):
    (job / "two.json").write_text("[900, 100]")
    result = run(
        "fit", job / "val.csv", "--counts", job / "two.json", "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert is_one_sentence(result)


def test_counts_from_labels_and_weights(job, run):
    labels = [name for name, n in zip(NAMES, COUNTS, strict=True) for _ in range(n)]
    (job / "train.csv").write_text("\n".join(["label", *labels]) + "\n")
    (job / "weights.json").write_text(json.dumps({"cat": 1, "dog": 2, "owl": 3}))
    result = run(
        "fit", job / "val.csv", "--counts-from-labels", job / "train.csv", "--weights",
        job / "weights.json", "--smoothing", "1", "--kind", "logits", "-o", job / "cal.json",
        "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    prior = rp.prior_from_counts(COUNTS, weights=[1, 2, 3], smoothing=1)
    assert np.allclose(rp.load(job / "cal.json").source_prior_, prior)


def test_a_source_prior_stands_alone(job, run):
    prior = rp.prior_from_counts(COUNTS)
    (job / "prior.json").write_text(json.dumps(prior.tolist()))
    arguments = ["fit", job / "val.csv", "--source-prior", job / "prior.json", "--kind", "logits",
                 "-o", job / "cal.json"]  # fmt: skip
    assert run(*arguments, "--json").json["strength"] == fitted_in_python().strength_
    assert is_one_sentence(run(*arguments, "--counts", job / "counts.json"))


def test_the_kind_is_never_guessed(job, run):
    result = run("fit", job / "val.csv", "--counts", job / "counts.json", "-o", job / "cal.json")
    assert is_one_sentence(result)
    for word in ("logits", "probs", "log_probs", "never guessed", "val.csv"):
        assert word in result.err


def test_the_kind_may_be_written_in_the_file(tmp_path, run):
    write(tmp_path / "val.npz", data(0), kind="logits")
    arguments = ["fit", tmp_path / "val.npz", "--counts", write_counts(tmp_path),
                 "-o", tmp_path / "cal.json"]  # fmt: skip
    assert run(*arguments).code == 0
    result = run(*arguments, "--kind", "probs")
    assert is_one_sentence(result)
    assert "--kind" in result.err


def test_a_wrong_metric_is_named_before_the_data_are_read(job, run):
    arguments = ["fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
                 "-o", job / "cal.json"]  # fmt: skip
    near = run(*arguments, "--metric", "balanced_acuracy")
    assert is_one_sentence(near)
    assert "Did you mean 'balanced_accuracy'?" in near.err
    ranking = run(*arguments, "--metric", "roc_auc")
    assert is_one_sentence(ranking)
    assert "--metric must be decided by hard labels" in ranking.err
    rule = run(*arguments, "--subject-to", "mean_iou > 3")
    assert is_one_sentence(rule)
    assert "--subject-to must read like" in rule.err


def test_the_librarys_warnings_are_notes(tmp_path, run):
    val = data(0)
    kept = val.labels != 2
    write(tmp_path / "val.csv", type(val)(val.scores[kept], val.labels[kept]))
    result = run(
        "fit", tmp_path / "val.csv", "--counts", write_counts(tmp_path), "--kind", "logits",
        "-o", tmp_path / "cal.json",
    )  # fmt: skip
    assert result.code == 0
    assert "note: 1 of 3 classes have no tuning labels: 'owl'" in result.err
    assert "RepriorWarning" not in result.err


def test_an_input_is_not_overwritten(job, run):
    before = (job / "val.csv").read_bytes()
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "val.csv",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert (job / "val.csv").read_bytes() == before


def test_maps_with_ignored_pixels(tmp_path, run):
    rng = np.random.default_rng(0)
    truth = rng.choice(3, size=(4, 16, 16), p=[0.9, 0.08, 0.02])
    maps = rng.normal(size=(4, 3, 16, 16)) + 2 * np.eye(3)[truth].transpose(0, 3, 1, 2)
    truth[:, :2] = 255
    np.savez(tmp_path / "val.npz", scores=maps, labels=truth)
    result = run(
        "fit", tmp_path / "val.npz", "--counts", write_counts(tmp_path), "--kind", "logits",
        "--metric", "mean_iou", "--ignore-index", "255", "-o", tmp_path / "cal.json", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.PosteriorCalibrator(
        rp.prior_from_counts(COUNTS), metric="mean_iou", class_axis=1, ignore_index=255
    ).fit(maps, truth)
    assert result.json["strength"] == expected.strength_
    assert result.json["n_samples"] == 4 * 14 * 16


def test_weights_of_samples(tmp_path, run):
    val = data(0)
    weight = np.random.default_rng(1).integers(1, 4, size=300)
    np.savez(tmp_path / "val.npz", scores=val.scores, labels=val.labels, importance=weight)
    result = run(
        "fit", tmp_path / "val.npz", "--counts", write_counts(tmp_path), "--kind", "logits",
        "--weight-column", "importance", "-o", tmp_path / "cal.json", "--json",
    )  # fmt: skip
    expected = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS)).fit(
        val.scores, val.labels, sample_weight=weight
    )
    assert result.json["strength"] == expected.strength_


def test_labels_of_each_file(run, tmp_path):
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    for i, part in enumerate((slice(20), slice(20, 60))):
        np.save(tmp_path / f"s{i}.npy", scores[part])
        np.save(tmp_path / f"y{i}.npy", labels[part])
    (tmp_path / "counts.json").write_text("[30, 20, 10]")
    common = ["--counts", tmp_path / "counts.json", "--kind", "logits", "--json"]
    files = [tmp_path / f"s{i}.npy" for i in range(2)]
    each = [word for i in range(2) for word in ("--labels", tmp_path / f"y{i}.npy")]
    told = run("fit", *files, *each, *common, "-o", tmp_path / "a.json")
    pattern = ["--labels", tmp_path / "y*.npy"]
    same = run("fit", *files, *pattern, *common, "-o", tmp_path / "b.json")
    assert told.json["strength"] == same.json["strength"]
    refused = run("fit", files[0], *each, *common, "-o", tmp_path / "c.json")
    assert refused.code != 0
    assert "60 labels" in refused.err


@pytest.fixture
def rare(tmp_path):
    """Scores of which balanced accuracy costs much accuracy."""
    rng = np.random.default_rng(0)
    mix = COUNTS / COUNTS.sum()
    labels = rng.choice(3, size=2000, p=mix)
    scores = rng.normal(size=(2000, 3)) + 1.2 * np.eye(3)[labels] + np.log(mix)
    np.savez(tmp_path / "val.npz", scores=scores, labels=labels, kind=np.array("logits"))
    write_counts(tmp_path)
    return tmp_path


@pytest.mark.parametrize("more", [[], ["--tune", "per_class"]], ids=["strength", "per_class"])
def test_the_option_that_limits_the_price_works_as_it_is_printed(rare, run, more):
    line = ["fit", rare / "val.npz", "--counts", rare / "counts.json", "-o", rare / "cal.json"]
    first = run(*line, *more, "--json")
    accuracy = first.json["metrics"]["accuracy"]
    assert accuracy["before"] - accuracy["after"] > 0.1
    note = next(note for note in first.json["notes"] if "costs" in note)
    assert f"accuracy {accuracy['before']:.3f} → {accuracy['after']:.3f}" in note
    options = note.partition("pass ")[2]
    assert options.startswith("--subject-to 'accuracy >= baseline - 0.02'")
    second = run(*line, *more, *shlex.split(options), "--json")
    assert second.code == 0, second.err
    assert not any("costs" in note for note in second.json["notes"])
    for name, values in second.json["metrics"].items():
        assert values["before"] - values["after"] <= 0.02 + 1e-12, name


@pytest.mark.parametrize("more", [["--metric", "log_loss"], ["--bounds", "0.5", "1.5"]])
def test_no_option_is_offered_that_would_be_refused(rare, run, more):
    line = ["fit", rare / "val.npz", "--counts", rare / "counts.json", "-o", rare / "cal.json"]
    result = run(*line, *more, "--json")
    assert result.code == 0, result.err
    (note,) = (note for note in result.json["notes"] if "costs" in note)
    assert "accuracy 0." in note
    assert "--subject-to" not in note


def test_the_document_has_what_is_applied(job, run):
    line = ["fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits", "--json"]
    plain = run(*line, "-o", job / "cal.json").json
    assert "scales" not in plain
    assert plain["strength"] == rp.load(job / "cal.json").strength_
    result = run(
        *line, "--metric", "log_loss", "--temperature", "vector", "-o", job / "cal.json"
    ).json
    np.testing.assert_allclose(result["scales"], rp.load(job / "cal.json").scales_)
    assert result["metrics"]["log_loss"]["after"] == result["best_score"]


def test_a_narrow_interval_is_shown_in_as_many_digits_as_it_takes(tmp_path, run):
    logits = np.array([[2.0, 0.0], [1.0, 0.0], [0.999999, 0.0], [0.0, 1.0]])
    np.savez(tmp_path / "val.npz", scores=logits, labels=[0, 0, 1, 1], kind="logits")
    (tmp_path / "counts.json").write_text("[80, 20]")
    result = run("fit", tmp_path / "val.npz", "--counts", tmp_path / "counts.json",
                 "-o", tmp_path / "cal.json")  # fmt: skip
    line = result.out.splitlines()[0]
    assert line == "strength     0.721347, ties from 0.721347 to 0.721348"
    summary = rp.PosteriorCalibrator([0.8, 0.2]).fit(logits, [0, 0, 1, 1]).summary()
    assert "(ties: 0.721347 to 0.721348)" in summary


def test_of_bins_the_best_point_is_shown_and_nothing_of_what_is_between(tmp_path, run):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=2000)
    logits = rng.normal(size=(2000, 2)) + np.log([0.8, 0.2])
    logits[np.arange(2000), labels] += 1.5
    np.savez(tmp_path / "val.npz", scores=logits, labels=labels, kind="logits")
    (tmp_path / "counts.json").write_text("[80, 20]")
    result = run("fit", tmp_path / "val.npz", "--counts", tmp_path / "counts.json",
                 "--resolution", "0.25", "-o", tmp_path / "cal.json")  # fmt: skip
    calibrator = rp.PosteriorCalibrator([0.8, 0.2])
    rp.engines.fit(calibrator, [(logits, labels)], resolution=0.25)
    assert calibrator.strength_ == calibrator.strength_interval_[0]
    line = result.out.splitlines()[0]
    assert line == f"strength     {calibrator.strength_:.4f}, the best of a grid of 0.25"
    assert "ties" not in calibrator.summary()
