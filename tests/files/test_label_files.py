"""Labels in files of their own stay beside their scores."""

import numpy as np
import pytest

from reprior.exceptions import LabelsError
from reprior.files import open_scores


def shards(folder, rows, stem, form="npy"):
    """Write files of so many rows; return their paths."""
    paths = []
    for i, n in enumerate(rows):
        paths.append(folder / f"{stem}-{i}.{form}")
        values = np.full((n, 2), float(i)) if stem == "scores" else np.full(n, i % 2)
        if form == "npy":
            np.save(paths[-1], values)
        else:
            paths[-1].write_text("label\n" + "".join(f"{v}\n" for v in values))
    return paths


def read(file, rows=3):
    return [
        (int(row[0]) % 2, int(label))
        for chunk in file.chunks(rows * 16)
        for row, label in zip(chunk.scores, chunk.labels, strict=True)
    ]


@pytest.mark.parametrize("form", ["npy", "csv"])
def test_as_many_files_go_one_by_one(tmp_path, form):
    shards(tmp_path, (4, 7, 2), "scores")
    shards(tmp_path, (4, 7, 2), "labels", form)
    file = open_scores(tmp_path / "scores-*.npy", labels=tmp_path / f"labels-*.{form}")
    assert all(a == b for a, b in read(file))
    assert file.notes == ()


@pytest.mark.parametrize("form", ["npy", "csv"])
def test_files_in_another_order_are_refused_where_their_lengths_tell(tmp_path, form):
    scores = shards(tmp_path, (4, 7), "scores")
    labels = shards(tmp_path, (4, 7), "labels", form)
    with pytest.raises(LabelsError, match=r"Got 7 labels in .*labels-1.* and 4 rows .*scores-0"):
        list(open_scores(scores, labels=labels[::-1]))


def test_files_in_another_order_are_told_by_their_numbers(tmp_path):
    scores, labels = shards(tmp_path, (5, 5), "scores"), shards(tmp_path, (5, 5), "labels")
    (note,) = open_scores(scores, labels=labels[::-1]).notes
    assert "labels-1.npy' with" in note
    assert "scores-0.npy'. Check that they belong together." in note


def test_one_file_of_labels_goes_with_all_scores(tmp_path):
    scores = shards(tmp_path, (4, 7, 2), "scores")
    np.save(tmp_path / "labels.npy", np.repeat([0, 1, 0], (4, 7, 2)))
    assert all(a == b for a, b in read(open_scores(scores, labels=tmp_path / "labels.npy")))


def test_a_first_label_that_is_ignored_is_no_header(tmp_path):
    np.save(tmp_path / "s.npy", np.zeros((3, 2)))
    (tmp_path / "l.csv").write_text("unknown\na\nb\n")
    file = open_scores(
        tmp_path / "s.npy", labels=tmp_path / "l.csv", classes=["a", "b"], ignore_index="unknown"
    )
    (chunk,) = file
    assert chunk.labels.tolist() == [file.ignore_index, 0, 1]
