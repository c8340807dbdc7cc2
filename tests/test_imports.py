"""`import reprior` is light: it loads no framework, and no part of its own before it is used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FRAMEWORKS = ("dask", "jax", "matplotlib", "numba", "pandas", "scipy", "sklearn", "torch")

PROBE = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def loaded_frameworks(module: str) -> set[str]:
    """Import `module` in a fresh interpreter and tell which frameworks came along."""
    result = subprocess.run(
        [sys.executable, "-c", PROBE, module], capture_output=True, text=True, check=True
    )
    return set(FRAMEWORKS) & set(json.loads(result.stdout))


def test_import_loads_no_framework():
    assert loaded_frameworks("reprior") == set()


def test_import_loads_nothing_but_the_names():
    probe = "import sys, reprior; print(sorted(m for m in sys.modules if m.startswith('reprior')))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "['reprior']\n"


def test_every_public_name_loads_no_framework():
    probe = (
        f"import sys; from reprior import *; sys.exit(bool({set(FRAMEWORKS)} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "module, there", [("reprior.calibrator", False), ("array_api_compat.numpy", True)]
)
def test_import_does_not_load_every_corner_of_numpy(module, there):
    probe = f"import sys, {module}; sys.exit('numpy.f2py' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (int(there), b"")


@pytest.mark.parametrize(
    "module",
    [
        "reprior.core",
        "reprior.metrics",
        "reprior.profile",
        "reprior.tuning",
        "reprior.calibrator",
        "reprior.files",
        "reprior.calibrator.load",
        "reprior.engines",
    ],
)
def test_parts_load_no_framework(module):
    assert loaded_frameworks(module) == set()


def test_the_probe_sees_a_framework():
    assert "sklearn" in loaded_frameworks("reprior.sklearn")
