"""No command writes over what it reads."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.shared import data, is_one_sentence, write

from reprior.cli.outputs import check_output
from reprior.exceptions import OptionError


@pytest.fixture
def snapshot(fitted):
    """The folder, and a function that tells whether all of its files are as they were."""
    np.save(fitted / "test.npy", data(1).scores)
    write(fitted / "test.npz", data(1))
    write(fitted / "own.npy", data(0))
    (fitted / "classes.txt").write_text("cat\ndog\nowl\n")
    before = {path: path.read_bytes() for path in fitted.iterdir()}
    return fitted, lambda: before == {path: path.read_bytes() for path in fitted.iterdir()}


@pytest.mark.parametrize(
    "line",
    [
        "fit val.csv --counts counts.json --kind logits -o counts.json",
        "fit val.csv --counts counts.json --kind logits --classes classes.txt -o classes.txt",
        "fit own.npy --labels own-labels.npy --counts counts.json --kind logits -o own-labels.npy",
        "fit val.csv --counts counts.json --kind logits --target-prior estimate "
        "--target-scores test.csv -o test.csv",
        "fuse test.npz test.npy --kind logits -o test.npy",
        "prior --counts counts.json -o counts.json",
        "report cal.json val.csv --counts counts.json -o counts.json",
        "report cal.json val.csv -o cal.json",
        "apply cal.json test.csv -o cal.json",
        "apply cal.json test.csv -o ./",
    ],
)
def test_an_input_is_never_replaced(snapshot, run, monkeypatch, line):
    folder, unchanged = snapshot
    monkeypatch.chdir(folder)
    result = run(*line.split())
    assert is_one_sentence(result), result
    assert "--output must not be an input" in result.err
    assert unchanged()


def test_a_missing_folder_is_named(job, run):
    result = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "nowhere" / "cal.json",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert f"there is no '{job / 'nowhere'}'" in result.err


def test_inside_a_store_is_inside_an_input(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed")
    write(tmp_path / "val.zarr", data(0))
    with pytest.raises(OptionError, match="inside"):
        check_output(str(tmp_path / "val.zarr" / "cal.json"), [tmp_path / "val.zarr", None])


def test_a_demo_does_not_replace_files_of_others(job, run):
    before = (job / "val.csv").read_bytes()
    result = run("demo", "-o", job)
    assert is_one_sentence(result)
    assert "Choose another folder" in result.err
    assert (job / "val.csv").read_bytes() == before
