"""Score files of a run: halves by turns, measures by hand, damage told in words."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from reprior.exceptions import FileFormatError
from reprior_lab.training.scores import halves, measured, read_scores

N_CLASSES = 12


def test_halves_have_as_many_of_each_class():
    labels = np.random.default_rng(0).integers(0, 5, 301)
    first, second = halves(labels)
    assert sorted([*first, *second]) == list(range(301))
    difference = np.bincount(labels[first]) - np.bincount(labels[second])
    assert np.abs(difference).max() <= 1
    assert abs(int(difference.sum())) <= 1


def test_top_5_is_measured_with_many_classes():
    rng = np.random.default_rng(1)
    scores, labels = rng.normal(size=(200, N_CLASSES)), rng.integers(0, N_CLASSES, 200)
    top = np.argsort(-scores, axis=1)[:, :5]
    expected = np.mean([label in five for label, five in zip(labels, top, strict=True)])
    assert measured(scores, labels)["top5_accuracy"] == expected
    assert "top5_accuracy" not in measured(scores[:, :3], labels % 3)


@pytest.mark.parametrize(
    "damage",
    ["truncated", "not an archive", "an array is missing", "an array is there twice", "a byte"],
)
def test_a_damaged_file_is_told_in_words(tmp_path, damage):
    arrays = {"scores": np.zeros((4, 2)), "labels": np.zeros(4, int), "halved": np.array(True)}
    for name in ("validation.npz", "test.npz"):
        np.savez(tmp_path / name, **arrays)
    assert read_scores(tmp_path).halved
    path = tmp_path / "test.npz"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:300])
    elif damage == "not an archive":
        path.write_bytes(b"scores")
    elif damage == "an array is missing":
        np.savez(path, **{key: arrays[key] for key in ("scores", "labels")})
    elif damage == "an array is there twice":
        with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("scores.npy", archive.read("scores.npy"))
    else:
        np.savez_compressed(path, **arrays)
        data = bytearray(path.read_bytes())
        start = 30 + len("scores.npy") + 20  # the header of a member, its name and sizes
        data[start : start + 8] = bytes([0xFF] * 8)
        path.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"must have scores, labels and halved.*test\.npz"):
        read_scores(tmp_path)


def test_a_run_without_scores_has_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_scores(tmp_path)
