"""An error about a damaged file is one sentence with the place and the remedy."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.files.shared import FORMATS, write, zarr_store
from tests.support.child_processes import PRINT_PEAK_MEMORY

from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
)
from reprior.files import open_scores


def refusal(path, max_bytes=64, **how):
    """Read a file to its end; return the sentence with which it is refused."""
    with pytest.raises(RepriorError) as caught:
        for _ in open_scores(path, **how).chunks(max_bytes):
            pass
    return str(caught.value)


CSV = {
    "text": ("a,b,label\n1,2,0\n1,oops,1\n", "the text 'oops' in column 'b', line 3 of"),
    "empty cell": ("a,b,label\n1,2,0\n\n1,,1\n", "an empty cell in column 'b', line 4 of"),
    "short row": ("a,b,label\n1,2,0\n1,2\n", "truncated or damaged"),
    "nan": ("a,b,label\n1,2,0\n1,nan,1\n", "NaN in line 3 of"),
    "inf": ("a,b,label\n1,2,0\n1,inf,1\n", "+inf in line 3 of"),
    "unknown label": ("a,b,label\n1,2,a\n1,3,cow\n", "Got 'cow' in line 3"),
    "no label": ("a,b,label\n1,2,a\n1,3,\n", "Got an empty cell in line 3"),
    "mixed labels": (
        "a,b,label\n1,2,a\n1,3,1\n",
        "all indices or all names. Got indices in line 3",
    ),
    "out of range": ("a,b,label\n1,2,0\n1,3,2\n", "class indices 0 … 1. Got 2 in line 3"),
    "fraction": ("a,b,label\n1,2,0\n1,3,0.5\n", "Got '0.5' in line 3"),
    "names as indices": ("1,2,label\n1,2,1\n1,3,2\n", "pass labels_as='names'"),
    "header alone": ("a,b,label\n", "must have rows. Got a header alone"),
    "empty": ("", "Got an empty file"),
    "no header": ("0.5,0.5\n0.1,0.9\n", "must have column names in its first line"),
    "repeated": ("a,a,label\n1,2,0\n", "Got 'a' twice"),
    "no numbers": ("a,b,label\nx,y,0\n", "must have a numeric column per class"),
}


@pytest.mark.parametrize("case", CSV)
def test_csv(tmp_path, case):
    text, words = CSV[case]
    path = tmp_path / "bad.csv"
    path.write_text(text)
    sentence = refusal(path)
    assert words in sentence
    assert "bad.csv" in sentence


def test_text_far_down_a_long_file(tmp_path):
    path = tmp_path / "long.csv"
    rows = ["0.25,0.75,1"] * 40_000
    rows[39_000] = "0.25,n/a,1"
    path.write_text("a,b,label\n" + "\n".join(rows) + "\n")
    assert "the text 'n/a' in column 'b', line 39002 of" in refusal(path, 1 << 16)


def test_csv_that_is_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b,label\n1,2,\xe9\n")
    assert "must be UTF-8 text" in refusal(tmp_path / "a.csv")


PARQUET = {
    "ragged": ({"scores": [[1.0, 2.0], [3.0]]}, "2 numbers in every row. Got 1 numbers in row 1"),
    "null list": ({"scores": [[1.0, 2.0], None]}, "Got null in row 1, column 'scores'"),
    "null in list": ({"scores": [[1.0, 2.0], [1.0, None]]}, "Got null in row 1, column 'scores'"),
    "null": ({"a": [1.0, None], "b": [1, 2]}, "Got null in row 1, column 'a'"),
    "nan": ({"a": [1.0, float("nan")], "b": [1, 2]}, "NaN in row 1 of"),
    "null label": (
        {"a": [1.0, 2], "b": [1, 2], "label": [0, None]},
        "null in row 1, column 'label'",
    ),
    "date label": (
        {"a": [1.0], "b": [1], "label": [pd.Timestamp(0)]},
        "integers or names. Got type",
    ),
    "no numbers": ({"a": ["x"], "label": [0]}, "must have a numeric column per class"),
}


@pytest.mark.parametrize("case", PARQUET)
def test_parquet(tmp_path, case):
    columns, words = PARQUET[case]
    pq.write_table(pa.table(columns), tmp_path / "bad.parquet")
    assert words in refusal(tmp_path / "bad.parquet")


@pytest.mark.parametrize("form", ["npy", "npz", "parquet"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_truncated(tmp_path, form, share):
    path, how = write(tmp_path, form)
    data = path.read_bytes()
    path.write_bytes(data[: max(8, int(share * len(data)))])
    assert "truncated or damaged" in refusal(path, **how)


def test_a_changed_byte_in_an_archive(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, scores=np.zeros((99, 3)))
    data = bytearray(path.read_bytes())
    data[1000] ^= 255
    path.write_bytes(data)
    assert "Bad CRC-32" in refusal(path)


def test_a_damaged_zarr_store(tmp_path):
    path, how = write(tmp_path, "zarr")
    (path / "scores" / "zarr.json").write_text("{")
    assert "must be a complete zarr file" in refusal(path, **how)


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "l.npz"])
def test_nothing_is_unpickled(tmp_path, name):
    objects = np.array([[1, None]], dtype=object)
    if name == "a.npy":
        np.save(tmp_path / name, objects)
    elif name == "a.npz":
        np.savez(tmp_path / name, scores=objects)
    else:
        np.savez(tmp_path / name, scores=np.zeros((1, 2)), labels=objects[0, 1:])
    sentence = refusal(tmp_path / name)
    assert "reprior never unpickles" in sentence
    assert "dtype=str" in sentence


ARRAYS = {
    "rows": ({"scores": np.zeros((5, 3)), "labels": [0, 1]}, "Got 2 in 'labels' and 5 rows"),
    "no scores": ({"x": np.zeros((5, 3)), "labels": [0]}, "must hold an array 'scores'"),
    "kind": ({"scores": np.zeros((5, 3)), "kind": "foo"}, "`kind` must be one of"),
    "names": ({"scores": np.zeros((5, 3)), "class_names": ["a", "b"]}, "2 names ('a', 'b')"),
    "same names": ({"scores": np.zeros((5, 2)), "class_names": ["a", "a"]}, "Got 'a' twice"),
    "no rows": ({"scores": np.zeros((0, 3))}, "must have rows"),
    "no classes": ({"scores": np.zeros((3, 0))}, "must have a number per class"),
    "complex": ({"scores": np.zeros((3, 2), complex)}, "Got dtype complex128"),
    "text": ({"scores": np.array([["a", "b"]])}, "must be numbers. Got dtype <U1"),
    "nan": ({"scores": np.array([[0.0, 1.0], [0.0, np.nan]])}, "NaN in row 1 of"),
    "one-hot": ({"scores": np.eye(3), "labels": np.eye(3, dtype=int)}, "Got (samples, 3)"),
    "fraction": ({"scores": np.eye(2), "labels": [0, 0.5]}, "Got 0.5 in row 1"),
    "nan label": ({"scores": np.eye(2), "labels": [0, np.nan]}, "Got NaN in row 1"),
    "weight": ({"scores": np.eye(2), "labels": [0, 1], "weight": [1.0, -1]}, "Got -1.0 in row 1"),
    "names needed": ({"scores": np.eye(2), "labels": ["x", "y"]}, "need class names. Got 'x'"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(tmp_path, case):
    arrays, words = ARRAYS[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    assert words in refusal(tmp_path / "bad.npz")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("n, own", [(40, "npy"), (40, "csv"), (250, "npy"), (250, "csv")])
def test_rows_that_do_not_match(tmp_path, form, n, own):
    path, _ = write(tmp_path, form)
    labels = tmp_path / f"own.{own}"
    if own == "npy":
        np.save(labels, np.zeros(n, int))
    else:
        labels.write_text("0\n" * n)
    sentence = refusal(path, labels=labels)
    assert f"Got {n} labels" in sentence
    assert "203 rows of scores" in sentence


def test_missing_columns(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,label\n1,2,0\n")
    assert "`label_column` must be a column" in refusal(tmp_path / "a.csv", label_column="y")
    assert "`weight_column` must be a column" in refusal(tmp_path / "a.csv", weight_column="w")
    assert "Missing: 'c'" in refusal(tmp_path / "a.csv", classes=["a", "c"])
    assert "class names of this file" in refusal(tmp_path / "a.csv", classes=["c", "d", "e"])


def test_pandas_frames(tmp_path):
    frame = pd.DataFrame(
        {"a": [1.0, 2.0], "b.x": [3, 4], "label": pd.Categorical(["b.x", "a"]), "id": ["x", "y"]},
        index=[5, 6],
    )
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv")
    frame.index.name = "uid"
    frame.to_parquet(tmp_path / "named.parquet")
    for name in ("a.parquet", "named.parquet", "a.csv"):
        file = open_scores(tmp_path / name)
        assert file.class_names == ("a", "b.x")
        (chunk,) = file.chunks()
        np.testing.assert_array_equal(chunk.scores, [[1, 3], [2, 4]])
        np.testing.assert_array_equal(chunk.labels, [1, 0])
        assert "'id'" in file.notes[0]


def test_errors_have_their_types(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.full((1, 2), np.nan))
    with pytest.raises(ScoresError):
        list(open_scores(tmp_path / "a.npz"))
    np.savez(tmp_path / "a.npz", scores=np.eye(2), labels=[0, 2])
    with pytest.raises(LabelsError):
        list(open_scores(tmp_path / "a.npz"))
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(FileFormatError):
        open_scores(tmp_path / "a.npz")
    with pytest.raises(FileNotFoundError):
        open_scores(tmp_path / "none.npz")


def test_zarr_version_2_and_a_bare_array(tmp_path):
    import zarr

    scores = np.random.default_rng(0).normal(size=(9, 3))
    zarr_store(tmp_path / "two.zarr", scores, np.arange(9) % 3, version=2, kind="probs")
    file = open_scores(tmp_path / "two.zarr")
    assert file.kind == "probs"
    np.testing.assert_array_equal(next(iter(file)).scores, scores)
    array = zarr.create_array(str(tmp_path / "one.zarr"), shape=(9, 3), dtype="f8")
    array[...] = scores
    (tmp_path / "names.json").write_text(json.dumps(["a", "b", "c"]))
    file = open_scores(tmp_path / "one.zarr", classes=tmp_path / "names.json")
    np.testing.assert_array_equal(next(iter(file)).scores, scores)


@pytest.mark.parametrize("paths", [None, 5, [b"a"], np.zeros((2, 2))])
def test_what_is_no_path_is_refused(paths):
    with pytest.raises(OptionError, match="`paths` must be a path, a pattern or a list of these"):
        open_scores(paths)


def test_a_table_without_header_is_refused_though_some_numbers_are_whole(tmp_path):
    (tmp_path / "a.csv").write_text("1.5,2,0\n3,4.5,1\n")
    with pytest.raises(FileFormatError, match=r"column names in its first line. Got numbers"):
        open_scores(tmp_path / "a.csv")


@pytest.mark.parametrize("values", [["1", "2"], [1.0, None]])
def test_weights_that_are_no_numbers_are_called_weights(tmp_path, values):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "label": [0, 1], "w": values}), path)
    with pytest.raises(LabelsError, match=r"`weight` must be numbers. Got .*column 'w'"):
        list(open_scores(path, weight_column="w"))


def test_an_archive_without_arrays_is_told(tmp_path):
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("data.pkl", "x")
    with pytest.raises(FileFormatError, match="Got no array at all"):
        open_scores(tmp_path / "model.pt")


def test_text_of_two_bytes_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,label\n1,2,a\n", encoding="utf-16")
    with pytest.raises(FileFormatError, match=r"Got UTF-16 text. Save it as UTF-8."):
        open_scores(tmp_path / "a.csv")


def test_a_header_of_names_that_asks_for_more_memory_than_there_is(tmp_path):
    names, scores = io.BytesIO(), io.BytesIO()
    np.save(scores, np.eye(2))
    header = {"descr": "<U9", "fortran_order": False, "shape": (10**13,)}
    np.lib.format.write_array_header_1_0(names, header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("scores.npy", scores.getvalue())
        archive.writestr("class_names.npy", names.getvalue() + b"abc")
    with pytest.raises(FileFormatError, match=r"a\.npz' must have an array 'class_names' of at"):
        open_scores(tmp_path / "a.npz")


def test_arrays_inside_of_an_array_are_refused(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        header = {"descr": ("<f4", (2,)), "fortran_order": False, "shape": (3,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(np.zeros(6, np.float32).tobytes())
    with pytest.raises(FileFormatError, match=r"Got arrays of shape \(2,\) inside of it"):
        open_scores(tmp_path / "a.npy", kind="logits")


def test_a_parquet_page_that_claims_2_gb_takes_no_memory():
    """The size of a page behind a damaged one, where no walk over headers finds it."""
    if not Path("/proc/self/status").exists():
        pytest.skip("SKIPPED: this system has no /proc, so peak memory cannot be measured")
    path = Path(__file__).parent / "damaged" / "page_of_2_gb.parquet"
    script = """
import sys
from reprior.exceptions import FileFormatError
from reprior.files import open_scores
try:
    list(open_scores(sys.argv[1], kind="logits").chunks())
except FileFormatError:
    print("refused")
"""
    command = [sys.executable, "-c", script + PRINT_PEAK_MEMORY, str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    refused, peak = shown.split()
    assert refused == "refused"
    assert int(peak) < 10**9
