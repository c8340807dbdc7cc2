"""Compare `_native.pyi` with the extension by mypy's stubtest: `python tests/native/check_stub.py`.

To stubtest, as to :mod:`inspect`, nanobind's functions are no functions. It is shown plain
functions instead, with the names, order and defaults that nanobind has bound.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any


def arguments(signature: str) -> Iterator[str]:
    """Split ``def name(a: list[int, str], b: int = 1) -> None`` at the commas between arguments."""
    depth, argument = 0, ""
    for character in signature.partition("(")[2]:
        depth += (character in "([") - (character in ")]")
        if depth < 0 or (character == "," and depth == 0):
            yield argument.strip()
            argument = ""
            if depth < 0:
                return
        else:
            argument += character


def plain(bound: Any) -> Callable[..., None]:
    """Return a function of the signature that nanobind has bound; overloads have one stub."""

    def function(*args: Any, **kwargs: Any) -> None: ...

    (text, _, _), *_ = bound.__nb_signature__
    parameters, kind = [], inspect.Parameter.POSITIONAL_OR_KEYWORD
    for argument in filter(None, arguments(text)):
        if argument == "*":
            kind = inspect.Parameter.KEYWORD_ONLY
            continue
        name, _, annotation = argument.partition(":")
        default = ... if " = " in annotation.rpartition("]")[2] else inspect.Parameter.empty
        parameters.append(inspect.Parameter(name, kind, default=default))
    function.__name__ = function.__qualname__ = bound.__name__
    function.__module__ = bound.__module__
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def main() -> int:
    """Return stubtest's exit code."""
    from mypy import stubtest

    from reprior import _native

    for name, value in list(vars(_native).items()):
        if hasattr(value, "__nb_signature__"):
            setattr(_native, name, plain(value))
        elif isinstance(value, type):
            body = {"__init__": plain(value.__init__), "__module__": _native.__name__}
            setattr(_native, name, type(name, (), body))
    sys.argv[1:] = ["reprior._native"]
    return stubtest.main()


if __name__ == "__main__":
    sys.exit(main())
