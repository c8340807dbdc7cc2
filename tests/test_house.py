"""The house rules a linter does not know: small modules, small functions, docstrings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "reprior"
MODULES = sorted(SOURCE.rglob("*.py"))
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50

each_module = pytest.mark.parametrize(
    "path", MODULES, ids=[path.relative_to(SOURCE).as_posix() for path in MODULES]
)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_there_is_a_house():
    assert MODULES


@each_module
def test_module_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE_LINES


@each_module
def test_functions_are_short(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = {f"{f.name}:{f.lineno}": code_lines(f) for f in functions(tree)}
    assert {name: n for name, n in long.items() if n > MAX_FUNCTION_LINES} == {}


@each_module
def test_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_docstring_lines_are_not_counted():
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n'
    assert code_lines(next(functions(ast.parse(text)))) == 2
