"""reprior fold: what was done, and how well it agrees."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from click.testing import CliRunner
from tests.onnx.shared import calibrator, full_model, samples

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
