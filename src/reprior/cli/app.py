"""The group of all commands, and how their failures end: one sentence and an exit code."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from reprior.cli.words import in_options
from reprior.exceptions import RepriorError
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
    "demo": "Do the whole job on real data, in under a minute.",
    "completion": "Print a script that completes commands in your shell.",
}

FAILED, INTERRUPTED, TERMINATED, PIPE_CLOSED = 2, 130, 143, 1  # rich and click end with 1 too


class Failure(click.ClickException):
    """What ends a command: one sentence, exit code 2."""

    exit_code = FAILED


class LazyGroup(click.Group):
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"There is no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in COMMANDS])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what it raises for users becomes a sentence about its options."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (RepriorError, OSError, MemoryError) as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise Failure(_sentence(error, command)) from error


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
    except (click.Abort, KeyboardInterrupt):
        _complain("Interrupted: nothing half-written is left.", word="")
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
        raise Failure(_sentence(error, None)) from error


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


def _sentence(error: BaseException, command: click.Command | None) -> str:
    """Return the one sentence that says what was wrong."""
    if isinstance(error, RepriorError):
        return in_options(str(error), command)
    if isinstance(error, MemoryError):
        return "There is not enough memory. Nothing was written."
    return _about_the_system(error)


def _about_the_system(error: BaseException) -> str:
    number = getattr(error, "errno", None)
    name = getattr(error, "filename", None)
    where = repr(os.fspath(name)) if isinstance(name, str | os.PathLike) else "the output"
    if number in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"{where} could not be written: the disk is full. Free some space, or write elsewhere."
        )
    if number == errno.EFBIG:
        return f"{where} could not be written: it is larger than this system allows a file to be."
    if number == errno.ENOENT:
        return f"{where} does not exist. Check the path."
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{where} may not be read or written here ({os.strerror(number)}). Choose another."
    if number is not None and name is not None:
        return f"{where}: {os.strerror(number)}."
    return str(error) or type(error).__name__
