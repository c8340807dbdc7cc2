"""Outputs are whole or not there, and can be read again."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.files.shared import FORMATS, NAMES, data, table, whole, write, zarr_store

from reprior.exceptions import FileFormatError, OptionError
from reprior.files import open_output, open_scores

ROW = 8 * len(NAMES)
TABLES = ("csv", "parquet")


def run(file, path, *, keep=False, classes=NAMES, max_bytes=20 * ROW, fail_at=None):
    """Write the posterior of the shared data, chunk by chunk; return the writer's notes."""
    _, _, posterior = data()
    with open_output(path, like=file, classes=classes, keep=keep) as writer:
        for chunk in file.chunks(max_bytes):
            if fail_at is not None and chunk.start >= fail_at:
                raise KeyboardInterrupt
            p = posterior[chunk.start : chunk.stop]
            writer.write(chunk, p, p.argmax(axis=1))
    return writer.notes


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("keep", [False, True])
def test_from_every_format_to_every_format_and_back(tmp_path, form, out, keep):
    path, how = write(tmp_path, form)
    run(open_scores(path, keep=keep, **how), tmp_path / f"out.{out}", keep=keep)
    again = open_scores(tmp_path / f"out.{out}")
    np.testing.assert_array_equal(whole(again.chunks(33 * ROW)), data()[2])
    assert again.kind == (None if out in ("npy", "csv") else "probs")  # which have no place for it
    assert again.class_names == (None if out == "npy" else NAMES)
    assert again.format == out


@pytest.mark.parametrize("max_bytes", [1, 64 * ROW, 1 << 25])
@pytest.mark.parametrize("out", FORMATS)
def test_chunk_sizes_do_not_show(tmp_path, out, max_bytes):
    path, how = write(tmp_path, "npz")
    run(open_scores(path, **how), tmp_path / f"out.{out}", max_bytes=max_bytes)
    np.testing.assert_array_equal(whole(open_scores(tmp_path / f"out.{out}")), data()[2])


def test_arrays_of_npz(tmp_path):
    path, _ = write(tmp_path, "npz")
    scores, labels, posterior = data()
    run(open_scores(path, with_labels=False), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz", allow_pickle=False) as out:
        assert sorted(out.files) == ["class_names", "kind", "posterior", "prediction"]
        np.testing.assert_array_equal(out["prediction"], posterior.argmax(axis=1))
        assert out["kind"].item() == "probs"
        assert tuple(out["class_names"]) == NAMES
    run(open_scores(path, with_labels=False), tmp_path / "kept.npz", keep=True)
    with np.load(tmp_path / "kept.npz", allow_pickle=False) as out:
        np.testing.assert_array_equal(out["posterior"], posterior)
        np.testing.assert_array_equal(out["scores"], scores)
        np.testing.assert_array_equal(out["labels"], labels)
        assert out["scores_kind"].item() == "logits"
    assert open_scores(tmp_path / "kept.npz").kind == "probs"
    before = open_scores(tmp_path / "kept.npz", scores_name="scores")
    assert before.kind == "logits"
    np.testing.assert_array_equal(whole(before), scores)


def test_npy_has_predictions_beside_it(tmp_path):
    path, how = write(tmp_path, "npy")
    notes = run(open_scores(path, **how), tmp_path / "out.npy", keep=True)
    posterior = data()[2]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), posterior)
    prediction = np.load(tmp_path / "out.prediction.npy")
    np.testing.assert_array_equal(prediction, posterior.argmax(axis=1))
    assert "neither scores nor labels" in notes[0]


@pytest.mark.parametrize("form", TABLES)
def test_columns_of_tables(tmp_path, form):
    path, _ = write(tmp_path, form)
    scores, labels, posterior = data()
    read = pq.read_table if form == "parquet" else pyarrow.csv.read_csv
    names = [NAMES[k] for k in posterior.argmax(axis=1)]
    run(open_scores(path), tmp_path / f"out.{form}")
    out = read(tmp_path / f"out.{form}")
    assert out.column_names == [*NAMES, "prediction"]
    assert out.column("prediction").to_pylist() == names
    run(open_scores(path, keep=True), tmp_path / f"kept.{form}", keep=True)
    kept = read(tmp_path / f"kept.{form}")
    before = [f"{name}.score" for name in NAMES]
    assert kept.column_names == ["id", *NAMES, "label", "prediction", *before]
    original = table(scores, labels)
    assert kept.column("id").to_pylist() == original.column("id").to_pylist()
    assert kept.column("label").to_pylist() == original.column("label").to_pylist()
    np.testing.assert_array_equal(kept.column(before[2]).to_numpy(), scores[:, 2])
    np.testing.assert_array_equal(kept.column(NAMES[2]).to_numpy(), posterior[:, 2])


def test_keep_twice(tmp_path):
    path, _ = write(tmp_path, "parquet")
    run(open_scores(path, keep=True), tmp_path / "one.parquet", keep=True)
    run(open_scores(tmp_path / "one.parquet", keep=True), tmp_path / "two.parquet", keep=True)
    again = open_scores(tmp_path / "two.parquet")
    assert again.class_names == NAMES
    np.testing.assert_array_equal(whole(again), data()[2])


def test_a_kept_list_column_is_not_read_again(tmp_path):
    scores, labels, posterior = data()
    pq.write_table(pa.table({"scores": list(scores), "label": labels}), tmp_path / "a.parquet")
    file = open_scores(tmp_path / "a.parquet", keep=True)
    run(file, tmp_path / "b.parquet", keep=True)
    np.testing.assert_array_equal(whole(open_scores(tmp_path / "b.parquet")), posterior)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
@pytest.mark.parametrize("version", [2, 3])
def test_names_as_labels_of_zarr_are_kept(tmp_path, version):
    scores, labels, posterior = data()
    import zarr

    zarr_store(tmp_path / "a.zarr", scores, None, version=version, class_names=list(NAMES))
    group = zarr.open_group(str(tmp_path / "a.zarr"))
    array = group.create_array("labels", shape=labels.shape, dtype=str, chunks=(50,))
    array[...] = np.array(NAMES)[labels]
    for out in ("b.zarr", "b.npz"):
        run(open_scores(tmp_path / "a.zarr"), tmp_path / out, keep=True)
        again = open_scores(tmp_path / out)
        np.testing.assert_array_equal(whole(again, "labels"), labels)
        np.testing.assert_array_equal(whole(again), posterior)


@pytest.mark.parametrize("out", ["npy", "npz", "zarr"])
def test_segmentation(tmp_path, out):
    scores = np.random.default_rng(0).random((5, 3, 4, 6)).astype(np.float32)
    np.save(tmp_path / "a.npy", scores)
    file = open_scores(tmp_path / "a.npy")
    with open_output(tmp_path / f"b.{out}", like=file) as writer:
        for chunk in file.chunks(2 * scores[0].nbytes):
            writer.write(chunk, chunk.scores, chunk.scores.argmax(axis=1))
    np.testing.assert_array_equal(whole(open_scores(tmp_path / f"b.{out}")), scores)
    if out == "npz":
        with np.load(tmp_path / "b.npz") as arrays:
            np.testing.assert_array_equal(arrays["prediction"], scores.argmax(axis=1))
    with (
        pytest.raises(OptionError, match="must be npy, npz or zarr for scores of shape"),
        open_output(tmp_path / "b.csv", like=file),
    ):
        pass


@pytest.mark.parametrize("out", FORMATS)
def test_single_scores(tmp_path, out):
    np.save(tmp_path / "a.npy", np.array([0.25, 0.75]))
    file = open_scores(tmp_path / "a.npy")
    with open_output(tmp_path / f"b.{out}", like=file) as writer:
        for chunk in file:
            writer.write(chunk, chunk.scores, (chunk.scores > 0.5).astype(int))
    again = open_scores(tmp_path / f"b.{out}")
    assert again.n_classes == 2
    np.testing.assert_array_equal(whole(again), [0.25, 0.75])


@pytest.mark.parametrize("out", FORMATS)
@pytest.mark.parametrize("old", [False, True])
def test_an_interrupt_leaves_what_was_there(tmp_path, out, old):
    path, how = write(tmp_path, "csv")
    file = open_scores(path, **how)
    target = tmp_path / "results" / f"out.{out}"
    target.parent.mkdir()
    if old:
        run(file, target, max_bytes=1 << 25)
    before = {p: p.read_bytes() for p in target.parent.rglob("*") if p.is_file()}
    assert bool(before) == old
    with pytest.raises(KeyboardInterrupt):
        run(file, target, fail_at=100)
    assert {p: p.read_bytes() for p in target.parent.rglob("*") if p.is_file()} == before
    assert {p.name for p in target.parent.iterdir()} <= {f"out.{out}", "out.prediction.npy"}


@pytest.mark.parametrize("out", FORMATS)
def test_an_output_is_replaced(tmp_path, out):
    path, how = write(tmp_path, "npz")
    for _ in range(2):
        run(open_scores(path, **how), tmp_path / f"out.{out}")
    assert open_scores(tmp_path / f"out.{out}").n_samples in (None, 203)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_an_input_is_never_replaced(tmp_path):
    path, how = write(tmp_path, "npy")
    file = open_scores(path, **how)
    os.symlink(path, tmp_path / "link.npy")
    os.link(path, tmp_path / "hard.npy")
    for target in (path, tmp_path / "link.npy", tmp_path / "hard.npy", how["labels"]):
        with pytest.raises(OptionError, match="`output` must not be an input"):
            run(file, target)
    assert path.read_bytes() == (tmp_path / "hard.npy").read_bytes()
    store, how = write(tmp_path, "zarr")
    with pytest.raises(OptionError, match="which is inside"):
        run(open_scores(store, **how), store / "out.zarr")


def test_the_second_file_of_npy_is_no_input_either(tmp_path):
    np.save(tmp_path / "out.prediction.npy", data()[0])
    file = open_scores(tmp_path / "out.prediction.npy")
    with pytest.raises(OptionError, match="`output` must not be an input"):
        run(file, tmp_path / "out.npy")


def test_targets_that_are_no_files(tmp_path):
    path, how = write(tmp_path, "npz")
    file = open_scores(path, **how)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "out.csv")
    os.mkfifo(tmp_path / "out.prediction.npy")
    for target, words in (
        (tmp_path / "folder", "which is a folder"),
        (tmp_path / "out.xlsx", "must have the extension of a format"),
        (tmp_path / "out.csv", "out.csv', which is a named pipe"),
        (tmp_path / "out.npy", "out.prediction.npy', which is a named pipe"),
    ):
        with pytest.raises(OptionError, match=words):
            run(file, target)
    with pytest.raises(FileNotFoundError):
        run(file, tmp_path / "none" / "out.npz")
    run(file, tmp_path / "plain")
    with np.load(tmp_path / "plain") as arrays:
        assert "posterior" in arrays.files


def test_a_folder_that_takes_no_file(tmp_path, monkeypatch):
    path, how = write(tmp_path, "npz")
    (tmp_path / "out").mkdir()

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", denied)
    with pytest.raises(PermissionError):
        run(open_scores(path, **how), tmp_path / "out" / "a.npz")
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize("out", ["npy", "npz"])
def test_a_full_disk_leaves_nothing(tmp_path, out, monkeypatch):
    path, how = write(tmp_path, "npy")
    (tmp_path / "out").mkdir()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run(open_scores(path, **how), tmp_path / "out" / f"a.{out}")
    assert os.listdir(tmp_path / "out") == []


def test_classes_that_are_names_of_other_columns(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 2)))
    file = open_scores(tmp_path / "a.npy")
    for classes in (["a", "prediction"], ["label", "b"], ["a", "a.score"]):
        with (
            pytest.raises(FileFormatError, match="must leave the column names"),
            open_output(tmp_path / "b.csv", like=file, classes=classes),
        ):
            pass


def test_an_output_without_samples_is_refused(tmp_path):
    path, how = write(tmp_path, "npz")
    with (
        pytest.raises(FileFormatError, match=r"must have all 203 samples of the input. Got 0"),
        open_output(tmp_path / "b.parquet", like=open_scores(path, **how)),
    ):
        pass
    assert not (tmp_path / "b.parquet").exists()


def test_classes_without_names_are_numbered(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    file = open_scores(tmp_path / "a.npy")
    with open_output(tmp_path / "b.tsv", like=file) as writer:
        for chunk in file:
            writer.write(chunk, chunk.scores, chunk.scores.argmax(axis=1))
    assert (tmp_path / "b.tsv").read_text().splitlines()[0] == "0\t1\t2\tprediction"
    assert open_scores(tmp_path / "b.tsv").class_names == ("0", "1", "2")


@pytest.mark.parametrize("form", FORMATS)
def test_an_output_of_some_chunks_is_refused(tmp_path, form):
    path, how = write(tmp_path, "npz")
    file = open_scores(path, **how)
    chunk = next(file.chunks(50 * ROW))
    with (
        pytest.raises(FileFormatError, match=r"must have all 203 samples of the input. Got 50"),
        open_output(tmp_path / f"b.{form}", like=file) as writer,
    ):
        writer.write(chunk, chunk.scores, chunk.scores.argmax(axis=1))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_results_of_another_chunk_are_refused(tmp_path):
    path, how = write(tmp_path, "npz")
    file = open_scores(path, **how)
    first = next(file.chunks(50 * ROW))
    with (
        pytest.raises(OptionError, match="`prediction` must have one entry per sample"),
        open_output(tmp_path / "b.npz", like=file) as writer,
    ):
        writer.write(first, first.scores, np.zeros(49, int))


def test_a_folder_that_holds_the_input_is_not_replaced(tmp_path):
    scores, labels, _ = data()
    (tmp_path / "all.zarr").mkdir()
    inside = zarr_store(tmp_path / "all.zarr" / "in.zarr", scores, labels, kind="logits")
    file = open_scores(inside)
    with (
        pytest.raises(OptionError, match=r"all.zarr', which holds .*in.zarr'"),
        open_output(tmp_path / "all.zarr", like=file),
    ):
        pass
    assert len(whole(open_scores(inside).chunks())) == len(scores)


def test_a_folder_that_is_no_store_is_not_replaced(tmp_path):
    path, how = write(tmp_path, "npz")
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "notes.txt").write_text("mine")
    with (
        pytest.raises(OptionError, match="a folder and no zarr store"),
        open_output(tmp_path / "mine.zarr", like=open_scores(path, **how)),
    ):
        pass
    assert (tmp_path / "mine.zarr" / "notes.txt").read_text() == "mine"


def test_a_parquet_output_without_class_names_can_be_read(tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    file = open_scores(tmp_path / "a.npy")
    with open_output(tmp_path / "b.parquet", like=file) as writer:
        for chunk in file:
            writer.write(chunk, chunk.scores, chunk.scores.argmax(axis=1))
    again = open_scores(tmp_path / "b.parquet")
    assert again.class_names == ("0", "1", "2")
    np.testing.assert_array_equal(whole(again.chunks()), np.eye(3))


@pytest.mark.parametrize("out", ["npz", "zarr"])
@pytest.mark.parametrize("labelled", [True, False])
def test_what_arrays_leave_out_of_a_table_is_said(tmp_path, out, labelled):
    path, how = write(tmp_path, "parquet")
    notes = run(
        open_scores(path, keep=True, with_labels=labelled, **how), tmp_path / f"o.{out}", keep=True
    )
    left = "'id'" if labelled else "'id', 'label'"
    assert notes == [
        f"Columns that were not kept in arrays: {left}. Write csv or parquet to keep them."
    ]
    assert ("labels" in open_scores(tmp_path / f"o.{out}").columns) == labelled


def test_what_a_table_leaves_out_of_arrays_is_said(tmp_path):
    scores, labels, _ = data()
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels, weight=labels, other=np.zeros(3))
    file = open_scores(tmp_path / "a.npz", keep=True)
    (note,) = run(file, tmp_path / "b.csv", keep=True)
    assert note.startswith("Arrays that were not kept in a table: 'weight', 'other'")
    (note,) = run(file, tmp_path / "b.npz", keep=True)
    assert note.endswith("in every file were not kept: 'other'.")


def two_tables(folder, form, second):
    """Two tables, the second with its columns as given; their scores one after the other."""
    parts = []
    for i in range(2):
        scores, labels, _ = data(20, i)
        rows = table(scores, labels) if i == 0 else second(table(scores, labels))
        path = folder / f"{i}.{form}"
        pq.write_table(rows, path) if form == "parquet" else pyarrow.csv.write_csv(rows, path)
        parts.append(scores)
    paths = [folder / f"{i}.{form}" for i in range(2)]
    return open_scores(paths, kind="logits", keep=True), np.concatenate(parts)


@pytest.mark.parametrize("out", ["csv", "parquet"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_kept_columns_of_several_tables_stand_in_the_order_of_the_first(tmp_path, form, out):
    file, scores = two_tables(
        tmp_path, form, lambda rows: rows.select(["label", *reversed(NAMES), "id"])
    )
    target = tmp_path / f"out.{out}"
    with open_output(target, like=file, keep=True) as writer:
        for chunk in file:
            writer.write(chunk, -chunk.scores, np.zeros(len(chunk), int))
    found = pq.read_table(target) if out == "parquet" else pyarrow.csv.read_csv(target)
    assert found.column_names[:6] == ["id", *NAMES, "label"]
    for k, name in enumerate(NAMES):
        np.testing.assert_allclose(found[name].to_numpy(), -scores[:, k])
        np.testing.assert_allclose(found[f"{name}.score"].to_numpy(), scores[:, k])
    assert found["label"].to_pylist() == [NAMES[y] for i in range(2) for y in data(20, i)[1]]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_that_only_one_table_has_are_not_kept(tmp_path, form):
    file, _ = two_tables(
        tmp_path, form, lambda rows: rows.drop(["id"]).append_column("place", pa.array(["x"] * 20))
    )
    with (
        pytest.raises(FileFormatError, match=r"'id' in .* alone and 'place' in .* alone"),
        open_output(tmp_path / f"out.{form}", like=file, keep=True),
    ):
        pass
    with open_output(tmp_path / f"out.{form}", like=file) as writer:
        for chunk in file:
            writer.write(chunk, chunk.scores, np.zeros(len(chunk), int))
    assert (tmp_path / f"out.{form}").exists()


def test_decisions_have_names_of_their_own(tmp_path):
    path, _ = write(tmp_path, "parquet", n=5)
    file = open_scores(path, kind="logits")
    decisions = [*NAMES, "ask"]
    with open_output(tmp_path / "out.parquet", like=file, decisions=decisions) as writer:
        for chunk in file:
            writer.write(chunk, chunk.scores, np.array([4, 0, 4, 1, 2]))
    found = pq.read_table(tmp_path / "out.parquet")["prediction"].to_pylist()
    assert found == [decisions[k] for k in (4, 0, 4, 1, 2)]


def test_csv_to_standard_output(tmp_path, monkeypatch, capfd):
    path, _ = write(tmp_path, "csv")
    monkeypatch.chdir(tmp_path)
    run(open_scores(path), "out.csv")
    run(open_scores(path), "-")
    assert capfd.readouterr().out == (tmp_path / "out.csv").read_text()
    with pytest.raises(KeyboardInterrupt):
        run(open_scores(path), "-", fail_at=100)
    assert capfd.readouterr().out == ""
    assert sorted(os.listdir()) == ["out.csv", "scores.csv"]


def test_other_formats_are_not_written_to_standard_output(tmp_path, monkeypatch):
    path, how = write(tmp_path, "npz")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match="Got '-': only text"):
        run(open_scores(path, **how), "-")
    run(open_scores(path, **how), "./-")
    assert sorted(os.listdir()) == ["-", "scores.npz"]
