"""``reprior apply``: the posterior of the Python API, in every format."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.command_line import NAMES, data, is_one_sentence, read_output, write

import reprior as rp

CSV_DIGITS = 1e-6  # what is lost by writing scores as text is far less


@pytest.mark.parametrize("extension", ["npz", "csv", "parquet", "zarr"])
def test_every_format(fitted, run, extension):
    test = data(1)
    write(fitted / f"t.{extension}", test)
    result = run(
        "apply", fitted / "cal.json", fitted / f"t.{extension}", "-o", fitted / f"out.{extension}"
    )
    assert result.code == 0, result.err
    assert "300 samples" in result.out
    posterior, predicted = read_output(fitted / f"out.{extension}")
    calibrator = rp.load(fitted / "cal.json")
    assert np.allclose(posterior, calibrator.predict_proba(test.scores), atol=CSV_DIGITS)
    assert predicted == calibrator.predict(test.scores).tolist()


def test_npy_has_two_files(fitted, run):
    test = data(1)
    np.save(fitted / "t.npy", test.scores)
    result = run("apply", fitted / "cal.json", fitted / "t.npy", "-o", fitted / "out.npy")
    assert result.code == 0, result.err
    calibrator = rp.load(fitted / "cal.json")
    assert np.array_equal(np.load(fitted / "out.npy"), calibrator.predict_proba(test.scores))
    index = np.load(fitted / "out.prediction.npy")
    assert [NAMES[k] for k in index] == calibrator.predict(test.scores).tolist()


@pytest.mark.parametrize("folder", [False, True])
def test_scores_without_names_are_taken_in_order_and_that_is_said(fitted, run, folder):
    for i in range(2):
        np.save(fitted / f"t{i}.npy", data(1).scores)
    (fitted / "names.txt").write_text("\n".join(NAMES))
    job = ("apply", fitted / "cal.json", fitted / "t0.npy", fitted / "t1.npy", "-o")
    output = f"{fitted}/out/" if folder else fitted / "out.npy"
    said = run(*job, output).err
    assert said.count("have no names and are taken in the order of the calibrator's classes") == 1
    assert ", ".join(NAMES) in said
    assert "no names" not in run(*job, output, "--classes", fitted / "names.txt").err


def test_keep_keeps_the_other_columns(fitted, run):
    from pyarrow import parquet

    write(fitted / "t.parquet", data(1))
    result = run(
        "apply", fitted / "cal.json", fitted / "t.parquet", "--keep", "-o", fitted / "out.parquet"
    )
    assert result.code == 0, result.err
    table = parquet.read_table(fitted / "out.parquet")
    assert table["id"].to_pylist() == [f"row-{i}" for i in range(300)]
    assert {"label", "prediction", *NAMES} <= set(table.column_names)
    plain = run("apply", fitted / "cal.json", fitted / "t.parquet", "-o", fitted / "p.parquet")
    assert plain.code == 0
    assert "id" not in parquet.read_table(fitted / "p.parquet").column_names


def test_columns_in_another_order_are_put_in_order(fitted, run):
    from pyarrow import csv

    table = csv.read_csv(fitted / "test.csv").select(["owl", "label", "cat", "dog"])
    csv.write_csv(table, fitted / "turned.csv")
    for name in ("test", "turned"):
        run("apply", fitted / "cal.json", fitted / f"{name}.csv", "-o", fitted / f"{name}-out.csv")
    assert read_output(fitted / "turned-out.csv")[1] == read_output(fitted / "test-out.csv")[1]


def test_several_inputs_become_one_output(fitted, run):
    write(fitted / "b.csv", data(2))
    result = run(
        "apply", fitted / "cal.json", fitted / "test.csv", fitted / "b.csv", "-o",
        fitted / "out.csv", "--json",
    )  # fmt: skip
    assert result.json["n_samples"] == 600
    both = np.concatenate([data(1).scores, data(2).scores])
    expected = rp.load(fitted / "cal.json").predict(both).tolist()
    assert read_output(fitted / "out.csv")[1] == expected


def test_an_input_is_not_overwritten(fitted, run):
    before = (fitted / "test.csv").read_bytes()
    for out in (fitted / "test.csv", f"{fitted}/"):
        result = run("apply", fitted / "cal.json", fitted / "test.csv", "-o", out)
        assert is_one_sentence(result)
        assert "must not be an input" in result.err
    assert (fitted / "test.csv").read_bytes() == before


def test_another_kind_is_refused(fitted, run):
    arguments = ["apply", fitted / "cal.json", fitted / "test.csv", "-o", fitted / "out.csv"]
    result = run(*arguments, "--kind", "probs")
    assert is_one_sentence(result)
    assert "the calibrator's kind, logits. Got probs" in result.err
    np.savez(fitted / "p.npz", scores=np.full((2, 3), 1 / 3), kind="probs")
    stated = run("apply", fitted / "cal.json", fitted / "p.npz", "-o", fitted / "out.npz")
    assert is_one_sentence(stated)
    assert "the calibrator's kind, logits. Got probs" in stated.err


def test_other_classes_are_refused_by_name(fitted, run):
    np.savez(fitted / "four.npz", scores=np.zeros((2, 4)))
    result = run("apply", fitted / "cal.json", fitted / "four.npz", "-o", fitted / "out.npz")
    assert is_one_sentence(result)
    np.savez(fitted / "x.npz", scores=np.zeros((2, 3)), class_names=np.array(["a", "b", "c"]))
    named = run("apply", fitted / "cal.json", fitted / "x.npz", "-o", fitted / "out.npz")
    assert is_one_sentence(named)
    assert "cat" in named.err
    assert "a, b, c" in named.err
    turned = np.array(["owl", "cat", "dog"])
    np.savez(fitted / "y.npz", scores=np.zeros((2, 3)), class_names=turned)
    assert is_one_sentence(
        run("apply", fitted / "cal.json", fitted / "y.npz", "-o", fitted / "out.npz")
    )
    assert not (fitted / "out.npz").exists()


def test_a_missing_column_is_named(fitted, run):
    (fitted / "two.csv").write_text("cat,dog\n1,2\n")
    result = run("apply", fitted / "cal.json", fitted / "two.csv", "-o", fitted / "out.csv")
    assert is_one_sentence(result)
    assert "owl" in result.err


def test_quiet_does_not_say_what_was_written(fitted, run):
    arguments = ["apply", fitted / "cal.json", fitted / "test.csv", "-o", fitted / "out.csv"]
    assert run(*arguments, "-q") == (0, "", "")
    assert "Written: " in run(*arguments).out


def test_both_files_of_npy_are_named(fitted, run):
    arguments = ["apply", fitted / "cal.json", fitted / "test.csv", "-o", fitted / "out.npy"]
    assert f"Written: {fitted}/out.npy and {fitted}/out.prediction.npy" in run(*arguments).out
    made = run(*arguments, "--json").json["output"]
    assert made == [str(fitted / "out.npy"), str(fitted / "out.prediction.npy")]


def test_what_another_format_does_not_keep_is_said(fitted, run):
    arguments = ["apply", fitted / "cal.json", fitted / "test.csv", "--keep"]
    result = run(*arguments, "-o", fitted / "out.npz")
    assert "not kept in arrays: 'label', 'id'" in result.err
    assert "not kept" not in run(*arguments, "-o", fitted / "out.parquet").err


def test_a_column_that_is_no_class_is_named(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("val.npz", scores=rng.normal(size=(40, 3)), labels=np.arange(40) % 3, kind="logits")
    (tmp_path / "counts.json").write_text("[70, 20, 10]")
    fitted = run("fit", "val.npz", "--counts", "counts.json", "-o", "cal.json")
    assert fitted.code == 0, fitted.err
    columns = {name: rng.normal(size=5) for name in ("c0", "c1", "c2", "w")}
    pq.write_table(pa.table(columns), "test.parquet")
    found = run("apply", "cal.json", "test.parquet", "-o", "out.parquet")
    assert found.code == 2
    assert "Got 4 classes, c0, c1, c2, w; where a column is none" in found.err
    (tmp_path / "names.json").write_text('["c0", "c1", "c2"]')
    found = run("apply", "cal.json", "test.parquet", "-o", "out.parquet", "--classes", "names.json")
    assert found.code == 0, found.err


def test_a_fusion_is_no_calibrator(fitted, run):
    scores = {"rgb": 3 * np.eye(2), "depth": 2 * np.eye(2)}
    rp.ModalityFusion([0.75, 0.25]).fit(scores, [0, 1]).save(fitted / "fusion.json")
    result = run("apply", fitted / "fusion.json", fitted / "test.csv", "-o", fitted / "out.csv")
    assert result.code == 2
    assert "must be a calibrator of one model. Got a fusion of several" in result.err
