"""Sentences of the library, in the words of the command line."""

from __future__ import annotations

import re

import click

__all__ = ["in_options"]


def in_options(sentence: str, command: click.Command | None) -> str:
    """Let a sentence about Python arguments speak of a command's options.

    Examples
    --------
    >>> command = click.Command("fit", params=[click.Option(["--smoothing"])])
    >>> in_options("`smoothing` must not be negative. Pass smoothing=1.", command)
    '--smoothing must not be negative. Pass --smoothing 1.'
    """
    options = {
        param.name: max(param.opts, key=len)
        for param in (command.params if command is not None else [])
        if isinstance(param, click.Option) and param.name is not None
    }
    if not options:
        return sentence
    names = "|".join(map(re.escape, options))
    numbers = re.compile(rf"(?<![\w-])({names})=\(([^()]*)\)")
    sentence = numbers.sub(lambda m: f"{options[m[1]]} {m[2].replace(',', '')}", sentence)
    given = re.compile(rf"(?<![\w-])({names})=('[^']*'|[\w.+-]*\w)")
    sentence = given.sub(lambda m: f"{options[m[1]]} {m[2]}", sentence)
    return re.sub(rf"`({names})`", lambda m: options[m[1]], sentence)
