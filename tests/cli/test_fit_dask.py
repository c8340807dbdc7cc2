"""``reprior fit --engine dask``: the numbers of the local engine, from paths and URLs."""

from __future__ import annotations

import sys

import fsspec
import numpy as np
import pytest
from tests.support.command_line import COUNTS, data, is_one_sentence, write, write_counts

import reprior as rp

DASK = ("--engine", "dask")


@pytest.fixture
def shards(tmp_path):
    """Three parquet files of the samples; returns their pattern and the fit in memory."""
    whole = data(0)
    for i in range(3):
        part = slice(100 * i, 100 * (i + 1))
        write(tmp_path / f"val-{i}.parquet", type(whole)(whole.scores[part], whole.labels[part]))
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS))
    return tmp_path / "val-*.parquet", calibrator.fit(whole.scores, whole.labels)


def fit(run, folder, *args):
    counts = ("--counts", write_counts(folder), "--kind", "logits", "-o", folder / "cal.json")
    return run("fit", *args, *counts, "--json")


@pytest.mark.parametrize("scheduler", [None, "threads", "synchronous"])
def test_the_numbers_are_those_of_memory(tmp_path, run, shards, scheduler):
    pattern, expected = shards
    more = () if scheduler is None else ("--scheduler", scheduler)
    result = fit(run, tmp_path, pattern, *DASK, *more)
    assert result.code == 0, result.err
    assert result.json["strength"] == expected.strength_
    assert tuple(result.json["interval"]) == expected.strength_interval_
    assert result.json["n_samples"] == 300
    assert rp.load(tmp_path / "cal.json").strength_ == expected.strength_


def test_urls(tmp_path, run, shards):
    files = fsspec.filesystem("memory")
    for path in sorted(tmp_path.glob("val-*.parquet")):
        files.pipe(f"/command/{path.name}", path.read_bytes())
    result = fit(run, tmp_path, "memory://command/val-*.parquet", *DASK)
    assert result.code == 0, result.err
    assert result.json["strength"] == shards[1].strength_


def test_labels_in_files_of_their_own(tmp_path, run):
    whole = data(0)
    for i in range(2):
        part = slice(150 * i, 150 * (i + 1))
        np.save(tmp_path / f"scores-{i}.npy", whole.scores[part])
        np.save(tmp_path / f"labels-{i}.npy", whole.labels[part])
    result = fit(
        run, tmp_path, tmp_path / "scores-*.npy", "--labels", tmp_path / "labels-*.npy", *DASK
    )
    expected = rp.PosteriorCalibrator(rp.prior_from_counts(COUNTS)).fit(whole.scores, whole.labels)
    assert result.code == 0, result.err
    assert result.json["strength"] == expected.strength_


def test_a_damaged_file_is_named_and_left_out_only_when_asked(tmp_path, run, shards):
    broken = tmp_path / "val-1.parquet"
    broken.write_bytes(broken.read_bytes()[:-20])
    result = fit(run, tmp_path, shards[0], *DASK)
    assert result.code != 0
    assert "val-1.parquet" in result.err
    assert not (tmp_path / "cal.json").exists()
    result = fit(run, tmp_path, shards[0], *DASK, "--skip-unreadable")
    assert result.code == 0, result.err
    assert result.json["n_samples"] == 200
    assert "1 of 3 shards could not be read" in result.err
    assert "val-1.parquet" in result.err


@pytest.mark.parametrize("fault", ["damaged", "gone"])
@pytest.mark.parametrize("which", [0, 1])
def test_it_may_be_the_first_files(tmp_path, run, shards, fault, which):
    paths = sorted(tmp_path.glob("val-*.parquet"))
    bad = paths[: which + 1]
    for path in bad:
        path.write_bytes(path.read_bytes()[:-20]) if fault == "damaged" else path.unlink()
    assert fit(run, tmp_path, *paths, *DASK).code != 0
    results = [fit(run, tmp_path, *paths, *engine, "--skip-unreadable") for engine in (DASK, ())]
    for result in results:
        assert result.code == 0, result.err
        assert result.json["n_samples"] == 300 - 100 * len(bad)
        assert rp.load(tmp_path / "cal.json").provenance_["left_out"]["files"] == list(
            map(str, bad)
        )
    assert results[0].json["strength"] == results[1].json["strength"]


def test_some_file_must_be_readable(tmp_path, run, shards):
    for path in tmp_path.glob("val-*.parquet"):
        path.write_bytes(path.read_bytes()[:-20])
    result = fit(run, tmp_path, shards[0], *DASK, "--skip-unreadable")
    assert result.code != 0
    assert "val-2.parquet" in result.err
    assert is_one_sentence(result)


def test_this_process_leaves_damaged_files_out_too(tmp_path, run, shards):
    broken = tmp_path / "val-1.parquet"
    broken.write_bytes(broken.read_bytes()[:-20])
    assert fit(run, tmp_path, shards[0]).code != 0
    result = fit(run, tmp_path, shards[0], "--skip-unreadable")
    assert result.code == 0, result.err
    assert result.json["n_samples"] == 200
    assert "val-1.parquet" in result.err


@pytest.mark.parametrize("option", [("--scheduler", "threads"), ("--workers", "2")])
def test_options_of_dask_need_dask(tmp_path, run, shards, option):
    result = fit(run, tmp_path, shards[0], *option)
    assert result.code != 0
    assert f"{option[0]} must go with --engine dask" in result.err
    assert is_one_sentence(result)


def test_what_needs_all_scores_collects_them(tmp_path, run, shards):
    result = fit(run, tmp_path, shards[0], *DASK, "--cv", "3")
    assert result.code == 0, result.err
    assert (
        result.json["cross_validation"]
        == fit(run, tmp_path, shards[0], "--cv", "3").json["cross_validation"]
    )


def test_the_output_is_no_input(tmp_path, run, shards):
    result = run(
        "fit", shards[0], *DASK, "--counts", write_counts(tmp_path), "--kind", "logits",
        "-o", tmp_path / "val-2.parquet",
    )  # fmt: skip
    assert result.code != 0
    assert "`output` must not be an input" in result.err or "must not be an input" in result.err


def test_the_first_file_may_be_empty(tmp_path, run, shards):
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "val-0.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "val--.parquet")
    result = fit(run, tmp_path, tmp_path / "val-*.parquet", *DASK)
    assert result.code == 0, result.err
    assert result.json["n_samples"] == 300


@pytest.mark.parametrize(
    "options, words",
    [
        (("--workers", "2", "--scheduler", "threads"), "--workers must be left out where --sched"),
        (("--workers", "0"), "--workers must be a whole number of at least 1. Got 0"),
        (("--resolution", "5"), "--resolution must be at most half the width of the bounds"),
        (("--resolution", "5", "--engine", "local"), "--resolution must be at most half the"),
    ],
)
def test_options_are_refused_by_their_names(fitted, run, options, words):
    result = run(
        "fit", fitted / "val.csv", "--counts", fitted / "counts.json", "--kind", "logits",
        "--engine", "dask", "-o", fitted / "new.json", *options,
    )  # fmt: skip
    assert is_one_sentence(result)
    assert words in result.err


@pytest.mark.parametrize("engine", ["dask", "local"])
def test_urls_that_cannot_be_read_end_in_a_sentence(fitted, run, monkeypatch, engine):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    result = run(
        "fit", "s3://b/x-*.parquet", "--counts", fitted / "counts.json", "--kind", "logits",
        "--engine", engine, "-o", fitted / "new.json",
    )  # fmt: skip
    assert is_one_sentence(result)
    assert ("pip install s3fs" if engine == "dask" else "--engine dask") in result.err
