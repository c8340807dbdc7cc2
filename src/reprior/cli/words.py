"""Sentences of the library, in the words of the command line."""

from __future__ import annotations

import re

import click

__all__ = ["in_options"]

#: Where a command keeps the names of the classes it works on.
_CLASSES = "reprior.classes"

_PERCENT = "If the rows sum to 100 they are percentages: divide them by 100."

#: What only Python can do, and what the command line does instead.
_PYTHON = (
    (re.compile(r"\bwith save\(\)"), "with reprior fit"),
    (re.compile(r"'auto' or None\b"), "'auto' or 'none'"),
    (re.compile(r"\bNone to keep each\b"), "none to keep each"),
    (re.compile(r"must be None, (a whole number.*?) or a generator of NumPy"), r"must be \1"),
    (re.compile(r"( Or pass '\w+'), or None\."), r"\1."),
    (re.compile(r"`n_workers`"), "--workers"),
    (re.compile(r"; profiles are read by StrengthProfile\.load"), ""),
)

#: What a command takes first that fit or fuse fit wrote, by the name of the argument.
_FILES = {"cal": "calibrator", "fusion": "fusion"}

#: The kind is in such a file: no option changes it.
_OF_THE_FILE = (
    (re.compile(r"under kind='(\w+)'"), r"under the {noun}'s kind, \1"),
    (re.compile(r"were declared as kind='(\w+)'"), r"are taken as the {noun}'s kind, \1"),
    (
        re.compile(r"\bPass kind='\w+'(?: if these are [^.]*)?\."),
        "Give scores of the {noun}'s kind.",
    ),
    (
        re.compile(r"\bpass kind='\w+'(?: if these are [^.]*)?\."),
        "give scores of the {noun}'s kind.",
    ),
)

#: What is said of calibrators, and holds of fusions. Whole turns of phrase, not the word alone,
#: which a file or a class may have in its name.
_OF_A_FUSION = tuple(
    (re.compile(rf"(?<!\w){before}calibrator{after}"), r"\1fusion\2")
    for before, after in (
        ("(of the )", r"('s kind, )"),
        ("(of the )", r"('s \d+ classes, )"),
        ("(that the )", r"( was fitted for\.)"),
        ("(or fit a )", "( on )"),
        ("(name the )", "('s classes in its order, )"),
        ("(Drop --classes: the )", r"( knows its classes\.)"),
        ("(which )", r"(s and counts are in\.)"),
        ("(a number a )", "( can hold)"),
    )
)


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
    arguments = {param.name for param in params if isinstance(param, click.Argument)}
    sentence = _in_places(sentence)
    if arguments & {"fusion", "modalities"}:
        sentence = _of_fusions(sentence)
    for pattern, words in _PYTHON:
        sentence = pattern.sub(words, sentence)
    for noun in (_FILES[name] for name in _FILES if name in arguments):
        for pattern, instead in _OF_THE_FILE:
            sentence = pattern.sub(instead.format(noun=noun), sentence)
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
    flags = {param.name for param in params if isinstance(param, click.Option) and param.is_flag}
    sentence = given.sub(lambda m: _told(options[m[1]], m[2], m[1] in flags), sentence)
    sentence = re.sub(rf"`({names})\[0\]`", lambda m: f"the first of {options[m[1]]}", sentence)
    sentence = re.sub(rf"`({names})\[1\]`", lambda m: f"the second of {options[m[1]]}", sentence)
    sentence = re.sub(rf"`({names})`", lambda m: options[m[1]], sentence)
    sentence = re.sub(r"(--[\w-]+) must be None\b", r"\1 must be left out", sentence)
    return re.sub(r"(--[\w-]+) must be True\b", r"\1 must be given", sentence)


def _told(option: str, value: str, is_flag: bool) -> str:
    """An option with its value, as one would type it."""
    if value == "None" or (is_flag and value == "False"):
        return f"no {option}"
    if is_flag:
        return option
    plain = value.strip("'")
    return f"{option} {value if re.search(r'[^a-zA-Z0-9_.+-]', plain) else plain}"


def _of_fusions(sentence: str) -> str:
    """Say of a fusion what the commands of one model say of a calibrator."""
    for pattern, instead in _OF_A_FUSION:
        sentence = pattern.sub(instead, sentence)
    return re.sub(r"\bwith save\(\)", "with reprior fuse fit", sentence)


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
