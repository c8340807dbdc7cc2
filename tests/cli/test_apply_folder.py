"""``reprior apply`` into a folder: each file when it is whole, and those that can be read."""

from __future__ import annotations

import os

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.support.command_line import (
    NAMES,
    data,
    is_one_sentence,
    read_output,
    write,
    write_counts,
)

import reprior as rp
from reprior.files import atomic_paths


def test_a_folder_gets_a_file_each(fitted, run):
    write(fitted / "b.csv", data(2))
    result = run(
        "apply", fitted / "cal.json", fitted / "test.csv", fitted / "b.csv", "-o",
        f"{fitted / 'out'}/", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert sorted(path.name for path in (fitted / "out").iterdir()) == ["b.csv", "test.csv"]
    expected = rp.load(fitted / "cal.json").predict(data(2).scores).tolist()
    assert read_output(fitted / "out" / "b.csv")[1] == expected


def test_files_of_one_name_need_folders_of_their_own(fitted, run):
    (fitted / "more").mkdir()
    write(fitted / "more" / "test.csv", data(2))
    result = run(
        "apply", fitted / "cal.json", fitted / "test.csv", fitted / "more" / "test.csv", "-o",
        f"{fitted / 'out'}/",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert not (fitted / "out").exists()


def test_files_that_are_written_stay_when_a_later_one_fails(fitted, run):
    (fitted / "bad.csv").write_text("cat,dog,owl\n1,2,3\n1,x,3\n")
    out = fitted / "out"
    out.mkdir()
    (out / "test.csv").write_text("old")
    (out / "bad.csv").write_text("old")
    arguments = ["apply", fitted / "cal.json", fitted / "test.csv", fitted / "bad.csv", "-o"]
    result = run(*arguments, out)
    assert is_one_sentence(result)
    assert f"1 of 2 outputs are written, and stay in {str(out)!r}." in result.err
    assert sorted(path.name for path in out.iterdir()) == ["bad.csv", "test.csv"]
    assert read_output(out / "test.csv")[1] == rp.load(fitted / "cal.json").predict(
        data(1).scores
    ).tolist()  # fmt: skip
    assert (out / "bad.csv").read_text() == "old"
    first = ["apply", fitted / "cal.json", fitted / "bad.csv", fitted / "test.csv", "-o"]
    refused = run(*first, f"{fitted / 'new'}/")
    assert is_one_sentence(refused)
    assert "outputs are written" not in refused.err
    assert not (fitted / "new").exists()


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError(28, "full"), MemoryError])
def test_files_that_are_written_stay_when_the_work_is_ended(shards, run, monkeypatch, end):
    from reprior.files.formats.parquet import ParquetWriter

    write_rows, calls = ParquetWriter.write, []

    def until_the_third(self, *given):
        calls.append(self)
        if len({id(each) for each in calls}) == 3:
            raise end
        write_rows(self, *given)

    monkeypatch.setattr(ParquetWriter, "write", until_the_third)
    out = shards / "out"
    result = apply(run, shards, f"{out}/")
    assert result.code == (130 if end is KeyboardInterrupt else 2)
    assert f"2 of 3 outputs are written, and stay in {str(out)!r}.\n" in result.err
    assert sorted(path.name for path in out.iterdir()) == ["s0.parquet", "s1.parquet"]


def test_what_a_killed_run_has_left_is_swept(shards, run):
    out = shards / "out"
    stale = out / ".reprior-staging-abcdefgh"
    stale.mkdir(parents=True)
    (stale / "s0.parquet").write_text("half")
    with atomic_paths(out / "mine") as (mine,):
        result = apply(run, shards, out)
        assert result.code == 0, result.err
        there = sorted(path.name for path in out.iterdir())
        assert there == [mine.parent.name, "s0.parquet", "s1.parquet", "s2.parquet"]
        mine.touch()


def test_looking_at_files_takes_as_many_steps_per_file_whatever_their_number(
    fitted, run, monkeypatch
):
    looked = []
    stat = os.stat

    def noted(path, **how):
        looked.append(path)
        return stat(path, **how)

    per_file = []
    for n in (5, 20):
        files = [fitted / f"{n}-{i}.npy" for i in range(n)]
        for path in files:
            np.save(path, data(0, 10).scores)
        with monkeypatch.context() as patch:
            patch.setattr(os, "stat", noted)
            looked.clear()
            out = f"{fitted / f'out-{n}'}/"
            assert run("apply", fitted / "cal.json", *files, "-o", out).code == 0
        per_file.append(len(looked) / n)
    assert 0 < per_file[1] <= per_file[0]


def test_a_store_without_an_extension_is_written_again_by_the_same_command(fitted, run):
    import zarr

    write(fitted / "test.zarr", data(1))
    for _ in range(2):
        result = run("apply", fitted / "cal.json", fitted / "test.zarr", "-o", fitted / "out")
        assert result.code == 0, result.err
        assert zarr.open_group(str(fitted / "out"), mode="r")["posterior"].shape == (300, 3)
        assert not (fitted / "out" / "test.zarr").exists()
    result = run("apply", fitted / "cal.json", fitted / "test.zarr", "-o", f"{fitted / 'out'}/")
    assert is_one_sentence(result)
    assert "to overwrite the store" in result.err
    assert not (fitted / "out" / "test.zarr").exists()


def test_a_folder_of_arrays_has_posteriors_and_predictions(fitted, run):
    for name in ("a", "b"):
        np.save(fitted / f"{name}.npy", data(1).scores)
    result = run(
        "apply", fitted / "cal.json", fitted / "a.npy", fitted / "b.npy", "-o",
        f"{fitted / 'out'}/",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = sorted(path.name for path in (fitted / "out").iterdir())
    assert found == ["a.npy", "a.prediction.npy", "b.npy", "b.prediction.npy"]
    assert np.load(fitted / "out" / "b.prediction.npy").shape == (300,)


@pytest.fixture
def shards(fitted):
    """Three parquet files in row groups of a hundred, read a row group at a time."""
    for i in range(3):
        write(fitted / f"s{i}.parquet", data(i + 1))
    return fitted


def break_in_the_middle(path):
    """Let a parquet file break at its second row group, behind a footer that is whole."""
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    content[start : start + 60] = b"\xff" * 60
    path.write_bytes(bytes(content))


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


DAMAGES = pytest.mark.parametrize("damage", [cut, break_in_the_middle])


def apply(run, folder, out, *more):
    return run("apply", folder / "cal.json", *sorted(folder.glob("s*.parquet")), "-o", out, *more)


@DAMAGES
def test_a_damaged_file_has_no_output_and_the_others_are_in_step(shards, run, damage):
    damage(shards / "s1.parquet")
    out = shards / "out"
    refused = apply(run, shards, f"{out}/")
    assert is_one_sentence(refused)
    assert "s1.parquet" in refused.err
    assert refused.err.endswith("To continue without it, pass --skip-unreadable.\n")
    written = [] if damage is cut else ["s0.parquet"]  # a cut file is refused before the first
    assert sorted(path.name for path in out.glob("*")) == written
    for path in out.glob("*"):
        path.unlink()
    result = apply(run, shards, f"{out}/", "--skip-unreadable", "--json")
    assert result.code == 0, result.err
    assert "1 file could not be read" in result.err
    assert "s1.parquet" in result.err
    assert result.json["n_samples"] == 600
    assert result.json["output"] == [str(out / "s0.parquet"), str(out / "s2.parquet")]
    assert "earlier run" not in result.err
    assert sorted(path.name for path in out.iterdir()) == ["s0.parquet", "s2.parquet"]
    calibrator = rp.load(shards / "cal.json")
    for i in (0, 2):
        expected = calibrator.predict(data(i + 1).scores).tolist()
        assert read_output(out / f"s{i}.parquet")[1] == expected


def test_how_many_rows_are_missing_is_said_where_it_is_known(shards, run):
    break_in_the_middle(shards / "s1.parquet")
    result = apply(run, shards, f"{shards / 'out'}/", "--skip-unreadable")
    assert "300 samples were left out with it" in result.err  # all of it, not the last rows alone


def test_an_output_that_was_there_stays(shards, run):
    break_in_the_middle(shards / "s1.parquet")
    out = shards / "out"
    out.mkdir()
    (out / "s1.parquet").write_text("old")
    result = apply(run, shards, out, "--skip-unreadable")
    assert result.code == 0
    assert f"the output of an earlier run stays: {out / 's1.parquet'}" in result.err
    cut(shards / "s1.parquet")
    again = apply(run, shards, out, "--skip-unreadable", "--json")
    (note,) = [note for note in again.json["notes"] if "earlier run" in note]
    assert str(out / "s1.parquet") in note
    assert (out / "s1.parquet").read_text() == "old"
    assert sorted(path.name for path in out.iterdir()) == [f"s{i}.parquet" for i in range(3)]


def test_both_files_of_an_array_are_left_out(fitted, run, monkeypatch):
    from reprior.files import scores as score_files

    for i in range(2):
        np.save(fitted / f"{i}.npy", data(i).scores)
    monkeypatch.setattr(score_files, "MAX_ROWS", 50)
    whole = fitted / "0.npy"
    shorter = whole.read_bytes()[:-400]
    opened = []

    def cut_after_opening(*_given):
        opened.append(True)
        whole.write_bytes(shorter)

    monkeypatch.setattr("reprior.cli.apply.refuse_inputs", cut_after_opening)
    result = run(
        "apply", fitted / "cal.json", fitted / "0.npy", fitted / "1.npy", "-o",
        f"{fitted / 'out'}/", "--skip-unreadable",
    )  # fmt: skip
    assert opened
    assert result.code == 0, result.err
    found = sorted(path.name for path in (fitted / "out").iterdir())
    assert found == ["1.npy", "1.prediction.npy"]


@DAMAGES
def test_some_file_must_be_readable(shards, run, damage):
    for path in shards.glob("s*.parquet"):
        damage(path)
    result = apply(run, shards, f"{shards / 'out'}/", "--skip-unreadable")
    assert is_one_sentence(result)
    assert "At least one score file must be readable. Got 3, and none is." in result.err
    assert not (shards / "out").exists()


def test_a_full_disk_is_no_damage_to_pass_over(shards, run, monkeypatch):
    def full(*_given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("reprior.files.formats.parquet.ParquetWriter.write", full)
    result = apply(run, shards, f"{shards / 'out'}/", "--skip-unreadable")
    assert is_one_sentence(result)
    assert "the disk is full" in result.err
    assert not (shards / "out").exists()


@DAMAGES
def test_one_output_leaves_nothing_out(shards, run, damage):
    out = shards / "out.parquet"
    refused = apply(run, shards, out, "--skip-unreadable")  # damage or not
    assert is_one_sentence(refused)
    assert "--skip-unreadable must go with a folder as OUT" in refused.err
    damage(shards / "s1.parquet")
    result = apply(run, shards, out)
    assert is_one_sentence(result)
    assert "To continue without it, name a folder as OUT and pass --skip-unreadable" in result.err
    assert not out.exists()


def test_a_single_file_has_no_others_to_go_on_with(shards, run):
    cut(shards / "s1.parquet")
    result = run("apply", shards / "cal.json", shards / "s1.parquet", "-o", shards / "o.parquet")
    assert is_one_sentence(result)
    assert "--skip-unreadable" not in result.err


def test_a_table_of_other_classes_is_no_damage(shards, run):
    table = pq.read_table(shards / "s1.parquet").rename_columns(
        ["cat", "cow", "owl", "label", "id"]
    )
    pq.write_table(table, shards / "s1.parquet")
    result = apply(run, shards, f"{shards / 'out'}/", "--skip-unreadable")
    assert is_one_sentence(result)
    assert "Missing: 'dog'" in result.err


@pytest.mark.parametrize("keep", [[], ["--keep"]])
def test_columns_are_in_the_order_of_the_first_file_in_a_folder_too(tmp_path, run, keep):
    """A calibrator without names takes the order from the first table, whatever it writes to."""
    values = data(0)
    np.savez(tmp_path / "val.npz", scores=values.scores, labels=values.labels)
    write_counts(tmp_path)
    fit = run(
        "fit", tmp_path / "val.npz", "--counts", tmp_path / "counts.json", "--kind", "logits",
        "-o", tmp_path / "cal.json",
    )  # fmt: skip
    assert fit.code == 0, fit.err
    write(tmp_path / "a.csv", data(1))
    table = csv.read_csv(tmp_path / "a.csv")
    csv.write_csv(table.select(["dog", "id", "cat", "owl", "label"]), tmp_path / "b.csv")
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for out in (tmp_path / "one.csv", f"{tmp_path / 'out'}/"):
        result = run("apply", tmp_path / "cal.json", *files, "-o", out, *keep)
        assert result.code == 0, result.err
    one = csv.read_csv(tmp_path / "one.csv")
    each = [csv.read_csv(tmp_path / "out" / path.name) for path in files]
    expected = rp.load(tmp_path / "cal.json").predict_proba(data(1).scores)
    for name in (*NAMES, "prediction", *(f"{n}.score" for n in NAMES if keep)):
        both = [value for part in each for value in part[name].to_pylist()]
        assert one[name].to_pylist() == both
        if name in NAMES:
            assert np.allclose(both[300:], expected[:, NAMES.index(name)], atol=1e-6)
