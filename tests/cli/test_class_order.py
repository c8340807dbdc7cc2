"""Class axes, class orders and names: what does not agree is refused, or put right."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import COUNTS, NAMES, data, is_one_sentence

import reprior as rp


def maps(width: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=(6, 4, width))
    last = 2 * np.eye(3)[labels] + np.log(COUNTS / COUNTS.sum())
    return np.moveaxis(last + rng.normal(size=last.shape), -1, 1), labels


@pytest.fixture
def rows(job, run):
    """A calibrator fitted on rows without names: it says nothing about maps."""
    np.savez(job / "rows.npz", scores=data(0).scores, labels=data(0).labels)
    done = run(
        "fit", job / "rows.npz", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "rows.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    return job


@pytest.mark.parametrize("axis", [1, -1])
def test_maps_by_a_calibrator_of_rows(rows, run, axis):
    scores, labels = maps(5)
    np.savez(rows / "map.npz", scores=np.moveaxis(scores, 1, axis), labels=labels)
    result = run("apply", rows / "rows.json", rows / "map.npz", "-o", rows / "out.npz")
    assert result.code == 0, result.err
    expected = rp.load(rows / "rows.json").predict_proba(np.moveaxis(scores, 1, -1))
    with np.load(rows / "out.npz") as out:
        assert np.allclose(np.moveaxis(out["posterior"], axis, -1), expected)
        assert np.array_equal(out["prediction"], expected.argmax(-1))
    flat = rows / "flat.npz"
    np.savez(flat, scores=np.moveaxis(scores, 1, -1).reshape(-1, 3), labels=labels.reshape(-1))
    one, other = (
        run("evaluate", rows / "rows.json", path, "--json").json
        for path in (rows / "map.npz", flat)
    )
    assert one["mean_iou"] == other["mean_iou"]
    assert one["log_loss"]["after"] == pytest.approx(other["log_loss"]["after"])


def test_an_ambiguous_axis_is_asked_for_and_obeyed(rows, run):
    scores, labels = maps(3)
    np.savez(rows / "map.npz", scores=scores, labels=labels)
    arguments = ["apply", rows / "rows.json", rows / "map.npz", "-o", rows / "out.npz"]
    result = run(*arguments)
    assert is_one_sentence(result)
    assert "--class-axis 1 or --class-axis -1" in result.err
    assert run(*arguments, "--class-axis", "1").code == 0
    with np.load(rows / "out.npz") as out:
        assert np.allclose(out["posterior"].sum(axis=1), 1)


@pytest.mark.parametrize("axis", [1, -1])
def test_ignored_labels_of_maps(rows, run, axis):
    scores, labels = maps(5)
    holes = labels.copy()
    holes[:, 0] = 255
    np.savez(rows / "map.npz", scores=np.moveaxis(scores, 1, axis), labels=holes)
    kept = {"scores": np.moveaxis(scores[:, :, 1:], 1, axis), "labels": labels[:, 1:]}
    np.savez(rows / "kept.npz", **kept)
    found = run("evaluate", rows / "rows.json", rows / "map.npz", "--ignore-index", "255", "--json")
    expected = run("evaluate", rows / "rows.json", rows / "kept.npz", "--json").json
    assert found.json["balanced_accuracy"] == expected["balanced_accuracy"]
    assert is_one_sentence(run("evaluate", rows / "rows.json", rows / "map.npz"))


def test_lists_of_stated_classes_are_not_reordered_by_silence(fitted, run):
    import pyarrow as pa
    from pyarrow import parquet

    lists = pa.table({"scores": pa.array(data(1).scores[:, [2, 0, 1]].tolist())})
    stated = {"reprior.class_names": json.dumps([NAMES[k] for k in (2, 0, 1)])}
    parquet.write_table(lists.replace_schema_metadata(stated), fitted / "list.parquet")
    result = run(
        "apply", fitted / "cal.json", fitted / "list.parquet", "-o", fitted / "out.parquet"
    )
    assert is_one_sentence(result)
    assert "Got owl, cat, dog" in result.err


def test_fuse_refuses_other_names(fitted, run):
    np.savez(fitted / "a.npz", scores=data(1).scores, class_names=np.array(NAMES))
    np.savez(fitted / "b.npz", scores=data(1).scores, class_names=np.array(["x", "y", "z"]))
    result = run(
        "fuse", fitted / "a.npz", fitted / "b.npz", "--kind", "logits", "-o", fitted / "out.npz"
    )
    assert is_one_sentence(result)
    assert "Got x, y, z" in result.err


def test_an_array_by_another_name_has_its_names_read(fitted, run):
    np.savez(fitted / "z.npz", z=data(1).scores, class_names=np.array(NAMES))
    result = run(
        "apply", fitted / "cal.json", fitted / "z.npz", "--scores-name", "z",
        "-o", fitted / "out.npz",
    )  # fmt: skip
    assert result.code == 0, result.err


def test_the_target_is_estimated_in_the_order_of_the_classes(job, run):
    from pyarrow import csv

    turned = csv.read_csv(job / "test.csv").select(["owl", "label", "cat", "dog"])
    csv.write_csv(turned, job / "turned.csv")
    first, second = (
        run(
            "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
            "--target-prior", "estimate", "--target-scores", job / name, "-o", job / "cal.json",
            "--json",
        ).json["target_prior"]
        for name in ("test.csv", "turned.csv")
    )  # fmt: skip
    assert first == second


def test_integer_names_and_integer_labels(job, run):
    (job / "n.csv").write_text("1,0,label\n3,0,1\n0,3,0\n2,1,1\n1,2,0\n")
    (job / "two.json").write_text("[5, 5]")
    found = {
        how: run(
            "fit", job / "n.csv", "--counts", job / "two.json", "--kind", "logits",
            "--labels-as", how, "-o", job / "cal.json", "--json",
        ).json["metrics"]["accuracy"]["before"]
        for how in ("names", "indices")
    }  # fmt: skip
    assert found == {"names": 1.0, "indices": 0.0}


@pytest.mark.parametrize(
    "line, words",
    [
        ("evaluate test.csv cal.json", "Name the calibrator first"),
        ("evaluate cal.json cal.json", "Check the order of the arguments"),
        ("fit counts.json --counts counts.json --kind logits -o c.json", "Got JSON"),
        ("evaluate cal.json y.csv", "--label-column"),
        ("fit id.csv --counts counts.json --kind logits -o c.json", "pass --classes"),
        ("fit val.csv --counts counts.json --kind logits --target-prior unifrom -o c.json",
         "Did you mean 'uniform'?"),
        ("fit val.csv --counts counts.json --kind logits --bounds 2 0 -o c.json",
         "Pass --bounds 0 2."),
    ],
)  # fmt: skip
def test_sentences_that_help(fitted, run, monkeypatch, line, words):
    monkeypatch.chdir(fitted)
    (fitted / "y.csv").write_text("cat,dog,owl,y\n1,2,3,cat\n")
    (fitted / "id.csv").write_text("id,cat,dog,owl,label\n7,1,2,3,cat\n")
    result = run(*line.split())
    assert is_one_sentence(result), result
    assert words in result.err


def test_training_labels_in_a_column_of_another_name(job, run):
    (job / "train.csv").write_text("id,y\na,cat\nb,cat\nc,dog\nd,void\n")
    result = run(
        "prior", "--counts-from-labels", job / "train.csv", "--label-column", "y",
        "--ignore-index", "void", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert result.json["counts"] == [2, 1]
