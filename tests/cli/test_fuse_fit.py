"""``reprior fuse fit`` is ``ModalityFusion.fit_stream`` on files."""

from __future__ import annotations

import ast
import shlex

import numpy as np
import pytest
from tests.support.command_line import NAMES, data, is_one_sentence
from tests.support.modalities import PRIOR, both, counts, maps, write_both, write_maps

import reprior as rp


@pytest.fixture
def fit(tmp_path, run):
    """Run the command; give its result and what it wrote."""

    def fit(*arguments):
        path = tmp_path / "fusion.json"
        result = run("fuse", "fit", *arguments, *counts(tmp_path), "-o", path)
        return result, rp.load(path) if result.code == 0 else None

    return fit


@pytest.mark.parametrize("extension", ["npz", "csv", "parquet", "zarr"])
def test_formats(tmp_path, fit, extension):
    named = write_both(tmp_path, 0, "val", extension)
    result, fusion = fit(*named, "--kind", "logits")
    assert result.code == 0, result.err
    expected = rp.ModalityFusion(PRIOR).fit(both(0), data(0).labels)
    assert fusion.strengths_ == expected.strengths_
    assert fusion.modalities_ == ("rgb", "depth")
    assert fusion.references_["depth"].mean == pytest.approx(expected.references_["depth"].mean)
    assert fusion.classes_.tolist() == ([0, 1, 2] if extension == "zarr" else NAMES)
    assert fusion.provenance_["n_samples"] == 300
    assert "on a grid, refined at its best" in result.out
    assert "measured on the tuning data" in result.out


OPTIONS = [
    (["--rule", "product"], {"rule": "product"}),
    (["--rule", "mean", "--no-flatten"], {"rule": "mean", "flatten": False}),
    (["--order", "flatten_first"], {"order": "flatten_first"}),
    (["--flatten-by", "pixel"], {"flatten_by": "pixel"}),
    (["--strengths", "per_modality"], {"strengths": "per_modality"}),
    (["--strength", "0.4"], {"strength": 0.4}),
    (["--strength", "rgb=0.4", "--strength", "depth=1"], {"strength": {"rgb": 0.4, "depth": 1.0}}),
    (["--bounds", "0", "0.5"], {"bounds": (0.0, 0.5)}),
    (["--metric", "mean_iou"], {"metric": "mean_iou"}),
    (
        ["--metric", "mean_iou", "--subject-to", "accuracy >= baseline - 0.05"],
        {"metric": "mean_iou", "subject_to": "accuracy >= baseline - 0.05"},
    ),
]


@pytest.mark.parametrize("given, options", OPTIONS)
@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
def test_options_on_maps(tmp_path, fit, given, options):
    """Labels are those of the second file, and 255 is left out."""
    scores, labels = maps(3)
    named = write_maps(tmp_path, scores, labels)
    result, fusion = fit(*named, "--ignore-index", "255", *given)
    assert result.code == 0, result.err
    expected = rp.ModalityFusion(PRIOR, class_axis=1, ignore_index=255, **options)
    expected.fit(scores, labels)
    assert fusion.strengths_ == pytest.approx(expected.strengths_, rel=1e-12)
    assert fusion.best_score_ == pytest.approx(expected.best_score_)
    assert (fusion.rule, fusion.order) == (expected.rule, expected.order)
    assert (fusion.flatten, fusion.flatten_by) == (expected.flatten, expected.flatten_by)
    assert fusion.search_ == expected.search_
    assert fusion.strength_ == pytest.approx(expected.strength_)


def test_labels_in_a_file_of_their_own(tmp_path, fit):
    for name, scores in both(0).items():
        np.save(tmp_path / f"{name}.npy", scores)
    np.save(tmp_path / "y.npy", data(0).labels)
    named = [f"{name}={tmp_path}/{name}.npy" for name in both(0)]
    result, fusion = fit(*named, "--kind", "logits", "--labels", tmp_path / "y.npy")
    assert result.code == 0, result.err
    expected = rp.ModalityFusion(PRIOR).fit(both(0), data(0).labels)
    assert fusion.strengths_ == expected.strengths_


def test_weights_of_samples(tmp_path, fit):
    weight = np.random.default_rng(0).random(12)
    scores, labels = maps(3)
    named = write_maps(tmp_path, scores, labels)
    np.savez(
        tmp_path / "val-depth.npz", scores=scores["depth"], labels=labels, weight=weight,
        kind="logits",
    )  # fmt: skip
    result, fusion = fit(*named, "--ignore-index", "255")
    assert result.code == 0, result.err
    spread = np.broadcast_to(weight[:, None, None], labels.shape)
    expected = rp.ModalityFusion(PRIOR, class_axis=1, ignore_index=255)
    expected.fit(scores, labels, spread)
    assert fusion.strengths_ == expected.strengths_
    assert fusion.best_score_ == pytest.approx(expected.best_score_)


def test_a_target_prior_from_a_file(tmp_path, fit):
    (tmp_path / "target.json").write_text("[0.2, 0.3, 0.5]")
    named = write_both(tmp_path, 0, "val")
    result, fusion = fit(*named, "--target-prior", tmp_path / "target.json")
    assert result.code == 0, result.err
    assert fusion.target_prior_.tolist() == [0.2, 0.3, 0.5]


def test_json(tmp_path, fit):
    result, fusion = fit(*write_both(tmp_path, 0, "val"), "--json", "--missing", "leave_out")
    found = result.json
    assert found["strengths"] == fusion.strengths_
    assert found["measured_on"] == "tuning data"
    assert found["metrics"]["balanced_accuracy"]["after"] == pytest.approx(fusion.best_score_)
    assert found["entropy"]["rgb"]["mean"] == fusion.references_["rgb"].mean
    assert fusion.missing == "leave_out"


def test_quiet(tmp_path, fit):
    result, _ = fit(*write_both(tmp_path, 0, "val"), "--quiet")
    assert "Written" not in result.out
    assert not result.err


def test_nothing_changes_without_a_strength(tmp_path, fit):
    result, fusion = fit(*write_both(tmp_path, 0, "val"), "--strength", "0")
    assert result.code == 0, result.err
    assert fusion.search_ == "fixed"
    assert "No class's recall changes." in result.out


def test_a_correction_that_does_not_help_is_said(tmp_path, run):
    """Counts in the wrong order."""
    (tmp_path / "wrong.json").write_text("[10, 90, 900]")
    named = write_both(tmp_path, 0, "val")
    result = run("fuse", "fit", *named, "--counts", tmp_path / "wrong.json",
                 "-o", tmp_path / "fusion.json")  # fmt: skip
    assert result.code == 0, result.err
    assert "no strength does better than 0" in result.err


def write_rare(folder):
    """Write scores of two models on a mix of which the last class is 2 %; return their names."""
    rng = np.random.default_rng(0)
    mix = [0.9, 0.08, 0.02]
    labels = rng.choice(3, size=2000, p=mix)
    scores = {}
    for name in ("rgb", "depth"):
        scores[name] = rng.normal(size=(2000, 3)) + 0.8 * np.eye(3)[labels] + np.log(mix)
        np.savez(folder / f"{name}.npz", scores=scores[name], labels=labels, kind="logits")
    return [f"{name}={folder}/{name}.npz" for name in scores], scores, labels


def cost_note(result):
    """Return the note on what the tuned metric costs; None if there is none."""
    assert result.code == 0, result.err
    return next((note for note in result.json["notes"] if "costs" in note), None)


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["--rule", "product"],
        ["--strengths", "per_modality"],
        ["--bounds", "-0.7", "2"],
        ["--metric", "recall[2]"],
    ],
    ids=["grid", "exact", "per_modality", "negative", "one_class"],
)
def test_the_option_that_limits_the_cost_works_as_it_is_printed(tmp_path, fit, more):
    named, *_ = write_rare(tmp_path)
    first, _ = fit(*named, *more, "--json")
    accuracy = first.json["metrics"]["accuracy"]
    assert accuracy["before"] - accuracy["after"] > 0.1
    note = cost_note(first)
    assert f"accuracy {accuracy['before']:.3f} → {accuracy['after']:.3f}" in note
    options = note.partition("pass ")[2]
    assert options.startswith("--subject-to 'accuracy >= baseline - 0.02'")
    second, _ = fit(*named, *more, *shlex.split(options), "--json")
    assert cost_note(second) is None
    for name, values in second.json["metrics"].items():
        assert values["before"] - values["after"] <= 0.02 + 1e-12, name


def test_no_option_is_offered_that_would_be_refused(tmp_path, fit):
    named, *_ = write_rare(tmp_path)
    without_zero, _ = fit(*named, "--bounds", "0.5", "1.5", "--json")
    assert "accuracy 0." in cost_note(without_zero)
    assert "--subject-to" not in cost_note(without_zero)
    given, _ = fit(*named, "--strength", "1", "--json")  # nothing is tuned
    assert cost_note(given) is None


def test_the_summary_names_the_cost_and_the_rules_that_limit_it(tmp_path):
    _, scores, labels = write_rare(tmp_path)
    prior = [0.9, 0.08, 0.02]
    last_line = rp.ModalityFusion(prior).fit(scores, labels).summary().splitlines()[-1]
    assert last_line.startswith("tuning for balanced_accuracy costs: accuracy 0.9")
    rules = ast.literal_eval(last_line.partition("pass subject_to=")[2])
    limited = rp.ModalityFusion(prior, subject_to=rules).fit(scores, labels)
    assert "costs" not in limited.summary()
    assert "costs" not in rp.ModalityFusion(prior, strength=1.0).fit(scores, labels).summary()


@pytest.mark.parametrize(
    "given, words",
    [
        (["--strength", "much"], "--strength must be a number. Got 'much'"),
        (["--strength", "rgb=0.4"], "Got none for 'depth'. Add --strength depth=0.5."),
        (["--strength", "rbg=0.4", "--strength", "depth=1"], "Got 'rbg=0.4'."),
        (["--strength", "1", "--strength", "2"], "one number, or NAME=NUMBER once"),
        (["--rule", "noisyor"], "Did you mean 'noisy_or'?"),
        (["--order", "first"], "is not one of rebalance_first, flatten_first"),
        (["--metric", "auc"], "--metric must"),
        (["--subject-to", "accuracy > 2"], "accuracy"),
        (["--bounds", "2", "1"], "--bounds must"),
        (["--target-prior", "estimate"], "Got estimate, which is for one model"),
        (["--target-prior", "unifrom"], "Did you mean 'uniform'?"),
    ],
)
def test_wrong_options(tmp_path, fit, given, words):
    result, _ = fit(*write_both(tmp_path, 0, "val"), *given)
    assert is_one_sentence(result)
    assert words in result.err
    assert not (tmp_path / "fusion.json").exists()


def test_all_pixels_ignored(tmp_path, fit):
    scores, labels = maps(3)
    result, _ = fit(*write_maps(tmp_path, scores, np.full_like(labels, 255)),
                    "--ignore-index", "255")  # fmt: skip
    assert is_one_sentence(result)
    assert "at least one sample to count" in result.err


def test_no_entropy_to_refer_to(tmp_path, fit):
    scores, labels = maps(3)
    result, _ = fit(*write_maps(tmp_path, {n: 1e6 * z for n, z in scores.items()}, labels),
                    "--ignore-index", "255")  # fmt: skip
    assert is_one_sentence(result)
    assert "mean entropy of 0" in result.err


def test_the_output_is_no_input(tmp_path, run):
    named = write_both(tmp_path, 0, "val")
    where = tmp_path / "val-rgb.npz"
    before = where.read_bytes()
    result = run("fuse", "fit", *named, *counts(tmp_path), "-o", where)
    assert is_one_sentence(result)
    assert where.read_bytes() == before


def test_a_strength_that_is_given_needs_no_labels(tmp_path, fit, run):
    scores, _ = maps(0)
    named = []
    for name, values in scores.items():
        np.savez(tmp_path / f"{name}.npz", scores=values, kind="logits")
        named.append(f"{name}={tmp_path}/{name}.npz")
    result, fusion = fit(*named, "--class-axis", "1", "--strength", "0.4", "--json")
    assert result.code == 0, result.err
    expected = rp.ModalityFusion(PRIOR, class_axis=1, strength=0.4).fit(scores)
    assert fusion.references_ == expected.references_
    assert result.json["metrics"] == {}
    assert any("no labels" in note for note in result.json["notes"])
    shown, _ = fit(*named, "--class-axis", "1", "--strength", "0.4")
    assert "not at all: the strength was given" in shown.out
    tuned, _ = fit(*named, "--class-axis", "1")
    assert is_one_sentence(tuned)
