"""The errors and warnings of reprior.

An error carries its parts: the argument, the rule it breaks, the value it got, and the remedy.
Names of arguments and values inside of these are references (:class:`Argument`, :class:`Setting`,
:class:`Element`, :class:`Words`). Each interface renders them as its users type them: Python as
``smoothing=1``, the command line as ``--smoothing 1``. No code parses the text of an error::

    Exception
    ├── ValueError
    │   └── RepriorError              anything reprior refuses
    │       ├── ScoresError           scores: NaN, +inf, shape, rows that are no distribution
    │       ├── LabelsError           labels: out of range, not integer, wrong length
    │       ├── PriorError            priors and counts: zero, negative, wrong length, wrong sum
    │       ├── OptionError           an option: unknown metric, kind, rule; bounds reversed
    │       ├── InfeasibleError       nothing satisfies the constraints; holds what comes nearest
    │       ├── ProfileMismatchError  profiles that cannot be merged or subtracted
    │       ├── FileFormatError       a file that is truncated, too new, or not ours
    │       ├── MissingFileError      a file that does not exist (also a FileNotFoundError)
    │       ├── FoldError             a model the correction does not go into, or that disagrees
    │       ├── MissingDependencyError  an extra that is not installed (also an ImportError)
    │       └── NotFittedError        used before ``fit`` (also an AttributeError)
    └── UserWarning
        └── RepriorWarning            it went on, but you should know
            ├── LikelyProbabilitiesWarning  scores declared as logits look like probabilities
            └── WidenedBoundsWarning  the best strength was searched beyond the given bounds
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, Self, TypeAlias

__all__ = [
    "Argument",
    "Element",
    "Face",
    "FileFormatError",
    "FoldError",
    "InfeasibleError",
    "LabelsError",
    "LikelyProbabilitiesWarning",
    "MissingDependencyError",
    "MissingFileError",
    "NotFittedError",
    "OptionError",
    "PriorError",
    "ProfileMismatchError",
    "RepriorError",
    "RepriorWarning",
    "ScoresError",
    "Setting",
    "Text",
    "WidenedBoundsWarning",
    "Words",
    "escaped",
    "escaped_lines",
    "parts",
    "printable",
    "quoted",
    "render",
    "require",
    "shown",
]


# ------------------------------------------------------------------------------ parts of a text


@dataclass(frozen=True)
class Argument:
    """The name of an argument: ```smoothing``` in Python; ``place`` is an index into its value."""

    name: str
    place: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Setting:
    """An argument with a value to pass: ``smoothing=1`` in Python."""

    name: str
    value: Any


@dataclass(frozen=True)
class Element:
    """An element of an argument with its value: ``counts[4]=0`` in Python."""

    name: str
    index: tuple[Any, ...]
    value: Any = None


@dataclass(frozen=True)
class Words:
    """A text with one wording for Python and one for the command line; either may be empty."""

    python: str
    command_line: str


Reference: TypeAlias = "Argument | Setting | Element | Words | _Parted"

#: Characters of another library's error that a sentence shows.
_MOST_QUOTED = 300

Text: TypeAlias = "str | Reference | Sequence[str | Reference]"
"""A text: a string, a reference, or a sequence of both that is joined without spaces.

Another error or warning is a reference too: it is rendered for the same face, within the text.
"""


class Face(Protocol):
    """Renders references as its users know them."""

    def argument(self, argument: Argument) -> str:
        """The name of an argument."""

    def setting(self, setting: Setting) -> str:
        """An argument with a value to pass."""

    def element(self, element: Element) -> str:
        """An element that was found."""

    def words(self, words: Words) -> str:
        """The face's own words."""


class _PythonFace:
    """Arguments as Python's users type them."""

    def argument(self, argument: Argument) -> str:
        return f"`{argument.name}{_subscript(argument.place)}`"

    def setting(self, setting: Setting) -> str:
        return f"{setting.name}={setting.value!r}"

    def element(self, element: Element) -> str:
        place = f"{element.name}{_subscript(element.index)}"
        return place if element.value is None else f"{place}={shown(element.value)}"

    def words(self, words: Words) -> str:
        return words.python


_PYTHON = _PythonFace()


def render(text: Text, face: Face = _PYTHON) -> str:
    """Return a text as a face's users read it.

    Examples
    --------
    >>> render(["Drop the class, or pass ", Setting("smoothing", 1), "."])
    'Drop the class, or pass smoothing=1.'
    """
    return "".join(_rendered(part, face) for part in parts(text))


def parts(text: Text) -> list[str | Reference]:
    """Return the strings and references that a text is joined from; none of an empty text."""
    if isinstance(text, Argument | Setting | Element | Words | _Parted):
        return [text]
    return ([text] if text else []) if isinstance(text, str) else list(text)


def _rendered(part: str | Reference, face: Face) -> str:
    match part:
        case Argument():
            return face.argument(part)
        case Setting():
            return face.setting(part)
        case Element():
            return face.element(part)
        case Words():
            return face.words(part)
        case _Parted():
            return part.render(face)
    return part


def _subscript(index: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def printable(text: str) -> str:
    r"""Return a text as one line that a terminal only shows: no control characters.

    Texts hold names from files and sentences of other libraries. White space of any kind becomes a
    space; other characters that are not printable (C0 and C1 controls, escapes, marks that turn
    the direction of writing) become their code.

    Examples
    --------
    >>> print(printable("\x1b]0;title\x07 of a\nfile"))
    \x1b]0;title\x07 of a file
    """
    if text.isprintable():
        return text
    line = re.sub(r"[^\S ]+", " ", text)
    return escaped(line)


def escaped(text: str) -> str:
    r"""Return a text in which every character that is not printable is its code.

    Examples
    --------
    >>> print(escaped("cat\x1b[31m\n"))
    cat\x1b[31m\n
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def quoted(error: BaseException, *, typed: bool = False) -> str:
    r"""Return what another library's error says, to be shown in a sentence of ours.

    It is one line of at most 300 characters without control characters, and without a full stop at
    its end. With ``typed``, or if the error has no text, it begins with the type's name.

    Examples
    --------
    >>> quoted(OSError("denied:\n the key is old."))
    'denied: the key is old'
    >>> quoted(OSError("denied"), typed=True), quoted(OSError(), typed=True), quoted(OSError())
    ('OSError: denied', 'OSError', 'OSError')
    """
    words = " ".join(printable(str(error)).split())[:_MOST_QUOTED].rstrip(".")
    name = type(error).__name__
    return words if words and not typed else ": ".join(filter(None, (name, words)))


def escaped_lines(text: str) -> str:
    r"""Return a text of several lines with the codes of all other unprintable characters.

    Examples
    --------
    >>> escaped_lines("cat\x1b[31m\ndog").splitlines()
    ['cat\\x1b[31m', 'dog']
    """
    return "\n".join(map(escaped, text.split("\n")))


def shown(value: Any) -> str:
    """Return a value as sentences show it: floats in short, integers and text as they are."""
    if isinstance(value, str | int) or not hasattr(value, "__float__"):
        return str(value)
    return f"{float(value):g}"


class _Parted:
    """Base of errors and warnings: a text, or the four parts of one."""

    text: Text
    argument: str | Argument | None
    rule: Text
    got: Text
    remedy: Text

    def _take(
        self,
        text: Text,
        argument: str | Argument | None,
        rule: Text,
        got: Text,
        remedy: Text,
    ) -> None:
        self.text, self.rule, self.got, self.remedy = text, rule, got, remedy
        self.argument = argument

    def render(self, face: Face = _PYTHON) -> str:
        """The whole sentence: "`argument` rule. Got got. remedy", or the text and the remedy."""
        said = [render(self.text, face)] if self.text else []
        if self.argument is not None:
            name = self.argument if isinstance(self.argument, Argument) else Argument(self.argument)
            said.append(f"{face.argument(name)} {render(self.rule, face)}.")
        if self.got:
            said.append(f"Got {render(self.got, face)}.")
        if self.remedy:
            said.append(render(self.remedy, face))
        return printable(" ".join(part for part in said if part))

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self.__dict__)

    def mapped(self, change: Callable[[str | Reference], Text]) -> Self:
        """Return a copy whose parts are changed: to rename an argument, or to move an index."""

        def changed_part(part: str | Reference) -> Text:
            return part.mapped(change) if isinstance(part, _Parted) else change(part)

        def changed(text: Text) -> Text:
            return (
                [new for part in parts(text) for new in parts(changed_part(part))] if text else text
            )

        copy: Self = _made(type(self), self.__dict__)
        copy.text, copy.rule = changed(self.text), changed(self.rule)
        copy.got, copy.remedy = changed(self.got), changed(self.remedy)
        if self.argument is not None:
            name = self.argument if isinstance(self.argument, Argument) else Argument(self.argument)
            (new,) = parts(change(name))
            copy.argument = new if isinstance(new, Argument) else self.argument
        return copy

    def with_sentence(self, more: Text) -> Self:
        """Return a copy with one more sentence at its end.

        Examples
        --------
        >>> print(RepriorError("It is too long.").with_sentence(["See ", Argument("bounds"), "."]))
        It is too long. See `bounds`.
        """
        copy = self.mapped(lambda part: part)
        copy.remedy = [*parts(self.remedy), " ", *parts(more)] if self.remedy else more
        return copy


def _made(kind: type[Any], state: dict[str, Any]) -> Any:
    """An error or warning with this state: for pickle and copies, whatever its signature."""
    new: Callable[..., Any] = kind.__new__  # of a class with other bases than ValueError too
    made = new(kind, state["text"])
    made.__dict__.update(state)
    return made


# -------------------------------------------------------------------------------------- errors


class RepriorError(_Parted, ValueError):
    """Base class of every error that reprior raises on purpose.

    Parameters
    ----------
    text : str or sequence of str and references, optional
        The whole sentence, where it is not about one argument.
    argument : str or Argument, optional
        The argument that is wrong.
    rule : Text
        What it must be, as in "must be positive for every class".
    got : Text
        What it is instead, without a full stop.
    remedy : Text
        What to do: whole sentences.

    Examples
    --------
    >>> print(
    ...     RepriorError(
    ...         argument="source_prior",
    ...         rule="must be positive for every class",
    ...         got=Element("source_prior", (3,), 0),
    ...         remedy=["Drop the class, or pass ", Setting("smoothing", 1), "."],
    ...     )
    ... )
    `source_prior` must be positive for every class. Got source_prior[3]=0. Drop the class, or pass smoothing=1.
    """  # noqa: E501 - the sentence as it is raised

    def __init__(
        self,
        text: Text = "",
        *,
        argument: str | Argument | None = None,
        rule: Text = "",
        got: Text = "",
        remedy: Text = "",
    ) -> None:
        super().__init__(text)
        self._take(text, argument, rule, got, remedy)


class ScoresError(RepriorError):
    """Scores that no posterior can be made of."""


class LabelsError(RepriorError):
    """Labels or sample weights that do not fit the scores."""


class PriorError(RepriorError):
    """A prior, or the counts for one, that is not a distribution over the classes."""


class OptionError(RepriorError):
    """An option outside what the function offers."""


class InfeasibleError(RepriorError):
    """No strength within the bounds, or no biases, satisfy the constraints.

    Attributes
    ----------
    strength : float or None
        The strength that comes nearest, where one is known.
    shortfall : float or None
        By how much it misses: of several constraints, the one it misses most.
    biases : ndarray of shape (K,) or None
        Where biases were tuned per class, those that come nearest; the shortfall is theirs.
    labels_needed : int or None
        Where a constraint holds on these labels but cannot be promised (``certify``): about how
        many labels would do, of the class that the constraint is about. None where no number does.
    """

    def __init__(
        self,
        text: Text = "",
        *,
        strength: float | None = None,
        shortfall: float | None = None,
        biases: Any = None,
        labels_needed: int | None = None,
        argument: str | Argument | None = None,
        rule: Text = "",
        got: Text = "",
        remedy: Text = "",
    ) -> None:
        super().__init__(text, argument=argument, rule=rule, got=got, remedy=remedy)
        self.strength = strength
        self.shortfall = shortfall
        self.biases = biases
        self.labels_needed = labels_needed


class ProfileMismatchError(RepriorError):
    """Two profiles that describe different problems."""


class FileFormatError(RepriorError):
    """A file that reprior cannot, or will not, read."""


class MissingFileError(RepriorError, FileNotFoundError):
    """A file that does not exist."""


class FoldError(RepriorError):
    """A model that the correction does not go into, or that disagrees once it is in."""


class MissingDependencyError(RepriorError, ImportError):
    """A library that a part of reprior needs, and that is not installed."""


class NotFittedError(RepriorError, AttributeError):
    """An object that was used before it was fitted."""


class RepriorWarning(_Parted, UserWarning):
    """The result stands, but something about it deserves attention.

    Its parameters are those of :class:`RepriorError`.
    """

    def __init__(
        self,
        text: Text = "",
        *,
        argument: str | Argument | None = None,
        rule: Text = "",
        got: Text = "",
        remedy: Text = "",
    ) -> None:
        super().__init__(text)
        self._take(text, argument, rule, got, remedy)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class LikelyProbabilitiesWarning(RepriorWarning):
    """Scores that are declared as logits look like probabilities."""


class WidenedBoundsWarning(RepriorWarning):
    """The best strength was searched beyond the given bounds; the result says how far."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a library of an extra, or say in a sentence how to install it.

    Examples
    --------
    >>> require("json", extra="cli", purpose="To read JSON").__name__
    'json'
    >>> require("no_such_library", extra="cli", purpose="To read parquet files")
    Traceback (most recent call last):
        ...
    reprior.exceptions.MissingDependencyError: To read parquet files, no_such_library must be
    installed. It is not. Run: pip install 'reprior[cli]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and lacks something itself
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f"{purpose}, {name} must be installed. It is not. Run: pip install 'reprior[{extra}]'"
        ) from error
