"""Several files: an empty one is passed by with a note, all empty ones are refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reprior.exceptions import FileFormatError
from reprior.files.scores import open_scores

SCORES, LABELS = np.arange(12.0).reshape(4, 3), np.array([0, 1, 2, 0])


def write_npz(path, n):
    np.savez(path, scores=SCORES[:n], labels=LABELS[:n])


def write_npy(path, n):
    np.save(path, SCORES[:n])


def write_parquet(path, n):
    columns = {name: SCORES[:n, k] for k, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "label": LABELS[:n]}), path)


def write_lists(path, n):
    kind = pa.list_(pa.float64())
    table = {"scores": pa.array(SCORES[:n].tolist(), kind), "label": LABELS[:n]}
    pq.write_table(pa.table(table), path)


def write_csv(path, n):
    rows = [f"{a},{b},{c},{y}" for (a, b, c), y in zip(SCORES[:n], LABELS[:n], strict=True)]
    path.write_text("\n".join(["a,b,c,label", *rows]) + "\n")


WRITERS = {
    "npz": (write_npz, "npz"),
    "npy": (write_npy, "npy"),
    "parquet": (write_parquet, "parquet"),
    "lists": (write_lists, "parquet"),
    "csv": (write_csv, "csv"),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_empty_shard(tmp_path, name, place):
    put, suffix = WRITERS[name]
    for i in range(3):
        put(tmp_path / f"{i}.{suffix}", 0 if i == place else 4)
    file = open_scores(str(tmp_path / f"*.{suffix}"), kind="logits")
    assert sum(len(chunk) for chunk in file) == file.n_samples == 8
    assert f"'{tmp_path / str(place)}.{suffix}' has no rows, and is passed by." in file.notes
    assert not file.left_out


def test_its_labels_go_with_it(tmp_path):
    for i, n in enumerate((4, 0, 3)):
        write_npy(tmp_path / f"s{i}.npy", n)
        np.save(tmp_path / f"l{i}.npy", LABELS[:n])
    file = open_scores(str(tmp_path / "s*.npy"), labels=str(tmp_path / "l*.npy"))
    assert np.concatenate([c.labels for c in file]).tolist() == [0, 1, 2, 0, 0, 1, 2]
    assert [path.name for path in file.label_paths] == ["l0.npy", "l2.npy"]


@pytest.mark.parametrize("name", WRITERS)
def test_all_empty_is_an_error(tmp_path, name):
    put, suffix = WRITERS[name]
    put(tmp_path / f"0.{suffix}", 0)
    put(tmp_path / f"1.{suffix}", 0)
    with pytest.raises(FileFormatError, match=r"must have rows. Got none|must have rows. Got a"):
        open_scores(str(tmp_path / f"*.{suffix}"), kind="logits")


def test_none_that_can_be_read(tmp_path):
    for i in range(2):
        (tmp_path / f"{i}.npy").write_bytes(b"\x93NUMPY nothing")
    with pytest.raises(FileFormatError, match=r"At least one score file must be readable. Got 2"):
        open_scores(str(tmp_path / "*.npy"), skip_unreadable=True)


def test_a_missing_file_is_left_out_only_when_asked(tmp_path):
    write_npz(tmp_path / "a.npz", 4)
    both = [tmp_path / "a.npz", tmp_path / "gone.npz"]
    with pytest.raises(FileNotFoundError, match="gone"):
        open_scores(both)
    file = open_scores(both, skip_unreadable=True)
    assert [left.path.name for left in file.left_out] == ["gone.npz"]


def test_other_numbers_of_classes_are_named_even_then(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    np.save(tmp_path / "b.npy", np.zeros((4, 5)))
    with pytest.raises(FileFormatError, match=r"\(3,\) in .*a\.npy.* and \(5,\) in .*b\.npy"):
        open_scores(str(tmp_path / "*.npy"), kind="logits", skip_unreadable=True)
