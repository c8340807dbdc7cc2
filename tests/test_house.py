"""The house rules a linter does not know."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
SOURCES = [HOME / "src" / "reprior", HOME / "lab" / "src" / "reprior_lab"]
MODULES = sorted(path for source in SOURCES for path in source.rglob("*.py"))

#: The faces of reprior: what the lab, and any other distribution, may import.
FACES = {
    "reprior",
    "reprior.cli",
    "reprior.core",
    "reprior.exceptions",
    "reprior.files",
    "reprior.metrics",
    "reprior.report",
    "reprior.report.plots",
    "reprior.sklearn",
    "reprior.torch",
    "reprior.torch.losses",
    "reprior.tuning",
}


def imported(path: Path) -> set[tuple[str, str]]:
    """Modules and names that a file imports from them, also inside functions."""
    return {
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.skipif(not SOURCES[1].exists(), reason="the lab is not in this distribution")
def test_the_lab_imports_public_names_of_faces_only():
    found = [
        (path.relative_to(HOME).as_posix(), module, name)
        for path in SOURCES[1].rglob("*.py")
        for module, name in imported(path)
        if module.partition(".")[0] == "reprior"
    ]
    assert found
    assert [each for each in found if each[1] not in FACES] == []
    public = {module: set(importlib.import_module(module).__all__) for _, module, _ in found}
    assert [each for each in found if each[2] not in public[each[1]]] == []
