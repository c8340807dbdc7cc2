"""How a command fails: one sentence, in the words of its options."""

from __future__ import annotations

import difflib
import errno
import os
from typing import Any

import click

from reprior.cli.words import in_options
from reprior.exceptions import RepriorError

__all__ = ["FAILED", "Failure", "SentenceGroup", "sentence_of", "with_notes"]

FAILED = 2


class Failure(click.ClickException):
    """What ends a command: one sentence, exit code 2."""

    exit_code = FAILED


class SentenceGroup(click.Group):
    """Commands by name; what they raise for users becomes a sentence about their options."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the names in the order they were made in."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the nearest."""
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], names, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(names)}."
            ctx.fail(f"There is no command {args[0]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what it raises for users becomes a sentence about its options."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (RepriorError, OSError, MemoryError) as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise Failure(sentence_of(error, command)) from error


def sentence_of(error: BaseException, command: click.Command | None) -> str:
    """Return the one sentence that says what was wrong."""
    if isinstance(error, RepriorError):
        said = in_options(str(error), command)
    elif isinstance(error, MemoryError):
        said = "There is not enough memory. Nothing half-written is left."
    else:
        said = _about_the_system(error)
    return with_notes(said, error)


def with_notes(sentence: str, error: BaseException | None) -> str:
    """Return a sentence, and what was noted on the error that it is about."""
    return " ".join([sentence, *getattr(error, "__notes__", ())])


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
