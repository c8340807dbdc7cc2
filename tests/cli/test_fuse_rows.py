"""The rows of fused files: the same samples, whatever chunks they are read in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.command_line import FORMATS, Data, data, is_one_sentence, write

import reprior as rp


def fuse(run, folder, *files):
    paths = [folder / file for file in files]
    return run("fuse", *paths, "--kind", "logits", "-o", folder / "fused.npz")


def write_parts(folder, name, values, n_parts):
    for i, rows in enumerate(np.array_split(np.arange(len(values.labels)), n_parts)):
        part = Data(values.scores[rows], values.labels[rows])
        write(folder / f"{name}-{i}.npz", part)


def test_files_cut_in_other_places_are_fused_row_by_row(tmp_path, run):
    one, other = data(0), Data(data(1).scores, data(0).labels)
    write_parts(tmp_path, "a", one, 3)
    write_parts(tmp_path, "b", other, 4)
    result = fuse(run, tmp_path, "a-*.npz", "b-*.npz")
    assert result.code == 0, result.err
    posteriors = [rp.rebalance(z, np.full(3, 1 / 3)) for z in (one.scores, other.scores)]
    with np.load(tmp_path / "fused.npz") as file:
        np.testing.assert_allclose(file["posterior"], rp.fuse(posteriors), atol=1e-6)


def test_a_file_that_ends_early_is_refused(tmp_path, run):
    write_parts(tmp_path, "a", data(0), 3)
    write(tmp_path / "short.npz", Data(data(0).scores[:250], data(0).labels[:250]))
    result = fuse(run, tmp_path, "a-*.npz", "short.npz")
    assert is_one_sentence(result)
    assert "250" in result.err
    assert "short.npz" in result.err


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "npy"])
def test_other_labels_are_refused(job, run, form):
    scores, labels = data(0)
    write(job / f"same.{form}", Data(scores + 1, labels))
    assert fuse(run, job, "val.csv", f"same.{form}").code == 0
    swapped = labels.copy()
    swapped[250] = (swapped[250] + 1) % 3
    write(job / f"other.{form}", Data(scores, swapped))
    result = fuse(run, job, "val.csv", f"other.{form}")
    assert is_one_sentence(result)
    assert "entry 250" in result.err


def test_other_labels_are_found_in_files_of_any_length(tmp_path, run):
    """More labels than are compared at a time."""
    labels = np.zeros(300_000, int)
    scores = np.zeros((300_000, 2), np.float32)
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels)
    labels[299_000] = 1
    np.savez(tmp_path / "b.npz", scores=scores, labels=labels)
    result = fuse(run, tmp_path, "a.npz", "b.npz")
    assert is_one_sentence(result)
    assert "entry 299000" in result.err.replace(",", "")


def test_other_ids_are_refused(job, run):
    (job / "a.csv").write_text("cat,dog,image_id\n1,2,x\n3,4,y\n")
    (job / "b.csv").write_text("cat,dog,image_id\n1,2,y\n3,4,x\n")
    result = fuse(run, job, "a.csv", "b.csv")
    assert is_one_sentence(result)
    assert "'image_id' in entry 0: 'x'" in result.err


def test_what_has_neither_is_fused(job, run):
    np.save(job / "a.npy", data(0).scores)
    np.save(job / "b.npy", data(1).scores)
    assert fuse(run, job, "a.npy", "b.npy").code == 0
