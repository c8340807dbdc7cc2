"""Files that are damaged, dangerous or do not fit: one sentence each, exit code 2."""

from __future__ import annotations

import os
import pickle
import random
import re

import numpy as np
import pytest
from tests.support.command_line import COMMANDS_ON_FILES, data, is_one_sentence, write


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


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_fit_refuses(job, make, run, monkeypatch):
    arguments, words = make(job)
    monkeypatch.chdir(job)
    before = sorted(path.name for path in job.iterdir())
    told = ["fit", *arguments, "--counts", "counts.json", "--kind", "logits", "-o", "cal.json"]
    result = run(*told)
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


#: Bytes that readers take for something else.
INSERTED = [b"nan", b"1e999", b"-", b'"', b"\xff\xfe", b"\0"]


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A file as a careless program, or a hostile one, would leave it."""
    at = rng.randrange(len(content) + 1)
    head, tail = content[:at], content[at:]
    return rng.choice(
        [
            b"",
            head,
            head + tail[rng.randrange(1, 99) :],
            head + content[at // 2 :],
            head + rng.randbytes(1) + tail[1:],
            head + rng.randbytes(rng.randrange(1, 9)) + tail,
            head + rng.choice(INSERTED) + tail,
        ]
    )


#: What is changed of each input of each command.
N_MUTATIONS = 3


@pytest.mark.parametrize("extension", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("text", COMMANDS_ON_FILES)
def test_no_damage_ends_in_a_traceback(fused, run, monkeypatch, text, extension):
    monkeypatch.chdir(fused)
    for name, seed in (("val", 0), ("test", 1)):
        write(fused / f"{name}.{extension}", data(seed))
    words = text.replace(".csv", f".{extension}").split()
    outputs = {words[-1]} if "-o" in words else set()
    files = {re.sub(r"^\w=", "", word) for word in words if "." in word} - outputs
    rng = random.Random(f"{text} {extension}")
    for name in sorted(files):
        content = (fused / name).read_bytes()
        for _ in range(N_MUTATIONS):
            (fused / name).write_bytes(mutated(content, rng))
            result = run(*words)
            assert result.code == 0 or is_one_sentence(result), (name, result)
        (fused / name).write_bytes(content)
    assert run(*words).code == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.timeout(60)  # a command that opens a pipe waits for ever
@pytest.mark.parametrize("text", COMMANDS_ON_FILES)
def test_a_pipe_is_no_input(fused, run, monkeypatch, text):
    monkeypatch.chdir(fused)
    words = text.split()
    outputs = {words[-1]} if "-o" in words else set()
    for name in {re.sub(r"^\w=", "", word) for word in words if "." in word} - outputs:
        os.rename(name, "aside")
        os.mkfifo(name)
        result = run(*words)
        assert is_one_sentence(result), (name, result)
        assert "must be a regular file" in result.err
        os.replace("aside", name)
