"""reprior fold: what was done, and how well it agrees."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from click.testing import CliRunner
from tests.onnx.shared import calibrator, full_model, gemm_model, samples

from reprior.cli.app import run
from reprior.cli.fold import command
from reprior.onnx import calibrator_of


@pytest.fixture
def files(tmp_path):
    calibrator().save(tmp_path / "cal.json")
    onnx.save(full_model(), tmp_path / "model.onnx")
    return tmp_path


def invoke(folder, *more):
    arguments = [str(folder / "cal.json"), str(folder / "model.onnx"), "-o"]
    return CliRunner().invoke(command, [*arguments, str(folder / "out.onnx"), *more])


def test_says_what_was_done(files):
    result = invoke(files)
    assert result.exit_code == 0, result.output
    assert "Scores: z (logits)" in result.output
    assert "Corrected in the weights of Gemm" in result.output
    assert "Weights changed: b" in result.output
    assert "Nodes added: none" in result.output
    assert "labels agree on 516 of 516" in result.output
    assert calibrator_of(files / "out.onnx").strength_ == calibrator().strength_


def test_a_model_without_labels(files):
    onnx.save(gemm_model(), files / "model.onnx")
    result = invoke(files)
    assert "labels decided from the scores agree on 516 of 516, 0 ties" in result.output
    assert "of 0" not in result.output


def test_inner_logits_are_named(files):
    model = full_model()
    for _ in range(2):
        del model.graph.output[0 if len(model.graph.output) == 3 else 1]
    onnx.save(model, files / "model.onnx")
    result = invoke(files)
    assert "Scores: inner tensor z (logits)" in result.output
    assert "the inner tensor 'z' was taken as the scores; output 'p'" in result.output
    assert "fit it again as kind 'probs'" in result.output
    calibrator(kind="probs").save(files / "cal.json")
    assert "note:" not in invoke(files).output


@pytest.mark.parametrize(
    "options, words",
    [
        (["--scores", "label"], "Got 'label', which is the label output. Pass --scores z"),
        (["--scores", "p"], "Fit it again on this output with reprior fit --kind probs"),
        (["-o", ""], "--output must be the path of a file. Got no name."),
        (["-o", "."], "--output must be a file. Got the folder"),
        (["-o", "none/out.onnx"], "--output must be in a folder that exists."),
    ],
)
def test_refusals_speak_of_options(files, monkeypatch, capsys, options, words):
    monkeypatch.chdir(files)
    assert run(["fold", "cal.json", "model.onnx", "-o", "out.onnx", *options]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert not set("=`…") & set(told)


def test_a_second_fold(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert run(["fold", "cal.json", "model.onnx", "-o", "out.onnx", "-q"]) == 0
    capsys.readouterr()
    assert run(["fold", "cal.json", "out.onnx", "-o", "again.onnx"]) == 2
    told = capsys.readouterr().err
    assert "MODEL must not hold a calibrator yet" in told
    assert "calibrator_of" not in told


def test_json(files):
    import json

    result = invoke(files, "--json", "--scores", "z")
    document = json.loads(result.stdout)
    assert document["outputs"] == {"z": "log-scores", "p": "posterior", "label": "labels"}
    assert document["wrong_labels"] == 0
    assert document["posterior_error"] < 1e-5
    assert document["changed"] == ["b"]


@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_given_inputs(files, name):
    path = files / name
    np.savez(path, x=samples(77)) if name.endswith("npz") else np.save(path, samples(77))
    result = invoke(files, "--inputs", str(path))
    assert result.exit_code == 0, result.output
    assert "Compared on 77 given samples" in result.output


def test_a_refusal_writes_nothing(files):
    (files / "bad.npz").write_bytes(b"no")
    for options in (["--scores", "zz"], ["--inputs", str(files / "bad.npz")]):
        result = invoke(files, *options)
        assert result.exit_code != 0
        assert isinstance(result.exception, ValueError)
    assert not (files / "out.onnx").exists()


def test_one_of_two_maps(files):
    calibrator(separate=True).save(files / "cal.json")
    result = invoke(files)
    assert result.exit_code != 0
    assert "must say which is meant" in str(result.exception)
    result = invoke(files, "--map", "probability")
    assert result.exit_code == 0, result.output
    inside = calibrator_of(files / "out.onnx")
    assert inside.metric == "log_loss"
