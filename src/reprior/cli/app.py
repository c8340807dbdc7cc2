"""The group of all commands. A failure ends in one sentence and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points, version
from types import FrameType

import click

from reprior.cli.messages import FAILED, Failure, SentenceGroup, plain, sentence_of, with_notes
from reprior.files.interrupts import raise_if_interrupted

__all__ = ["COMMANDS", "Failure", "LazyGroup", "app", "run"]

#: Our own commands in the order of the job, with what each does: `reprior --help` imports none.
#: Each is ``command`` of the module ``reprior.cli.NAME``.
COMMANDS = {
    "fit": "Tune the correction on labelled validation scores.",
    "apply": "Write corrected probabilities and predictions.",
    "evaluate": "Compare before and after on labelled scores.",
    "forecast": "Expect a metric where there are no labels.",
    "report": "Write a page that shows what changed, as one HTML file.",
    "prior": "Show the prior that counts or labels amount to.",
    "fuse": "Fuse the posteriors of several models, row by row.",
    "fold": "Put the correction inside an ONNX model.",
    "export": "Write the correction as SQL.",
    "demo": "Do the whole job on real data, in under a minute.",
    "completion": "Print a script that completes commands in your shell.",
}

#: Other distributions add commands by entry points of this group: name → click command.
PLUGINS = "reprior.commands"

#: Commands of the lab. Without it they are not listed, and say what to install.
LAB = ("train", "reproduce")

INTERRUPTED, TERMINATED, PIPE_CLOSED = 130, 143, 1  # rich and click end with 1 too


class LazyGroup(SentenceGroup):
    """The commands of reprior and of other distributions, imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the names: ours in the order of the job, then those of other distributions."""
        return [*COMMANDS, *_plugins()]

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command."""
        if cmd_name in COMMANDS:
            command: click.Command = importlib.import_module(f"reprior.cli.{cmd_name}").command
            return command
        plugins = _plugins()
        return _loaded(plugins[cmd_name]) if cmd_name in plugins else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or say how to install it."""
        if args and args[0] in COMMANDS:  # searching other distributions takes time
            return click.Group.resolve_command(self, ctx, args)
        if args and args[0] in LAB and args[0] not in _plugins():
            raise Failure(
                f"`reprior {args[0]}` needs the lab, a distribution of its own: reprior-lab must "
                f"be installed. It is not. Run in a clone of reprior: pip install ./lab"
            )
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click passes it
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing ours."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))
        plugins = _plugins()
        if plugins:
            with formatter.section("Commands of other distributions"):
                formatter.write_dl([(name, _summary(point)) for name, point in plugins.items()])


def _plugins() -> dict[str, EntryPoint]:
    """Return the entry points of other distributions' commands; they cannot replace ours."""
    points = {point.name: point for point in entry_points(group=PLUGINS)}
    return {name: points[name] for name in sorted(points) if name not in COMMANDS}


def _loaded(point: EntryPoint) -> click.Command:
    """Import a command of another distribution; refuse a broken one in a sentence."""
    try:
        command = point.load()
    except Exception as error:  # whatever a module of others raises when it is imported
        raise Failure(
            f"The command {point.name!r} must be importable. Got {type(error).__name__} from "
            f"{point.value}: {error}. Install its distribution again, or remove it."
        ) from error
    if not isinstance(command, click.Command):
        raise Failure(
            f"The entry point {point.name!r} of {PLUGINS} must be a click command. Got "
            f"{type(command).__name__} from {point.value}. Report it to its authors."
        )
    return command


def _summary(point: EntryPoint) -> str:
    try:
        return _loaded(point).get_short_help_str(limit=70)
    except Failure as failure:  # the help of the others stays readable
        return f"(broken) {plain(failure.message)}"


def _show_version(
    context: click.Context,
    _parameter: click.Parameter,
    value: bool,
) -> None:
    """Print the version and which kernels are in use, and exit."""
    if not value or context.resilient_parsing:
        return
    from reprior.core import kernels

    click.echo(f"reprior, version {version('reprior')}, kernels: {kernels.description()}")
    context.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: reprior demo -o demo",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and what computes, and exit.",
)
def app() -> None:
    """Re-set the prior of a trained classifier.

    From the scores of a model on labelled validation data and the class counts it was trained on,
    to better decisions and calibrated probabilities, without retraining.
    """


def run(argv: Sequence[str]) -> int:
    """Run the command line and return the exit code."""
    try:
        with _terminated_is_an_exit():
            result = app.main(list(argv), prog_name="reprior", standalone_mode=False)
            raise_if_interrupted()
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
    """Flush stdout while a closed pipe or a full disk can still be reported."""
    if sys.stdout is None:  # the program was started without one
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Failure(sentence_of(error, None)) from error


@contextmanager
def _terminated_is_an_exit() -> Iterator[None]:
    """Let SIGTERM unwind as Ctrl-C does, so that no temporary file is left."""

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
    """Prevent Python's error about the closed pipe when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # replaced by something that is no file
        return


def _complain(sentence: str, word: str = "Error: ") -> None:
    click.echo(plain(f"{word}{' '.join(sentence.split())}"), err=True)


def _usage_sentence(error: click.UsageError) -> str:
    sentence = error.format_message()
    path = error.ctx.command_path if error.ctx is not None else "reprior"
    return f"{sentence.rstrip('.') if not sentence.endswith('?') else sentence}" + (
        f"{'' if sentence.endswith('?') else '.'} See {path} --help."
    )
