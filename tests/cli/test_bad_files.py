"""Files that are damaged, dangerous or do not fit: one sentence each, exit code 2."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from tests.cli.shared import data, installed, is_one_sentence, write


def truncated_npz(folder):
    write(folder / "bad.npz", data(0))
    whole = (folder / "bad.npz").read_bytes()
    (folder / "bad.npz").write_bytes(whole[: len(whole) // 2])
    return ["bad.npz"], ["truncated"]


def text_among_scores(folder):
    lines = (folder / "val.csv").read_text().splitlines()
    lines[7] = "abc" + lines[7][lines[7].index(",") :]
    (folder / "bad.csv").write_text("\n".join(lines))
    return ["bad.csv"], ["bad.csv"]


def mismatched_rows(folder):
    np.save(folder / "bad.npy", data(0).scores)
    np.save(folder / "labels.npy", data(0).labels[:-1])
    return ["bad.npy", "--labels", "labels.npy"], ["299", "300"]


def unknown_class(folder):
    text = (folder / "val.csv").read_text()
    (folder / "bad.csv").write_text(text.replace('"owl","row-', '"emu","row-'))
    return ["bad.csv"], ["emu"]


def pickled_npy(folder):
    np.save(folder / "bad.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return ["bad.npy"], ["pickle"]


def pickle_itself(folder):
    (folder / "bad.npz").write_bytes(pickle.dumps([1, 2]))
    return ["bad.npz"], ["pickle"]


def not_a_number(folder):
    scores = data(0).scores.copy()
    scores[17, 1] = np.nan
    np.savez(folder / "bad.npz", scores=scores, labels=data(0).labels)
    return ["bad.npz"], ["NaN", "17"]


def empty_file(folder):
    (folder / "bad.csv").write_text("")
    return ["bad.csv"], ["bad.csv"]


def no_file(folder):
    return ["missing-*.csv"], ["missing-"]


CASES = [
    truncated_npz, text_among_scores, mismatched_rows, unknown_class, pickled_npy, pickle_itself,
    not_a_number, empty_file, no_file,
]  # fmt: skip


#: The others differ in nothing that a process of their own would show.
IN_A_SUBPROCESS = [truncated_npz, text_among_scores, pickled_npy]


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_fit_refuses(job, make, run, monkeypatch):
    arguments, words = make(job)
    monkeypatch.chdir(job)
    before = sorted(path.name for path in job.iterdir())
    told = ["fit", *arguments, "--counts", "counts.json", "--kind", "logits", "-o", "cal.json"]
    result = installed(*told) if make in IN_A_SUBPROCESS else run(*told)
    assert is_one_sentence(result), result
    for word in words:
        assert word in result.err
    assert sorted(path.name for path in job.iterdir()) == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"strength": 1}', '{"format_version": 99}'])
def test_a_calibrator_that_is_none_is_refused(job, run, text):
    (job / "cal.json").write_text(text)
    result = run("evaluate", job / "cal.json", job / "test.csv")
    assert is_one_sentence(result)
    assert "cal.json" in result.err


def test_names_cannot_paint_the_terminal(job, run):
    text = (job / "val.csv").read_text().replace("owl", "o\x1b[31mwl")
    (job / "odd.csv").write_text(text)
    result = run(
        "fit", job / "odd.csv", "--counts", job / "counts.json", "--kind", "logits",
        "-o", job / "cal.json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "\x1b" not in result.out + result.err
    assert "o\\x1b[31mwl" in result.out
