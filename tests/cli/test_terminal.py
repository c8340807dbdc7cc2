"""Nothing from a file or a name reaches the terminal as something it obeys."""

from __future__ import annotations

import contextlib
import io
import json

import numpy as np
import pytest
from tests.support.command_line import COUNTS, data, is_one_sentence

from reprior.__main__ import main

#: Sets the title, colours what follows (one byte, C1), and turns the direction of text.
NAMES = ["cat\x1b]0;title\x07", "dog\x9b31m", "owl\u202e"]

#: A colour, in the name of a folder and of a file.
PAINT = "paint\x1b[31m"


def controls(text: str) -> set[str]:
    """The characters of a text that are not printed, line ends aside."""
    return {c for c in text if c != "\n" and not c.isprintable()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of score files whose names, classes and labels have control characters."""
    folder = tmp_path_factory.mktemp("terminal") / PAINT
    folder.mkdir()
    for name, seed in (("VAL", 0), ("TEST", 1)):
        scores, labels = data(seed)
        lines = [",".join([*NAMES, "label"])]
        lines += [f"{a},{b},{c},{NAMES[k]}" for (a, b, c), k in zip(scores, labels, strict=True)]
        (folder / line(name)[0]).write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = dict(zip(NAMES, COUNTS.tolist(), strict=True))
    (folder / line("COUNTS")[0]).write_text(json.dumps(counts))
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        assert main(line("fit VAL --counts COUNTS --kind logits -o CAL -q")) == 0
        assert main(line("fuse fit a=VAL b=VAL --counts COUNTS --kind logits -o FUSION -q")) == 0
    return folder


@pytest.fixture
def painted(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def line(text: str) -> list[str]:
    """The arguments of a command, with the names of the files."""
    names = {"VAL": f"val{PAINT}.csv", "TEST": f"test{PAINT}.csv", "COUNTS": f"counts{PAINT}.json",
             "CAL": f"cal{PAINT}.json", "FUSION": f"fusion{PAINT}.json",
             "OUT": f"out{PAINT}"}  # fmt: skip
    for short, name in names.items():
        text = text.replace(short, name)
    return text.split(" ")


@pytest.mark.parametrize(
    "text",
    [
        "fit VAL --counts COUNTS --kind logits -o OUT.json",
        "fit VAL --counts COUNTS --kind logits --metric macro_f1 --tune per_class -o OUT.json",
        "fuse fit a=VAL b=VAL --counts COUNTS --kind logits -o OUT.json",
        "fuse evaluate FUSION a=TEST b=TEST",
        "fuse apply FUSION a=TEST b=TEST -o OUT.csv",
        "fuse TEST TEST --kind logits -o OUT.csv",
        "evaluate CAL TEST --per-class --counts COUNTS",
        "evaluate CAL TEST --per-class --format markdown",
        "evaluate CAL TEST --per-class --format csv",
        "apply CAL TEST -o OUT.npy",
        "report CAL VAL --test TEST --counts COUNTS -o OUT.html",
        "prior --counts COUNTS",
        "prior estimate TEST --counts COUNTS --kind logits --validation VAL",
    ],
)
def test_no_command_prints_control_characters(painted, run, text):
    result = run(*line(text))
    assert result.code == 0, result.err
    assert controls(result.out + result.err) == set()
    if "--format" not in text:
        result = run(*line(text), "--json")
        assert controls(result.out + result.err) == set()
        assert result.json  # still a document


def test_json_keeps_the_names_as_they_are(painted, run):
    assert run(*line("prior --counts COUNTS --json")).json["classes"] == NAMES


ROWS = [
    "1,2,\x1b]0;title\x07,cat",  # a score that is none
    "1,2,3,emu\x1b[2J",  # a label that is no class
    "1,2,3,cat,\x9b31m",  # a cell too many
    '1,2,3,"\x1b[31m',  # a quote that does not end
]


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "text",
    [
        "fit BAD --counts COUNTS --kind logits -o OUT.json",
        "evaluate CAL BAD",
        "report CAL BAD -o OUT.html",
        "fuse fit a=BAD b=VAL --counts COUNTS --kind logits -o OUT.json",
        "prior --counts-from-labels BAD",
    ],
)
def test_rows_of_a_file_are_cleaned_in_errors(painted, run, row, text):
    good = (painted / line("VAL")[0]).read_text(encoding="utf-8")
    (painted / "bad.csv").write_text(f"{good}{row}\n", encoding="utf-8")
    result = run(*line(text.replace("BAD", "bad.csv")))
    assert controls(result.out + result.err) == set()
    assert is_one_sentence(result) or result.code == 0, result


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit\x1b[31m"],
        ["fit", "val\x1b[31m.csv"],
        ["fit", "val.csv", "--metric\x1b[31m"],
        ["fit", "val.csv", "--kind", "\x1b[31m", "-o", "cal.json"],
        ["fit", "val.csv", "--kind", "logits", "-o", "no\x1b[31m/cal.json", "--counts", "c.json"],
        ["apply", "cal\x1b[31m.json", "test.csv", "-o", "out.csv"],
        ["demo", "-o", "val.npz/\x1b[31m"],
    ],
)
def test_arguments_are_cleaned_in_errors(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    np.savez("val.npz", scores=np.eye(3), labels=np.arange(3))
    result = run(*arguments)
    assert result.code == 2
    assert controls(result.out + result.err) == set()
