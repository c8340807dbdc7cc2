"""What ``apply`` decides: as ``predict`` does, with costs and without."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import NAMES, data, is_one_sentence, read_output

import reprior as rp

COSTS = [[0, 1, 1], [2, 0, 1], [30, 9, 0]]


def costly(run, folder, *more, out="out.csv"):
    return run("apply", folder / "cal.json", folder / "test.csv", "-o", folder / out, *more)


def written(folder, costs, name="costs.json"):
    path = folder / name
    path.write_text(costs if isinstance(costs, str) else json.dumps(costs))
    return path


BY_NAME = {a: {b: COSTS[i][j] for j, b in enumerate(NAMES)} for i, a in enumerate(NAMES)}
TURNED = {a: {b: BY_NAME[a][b] for b in reversed(NAMES)} for a in reversed(NAMES)}
HEADED = "true,owl,cat,dog\n" + "".join(
    f"{a},{BY_NAME[a]['owl']},{BY_NAME[a]['cat']},{BY_NAME[a]['dog']}\n" for a in reversed(NAMES)
)
PLAIN = "\n".join(",".join(map(str, row)) for row in COSTS)


@pytest.mark.parametrize("extension", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("form", [COSTS, TURNED, HEADED, PLAIN])
def test_costs_are_those_of_predict(fitted, run, form, extension):
    path = written(fitted, form)
    result = costly(run, fitted, "--costs", path, out=f"out.{extension}")
    assert result.code == 0, result.err
    calibrator, scores = rp.load(fitted / "cal.json"), data(1).scores
    expected = calibrator.predict(scores, costs=COSTS).tolist()
    assert expected != calibrator.predict(scores).tolist()
    posterior, found = read_output(fitted / f"out.{extension}")
    assert found == expected
    assert np.allclose(posterior, calibrator.predict_proba(scores), atol=1e-6)
    unnamed = f"the costs of {path} have no names, and their rows are taken in the order of"
    assert (unnamed in result.err) == (form in (COSTS, PLAIN))


def test_other_decisions_have_their_names_in_tables_and_indices_in_arrays(fitted, run):
    costs = {a: {"ask": 0.4, **row} for a, row in BY_NAME.items()}
    path = written(fitted, costs)
    for extension in ("csv", "npz"):
        assert costly(run, fitted, "--costs", path, out=f"out.{extension}").code == 0
    matrix = np.column_stack([COSTS, [0.4] * 3])  # the classes first, whatever the file's order
    index = rp.load(fitted / "cal.json").predict(data(1).scores, costs=matrix)
    assert 0 < (index == 3).sum() < len(index)
    assert read_output(fitted / "out.csv")[1] == [[*NAMES, "ask"][k] for k in index]
    np.testing.assert_array_equal(np.load(fitted / "out.npz")["prediction"], index)


def test_other_decisions_without_names_are_numbers(fitted, run):
    matrix = [[0, 1], [1, 0], [1, 0]]
    assert costly(run, fitted, "--costs", written(fitted, matrix)).code == 0
    index = rp.load(fitted / "cal.json").predict(data(1).scores, costs=matrix)
    assert read_output(fitted / "out.csv")[1] == list(map(str, index.tolist()))


def test_one_score_of_two_classes(tmp_path, run):
    scores = data(0).scores[:, 1] - data(0).scores[:, 0]
    labels = (data(0).labels == 1).astype(int)
    np.savez(tmp_path / "val.npz", scores=scores, labels=labels)
    (tmp_path / "counts.json").write_text("[900, 90]")
    cal, costs = tmp_path / "cal.json", written(tmp_path, [[0, 1], [9, 0]])
    fit = run(
        "fit", tmp_path / "val.npz", "--counts", tmp_path / "counts.json", "--kind", "logits",
        "--metric", "log_loss", "-o", cal,
    )  # fmt: skip
    assert fit.code == 0, fit.err
    out = tmp_path / "out.npz"
    result = run("apply", cal, tmp_path / "val.npz", "-o", out, "--costs", costs)
    assert result.code == 0, result.err
    expected = rp.load(cal).predict(scores, costs=[[0, 1], [9, 0]])
    np.testing.assert_array_equal(np.load(out)["prediction"], expected)
    assert expected.shape == (300,)
    assert "honest" not in result.err  # a fit by log-loss is what costs are for


def test_costs_go_by_the_probabilities_of_two_maps(job, run):
    fit = run(
        "fit", job / "val.csv", "--counts", job / "counts.json", "--kind", "logits", "--separate",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert fit.code == 0, fit.err
    result = costly(run, job, "--costs", written(job, BY_NAME))
    expected = rp.load(job / "cal.json").predict(data(1).scores, costs=COSTS).tolist()
    assert read_output(job / "out.csv")[1] == expected
    assert "honest" not in result.err


def test_what_costs_rest_on_is_said(fitted, run):
    result = costly(run, fitted, "--costs", written(fitted, BY_NAME))
    assert "the calibrator was tuned for balanced_accuracy; fit it with --metric log_loss" in (
        result.err
    )


def test_into_a_folder(fitted, run):
    result = run(
        "apply", fitted / "cal.json", fitted / "test.csv", "-o", f"{fitted / 'new'}/", "--costs",
        written(fitted, COSTS),
    )  # fmt: skip
    assert result.code == 0, result.err
    expected = rp.load(fitted / "cal.json").predict(data(1).scores, costs=COSTS).tolist()
    assert read_output(fitted / "new" / "test.csv")[1] == expected


@pytest.mark.parametrize(
    "costs, words",
    [
        (COSTS[:2], "--costs must have a row for each of the 3 classes 'cat', 'dog', 'owl'. Got 2"),
        ([[0, 1, 1], [2, 0], [30, 9, 0]], "in every row. Got 2 and 3 in"),
        ("0,1,1\n2,0,nan\n30,9,0\n", "--costs must be finite numbers. Got 'nan' in"),
        ({"cat": {"cat": 0}}, "at least two decisions"),
        ({"cow": BY_NAME["cat"], "dog": BY_NAME["dog"], "owl": BY_NAME["owl"]}, "unknown: 'cow'"),
    ],
)
def test_what_is_no_cost_matrix_is_refused_before_anything_is_written(fitted, run, costs, words):
    result = costly(run, fitted, "--costs", written(fitted, costs))
    assert is_one_sentence(result)
    assert words in result.err
    assert not (fitted / "out.csv").exists()


def test_costs_are_not_overwritten(fitted, run):
    path = written(fitted, PLAIN, "costs.csv")
    result = costly(run, fitted, "--costs", path, out="costs.csv")
    assert is_one_sentence(result)
    assert "must not be an input" in result.err
    assert path.read_text() == PLAIN


def test_arrays_hold_the_names_of_decisions_that_are_not_the_classes(fitted, run):
    import zarr

    other = written(fitted, {a: {"ask": 0.4, **row} for a, row in BY_NAME.items()})
    for extension in ("npz", "zarr", "npy"):
        result = costly(run, fitted, "--costs", other, out=f"out.{extension}")
        assert result.code == 0, result.err
        said = "indices of the decisions, not of the classes: 'cat', 'dog', 'owl', 'ask'."
        assert (said in result.err) == (extension == "npy")
    assert np.load(fitted / "out.npz")["decision_names"].tolist() == [*NAMES, "ask"]
    assert zarr.open_group(str(fitted / "out.zarr")).attrs["decision_names"] == [*NAMES, "ask"]
    again = run("apply", fitted / "cal.json", fitted / "out.npz", "-o", fitted / "2.npz", "--keep")
    assert "decision_names" not in again.err  # it is no array of samples
    for form in (TURNED, COSTS):
        path = written(fitted, form)
        result = costly(run, fitted, "--costs", path, out="same.npz")
        assert result.code == 0, result.err
        assert "decision_names" not in np.load(fitted / "same.npz")


def test_rows_under_decisions_alone_are_taken_in_the_order_of_the_classes(fitted, run):
    path = written(fitted, "stop,go\n0,1\n1,0\n1,0\n", "costs.csv")
    result = costly(run, fitted, "--costs", path)
    assert result.code == 0, result.err
    assert f"the costs of {path} have no names of classes, and their rows are taken" in result.err
    index = rp.load(fitted / "cal.json").predict(data(1).scores, costs=[[0, 1], [1, 0], [1, 0]])
    assert read_output(fitted / "out.csv")[1] == [["stop", "go"][k] for k in index]
