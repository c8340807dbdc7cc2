"""``reprior prior``: counts, labels, weights, smoothing; in JSON and CSV that fit reads."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.command_line import is_one_sentence

import reprior as rp


@pytest.fixture
def counts(tmp_path):
    path = tmp_path / "counts.json"
    path.write_text('{"cat": 900, "dog": 90, "owl": 10}')
    return path


def test_table_and_json(run, counts):
    table = run("prior", "--counts", counts)
    assert "0.09" in table.out
    assert "90.0 times" in table.out
    document = run("prior", "--counts", counts, "--json").json
    assert document["classes"] == ["cat", "dog", "owl"]
    assert document["prior"] == pytest.approx([0.9, 0.09, 0.01])


def test_weights_by_name_and_smoothing(run, counts, tmp_path):
    (tmp_path / "w.csv").write_text("class,weight\nowl,3\ncat,1\ndog,2\n")
    document = run(
        "prior", "--counts", counts, "--weights", tmp_path / "w.csv", "--smoothing", "5", "--json"
    ).json
    expected = rp.prior_from_counts([900, 90, 10], weights=[1, 2, 3], smoothing=5)
    assert document["prior"] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("name", ["prior.json", "prior.csv"])
def test_what_is_written_is_a_prior_for_fit(job, run, counts, name):
    assert run("prior", "--counts", counts, "-o", job / name).code == 0
    result = run(
        "fit", job / "val.csv", "--source-prior", job / name, "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert np.allclose(rp.load(job / "cal.json").source_prior_, [0.9, 0.09, 0.01])


def test_from_labels(run, tmp_path):
    np.save(tmp_path / "train.npy", np.array([0, 0, 0, 1]))
    document = run("prior", "--counts-from-labels", tmp_path / "train.npy", "--json").json
    assert document["prior"] == [0.75, 0.25]


def test_names_of_labels_are_sorted_and_said(run, tmp_path):
    (tmp_path / "train.csv").write_text("label\ndog\ncat\ndog\n")
    result = run("prior", "--counts-from-labels", tmp_path / "train.csv", "--json")
    assert result.json["classes"] == ["cat", "dog"]
    assert "sorted order: cat, dog" in result.err


def test_a_zero_count_names_the_option(run, tmp_path):
    (tmp_path / "c.json").write_text("[5, 0]")
    result = run("prior", "--counts", tmp_path / "c.json")
    assert is_one_sentence(result)
    assert "--smoothing 1" in result.err


def test_one_source_is_needed(run, counts):
    assert "Got neither" in run("prior").err
    both = run("prior", "--counts", counts, "--counts-from-labels", counts)
    assert is_one_sentence(both)
    assert "Got both" in both.err


def test_a_long_table_shows_both_ends(run, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(list(range(8142, 0, -1))))
    out = run("prior", "--counts", tmp_path / "c.json").out
    assert "8,102 more" in out
    assert len(out.splitlines()) < 60


@pytest.mark.parametrize("form", ["json", "csv"])
@pytest.mark.parametrize("names", [None, ["cat", "dög"]])
def test_the_file_is_by_name_where_there_are_names(run, tmp_path, names, form):
    given = [25, 75] if names is None else dict(zip(names, [25, 75], strict=True))
    (tmp_path / "c.json").write_text(json.dumps(given))
    path = tmp_path / f"p.{form}"
    assert run("prior", "--counts", tmp_path / "c.json", "-o", path).code == 0
    text = path.read_text(encoding="utf-8")
    if form == "csv":
        first, second = names or (0, 1)
        assert text == f"class,prior\n{first},0.25\n{second},0.75\n"
    else:
        assert json.loads(text) == ([0.25, 0.75] if names is None else {"cat": 0.25, "dög": 0.75})


def class_rows(run, folder, counts):
    """Return the lines of the table that begin with a class or say how many are left out."""
    (folder / "c.json").write_text(json.dumps(counts))
    _, _, table = run("prior", "--counts", folder / "c.json").out.partition("──\n")
    return [line.strip() for line in table.splitlines() if "classes; " not in line]


@pytest.mark.parametrize("n", [2, 40, 41, 42, 1000])
def test_both_ends_are_shown(run, tmp_path, n):
    rows = class_rows(run, tmp_path, [1] * n)
    if n <= 41:
        assert [row.split()[0] for row in rows] == [str(k) for k in range(n)]
    else:
        assert len(rows) == 41
        assert rows[20].startswith(f"… {n - 40:,} more")
        assert [rows[0].split()[0], rows[-1].split()[0]] == ["0", str(n - 1)]
