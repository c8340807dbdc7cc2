"""Ctrl-C that a library swallows ends a command all the same, and nothing is written."""

from __future__ import annotations

import builtins
import random
import signal
import sys

import pytest
from tests.support.command_line import COMMANDS_ON_FILES

from reprior.__main__ import main
from reprior.files.scores import ScoreFile


@pytest.fixture
def swallowing(monkeypatch):
    """Press Ctrl-C while the first chunk is read, inside of something that catches everything."""
    chunks = ScoreFile.chunks

    def interrupted(self, *arguments, **options):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return chunks(self, *arguments, **options)

    monkeypatch.setattr(ScoreFile, "chunks", interrupted)


def test_every_command_ends(fitted, run, swallowing):
    cal, val = fitted / "cal.json", fitted / "val.csv"
    for arguments in (
        [
            "fit",
            val,
            "--counts",
            fitted / "counts.json",
            "--kind",
            "logits",
            "-o",
            fitted / "new.json",
        ],
        ["apply", cal, val, "-o", fitted / "new.csv"],
        ["evaluate", cal, val],
        ["report", cal, val, "-o", fitted / "new.html"],
        ["fuse", val, val, "--kind", "logits", "-o", fitted / "new.csv"],
    ):
        before = sorted(path.name for path in fitted.iterdir())
        result = run(*arguments)
        assert result.code == 130, arguments
        assert result.out == ""
        assert result.err.strip() == "Interrupted: nothing half-written is left."
        assert sorted(path.name for path in fitted.iterdir()) == before


def test_the_next_run_knows_nothing_of_it(fitted, run, monkeypatch):
    with monkeypatch.context() as patched:
        chunks = ScoreFile.chunks

        def interrupted(self, *arguments, **options):
            signal.raise_signal(signal.SIGINT)
            return chunks(self, *arguments, **options)

        patched.setattr(ScoreFile, "chunks", interrupted)
        assert run("evaluate", fitted / "cal.json", fitted / "test.csv").code == 130
    assert run("evaluate", fitted / "cal.json", fitted / "test.csv").code == 0


@pytest.mark.parametrize("swallow", [True, False])
def test_while_the_command_line_is_imported(run, monkeypatch, swallow):
    real = builtins.__import__

    def importing(name, *arguments):
        if name == "reprior.cli.app":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if not swallow:
                    raise
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", importing)
    result = run("--version")
    assert (result.code, result.out) == (130, "")
    assert result.err == "Interrupted: nothing half-written is left.\n"


def calls_of(run, arguments, interrupt_at=None):
    """Run a command, and press Ctrl-C at one of its calls; return the result and their number."""
    n_calls, within = 0, False

    def count(frame, event, _argument):
        nonlocal n_calls, within
        if frame.f_code is main.__code__ and event in ("call", "return"):
            within = event == "call"
        elif within and event == "call":
            n_calls += 1
            if n_calls == interrupt_at:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        result = run(*arguments)
    finally:
        sys.setprofile(None)
    return result, n_calls


#: Calls of each command at which Ctrl-C is pressed.
N_TRIALS = 4


# Python ignores what is raised while a generator or an object is destroyed, a Ctrl-C too.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "text",
    [
        *COMMANDS_ON_FILES,
        "apply cal.json test.csv -o new.npz",
        "apply cal.json test.csv -o new.parquet",
        "apply cal.json test.csv -o new.npy",
        "fit val.csv --counts counts.json --kind logits --engine dask -o new.json",
    ],
)
def test_at_any_call(fused, run, monkeypatch, text):
    if "dask" in text:
        pytest.importorskip("dask", reason="dask is not installed")
    monkeypatch.chdir(fused)
    arguments = text.split()
    run(*arguments)  # imports are done, so that all runs are alike
    clean, n_calls = calls_of(run, arguments)
    assert clean.code == 0, clean.err
    files = {path: path.read_bytes() for path in fused.rglob("*") if path.is_file()}
    rng = random.Random(text)
    for _ in range(N_TRIALS):
        at = rng.randrange(1, n_calls)
        result, _ = calls_of(run, arguments, at)
        assert result.code in (0, 130), (at, result)
        if result.code:
            lines = [line for line in result.err.splitlines() if line and "note: " not in line]
            assert lines == ["Interrupted: nothing half-written is left."], (at, result)
        left = {path: path.read_bytes() for path in fused.rglob("*") if path.is_file()}
        if result.code:
            assert left == files, at
        else:  # Python dropped what was raised while an object was destroyed: the run is complete
            assert left.keys() == files.keys(), at
