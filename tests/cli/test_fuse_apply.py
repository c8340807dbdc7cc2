"""``reprior fuse apply`` writes what the fusion's ``predict_proba`` and ``predict`` give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.command_line import is_one_sentence, read_output
from tests.support.modalities import TEXT_DIGITS, both, counts, maps, write_both, write_maps

import reprior as rp


def fitted(folder, run, named, *more):
    path = folder / "fusion.json"
    result = run("fuse", "fit", *named, *counts(folder), "-o", path, "-q", *more)
    assert result.code == 0, result.err
    return path


@pytest.mark.parametrize("extension", ["npz", "csv", "parquet", "zarr"])
def test_formats(tmp_path, run, extension):
    path = fitted(tmp_path, run, write_both(tmp_path, 0, "val", extension), "--kind", "logits")
    named = write_both(tmp_path, 1, "test", extension)
    out = tmp_path / f"out.{extension}"
    result = run("fuse", "apply", path, *named, "-o", out)
    assert result.code == 0, result.err
    assert "300 samples of 2 modalities" in result.out
    fusion = rp.load(path)
    posterior, predicted = read_output(out)
    np.testing.assert_allclose(posterior, fusion.predict_proba(both(1)), atol=TEXT_DIGITS)
    names = np.array(["cat", "dog", "owl"])
    assert predicted == names[fusion.predict_proba(both(1)).argmax(1)].tolist()


def test_the_order_of_the_files_is_free(tmp_path, run):
    path = fitted(tmp_path, run, write_both(tmp_path, 0, "val"))
    named = write_both(tmp_path, 1, "test")
    for order, name in ((named, "a.npz"), (named[::-1], "b.npz")):
        assert run("fuse", "apply", path, *order, "-o", tmp_path / name).code == 0
    assert np.array_equal(read_output(tmp_path / "a.npz")[0], read_output(tmp_path / "b.npz")[0])


def test_maps(tmp_path, run):
    scores, labels = maps(3)
    path = fitted(tmp_path, run, write_maps(tmp_path, scores, labels), "--ignore-index", "255")
    new, _ = maps(4)
    result = run("fuse", "apply", path, *write_maps(tmp_path, new, labels, "test"),
                 "-o", tmp_path / "out.npz", "--json")  # fmt: skip
    assert result.code == 0, result.err
    assert result.json["modalities"] == ["rgb", "depth"]
    with np.load(tmp_path / "out.npz") as file:
        fusion = rp.load(path)
        np.testing.assert_array_equal(file["posterior"], fusion.predict_proba(new))
        np.testing.assert_array_equal(file["prediction"], fusion.predict(new))


@pytest.mark.parametrize("when", ["fit", "apply"])
def test_a_modality_that_is_missing(tmp_path, run, when):
    allowed = ["--missing", "leave_out"]
    val, test = (write_both(tmp_path, i, name) for i, name in enumerate(("val", "test")))
    path = fitted(tmp_path, run, val, *(allowed if when == "fit" else []))
    result = run("fuse", "apply", path, test[1], "-o", tmp_path / "out.npz",
                 *(allowed if when == "apply" else []))  # fmt: skip
    assert result.code == 0, result.err
    assert "fused without rgb" in result.err
    assert "1 modality" in result.out
    fusion = rp.load(path)
    fusion.missing = "leave_out"
    expected = fusion.predict_proba({"depth": both(1)["depth"]})
    np.testing.assert_allclose(read_output(tmp_path / "out.npz")[0], expected, atol=1e-12)


def test_probabilities_are_refused_by_a_fusion_of_logits(tmp_path, run):
    path = fitted(tmp_path, run, write_both(tmp_path, 0, "val"))
    named = write_both(tmp_path, 1, "test")
    result = run("fuse", "apply", path, *named, "--kind", "probs", "-o", tmp_path / "out.npz")
    assert is_one_sentence(result)
    assert "of the fusion's kind, logits" in result.err


def test_bad_scores_leave_no_file(tmp_path, run):
    path = fitted(tmp_path, run, write_both(tmp_path, 0, "val"))
    named = write_both(tmp_path, 1, "test")
    bad = both(1)["rgb"]
    bad[7, 1] = np.nan
    np.savez(tmp_path / "test-rgb.npz", scores=bad, kind="logits")
    result = run("fuse", "apply", path, *named, "-o", tmp_path / "out.npz")
    assert is_one_sentence(result)
    assert "NaN" in result.err
    assert not (tmp_path / "out.npz").exists()
