"""How a command fails: one sentence about its options, exit code 2."""

from __future__ import annotations

import errno
import os

import click
import pytest
from click.testing import CliRunner

import reprior as rp
from reprior.cli import SentenceGroup


def group_that_raises(error: BaseException) -> click.Group:
    @click.group(cls=SentenceGroup)
    def group() -> None:
        """All commands."""

    @group.command("tune")
    @click.option("--target-prior")
    def tune(target_prior: str) -> None:
        """Raise."""
        raise error

    return group


@pytest.mark.parametrize(
    "error, sentence",
    [
        (
            rp.OptionError(argument="target_prior", rule="must sum to 1"),
            "--target-prior must sum to 1.",
        ),
        (MemoryError(), "There is not enough memory. Nothing half-written is left."),
        (OSError(errno.ENOSPC, "", "out.npz"), "'out.npz' could not be written: the disk is full."),
        (OSError(errno.EFBIG, "", "out.npz"), "larger than this system allows"),
        (FileNotFoundError(errno.ENOENT, "", "in.npz"), "'in.npz' does not exist."),
        (PermissionError(errno.EACCES, "", "in.npz"), "may not be read or written here"),
        (OSError(errno.EIO, "", "in.npz"), f"'in.npz': {os.strerror(errno.EIO)}."),
        (OSError("a plug was pulled"), "a plug was pulled"),
        (OSError(), "OSError"),
    ],
)
def test_an_error_becomes_one_sentence(error, sentence):
    result = CliRunner().invoke(group_that_raises(error), ["tune"])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_broken_pipe_is_not_a_failure():
    result = CliRunner().invoke(group_that_raises(BrokenPipeError()), ["tune"])
    assert isinstance(result.exception, BrokenPipeError)


def test_a_mistyped_command_is_answered_with_the_nearest():
    result = CliRunner().invoke(group_that_raises(MemoryError()), ["tun"])
    assert "There is no command 'tun'. Did you mean 'tune'?" in result.stderr
    far = CliRunner().invoke(group_that_raises(MemoryError()), ["xyz"])
    assert "There are tune." in far.stderr
