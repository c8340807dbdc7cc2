"""The group of all commands, and how their failures end: one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from reprior.cli.failures import FAILED, Failure, SentenceGroup, sentence_of, with_notes
from reprior.files.interrupts import refuse_to_go_on

__all__ = ["COMMANDS", "Failure", "LazyGroup", "app", "run"]

#: Where each command lives. A module is imported when its command is called or listed.
COMMANDS = {
    "fit": "reprior.cli.fit",
    "apply": "reprior.cli.apply",
    "evaluate": "reprior.cli.evaluate",
    "report": "reprior.cli.report",
    "prior": "reprior.cli.prior",
    "fuse": "reprior.cli.fuse",
    "fold": "reprior.cli.fold",
    "train": "reprior.cli.train",
    "reproduce": "reprior.cli.reproduce",
    "demo": "reprior.cli.demo",
    "completion": "reprior.cli.completion",
}

#: What each command does, here so that `reprior --help` need not import them all.
SUMMARIES = {
    "fit": "Tune the correction on labelled validation scores.",
    "apply": "Write corrected probabilities and predictions.",
    "evaluate": "Compare before and after on labelled scores.",
    "report": "Write a page that shows what changed, as one HTML file.",
    "prior": "Show the prior that counts or labels amount to.",
    "fuse": "Fuse the posteriors of several models, row by row.",
    "fold": "Put the correction inside an ONNX model.",
    "train": "Train a network on long-tailed data, to compare methods.",
    "reproduce": "Reproduce a table or figure of the paper.",
    "demo": "Do the whole job on real data, in under a minute.",
    "completion": "Print a script that completes commands in your shell.",
}

INTERRUPTED, TERMINATED, PIPE_CLOSED = 130, 143, 1  # rich and click end with 1 too


class LazyGroup(SentenceGroup):
    """Commands by name, imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the names in the order of the job."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name]}.command must be a click command.")
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in COMMANDS])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: reprior demo -o demo",
)
@click.version_option(package_name="reprior", prog_name="reprior")
def app() -> None:
    """Re-set the prior of a trained classifier.

    From the scores of a model on labelled validation data and the class counts it was trained on,
    to better decisions and honest probabilities, without retraining.
    """


def run(argv: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    try:
        with _terminated_is_an_exit():
            result = app.main(list(argv), prog_name="reprior", standalone_mode=False)
            refuse_to_go_on()
            _flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as asked:
        click.echo(asked.format_message())
        return FAILED
    except click.UsageError as error:
        _complain(_usage_sentence(error))
        return FAILED
    except click.ClickException as error:
        _complain(error.format_message())
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error if isinstance(error, KeyboardInterrupt) else error.__cause__
        _complain(with_notes("Interrupted: nothing half-written is left.", cause), word="")
        return INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return PIPE_CLOSED


def _flush() -> None:
    """Write what is buffered while a closed pipe, or a full disk, can still be answered."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(sentence_of(error, None)) from error


@contextmanager
def _terminated_is_an_exit() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that no temporary file stays behind."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _silence_stdout() -> None:
    """Keep Python from complaining about the closed pipe when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # replaced by something that is no file
        return


def _complain(sentence: str, word: str = "Error: ") -> None:
    click.echo(f"{word}{' '.join(sentence.split())}", err=True)


def _usage_sentence(error: click.UsageError) -> str:
    sentence = error.format_message()
    path = error.ctx.command_path if error.ctx is not None else "reprior"
    return f"{sentence.rstrip('.') if not sentence.endswith('?') else sentence}" + (
        f"{'' if sentence.endswith('?') else '.'} See {path} --help."
    )
