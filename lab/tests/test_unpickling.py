"""No path in the library or the lab unpickles, but the reader of old CIFAR batches."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: The restricted reader, which gives no object of the pickle to anything.
READER = ROOT / "lab/src/reprior_lab/data/pickles.py"

UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}


def modules():
    for folder in ("src/reprior", "lab/src/reprior_lab"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def loads(path, module):
    """Yield the constant keywords of every call ``module.load(…)`` in a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{module}.load":
            yield {
                each.arg: each.value.value
                for each in node.keywords
                if isinstance(each.value, ast.Constant)
            }


def imports(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def test_no_other_module_imports_an_unpickler():
    found = {path for path in modules() if UNPICKLERS & set(imports(path))}
    assert found == {READER}


@pytest.mark.parametrize(
    "module, keyword, value", [("torch", "weights_only", True), ("np", "allow_pickle", False)]
)
def test_every_load_is_without_pickle(module, keyword, value):
    found = [(path, given) for path in modules() for given in loads(path, module)]
    assert found
    assert [path for path, given in found if given.get(keyword) is not value] == []
