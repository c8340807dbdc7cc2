"""Errors and warnings of the library in the words of the command line; how a command fails.

Errors and warnings carry their parts. :class:`CommandLineFace` renders these for a command: options
for arguments, ``--smoothing 1`` for ``smoothing=1``, rows and class names for indices.
"""

from __future__ import annotations

import difflib
import errno
import os
import shlex
from collections.abc import Sequence
from typing import Any, TypeVar

import click

from reprior.exceptions import (
    Argument,
    Element,
    RepriorError,
    RepriorWarning,
    Setting,
    Text,
    Words,
    escaped,
    escaped_lines,
    parts,
    render,
    shown,
)

__all__ = [
    "FAILED",
    "CommandLineFace",
    "Failure",
    "SentenceGroup",
    "current_face",
    "name_classes",
    "plain",
    "plain_lines",
    "sentence_of",
    "with_notes",
    "with_remedy",
]

Message = TypeVar("Message", RepriorError, RepriorWarning)

FAILED = 2

#: Where a command keeps the names of the classes it works on.
_CLASSES = "reprior.classes"

#: Arguments of the library whose options have other names.
_OPTION_NAMES = {"n_workers": "workers", "sample_weight": "weight_column"}

#: What a command takes first that fit or fuse fit wrote, by the name of the click argument.
_FITTED_FILES = {"cal": "calibrator", "fusion": "fusion"}

#: Arguments of the library that commands take by position.
_POSITIONAL = {"scores": ("val", "test", "scores"), "calibrator": ("cal",), "model": ("model",)}

#: Arguments with an element per class.
_PER_CLASS = (
    "counts",
    "train_counts",
    "weights",
    "source_prior",
    "target_prior",
    "label_prior",
    "prior",
)

_ORDINALS = ("first", "second")  # of options with two numbers


class Failure(click.ClickException):
    """What ends a command: one sentence, exit code 2."""

    exit_code = FAILED


class CommandLineFace:
    """Renders the references of errors and warnings for a command.

    Parameters
    ----------
    command : click.Command, optional
        The command whose options are named. Arguments that it does not have keep their names.
    class_names : sequence of str
        Names of the classes, for sentences about one of them.

    Examples
    --------
    >>> from reprior.exceptions import PriorError
    >>> command = click.Command("fit", params=[click.Option(["--smoothing"])])
    >>> error = PriorError(
    ...     argument="counts",
    ...     rule="must have at least one sample of every class",
    ...     got=Element("counts", (1,), 0),
    ...     remedy=["Drop the class, or pass ", Setting("smoothing", 1), "."],
    ... )
    >>> print(CommandLineFace(command, ["cat", "dog"]).sentence(error))
    `counts` must have at least one sample of every class. Got counts of class 1 ('dog') = 0. Drop the class, or pass --smoothing 1.
    """  # noqa: E501 - the sentence as it is shown

    def __init__(
        self, command: click.Command | None = None, class_names: Sequence[str] = ()
    ) -> None:
        params = [] if command is None else command.params
        self._options = {each.name: each for each in params if isinstance(each, click.Option)}
        self._arguments = {each.name: each for each in params if isinstance(each, click.Argument)}
        self._class_names = class_names
        fitted = [_FITTED_FILES[name] for name in _FITTED_FILES if name in self._arguments]
        #: What the fitted file is, which says of what kind scores are: no option changes that.
        self._fitted = fitted[0] if fitted else None

    def sentence(self, message: Message) -> str:
        """Return a whole error or warning in the words of the command."""
        if self._fitted is not None and _mentions_kind(message.remedy):
            message = _with_remedy(message, self._remedy_of_a_fitted_kind(message.remedy))
        return message.render(self)

    def _remedy_of_a_fitted_kind(self, remedy: Text) -> Text:
        words_of_remedy = [part for part in parts(remedy) if isinstance(part, Words)]
        return [f"Give scores of the {self._fitted}'s kind.", *words_of_remedy]

    def rule(self, error: RepriorError) -> str:
        """Return which rule an error is about, to be quoted in a sentence about something else."""
        if error.argument is None:
            return render(error.text, self).rstrip(".")
        named = error.argument
        argument = named if isinstance(named, Argument) else Argument(named)
        return render([argument, " ", *parts(error.rule)], self)

    def argument(self, argument: Argument) -> str:
        """Return the option of an argument, or what the command takes by position."""
        name = self._name(argument.name)
        if name is None:
            return render(argument)
        for place in argument.place:
            named = place in range(len(_ORDINALS))
            name = f"the {_ORDINALS[place]} of {name}" if named else f"{name} of {place!r}"
        return name

    def setting(self, setting: Setting) -> str:
        """Return an option with a value, as one types it."""
        if setting.name == "kind" and self._fitted is not None:
            return f"the {self._fitted}'s kind, {setting.value}"
        option = self._options.get(_OPTION_NAMES.get(setting.name, setting.name))
        return render(setting) if option is None else _typed(option, setting.value)

    def element(self, element: Element) -> str:
        """Return where something was found: a row, a class with its name, and the value."""
        place = self._place(element)
        if place is None:
            return render(element)
        if element.value is None:
            return place
        sign = " =" if element.name in _PER_CLASS else ":"
        return f"{place}{sign} {shown(element.value)}"

    def words(self, words: Words) -> str:
        """Return the words of the command line."""
        from reprior.files.archive import SAVE

        if words == SAVE and self._fitted == "fusion":
            return "reprior fuse fit"
        return words.command_line

    def _name(self, argument: str) -> str | None:
        option = self._options.get(_OPTION_NAMES.get(argument, argument))
        if option is not None:
            return max(option.opts, key=len)
        for name in _POSITIONAL.get(argument, ()):
            if name in self._arguments:
                return name.upper()
        return None

    def _place(self, element: Element) -> str | None:
        index = element.index
        if element.name in _PER_CLASS and len(index) == 1:
            return f"{element.name.replace('_', ' ')} of class {self._class(index[0])}"
        if element.name != "scores" or len(index) not in (1, 2):
            return None
        if len(index) == 1 or index[1] == ":":
            return f"row {index[0]}"
        return None if index[0] == ":" else f"row {index[0]}, class {self._class(index[1])}"

    def _class(self, index: int) -> str:
        named = 0 <= index < len(self._class_names)
        return f"{index} ({self._class_names[index]!r})" if named else str(index)


class SentenceGroup(click.Group):
    """A group of commands whose errors become sentences about their options."""

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
        """Run a command; an error becomes a sentence about its options."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (RepriorError, OSError, MemoryError) as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise Failure(sentence_of(error, command)) from error


def name_classes(names: Sequence[Any] | None) -> None:
    """Keep the names of the classes, for sentences about one of them."""
    context = click.get_current_context(silent=True)
    if context is not None and names is not None:
        context.meta[_CLASSES] = [str(name) for name in names]


def current_face(command: click.Command | None = None) -> CommandLineFace:
    """Return the face of a command, or of the one that runs, with the classes it works on."""
    context = click.get_current_context(silent=True)
    if context is None:
        return CommandLineFace(command)
    return CommandLineFace(command or context.command, context.meta.get(_CLASSES, ()))


def sentence_of(error: BaseException, command: click.Command | None = None) -> str:
    """Return an error as one sentence, with its notes."""
    if isinstance(error, RepriorError):
        sentence = current_face(command).sentence(error)
    elif isinstance(error, MemoryError):
        sentence = "There is not enough memory. Nothing half-written is left."
    else:
        sentence = _about_the_system(error)
    return with_notes(sentence, error)


def plain(text: Any) -> str:
    r"""Return text with control characters escaped, so that a terminal only prints it.

    Examples
    --------
    >>> plain("cat\x1b[31m")
    'cat\\x1b[31m'
    """
    return escaped(str(text))


def plain_lines(text: str) -> str:
    r"""Return text of several lines with all other control characters escaped.

    Examples
    --------
    >>> plain_lines("cat\x1b[31m\ndog").splitlines()
    ['cat\\x1b[31m', 'dog']
    """
    return escaped_lines(text)


def with_notes(sentence: str, error: BaseException | None) -> str:
    """Return a sentence followed by the notes of the error."""
    return " ".join([sentence, *getattr(error, "__notes__", ())])


def with_remedy(error: RepriorError, more: Text) -> RepriorError:
    """Return a copy of an error with one more sentence of advice."""
    before = parts(error.remedy)
    return _with_remedy(error, [*before, *([" "] if before else []), *parts(more)])


def _with_remedy(message: Message, remedy: Text) -> Message:
    copy = message.mapped(lambda part: part)
    copy.remedy = remedy
    return copy


def _mentions_kind(text: Text) -> bool:
    return any(isinstance(part, Setting) and part.name == "kind" for part in parts(text))


def _typed(option: click.Option, value: Any) -> str:
    """Return an option with its value, as a user types it."""
    name = max(option.opts, key=len)
    if option.is_flag:
        if value:
            return name
        return max(option.secondary_opts, key=len, default=f"no {name}")
    words = getattr(option.type, "words", {})
    for word, meaning in words.items():
        if meaning is value:
            return f"{name} {word}"
    if value is None:
        return f"no {name}"
    values = value if isinstance(value, tuple | list) else [value]
    return " ".join([name, *(shlex.quote(str(each)) for each in values)])


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
