"""Files are entered in the middle, broken ones passed over only when asked, and named."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.files.shared import FORMATS, write

from reprior.exceptions import FileFormatError, LabelsError, ScoresError
from reprior.files import LeftOut, describe_left_out, open_scores
from reprior.files import scores as score_files

ROWS, CLASSES = 50, 3


def arrays(seed=0, n=ROWS):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, CLASSES)), rng.integers(CLASSES, size=n)


def chunks_of(file, **how):
    return file.chunks(file.n_classes * 8 * 8, **how)  # eight rows of float64 each


def place_at(file, first):
    """Where sample ``first`` is, with which a chunk begins."""
    return next((c.after for c in chunks_of(file) if c.stop == first), None)


def all_of(file, **how):
    chunks = list(chunks_of(file, **how))
    if not chunks:
        return np.empty((0, file.n_classes)), np.empty(0, int), []
    scores = np.concatenate([chunk.scores for chunk in chunks])
    return scores, np.concatenate([c.labels for c in chunks]), [c.start for c in chunks]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("first", [8, 48, 50, 58, 100])
def test_from_the_middle_on(tmp_path, name, first):
    made = [write(tmp_path, name, n=ROWS, seed=i, stem=f"s{i}") for i in range(2)]
    own = [how["labels"] for _, how in made] if name == "npy" else None
    file = open_scores([path for path, _ in made], kind="logits", labels=own)
    whole, labels, starts = all_of(file)
    rest, rest_labels, rest_starts = all_of(file, after=place_at(file, first))
    np.testing.assert_array_equal(rest, whole[first:])
    np.testing.assert_array_equal(rest_labels, labels[first:])
    assert rest_starts == [start for start in starts if start >= first]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("first", [0, 8, 50, 58])
def test_labels_of_their_own_go_along(tmp_path, first, together):
    every = [arrays(i) for i in range(2)]
    for i, (scores, labels) in enumerate(every):
        np.save(tmp_path / f"s{i}.npy", scores)
        np.save(tmp_path / f"l{i}.npy", labels)
    np.save(tmp_path / "all.npy", np.concatenate([labels for _, labels in every]))
    own = [tmp_path / "all.npy"] if together else [tmp_path / "l0.npy", tmp_path / "l1.npy"]
    file = open_scores([tmp_path / "s0.npy", tmp_path / "s1.npy"], labels=own, kind="logits")
    scores, labels, _ = all_of(file, after=place_at(file, first))
    np.testing.assert_array_equal(scores, np.concatenate([s for s, _ in every])[first:])
    np.testing.assert_array_equal(labels, np.concatenate([y for _, y in every])[first:])


def test_few_classes_make_chunks_of_at_most_so_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(score_files, "MAX_ROWS", 7)
    np.save(tmp_path / "a.npy", np.zeros((20, 2)))
    assert [len(chunk) for chunk in open_scores(tmp_path / "a.npy")] == [7, 7, 6]


@pytest.fixture
def three(tmp_path):
    """Three npz files, and three parquet files of row groups of ten."""
    for i in range(3):
        scores, labels = arrays(i)
        np.savez(tmp_path / f"{i}.npz", scores=scores, labels=labels)
        table = pa.table({**{f"c{k}": scores[:, k] for k in range(CLASSES)}, "label": labels})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=10)
    return tmp_path


@pytest.mark.parametrize("name", ["npz", "parquet"])
def test_a_file_that_cannot_be_opened_is_named_and_left_out_when_asked(three, name):
    bad = three / f"1.{name}"
    bad.write_bytes(bad.read_bytes()[:-40])  # without the end, where both formats are entered
    pattern = str(three / f"*.{name}")
    with pytest.raises(FileFormatError, match=rf"1\.{name}.*truncated or damaged"):
        open_scores(pattern, kind="logits")
    file = open_scores(pattern, kind="logits", skip_unreadable=True)
    scores, _, _ = all_of(file)
    np.testing.assert_array_equal(scores, np.concatenate([arrays(0)[0], arrays(2)[0]]))
    (left,) = file.left_out
    assert left.path == bad
    assert left.rows is None
    assert (
        "1 file could not be read and was left out; how many samples it has is not known"
        in describe_left_out(file.left_out)
    )


def test_a_file_that_breaks_in_the_middle_counts_up_to_there(three):
    bad = three / "1.parquet"
    data, row_groups = bytearray(bad.read_bytes()), pq.ParquetFile(bad).metadata
    start = row_groups.row_group(3).column(0).data_page_offset
    data[start : start + 60] = b"\xff" * 60
    bad.write_bytes(bytes(data))
    pattern = str(three / "*.parquet")
    with pytest.raises(FileFormatError, match=r"1\.parquet"):
        all_of(open_scores(pattern, kind="logits"))
    file = open_scores(pattern, kind="logits", skip_unreadable=True)
    for _ in range(2):  # every pass the same
        scores, labels, _ = all_of(file)
        (left,) = file.left_out
        read = ROWS - left.rows
        assert 0 < read < ROWS
        expected = [arrays(0)[0], arrays(1)[0][:read], arrays(2)[0]]
        np.testing.assert_array_equal(scores, np.concatenate(expected))
        assert len(labels) == len(scores) == file.n_samples
    assert f"{left.rows} samples were left out with it" in describe_left_out(file.left_out)


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("rows", [0, 20])
@pytest.mark.parametrize("labels", ["inside", "one by one", "together"])
def test_broken_files_are_entered_behind_any_chunk(tmp_path, broken, rows, labels):
    own = None if labels == "inside" else []
    for i in range(3):
        scores, known = arrays(i)
        if own is None:
            table = pa.table({**{f"c{k}": scores[:, k] for k in range(CLASSES)}, "label": known})
            pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=10)
        else:
            np.save(tmp_path / f"{i}.npy", scores)
            own.append(tmp_path / f"labels-{i}.npy")
            np.save(own[-1], known)
    if labels == "together":
        np.save(tmp_path / "all.npy", np.concatenate([arrays(i)[1] for i in range(3)]))
        own = tmp_path / "all.npy"
    paths = sorted(tmp_path.glob("?.*"))
    file = open_scores(paths, labels=own, kind="logits", skip_unreadable=True)
    content = bytearray(paths[broken].read_bytes())
    if own is None:
        group = pq.ParquetFile(paths[broken]).metadata.row_group(rows // 10)
        start = group.column(0).data_page_offset
        content[start : start + 60] = b"\xff" * 60
    else:
        content = content[: 128 + 8 * CLASSES * rows]
    paths[broken].write_bytes(bytes(content))
    chunks = list(chunks_of(file))
    whole = np.concatenate([c.scores for c in chunks]), np.concatenate([c.labels for c in chunks])
    left_out, n = file.left_out, file.n_samples
    assert [each.path for each in left_out] == [paths[broken]]
    assert n == len(whole[0]) == 3 * ROWS - left_out[0].rows < 3 * ROWS
    for chunk in chunks:
        rest_scores, rest_labels, _ = all_of(file, after=chunk.after)
        np.testing.assert_array_equal(rest_scores, whole[0][chunk.stop :])
        np.testing.assert_array_equal(rest_labels, whole[1][chunk.stop :])
        assert (file.left_out, file.n_samples) == (left_out, n)


@pytest.mark.parametrize("together", [False, True])
def test_labels_stay_in_step_behind_a_gap(tmp_path, together):
    every = [arrays(i) for i in range(3)]
    for i, (scores, labels) in enumerate(every):
        np.save(tmp_path / f"s{i}.npy", scores)
        np.save(tmp_path / f"l{i}.npy", labels)
    np.save(tmp_path / "all.npy", np.concatenate([labels for _, labels in every]))
    own = str(tmp_path / ("all.npy" if together else "l*.npy"))
    file = open_scores(
        str(tmp_path / "s*.npy"), labels=own, kind="logits", skip_unreadable=True
    )  # fmt: skip
    broken = tmp_path / "s1.npy"
    broken.write_bytes(broken.read_bytes()[: 128 + 8 * CLASSES * 20])  # 20 rows are left
    scores, labels, _ = all_of(file)
    (left,) = file.left_out
    assert (left.path, left.rows) == (broken, ROWS - 16)  # two chunks of eight were whole
    np.testing.assert_array_equal(
        labels, np.concatenate([every[0][1], every[1][1][:16], every[2][1]])
    )
    assert len(scores) == len(labels)


def test_a_gap_of_unknown_length_in_common_labels_is_refused(tmp_path):
    for i in range(2):
        np.save(tmp_path / f"s{i}.npy", arrays(i)[0])
    np.save(tmp_path / "all.npy", np.zeros(2 * ROWS, int))
    (tmp_path / "s1.npy").write_bytes(b"no array")
    with pytest.raises(FileFormatError, match="cannot be left out: the labels of all files are"):
        open_scores(
            str(tmp_path / "s*.npy"), labels=tmp_path / "all.npy", skip_unreadable=True
        )  # fmt: skip


MANY = 4000
"""Rows of which more are there than are read with the header."""


def damage(path, member, value=np.nan):
    """Overwrite a number, or packed bytes, in the middle of a member of an archive."""
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
    size = int.from_bytes(content[info.header_offset + 28 : info.header_offset + 30], "little")
    start = info.header_offset + 30 + len(info.filename) + size + 128
    middle = start + 8 * ((info.compress_size - 128) // 16)
    content[middle : middle + 8] = np.float64(value).tobytes()
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("member", ["scores", "labels", "weight"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("value", [3.5, np.nan])
def test_nothing_of_an_archive_with_a_wrong_checksum_is_counted(tmp_path, member, save, value):
    weight = np.random.default_rng(0).random(MANY)
    for i in range(3):
        scores, labels = arrays(i, MANY)
        save(tmp_path / f"{i}.npz", scores=scores, labels=labels, weight=weight)
    bad = tmp_path / "1.npz"
    damage(bad, member, value)
    pattern = str(tmp_path / "*.npz")
    with pytest.raises(FileFormatError, match=r"1\.npz.*truncated or damaged"):
        all_of(open_scores(pattern, kind="logits"))
    file = open_scores(pattern, kind="logits", skip_unreadable=True)
    for _ in range(2):
        found = all_of(file)
        for given, whole in zip(
            found, zip(arrays(0, MANY), arrays(2, MANY), strict=True), strict=False
        ):
            np.testing.assert_array_equal(given, np.concatenate(whole))
        assert [(left.path, left.rows) for left in file.left_out] == [(bad, MANY)]


@pytest.mark.parametrize("together", [False, True])
def test_labels_of_their_own_with_a_wrong_checksum(tmp_path, together):
    every = [arrays(i, MANY) for i in range(3)]
    for i, (scores, labels) in enumerate(every):
        np.save(tmp_path / f"s{i}.npy", scores)
        np.savez(tmp_path / f"l{i}.npz", labels=labels.astype(float))
    np.savez(tmp_path / "all.npz", labels=np.concatenate([y for _, y in every]).astype(float))
    bad = tmp_path / ("all.npz" if together else "l1.npz")
    damage(bad, "labels", 5.0)
    own = str(bad if together else tmp_path / "l*.npz")
    file = open_scores(str(tmp_path / "s*.npy"), labels=own, skip_unreadable=True)
    if together:
        with pytest.raises(FileFormatError, match=r"all\.npz.*truncated or damaged"):
            all_of(file)
        return
    scores, _, _ = all_of(file)
    np.testing.assert_array_equal(scores, np.concatenate([every[0][0], every[2][0]]))
    assert [left.rows for left in file.left_out] == [MANY]


def test_a_checksum_is_compared_once_for_all_passes(tmp_path, monkeypatch):
    scores, labels = arrays()
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels)
    file = open_scores(tmp_path / "a.npz", skip_unreadable=True)
    all_of(file)
    opened = []
    monkeypatch.setattr("reprior.files.formats.npz.zipfile.ZipFile", _Noting.of(opened))
    all_of(file)
    assert len(opened) == 2  # to read the scores, and the labels


class _Noting(zipfile.ZipFile):
    """An archive that notes that it was opened."""

    noted: list[str]

    @classmethod
    def of(cls, noted):
        return type("Noting", (cls,), {"noted": noted})

    def __init__(self, path):
        self.noted.append(path)
        super().__init__(path)


def test_wrong_values_are_no_reason_to_go_on(tmp_path):
    scores, labels = arrays()
    scores[30, 1] = np.nan
    np.savez(tmp_path / "a.npz", scores=scores, labels=labels)
    np.savez(tmp_path / "b.npz", scores=arrays()[0], labels=labels + 5)
    with pytest.raises(ScoresError, match="Got NaN in row 30"):
        all_of(open_scores(tmp_path / "a.npz", skip_unreadable=True))
    with pytest.raises(LabelsError, match="class indices"):
        all_of(open_scores(tmp_path / "b.npz", skip_unreadable=True))


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, arrays()[0])
    file = open_scores(path, kind="logits")
    chunks = file.chunks(CLASSES * 8 * 8)
    next(chunks)
    with open(path, "r+b") as stream:
        stream.truncate(128 + 8 * CLASSES * 30)
    with pytest.raises(FileFormatError, match="it has become shorter while it was read"):
        list(chunks)


@pytest.mark.parametrize(
    "rows, words",
    [
        ([1], "1 file could not be read, and 1 sample was left out with it: 'f0'."),
        ([2, 3], "2 files could not be read, and 5 samples were left out with them: 'f0', 'f1'."),
        (
            [None],
            "1 file could not be read and was left out; how many samples it has is not known: "
            "'f0'.",
        ),
        (
            [None, None],
            "2 files could not be read and were left out; how many samples they have is not "
            "known: 'f0', 'f1'.",
        ),
        (
            [4, None],
            "2 files could not be read, and 4 samples were left out with them; how many more 1 of "
            "them has is not known: 'f0', 'f1'.",
        ),
    ],
)
def test_what_is_said_of_files_that_were_left_out(rows, words):
    assert (
        describe_left_out([LeftOut(Path(f"f{i}"), n, "Why.") for i, n in enumerate(rows)])
        == f"{words} Why."
    )


@pytest.mark.parametrize("n_axes", [2, 4])
@pytest.mark.parametrize("how", ["ignored", "of weight 0"])
def test_nan_of_samples_that_do_not_count_is_no_error(tmp_path, n_axes, how):
    shape = (6, 3) if n_axes == 2 else (6, 3, 3, 3)  # as many pixels as classes
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=shape), rng.integers(3, size=(*shape[:1], *shape[2:]))
    out, counts = (2,) if n_axes == 2 else (2, 1, 0), (3,) if n_axes == 2 else (3, 1, 0)
    weight = np.ones(labels.shape)
    (labels if how == "ignored" else weight)[out] = 9 if how == "ignored" else 0
    given = {} if how == "ignored" else {"weight": weight}

    def opened(*nan):
        spoilt = scores.copy()
        for at in nan:
            spoilt[(at[0], slice(None), *at[1:])] = np.nan
        np.savez(tmp_path / "a.npz", scores=spoilt, labels=labels, kind="logits", **given)
        return open_scores(tmp_path / "a.npz", ignore_index=9 if how == "ignored" else None)

    (chunk,) = opened(out)
    assert np.isnan(chunk.scores).sum() == 3
    with pytest.raises(ScoresError, match="NaN in row 3"):
        list(opened(out, counts))
    with pytest.raises(ScoresError, match="NaN in row 2"):
        list(open_scores(tmp_path / "a.npz", with_labels=False))
