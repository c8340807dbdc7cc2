"""Sentences of the library, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

__all__ = ["in_options", "name_classes"]

#: Where a command keeps the names of the classes it works on.
_CLASSES = "reprior.classes"

_PERCENT = "If the rows sum to 100 they are percentages: divide them by 100."

#: What only Python can do, and what the command line does instead.
_PYTHON = (
    (re.compile(r"\bwith save\(\)"), "with reprior fit"),
    (re.compile(r"'auto' or None\b"), "'auto' or 'none'"),
    (re.compile(r"( Or pass '\w+'), or None\."), r"\1."),
    (re.compile(r"; profiles are read by StrengthProfile\.load"), ""),
)

#: A calibrator's kind is in its file: no option changes it.
_OF_THE_CALIBRATOR = (
    (re.compile(r"under kind='(\w+)'"), r"under the calibrator's kind, \1"),
    (re.compile(r"were declared as kind='(\w+)'"), r"are taken as the calibrator's kind, \1"),
    (
        re.compile(r"\bPass kind='\w+'(?: if these are [^.]*)?\."),
        "Give scores of the calibrator's kind.",
    ),
    (
        re.compile(r"\bpass kind='\w+'(?: if these are [^.]*)?\."),
        "give scores of the calibrator's kind.",
    ),
)


def name_classes(names: Sequence[Any] | None) -> None:
    """Keep the names of the classes, for sentences about one of them."""
    here = click.get_current_context(silent=True)
    if here is not None and names is not None:
        here.meta[_CLASSES] = [str(name) for name in names]


def in_options(sentence: str, command: click.Command | None) -> str:
    """Let a sentence about Python arguments speak of a command's options, rows and classes.

    Examples
    --------
    >>> command = click.Command("fit", params=[click.Option(["--smoothing"])])
    >>> in_options("`smoothing` must not be negative. Pass smoothing=1.", command)
    '--smoothing must not be negative. Pass --smoothing 1.'
    >>> in_options("Got counts[4]=0.", command)
    'Got counts of class 4 = 0.'
    """
    params = command.params if command is not None else []
    sentence = _in_places(sentence)
    for pattern, words in _PYTHON:
        sentence = pattern.sub(words, sentence)
    if any(isinstance(param, click.Argument) and param.name == "cal" for param in params):
        for pattern, instead in _OF_THE_CALIBRATOR:
            sentence = pattern.sub(instead, sentence)
    options = {
        param.name: max(param.opts, key=len)
        for param in params
        if isinstance(param, click.Option) and param.name is not None
    }
    if not options:
        return sentence
    names = "|".join(map(re.escape, options))
    numbers = re.compile(rf"(?<![\w-])({names})=\(([^()]*)\)")
    sentence = numbers.sub(lambda m: f"{options[m[1]]} {m[2].replace(',', '')}", sentence)
    given = re.compile(rf"(?<![\w-])({names})=('[^']*'|[\w.+-]*\w)")
    sentence = given.sub(lambda m: f"{options[m[1]]} {m[2]}", sentence)
    sentence = re.sub(rf"`({names})\[0\]`", lambda m: f"the first of {options[m[1]]}", sentence)
    sentence = re.sub(rf"`({names})\[1\]`", lambda m: f"the second of {options[m[1]]}", sentence)
    return re.sub(rf"`({names})`", lambda m: options[m[1]], sentence)


def _in_places(sentence: str) -> str:
    """Name rows and classes where Python would index an array."""
    here = click.get_current_context(silent=True)
    names = [] if here is None else here.meta.get(_CLASSES, [])

    def named(index: str) -> str:
        return f"{index} ({names[int(index)]!r})" if int(index) < len(names) else index

    percent = re.search(r"(scores\[\d+, \d+\]=|with sum )(\d+(?:\.\d+)?)", sentence)
    if percent is not None and "probs" in sentence and 1.5 < float(percent[2]) <= 101:
        sentence = f"{sentence} {_PERCENT}"
    of_class = r"\b((?:train_)?counts|weights|(?:source|target)_prior)\[(\d+)\] ?="
    sentence = re.sub(
        of_class, lambda m: f"{m[1].replace('_', ' ')} of class {named(m[2])} = ", sentence
    )
    sentence = re.sub(
        r"\bscores\[(\d+), (\d+)\]=", lambda m: f"row {m[1]}, class {named(m[2])}: ", sentence
    )
    sentence = re.sub(r"\bscores\[(\d+)\]=", r"row \1: ", sentence)
    return re.sub(r"\bscores\[(\d+), :\]", r"row \1", sentence)
