"""``reprior fuse``: the Python API's fusion, row by row, for every format."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.shared import COUNTS, Data, data, is_one_sentence, read_output, write

import reprior as rp
from reprior.cli.fuse import aligned
from reprior.core.flatten import EntropyReference
from reprior.files.scores import open_scores

TEXT_DIGITS = 1e-6


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def second_model(seed):
    """Another model's scores of the same samples."""
    return Data(data(seed + 10).scores, data(seed).labels)


@pytest.mark.parametrize("rule", ["noisy_or", "mean", "product"])
@pytest.mark.parametrize("extension", ["npz", "csv", "parquet", "zarr"])
def test_rules_and_formats(tmp_path, run, rule, extension):
    a, b = data(0), second_model(0)
    write(tmp_path / f"a.{extension}", a)
    write(tmp_path / f"b.{extension}", b)
    result = run(
        "fuse", tmp_path / f"a.{extension}", tmp_path / f"b.{extension}", "--kind", "logits",
        "--rule", rule, "-o", tmp_path / f"out.{extension}",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.fuse([softmax(a.scores), softmax(b.scores)], rule=rule)
    assert np.allclose(read_output(tmp_path / f"out.{extension}")[0], expected, atol=TEXT_DIGITS)


def test_flatten_and_calibrate_each_input(fitted, run):
    a, b = data(1), second_model(1)
    write(fitted / "b.csv", b)
    result = run(
        "fuse", fitted / "test.csv", fitted / "b.csv", "--calibrator", fitted / "cal.json",
        "--calibrator", "none", "--flatten", "none", "--flatten", fitted / "val.csv",
        "--kind", "logits", "-o", fitted / "out.csv",
    )  # fmt: skip
    assert result.code == 0, result.err
    calibrator = rp.load(fitted / "cal.json")
    reference = EntropyReference.fit(data(0).scores)
    flat = rp.flatten(b.scores, reference)
    expected = rp.fuse([calibrator.predict_proba(a.scores), softmax(flat)])
    assert np.allclose(read_output(fitted / "out.csv")[0], expected, atol=TEXT_DIGITS)


@pytest.mark.parametrize("options", [{"tune": "per_class"}, {"separate": True}])
def test_biases_and_second_maps_are_applied(tmp_path, run, options):
    a = data(1)
    write(tmp_path / "a.csv", a)
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS), **options)
    calibrator.fit(a.scores, a.labels)
    calibrator.save(tmp_path / "cal.json")
    result = run(
        "fuse", tmp_path / "a.csv", tmp_path / "a.csv", "--calibrator", tmp_path / "cal.json",
        "--calibrator", "none", "--kind", "logits", "-o", tmp_path / "out.csv",
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.fuse([calibrator.predict_proba(a.scores), softmax(a.scores)])
    plain = rp.fuse([softmax(a.scores), softmax(a.scores)])
    found = read_output(tmp_path / "out.csv")[0]
    assert np.allclose(found, expected, atol=TEXT_DIGITS)
    assert not np.allclose(found, plain, atol=1e-3)


def test_rows_are_aligned_across_chunks(tmp_path):
    a, b = data(0), data(1)
    for name, values in (("a", a), ("b", b)):
        for i, part in enumerate(np.array_split(np.arange(300), 3 if name == "a" else 4)):
            write(tmp_path / f"{name}-{i}.parquet", Data(values.scores[part], values.labels[part]))
    files = [open_scores(str(tmp_path / f"{name}-*.parquet")) for name in "ab"]
    pieces = list(aligned(files))
    assert len(pieces) > 4
    assert np.array_equal(np.concatenate([p[0].scores for p in pieces]), a.scores)
    assert np.array_equal(np.concatenate([p[1].scores for p in pieces]), b.scores)
    assert [p[1].start for p in pieces] == np.cumsum([0, *(len(p[0]) for p in pieces)])[
        :-1
    ].tolist()


@pytest.mark.parametrize("extension", ["csv", "parquet"])
def test_files_of_other_length_are_refused(tmp_path, run, extension):
    write(tmp_path / f"a.{extension}", data(0))
    write(tmp_path / f"b.{extension}", Data(data(1).scores[:299], data(0).labels[:299]))
    result = run(
        "fuse", tmp_path / f"a.{extension}", tmp_path / f"b.{extension}", "--kind", "logits",
        "-o", tmp_path / f"out.{extension}",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "299" in result.err
    assert not (tmp_path / f"out.{extension}").exists()


def test_one_input_is_too_few(job, run):
    result = run("fuse", job / "val.csv", "--kind", "logits", "-o", job / "out.csv")
    assert is_one_sentence(result)


def test_options_are_given_per_input(job, run):
    result = run(
        "fuse", job / "val.csv", job / "test.csv", "--kind", "logits", "--flatten",
        job / "val.csv", "-o", job / "out.csv",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert "--flatten none" in result.err


def test_columns_in_another_order_are_put_in_order(job, run):
    from pyarrow import csv

    table = csv.read_csv(job / "test.csv").select(["owl", "cat", "dog"])
    csv.write_csv(table, job / "turned.csv")
    result = run(
        "fuse", job / "val.csv", job / "turned.csv", "--kind", "logits", "-o", job / "out.csv"
    )
    assert result.code == 0, result.err
    expected = rp.fuse([softmax(data(0).scores), softmax(data(1).scores)])
    assert np.allclose(read_output(job / "out.csv")[0], expected, atol=TEXT_DIGITS)


def test_one_score_per_sample(tmp_path, run):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", scores=rng.random(5), kind="probs")
    result = run("fuse", tmp_path / "a.npz", tmp_path / "b.npz", "-o", tmp_path / "out.npz")
    assert result.code == 0, result.err
    with np.load(tmp_path / "out.npz") as file:
        assert file["prediction"].shape == (5,)


class TestCommandsBelow:
    """`fuse fit`, `apply` and `evaluate` are reached by the first word alone."""

    def test_a_file_of_that_name_is_written_with_its_folder(self, job, run, monkeypatch):
        (job / "fit").write_bytes((job / "val.csv").read_bytes())
        monkeypatch.chdir(job)
        result = run("fuse", "./fit", "test.csv", "--kind", "logits", "-o", "out.csv")
        assert "fit" in result.err  # a file without an extension, but taken for a file
        assert "NAME=FILE" not in result.err

    def test_the_name_must_come_first(self, job, run):
        result = run("fuse", "--rule", "mean", "fit", job / "val.csv", "-o", job / "out.csv")
        assert is_one_sentence(result)
        assert "The name of a command must come first" in result.err

    def test_names_belong_to_them(self, job, run):
        result = run("fuse", f"rgb={job}/val.csv", f"d={job}/test.csv", "-o", job / "out.csv")
        assert is_one_sentence(result)
        assert "write one of these first, or the files alone" in result.err

    @pytest.mark.parametrize("name", ["fit", "apply", "evaluate"])
    def test_their_help(self, run, name):
        result = run("fuse", name, "--help")
        assert result.out.startswith(f"Usage: reprior fuse {name} [OPTIONS] ")
        assert "SCORES" not in result.out
        assert f"reprior fuse {name} " in result.out.partition("Example:")[2]

    def test_they_are_listed(self, run):
        out = run("fuse", "--help").out
        assert out.startswith("Usage: reprior fuse [OPTIONS] SCORES...\n")
        assert all(f"  {name}  " in out for name in ("fit", "apply"))
        assert "..." not in out.partition("Commands:")[2]

    def test_their_errors_name_them(self, run):
        result = run("fuse", "fit", "rgb=a.npz")
        assert is_one_sentence(result)
        assert "See reprior fuse fit --help." in result.err

    @pytest.mark.parametrize("name", ["fit", "apply", "evaluate"])
    def test_the_example_of_the_help_runs(self, tmp_path, run, monkeypatch, name):
        from reprior.cli import app

        monkeypatch.chdir(tmp_path)
        group = app.app.get_command(None, "fuse")
        lines = [line.strip() for line in group.commands[name].epilog.splitlines()[2:]]
        script = " ".join(lines).replace("\\ ", "").split("$ ")[1:]
        for line in script:
            result = run(*line.partition("#")[0].split()[1:])
            assert result.code == 0, result.err
