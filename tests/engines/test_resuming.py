"""A fit continues with the same data only, read in the same way, and each row counts once."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.chunked_scores import assert_same_fit, flat, quietly

from reprior.engines import Checkpoint, fit
from reprior.exceptions import OptionError, ScoresError
from reprior.files import open_scores, read_archive, write_archive
from reprior.files import scores as score_files

ROWS = 40


class EndedError(Exception):
    """Stands for the end of the process."""


def ends_after(n):
    """A progress function that ends the fit at its n-th call, in whatever pass that is."""
    calls = []

    def progress(done):
        calls.append(done)
        if len(calls) == n:
            raise EndedError

    return progress


def often(folder):
    return Checkpoint(folder, pause=0.0, share=1.0)


def widened():
    """Scores whose best strength is far above the bounds, so that there are several passes."""
    return flat(3, 3 * ROWS, shift=2.5).with_options(bounds=(0.1, 0.5))


def damage(path, row):
    """Let a parquet file break at a row group, behind a footer that is whole."""
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(row // 10).column(0).data_page_offset
    content[start : start + 60] = b"\xff" * 60
    path.write_bytes(bytes(content))


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """Three parquet files in row groups of ten, read in chunks of ten."""
    monkeypatch.setattr(score_files, "MAX_ROWS", 10)
    data, folder = widened(), tmp_path / "shards"
    folder.mkdir()
    for i in range(3):
        piece = data.chunk(ROWS * i, ROWS * i + ROWS)
        columns = {f"c{k}": piece.scores[:, k] for k in range(4)}
        table = pa.table({**columns, "label": piece.labels})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=10)
    return folder


def opened(folder, **how):
    return open_scores(str(folder / "*.parquet"), kind="logits", **{"skip_unreadable": True, **how})


def in_memory(folder):
    """The fit in memory on the rows that can be read."""
    chunks = list(opened(folder))
    rows = [np.concatenate([getattr(c, name) for c in chunks]) for name in ("scores", "labels")]
    return quietly(widened().calibrator().fit, *rows)[0]


@pytest.mark.parametrize("broken", [[(0, 0)], [(0, 20)], [(1, 0)], [(2, 30)], [(0, 10), (1, 30)]])
def test_a_fit_of_broken_shards_goes_on_from_any_chunk_of_any_pass(tmp_path, shards, broken):
    for i, row in broken:
        damage(shards / f"{i}.parquet", row)
    steps = []
    whole, said = quietly(fit, widened().calibrator(), opened(shards), progress=steps.append)
    assert_same_fit(whole, in_memory(shards))
    n_rows = whole.provenance_["n_samples"]
    assert whole.provenance_["left_out"]["n_samples"] == 3 * ROWS - n_rows > 0
    assert steps.count(n_rows) >= 3  # passes
    for n in range(2, len(steps) + 1, 1 + len(steps) // 7):  # in every pass
        saved = tmp_path / f"saved-{n}"
        with pytest.raises(EndedError):
            quietly(
                fit,
                widened().calibrator(),
                opened(shards),
                checkpoint=often(saved),
                progress=ends_after(n),
            )
        found, again = quietly(fit, widened().calibrator(), opened(shards), checkpoint=often(saved))
        assert_same_fit(found, whole)
        assert found.provenance_ == whole.provenance_
        assert again == said


def test_what_was_left_out_is_known_without_reading(tmp_path, shards):
    damage(shards / "1.parquet", 20)
    first, said = quietly(
        fit, widened().calibrator(), opened(shards), checkpoint=tmp_path / "saved"
    )
    read = []
    again, words = quietly(
        fit,
        widened().calibrator(),
        opened(shards),
        checkpoint=tmp_path / "saved",
        progress=read.append,
    )
    assert read == []
    assert_same_fit(again, first)
    assert again.provenance_ == first.provenance_
    assert again.provenance_["left_out"]["n_samples"] == 20
    assert words == said


def test_a_shard_that_breaks_between_two_runs_is_noticed(tmp_path, shards, monkeypatch):
    with pytest.raises(EndedError):  # in the second pass, which files are entered in
        quietly(
            fit,
            widened().calibrator(),
            opened(shards),
            checkpoint=often(tmp_path / "saved"),
            progress=ends_after(15),
        )
    # By size and time of change the files are as they were.
    monkeypatch.setattr("reprior.engines.profiling.sources_of", lambda _: None)
    for path in (tmp_path / "saved").glob("pass-*.npz"):
        header, arrays = read_archive(path, format_name="reprior checkpoint", version=3)
        del header["checksum"]
        write_archive(path, {**header, "format_version": 2, "sources": None}, arrays)
    damage(shards / "2.parquet", 20)
    with pytest.raises(OptionError, match="Got 120 samples, and then 100"):
        quietly(fit, widened().calibrator(), opened(shards), checkpoint=often(tmp_path / "saved"))


# ------------------------------------------------------------------------- other data


def other_weights(data):
    return replace(data, weight=np.where(np.arange(len(data.labels)) == 3, 2.0, data.weight))


def ones(data):
    return replace(data, weight=np.ones(len(data.labels)))


@pytest.mark.parametrize(
    "other, words",
    [
        (lambda: flat(7, 60, shift=0.4), "they are others"),
        (lambda: flat(0, 50, shift=0.4), "they are others"),
        (lambda: ones(flat(0, 60, shift=0.4)), "their weights are others"),
    ],
)
def test_a_finished_pass_is_not_that_of_other_data(tmp_path, other, words):
    data = flat(0, 60, shift=0.4)
    first = fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    with pytest.raises(OptionError, match=rf"same data.* {words} by their fingerprint"):
        quietly(fit, data.calibrator(), other().chunks([25]), checkpoint=tmp_path)
    again = fit(data.calibrator(), data.chunks([7, 30]), checkpoint=tmp_path)
    assert_same_fit(again, first)
    assert again.provenance_ == first.provenance_


@pytest.mark.parametrize("n", [3, 4])
def test_other_weights_are_refused_in_the_middle(tmp_path, n):
    data = ones(flat(0, 60, shift=0.4))
    with pytest.raises(EndedError):
        fit(
            data.calibrator(),
            data.chunks([20, 40]),
            checkpoint=often(tmp_path),
            progress=ends_after(n - 1),
        )
    with pytest.raises(OptionError, match="their weights are others"):
        fit(data.calibrator(), other_weights(data).chunks([20, 40]), checkpoint=often(tmp_path))
    found = fit(data.calibrator(), data.chunks([20, 40]), checkpoint=often(tmp_path))
    assert_same_fit(found, data.calibrator().fit(data.scores, data.labels, data.weight))


def test_passes_of_two_datasets_in_one_folder_are_refused(tmp_path):
    one = widened()
    other = replace(one, scores=one.scores[::-1].copy(), labels=one.labels[::-1].copy())
    first, _ = quietly(fit, one.calibrator(), one.chunks([50]))
    wider = first.profile_.bounds
    quietly(fit, other.calibrator(bounds=wider), other.chunks([50]), checkpoint=tmp_path)
    with pytest.raises(OptionError, match="must be of the same data"):
        quietly(fit, one.calibrator(), one.chunks([50]), checkpoint=tmp_path)


def test_a_wider_pass_is_found_by_a_fit_that_begins_with_it(tmp_path):
    data = widened()
    first, _ = quietly(fit, data.calibrator(), data.chunks([50]), checkpoint=tmp_path)
    wide = data.with_options(bounds=first.profile_.bounds)
    found, _ = quietly(fit, wide.calibrator(), wide.chunks([50]), checkpoint=tmp_path)
    want, _ = quietly(fit, wide.calibrator(), wide.chunks([50]))
    assert_same_fit(found, want)
    assert found.provenance_ == want.provenance_


@pytest.mark.parametrize("same", [True, False])
def test_an_unfinished_wider_pass_is_taken_up_by_a_fit_that_begins_with_it(tmp_path, same):
    data = widened()
    with pytest.raises(EndedError):  # in the second pass
        quietly(
            fit,
            data.calibrator(),
            data.chunks([40, 80]),
            checkpoint=often(tmp_path),
            progress=ends_after(5),
        )
    wide = data.with_options(bounds=(0.1, 1.0))
    if not same:
        wide = replace(wide, scores=wide.scores + np.arange(4.0))
        with pytest.raises(OptionError, match="they are others"):
            quietly(fit, wide.calibrator(), wide.chunks([40, 80]), checkpoint=often(tmp_path))
        return
    found, _ = quietly(fit, wide.calibrator(), wide.chunks([40, 80]), checkpoint=often(tmp_path))
    want, _ = quietly(fit, wide.calibrator(), wide.chunks([40, 80]))
    assert_same_fit(found, want)
    assert found.provenance_ == want.provenance_


def test_an_unfinished_first_pass_is_taken_up_as_a_wider_one(tmp_path, shards):
    data = widened()
    for chunks, folder in ((lambda: data.chunks([40, 80]), "a"), (lambda: opened(shards), "b")):
        wide = data.calibrator(bounds=(0.0, 1.0))
        with pytest.raises(EndedError):
            quietly(
                fit, wide, chunks(), checkpoint=often(tmp_path / folder), progress=ends_after(2)
            )
        again = data.calibrator()
        found, said = quietly(fit, again, chunks(), checkpoint=often(tmp_path / folder))
        want, words = quietly(fit, data.calibrator(), chunks())
        assert_same_fit(found, want)
        assert found.provenance_ == want.provenance_
        assert said == words


# --------------------------------------------------------------------- other ways to read


def test_files_that_are_read_in_another_way_are_refused(tmp_path):
    data = flat(0, 60, shift=0.4)
    others = {"other_scores": -data.scores, "other_labels": data.labels[::-1]}
    weights = {"w": np.arange(60.0), "v": np.ones(60)}
    np.savez(tmp_path / "a.npz", scores=data.scores, labels=data.labels, **others, **weights)
    plain = {"kind": "logits", "weight_column": "w"}

    def run(**how):
        chunks = open_scores(tmp_path / "a.npz", **{**plain, **how})
        calibrator = data.calibrator(ignore_index=9)
        return quietly(fit, calibrator, chunks, checkpoint=tmp_path / "saved")[0]

    first = run()
    for name, value in {
        "scores_name": "other_scores",
        "labels_name": "other_labels",
        "weight_column": "v",
        "label_column": "y",
        "labels_as": "indices",
        "skip_unreadable": True,
        "ignore_index": 7,
        "classes": ["a", "b", "c", "d"],
    }.items():
        said = {"ignore_index": "ignored label", "classes": "class_names"}.get(name, name)
        with pytest.raises(OptionError, match=f"was started with another {said}"):
            run(**{name: value})
    assert_same_fit(run(), first)


def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path):
    data = flat(0, 60, shift=0.4)
    fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    (path,) = tmp_path.glob("*.npz")
    header, arrays = read_archive(path, format_name="reprior checkpoint", version=3)
    write_archive(path, {**header, "format_version": 1}, arrays)
    with pytest.raises(OptionError, match=r"is of an earlier one.* Delete the folder"):
        fit(data.calibrator(), data.chunks([30]), checkpoint=tmp_path)


def logged(caplog):
    return [each.message for each in caplog.records if each.name == "reprior.engines.resuming"]


def test_resuming_logs_what_was_counted_before(tmp_path, shards, caplog):
    caplog.set_level("INFO", logger="reprior.engines.resuming")
    data = flat(3, 3 * ROWS, shift=0.4)
    saved = tmp_path / "saved"
    with pytest.raises(EndedError):  # eight chunks are read, and seven saved
        fit(data.calibrator(), opened(shards), checkpoint=often(saved), progress=ends_after(7))
    assert logged(caplog) == []
    quietly(fit, data.calibrator(), opened(shards), checkpoint=saved)
    where = f"The fit resumes from the checkpoint in '{saved}': "
    first, *_ = logged(caplog)
    assert first == (
        f"{where}60 samples (1 of 3 files, and 20 rows of '1.parquet') were counted before, for "
        f"strengths from 0 to 2."
    )
    caplog.clear()
    quietly(fit, data.calibrator(), opened(shards), checkpoint=saved)
    assert logged(caplog)[0].startswith(f"{where}120 samples (3 of 3 files) were counted before")


def test_chunks_have_no_files_to_name(tmp_path, caplog):
    caplog.set_level("INFO", logger="reprior.engines.resuming")
    data = flat(0, 60, shift=0.4)
    for _ in range(2):
        quietly(fit, data.calibrator(), data.chunks([30]), checkpoint=tmp_path)
    (said,) = logged(caplog)
    assert "': 60 samples were counted before, for strengths from 0 to 2." in said


def test_other_content_of_the_same_size_and_time_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(score_files, "MAX_ROWS", 10)
    data = flat(3, 3 * ROWS, shift=0.4)
    path, saved = tmp_path / "a.npz", tmp_path / "saved"
    np.savez(path, scores=data.scores, labels=data.labels)
    state = path.stat()
    with pytest.raises(EndedError):
        fit(
            data.calibrator(),
            open_scores(path, kind="logits"),
            checkpoint=often(saved),
            progress=ends_after(7),
        )
    np.savez(path, scores=data.scores[::-1], labels=data.labels)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    with pytest.raises(OptionError, match="they are others by their fingerprint, though names"):
        fit(data.calibrator(), open_scores(path, kind="logits"), checkpoint=saved)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_samples_after_those_counted_before_are_named_by_their_place_in_the_whole(tmp_path, n):
    data = widened()
    scores = data.scores.copy()
    scores[115, 1] = np.nan
    chunks = [(scores[a : a + 20], data.labels[a : a + 20]) for a in range(0, 120, 20)]
    with pytest.raises(EndedError):
        fit(data.calibrator(), chunks, checkpoint=often(tmp_path), progress=ends_after(n + 1))
    with pytest.raises(ScoresError, match=r"scores\[115, 1\]=nan"):
        fit(data.calibrator(), chunks, checkpoint=often(tmp_path))
