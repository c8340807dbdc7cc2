"""Ctrl-C that a library swallows ends a command all the same, and nothing is written."""

from __future__ import annotations

import builtins
import signal

import pytest

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
    assert (result.code, result.out, result.err) == (130, "", "")
