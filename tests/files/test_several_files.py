"""Several files: an empty one is skipped with a note, all empty ones are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from reprior.exceptions import FileFormatError, LabelsError, OptionError
from reprior.files import open_scores

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
    assert f"'{tmp_path / str(place)}.{suffix}' has no rows, and is skipped." in file.notes
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


def write_columns(path, order, seed, *, named=True, extra=()):
    """A table with its class columns in an order; labels as names, or as indices."""
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(5, 3)), rng.integers(3, size=5)
    columns = dict(zip("abc", scores.T, strict=True))
    written = ["abc"[k] for k in labels] if named else labels
    table = pa.table({**{n: columns[n] for n in order}, "label": written, **dict(extra)})
    pq.write_table(table, path) if path.suffix == ".parquet" else csv.write_csv(table, path)
    return scores, labels


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_columns_are_taken_by_name_in_the_order_of_the_first_table(tmp_path, suffix):
    given = [
        write_columns(tmp_path / f"{i}.{suffix}", order, i)
        for i, order in enumerate(("cab", "abc", "bca", "cab"))
    ]
    file = open_scores(str(tmp_path / f"*.{suffix}"), kind="logits")
    assert file.class_names == ("c", "a", "b")
    scores = np.concatenate([chunk.scores for chunk in file])
    np.testing.assert_array_equal(scores, np.concatenate([s for s, _ in given])[:, [2, 0, 1]])
    labels = np.concatenate([chunk.labels for chunk in file])
    expected = np.concatenate([y for _, y in given])
    np.testing.assert_array_equal(
        np.array(["c", "a", "b"])[labels], np.array(list("abc"))[expected]
    )


REFUSED = (
    r"`labels` must be names .* Got indices in .*, and '.*1\.\w+' has the classes 'a', 'b', 'c'"
)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_indices_are_refused_where_a_table_is_reordered(tmp_path, suffix):
    given = [
        write_columns(tmp_path / f"{i}.{suffix}", order, i, named=False)
        for i, order in enumerate(("abc", "bca"))
    ]
    pattern = str(tmp_path / f"*.{suffix}")
    with pytest.raises(LabelsError, match=REFUSED):
        list(open_scores(pattern, kind="logits"))
    file = open_scores(pattern, kind="logits", classes=list("abc"))
    found = np.concatenate([chunk.labels for chunk in file])
    np.testing.assert_array_equal(found, np.concatenate([labels for _, labels in given]))
    assert sum(map(len, open_scores(pattern, kind="logits", with_labels=False))) == 10


def test_indices_in_files_of_their_own_are_refused_too(tmp_path):
    for i, order in enumerate(("abc", "bca")):
        _, labels = write_columns(tmp_path / f"{i}.parquet", order, i)
        np.save(tmp_path / f"{i}.npy", labels)
    file = open_scores(str(tmp_path / "*.parquet"), labels=str(tmp_path / "*.npy"), kind="logits")
    with pytest.raises(LabelsError, match=REFUSED):
        list(file)


def test_integers_that_are_names_are_taken_by_name(tmp_path):
    (tmp_path / "0.csv").write_text("0,1,label\n1.5,2.5,0\n")
    (tmp_path / "1.csv").write_text("1,0,label\n1.5,2.5,1\n")
    with pytest.raises(LabelsError, match=r"must be names .* pass labels_as='names'"):
        list(open_scores(str(tmp_path / "*.csv"), kind="logits"))
    file = open_scores(str(tmp_path / "*.csv"), kind="logits", labels_as="names")
    assert np.concatenate([chunk.labels for chunk in file]).tolist() == [0, 1]


def test_names_in_csv_tables_need_no_note(tmp_path):
    for i, order in enumerate(("abc", "bca")):
        write_columns(tmp_path / f"{i}.csv", order, i)
    assert not open_scores(str(tmp_path / "*.csv"), kind="logits").notes


def test_what_indices_mean_in_a_reordered_table_is_said(tmp_path):
    for i, order in enumerate(("abc", "bca")):
        write_columns(tmp_path / f"{i}.parquet", order, i, named=False)
    file = open_scores(str(tmp_path / "*.parquet"), kind="logits", classes=list("abc"))
    (note,) = [note for note in file.notes if "another order" in note]
    assert "1.parquet" in note
    assert "in the order 'a', 'b', 'c'" in note
    named = tmp_path / "named"
    named.mkdir()
    for i, order in enumerate(("abc", "bca")):
        write_columns(named / f"{i}.parquet", order, i)
    assert not open_scores(str(named / "*.parquet"), kind="logits").notes


def test_a_table_that_states_its_own_order_is_put_in_order_too(tmp_path):
    for i, order in enumerate(("abc", "bca")):
        path = tmp_path / f"{i}.parquet"
        scores, _ = write_columns(path, "abc", 7)
        stated = {"reprior.class_names": json.dumps(list(order))}
        pq.write_table(pq.read_table(path).replace_schema_metadata(stated), path)
    file = open_scores(str(tmp_path / "*.parquet"), kind="logits")
    for chunk in file:
        np.testing.assert_array_equal(chunk.scores, scores)


def test_columns_of_other_names_are_not_mistaken_for_stated_classes(tmp_path):
    for i, order in enumerate((["x", "y", "z"], ["z", "x", "y"])):
        path = tmp_path / f"{i}.parquet"
        write_columns(path, "abc", i)
        stated = {"reprior.class_names": json.dumps(order)}
        pq.write_table(pq.read_table(path).drop(["label"]).replace_schema_metadata(stated), path)
    with pytest.raises(FileFormatError, match=r"same classes, in one order. Got 'x', 'y', 'z' in"):
        open_scores(str(tmp_path / "*.parquet"), kind="logits")


@pytest.mark.parametrize("skip", [False, True])
def test_names_that_differ_are_refused_by_name(tmp_path, skip):
    write_columns(tmp_path / "0.parquet", "abc", 0)
    write_columns(tmp_path / "1.parquet", "ab", 1, extra={"d": np.ones(5), "e": np.ones(5)}.items())
    with pytest.raises(FileFormatError) as caught:
        open_scores(str(tmp_path / "*.parquet"), kind="logits", skip_unreadable=skip)
    said = str(caught.value)
    assert f"Got 'c' in '{tmp_path}/0.parquet' alone and 'd', 'e' in '{tmp_path}/1.parquet'" in said
    assert "unless `classes` names these" in said
    file = open_scores(str(tmp_path / "*.parquet"), classes=["a", "b"], with_labels=False)
    assert sum(map(len, file)) == 10


def test_a_table_without_a_class_that_is_asked_for_is_no_damage(tmp_path):
    write_columns(tmp_path / "0.parquet", "abc", 0)
    write_columns(tmp_path / "1.parquet", "ab", 1)
    with pytest.raises(FileFormatError, match=r"1\.parquet.*Missing: 'c'"):
        open_scores(str(tmp_path / "*.parquet"), classes=list("abc"), skip_unreadable=True)


def test_files_that_break_at_their_first_row_are_told_so(tmp_path):
    for i in range(2):
        write_npy(tmp_path / f"{i}.npy", 4)
    file = open_scores(str(tmp_path / "*.npy"), kind="logits", skip_unreadable=True)
    for i in range(2):
        path = tmp_path / f"{i}.npy"
        path.write_bytes(path.read_bytes()[:130])
    with pytest.raises(FileFormatError, match=r"At least one score file must be readable. Got 2"):
        list(file)


@pytest.mark.parametrize("which", ["scores_name", "weight_column"])
def test_an_array_that_is_asked_for_and_not_there_is_no_damage(tmp_path, which):
    np.savez(tmp_path / "0.npz", scores=SCORES, labels=LABELS, mine=np.ones((4, 3)))
    write_npz(tmp_path / "1.npz", 4)
    with pytest.raises(FileFormatError, match=r"1\.npz' must hold an array 'mine'"):
        open_scores(str(tmp_path / "*.npz"), skip_unreadable=True, **{which: "mine"})


def test_labels_that_are_asked_for_and_not_there_are_no_damage(tmp_path):
    for i in range(2):
        write_npy(tmp_path / f"{i}.npy", 4)
        np.savez(tmp_path / f"{i}.npz", **{"y" if i else "labels": LABELS, "z": LABELS})
    with pytest.raises(FileFormatError, match=r"1\.npz' must hold an array 'labels'"):
        open_scores(str(tmp_path / "*.npy"), labels=str(tmp_path / "*.npz"), skip_unreadable=True)


def test_a_file_that_is_named_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("s-0", "s-1"):
        np.savez(f"{name}.npz", scores=np.eye(3), labels=np.arange(3))
    Path("link.npz").symlink_to("s-0.npz")
    with pytest.raises(OptionError, match=r"named once each\. Got 's-0\.npz' twice: its samples"):
        open_scores(["s-*.npz", "s-0.npz"])
    with pytest.raises(OptionError, match=r"Got 's-0\.npz' and 'link\.npz', which are the same"):
        open_scores(["s-0.npz", "link.npz"])
    assert open_scores(["s-*.npz"]).n_samples == 6


@pytest.mark.parametrize("own", [["a.npy", "b.npy"], ["a.npy", "a.npy"], ["both.npy"]])
def test_scores_that_are_named_twice_may_have_other_labels(tmp_path, own):
    np.save(tmp_path / "s.npy", np.eye(3))
    for name, n in (("a", 3), ("b", 3), ("both", 6)):
        np.save(tmp_path / f"{name}.npy", np.arange(n) % 3)
    scores, labels = [tmp_path / "s.npy"] * 2, [tmp_path / name for name in own]
    if len(set(own)) == 2:
        assert open_scores(scores, labels=labels).n_samples == 6
        return
    with pytest.raises(OptionError, match=r"named once each"):
        open_scores(scores, labels=labels)
