"""Score files of every format give back what is in memory, in chunks of any size."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.files.shared import FORMATS, NAMES, N, data, table, whole, write, zarr_store

from reprior.exceptions import FileFormatError, LabelsError, OptionError
from reprior.files import DamagedError, NoRowsError, StoredNpy, expand_paths, open_scores

every_format = pytest.mark.parametrize("form", FORMATS)
ROW = 8 * len(NAMES)


@every_format
@pytest.mark.parametrize("max_bytes", [1, ROW, 7 * ROW, 100 * ROW, 1 << 25])
def test_chunks_are_the_array(tmp_path, form, max_bytes):
    path, how = write(tmp_path, form)
    scores, labels, _ = data()
    file = open_scores(path, **how)
    chunks = list(file.chunks(max_bytes))
    np.testing.assert_array_equal(whole(chunks), scores)
    np.testing.assert_array_equal(whole(chunks, "labels"), labels)
    assert whole(chunks, "labels").dtype == np.int64
    assert [chunk.start for chunk in chunks] == [
        sum(map(len, chunks[:i])) for i in range(len(chunks))
    ]


@every_format
@pytest.mark.parametrize("rows", [1, 5, 50])
def test_no_chunk_is_larger_than_asked_for(tmp_path, form, rows):
    path, how = write(tmp_path, form)
    chunks = list(open_scores(path, **how).chunks(rows * ROW))
    assert max(chunk.scores.nbytes for chunk in chunks) <= rows * ROW


@every_format
def test_what_a_file_says_about_itself(tmp_path, form):
    path, how = write(tmp_path, form)
    file = open_scores(path, **how)
    assert file.paths == (path,)
    assert file.format == form
    assert file.class_names == NAMES
    assert file.n_classes == len(NAMES)
    assert file.class_axis == -1
    assert file.has_labels
    assert file.kind == ("logits" if form in ("npz", "zarr") else None)
    assert file.n_samples == (None if form == "csv" else N)
    assert sum(len(chunk) for chunk in file) == N
    assert file.n_samples == N
    assert file.shape == (N, len(NAMES))


@every_format
def test_chunks_can_be_read_again_and_changed(tmp_path, form):
    path, how = write(tmp_path, form)
    file = open_scores(path, **how)
    for chunk in file.chunks(ROW * 50):
        chunk.scores[...] = 0
    np.testing.assert_array_equal(whole(file), data()[0])


@every_format
def test_several_files_are_one_set(tmp_path, form):
    parts = [write(tmp_path, form, n=30 + i, seed=i, stem=f"part-{i}") for i in range(3)]
    expected = [data(30 + i, i) for i in range(3)]
    how = dict(parts[0][1])
    if form == "npy":
        how["labels"] = str(tmp_path / "part-*-labels.npy")
        pattern = [path for path, _ in parts]
    else:
        pattern = str(tmp_path / f"part-*.{form}")
    file = open_scores(pattern, **how)
    chunks = list(file.chunks(10 * ROW))
    np.testing.assert_array_equal(whole(chunks), np.concatenate([e[0] for e in expected]))
    np.testing.assert_array_equal(whole(chunks, "labels"), np.concatenate([e[1] for e in expected]))
    assert sorted({chunk.source for chunk in chunks}) == [0, 1, 2]
    assert file.n_samples == 93


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("own", ["npy", "npz", "csv", "parquet", "zarr", "txt", "names.npy"])
def test_labels_in_a_file_of_their_own(tmp_path, form, own):
    _, labels, _ = data()
    path, _ = write(tmp_path, form)
    target = tmp_path / f"own.{own}"
    named = np.array(NAMES)[labels]
    if own == "npy":
        np.save(target, labels.astype(np.uint8))
    elif own == "names.npy":
        np.save(target, named)
    elif own == "npz":
        np.savez(target, labels=named)
    elif own == "zarr":
        zarr_store(target, None, labels)
    elif own == "csv":
        target.write_text("label\n" + "".join(f'"{name}"\n' for name in named))
    elif own == "txt":
        target.write_text("".join(f"{label}\n" for label in labels))
    else:
        pq.write_table(pa.table({"y": pa.array(named.tolist()).dictionary_encode()}), target)
    file = open_scores(path, labels=target, classes=NAMES)
    np.testing.assert_array_equal(whole(file.chunks(9 * ROW), "labels"), labels)
    assert file.label_paths == (target,)


def test_a_list_column_holds_all_scores(tmp_path):
    scores, labels, _ = data()
    for kind in (pa.list_(pa.float32()), pa.list_(pa.float64(), 4), pa.large_list(pa.float64())):
        pq.write_table(
            pa.table({"scores": pa.array(list(scores), kind), "label": labels}),
            tmp_path / "a.parquet",
        )
        file = open_scores(tmp_path / "a.parquet", classes=NAMES)
        got = whole(file.chunks(10 * ROW))
        np.testing.assert_array_equal(got, scores.astype(got.dtype))
        assert file.class_names == NAMES


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f8", np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", ["npy", "npz", "compressed"])
def test_dtypes_and_orders_of_arrays(tmp_path, dtype, order, form):
    scores = np.asarray(data()[0], dtype=dtype, order=order)
    path = tmp_path / f"a.{'npy' if form == 'npy' else 'npz'}"
    if form == "npy":
        np.save(path, scores)
    else:
        (np.savez if form == "npz" else np.savez_compressed)(path, scores=scores)
    got = whole(open_scores(path).chunks(3 * ROW))
    np.testing.assert_array_equal(got, scores)
    assert got.dtype.isnative
    assert got.dtype.kind == "f"


@pytest.mark.parametrize("form", ["npz", "zarr", "npy"])
def test_segmentation_arrays(tmp_path, form):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(7, 3, 4, 5)).astype(np.float32)
    labels = rng.integers(0, 3, (7, 4, 5)).astype(np.uint8)
    labels[0, 0] = 255
    path, how = tmp_path / f"a.{form}", {}
    if form == "npz":
        np.savez(path, scores=scores, labels=labels)
    elif form == "zarr":
        zarr_store(path, scores, labels, rows=2)
    else:
        np.save(path, scores)
        np.save(tmp_path / "l.npy", labels)
        how = {"labels": tmp_path / "l.npy"}
    file = open_scores(path, ignore_index=255, **how)
    assert (file.class_axis, file.n_classes, file.shape) == (1, 3, (7, 3, 4, 5))
    chunks = list(file.chunks(2 * scores[0].nbytes))
    assert [len(chunk) for chunk in chunks] == [2, 2, 2, 1]
    np.testing.assert_array_equal(whole(chunks), scores)
    np.testing.assert_array_equal(whole(chunks, "labels"), labels)


def test_classes_last_is_read_from_the_shape_of_the_labels(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, scores=np.zeros((2, 4, 5, 3)), labels=np.zeros((2, 4, 5), int))
    assert open_scores(path).class_axis == -1
    assert open_scores(path).n_classes == 3
    with pytest.raises(LabelsError, match=r"shape of the scores without the class axis"):
        open_scores(path, class_axis=1)
    with pytest.raises(OptionError, match="`class_axis` must be 1 or -1"):
        open_scores(path, class_axis=2)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_one_score_is_a_model_of_two_classes(tmp_path, shape):
    np.savez(tmp_path / "a.npz", scores=np.zeros(shape), labels=[0, 1, 1, 0, 1])
    file = open_scores(tmp_path / "a.npz")
    assert file.n_classes == 2
    assert "one score per sample" in file.notes[0]
    assert next(iter(file)).scores.shape == shape


def test_kind_is_given_or_written_and_never_guessed(tmp_path):
    scores = np.full((3, 2), 0.5)
    np.savez(tmp_path / "plain.npz", scores=scores)
    np.savez(tmp_path / "kind.npz", scores=scores, kind="probs")
    pq.write_table(
        pa.table({"a": scores[:, 0], "b": scores[:, 1]}).replace_schema_metadata(
            {"reprior.kind": "log_probs"}
        ),
        tmp_path / "kind.parquet",
    )
    assert open_scores(tmp_path / "plain.npz").kind is None
    assert open_scores(tmp_path / "plain.npz", kind="probs").kind == "probs"
    assert open_scores(tmp_path / "kind.npz").kind == "probs"
    assert open_scores(tmp_path / "kind.parquet").kind == "log_probs"
    with pytest.raises(OptionError, match=r"Got 'logits', and .*kind.npz' states 'probs'"):
        open_scores(tmp_path / "kind.npz", kind="logits")
    with pytest.raises(OptionError, match="`kind` must be one of"):
        open_scores(tmp_path / "kind.npz", kind="probabilities")


def test_weights(tmp_path):
    scores, labels, _ = data(5)
    weight = np.arange(5.0)
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels, weight=weight)
    pq.write_table(
        table(scores, labels).append_column("w", pa.array(weight)), tmp_path / "a.parquet"
    )
    for name, how in (("a.npz", {}), ("a.parquet", {"weight_column": "w"})):
        file = open_scores(tmp_path / name, **how)
        assert file.has_weight
        assert file.n_classes == len(NAMES)
        np.testing.assert_array_equal(whole(file.chunks(ROW), "weight"), weight)


def test_classes_choose_and_order_columns(tmp_path):
    path, _ = write(tmp_path, "csv")
    scores, labels, _ = data()
    order = [2, 0, 3, 1]
    file = open_scores(path, classes=[NAMES[k] for k in order])
    np.testing.assert_array_equal(whole(file), scores[:, order])
    np.testing.assert_array_equal(np.array(order)[whole(file, "labels")], labels)


def test_classes_from_a_file(tmp_path):
    path, how = write(tmp_path, "npy")
    (tmp_path / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    file = open_scores(path, labels=how["labels"], classes=tmp_path / "names.txt")
    assert file.class_names == NAMES


def test_keep_carries_all_columns(tmp_path):
    for form in ("csv", "parquet"):
        path, _ = write(tmp_path, form)
        chunks = list(open_scores(path, keep=True).chunks(20 * ROW))
        extra = pa.concat_tables([chunk.extra for chunk in chunks])
        assert extra.column("id").to_pylist() == table(*data()[:2]).column("id").to_pylist()
        assert next(iter(open_scores(path))).extra is None


def test_without_labels(tmp_path):
    path, _ = write(tmp_path, "csv")
    file = open_scores(path, with_labels=False)
    assert not file.has_labels
    assert file.class_names == NAMES
    assert next(iter(file)).labels is None
    with pytest.raises(LabelsError, match="`labels` must be given"):
        file.require_labels()


def test_files_that_differ_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    np.save(tmp_path / "b.npy", np.zeros((2, 4)))
    np.savez(tmp_path / "c.npz", scores=np.zeros((2, 3)))
    np.savez(tmp_path / "d.npz", scores=np.zeros((2, 3)), labels=[0, 1])
    for names, words in (
        (("a.npy", "b.npy"), "same shape per sample"),
        (("a.npy", "c.npz"), "same format"),
        (("c.npz", "d.npz"), "must all have labels, or none"),
    ):
        with pytest.raises(FileFormatError, match=words):
            open_scores([tmp_path / name for name in names])


def test_patterns_are_sorted_and_a_name_with_a_star_is_itself(tmp_path):
    for name in ("b.npy", "a.npy", "*.npy"):
        (tmp_path / name).write_bytes(b"")
    found = expand_paths(str(tmp_path / "[ab].npy"), "paths")
    assert [path.name for path in found] == ["a.npy", "b.npy"]
    assert [p.name for p in expand_paths(tmp_path / "*.npy", "paths")] == ["*.npy"]
    with pytest.raises(FileNotFoundError, match="no file matches the pattern"):
        expand_paths(os.path.join(tmp_path, "c*.npy"), "paths")
    with pytest.raises(OptionError, match="`paths` must name at least one file"):
        expand_paths([], "paths")


def test_classes_in_another_order_than_the_columns_are_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\n1,2,0\n3,4,1\n")
    assert open_scores(path).notes == ()
    file = open_scores(path, classes=["b", "a"])
    (note,) = file.notes
    assert note.endswith(
        "integer labels were taken as indices of the classes in the order 'b', 'a'."
    )
    (chunk,) = file
    assert chunk.scores.tolist() == [[2, 1], [4, 3]]
    assert chunk.labels.tolist() == [0, 1]


def turned_table(folder, labels, extension):
    """A table with the class columns a and b, opened as b and a, and labels as they are given."""
    path = folder / f"t.{extension}"
    table = pa.table({"a": [1.0, 3.0], "b": [2.0, 4.0], "label": labels})
    (pacsv.write_csv if extension == "csv" else pq.write_table)(table, path)
    return path


@pytest.mark.parametrize("extension", ["csv", "parquet"])
@pytest.mark.parametrize(
    "labels, told, ignored",
    [
        ([0, 1], True, None),
        (["0", "1"], True, None),
        (["void", "1"], True, "void"),
        (["a", "b"], False, None),
        (["a", "-1"], False, -1),
    ],
)
def test_the_order_of_columns_is_told_of_indices_alone(tmp_path, labels, told, ignored, extension):
    path = turned_table(tmp_path, labels, extension)
    file = open_scores(path, classes=["b", "a"], ignore_index=ignored)
    assert any("integer labels were taken" in note for note in file.notes) is told
    (chunk,) = file
    assert chunk.scores.tolist() == [[2, 1], [4, 3]]


@pytest.mark.parametrize("form", ["npy", "csv"])
@pytest.mark.parametrize("labels, told", [(["a", "b"], False), ([0, 1], True)])
def test_the_order_of_columns_is_told_of_indices_alone_in_a_file_of_labels(
    tmp_path, labels, told, form
):
    path, own = turned_table(tmp_path, [0, 1], "csv"), tmp_path / f"own.{form}"
    if form == "npy":
        np.save(own, np.array(labels))
    else:
        own.write_text("label\n" + "".join(f"{label}\n" for label in labels))
    file = open_scores(path, labels=own, classes=["b", "a"])
    assert any("integer labels were taken" in note for note in file.notes) is told


def test_integers_that_are_names_need_no_order_of_columns(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("7,5,label\n1,2,7\n3,4,5\n")
    file = open_scores(path, classes=["5", "7"], labels_as="names")
    assert file.notes == ()
    assert [chunk.labels.tolist() for chunk in file] == [[1, 0]]


def test_labels_that_cannot_be_read_are_no_matter_of_the_note(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,label\n1,2,0\n3,4,1\n")
    own = tmp_path / "own.parquet"
    pq.write_table(pa.table({"label": [None, "a"]}), own)
    file = open_scores(path, labels=own, classes=["b", "a"])
    with pytest.raises(LabelsError, match="Got null in row 0"):
        list(file)


def rows_with_notes(n, end="\n"):
    """Rows of a csv file whose last cell has several lines, with quotes and empty lines in it."""
    return [
        f'{i}.5,{i % 7},{i % 2},"note {i}{end}of ""two"", or{end}{end}more"{end}' for i in range(n)
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_breaks_inside_quotes_in_a_table_of_several_blocks(tmp_path, end):
    n = 30_000  # more than a block of text, of a megabyte at most
    path = tmp_path / "a.csv"
    path.write_text("".join([f"a,b,label,note{end}", *rows_with_notes(n, end)]), newline="")
    scores = np.concatenate([chunk.scores for chunk in open_scores(path)])
    assert scores.tolist() == [[i + 0.5, i % 7] for i in range(n)]
    (first, *_) = open_scores(path, keep=True)
    assert first.extra["note"][0].as_py() == f'note 0{end}of "two", or{end}{end}more'


@pytest.mark.parametrize("where", [10, 20_000])
def test_a_quote_that_nobody_closes_does_not_swallow_the_rows_after_it(tmp_path, where):
    rows = [f"{i}.5,{i % 7},{i % 2},note {'x' * 50}\n" for i in range(30_000)]
    rows[where] = '1,2,0,"open\n'
    path = tmp_path / "a.csv"
    path.write_text("".join(["a,b,label,note\n", *rows]))
    with pytest.raises(DamagedError, match="a quote is not closed: the last cell is 'open"):
        list(open_scores(path))
    with path.open("a") as file:
        file.write('"\n\n')
    assert sum(len(chunk) for chunk in open_scores(path)) == where + 1


@pytest.mark.parametrize("length", [1 << 17, 3 << 20])
def test_a_row_that_is_longer_than_a_block_of_text(tmp_path, length):
    path = tmp_path / "a.csv"
    rows = [f'{i},{i % 7},{i % 2},"{"x" * (length if i == 500 else 5)}"\n' for i in range(1000)]
    path.write_text("".join(["a,b,label,note\n", *rows]))
    assert np.concatenate([c.scores[:, 0] for c in open_scores(path)]).tolist() == [*range(1000)]
    with path.open("a") as file:
        file.write("1,2,0,more,than four\n")
    with pytest.raises(DamagedError, match="got 5"):
        list(open_scores(path))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("rows", [(), ("", ""), ("1,2,0", "", "3,4,1")])
def test_every_kind_of_line_break(tmp_path, end, rows):
    path = tmp_path / "a.csv"
    path.write_text(end.join(["a,b,label", *rows, ""]), newline="")
    if any(rows):
        assert sum(map(len, open_scores(path))) == 2
    else:
        with pytest.raises(NoRowsError, match=r"must have rows\. Got a header alone"):
            open_scores(path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_weight_that_is_no_number_is_an_error_of_weights(tmp_path, form):
    path = tmp_path / f"a.{form}"
    if form == "csv":
        path.write_text("a,b,label,weight\n1,2,0,1\n3,4,1,heavy\n")
    else:
        weight = pa.array([1.0, None])
        columns = {"a": [1.0, 3.0], "b": [2.0, 4.0], "label": [0, 1], "weight": weight}
        pq.write_table(pa.table(columns), path)
    with pytest.raises(LabelsError, match=r"^`weight` must be numbers\. Got .*'weight'") as caught:
        list(open_scores(path, weight_column="weight"))
    assert caught.value.argument == "weight"


def test_a_table_without_a_row_at_its_end_is_whole(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('a,b,label,note\n1,2,0,"two\nlines"')
    assert [len(chunk) for chunk in open_scores(path)] == [1]


def test_arrays_that_were_not_read_are_told(tmp_path):
    np.savez(tmp_path / "a.npz", scores=np.eye(2), labels=[0, 1], weights=[1.0, 2.0])
    (note,) = open_scores(tmp_path / "a.npz").notes
    assert note.endswith("were not read: 'weights'.")
    file = open_scores(tmp_path / "a.npz", weight_column="weights")
    assert (file.notes, file.has_weight) == ((), True)


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_weights_and_labels_are_not_looked_for_where_nobody_wants_them(tmp_path, form):
    path = tmp_path / f"a.{form}"
    if form == "npz":
        np.savez(path, scores=np.eye(2), w=[1, 2])
    else:
        path.write_text("a,b,w\n1,0,1\n0,1,2\n")
    for weight in ("w", "absent"):
        file = open_scores(path, with_labels=False, weight_column=weight, label_column="absent")
        assert (file.has_labels, file.has_weight) == (False, False)
        assert file.n_classes == (3 if (form, weight) == ("csv", "absent") else 2)


def test_a_list_beside_a_number_must_be_chosen(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [7, 8], "p": [[0.1, 0.9], [0.8, 0.2]], "label": [0, 1]}), path)
    with pytest.raises(FileFormatError, match="list column 'p' and the number 'id'"):
        open_scores(path)
    (chunk,) = open_scores(path, scores_name="p")
    assert chunk.scores.tolist() == [[0.1, 0.9], [0.8, 0.2]]
    (chunk,) = open_scores(path, scores_name="id")
    assert chunk.scores.tolist() == [7, 8]
    with pytest.raises(FileFormatError, match=r"`scores_name` must be .* Got 'q'"):
        open_scores(path, scores_name="q")


def test_class_names_tell_the_class_axis(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((5, 4, 4, 3)))
    assert open_scores(tmp_path / "a.npy", classes=list("abc")).class_axis == -1
    assert open_scores(tmp_path / "a.npy", classes=list("abcd")).class_axis == 1


@pytest.mark.parametrize("before", ["", "\n", "  \n\r\n"])
def test_a_header_with_a_line_break_and_another_delimiter(tmp_path, before):
    path = tmp_path / "a.csv"
    path.write_text(before + 'a;"b\nc";label\n1;2;a\n3;4;"b\nc"\n')
    file = open_scores(path)
    (chunk,) = file
    assert file.class_names == ("a", "b\nc")
    assert (chunk.scores.tolist(), chunk.labels.tolist()) == ([[1, 2], [3, 4]], [0, 1])


def test_urls_are_for_dask(tmp_path, monkeypatch):
    words = r"files of this machine\. Got the URL 's3://b/x-\*\.npz'.*--engine dask"
    with pytest.raises(OptionError, match=words):
        open_scores("s3://b/x-*.npz")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd:").mkdir()
    np.savez(tmp_path / "odd:" / "x.npz", scores=np.eye(3))
    assert open_scores("odd://x.npz").n_samples == 3  # a path that is there is itself


def test_chunks_that_are_kept_have_memory_of_their_own(tmp_path):
    scores = np.random.default_rng(0).normal(size=(400, 300)).astype(np.float32)
    np.save(tmp_path / "scores.npy", scores)
    stored = StoredNpy.open(tmp_path / "scores.npy")
    kept = [block[:, 1:].T for block in stored.blocks(4)]
    assert len(kept) == 100
    np.testing.assert_array_equal(np.concatenate(kept, axis=1), scores[:, 1:].T)
