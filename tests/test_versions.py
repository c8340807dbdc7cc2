from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import reprior as rp
from reprior.core import kernels, n_cores


def test_versions_say_what_computes(capsys, monkeypatch):
    rp.show_versions()
    shown = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert shown["reprior"] == rp.__version__
    assert shown["numpy"] == version("numpy")
    assert shown["scikit-learn"] == version("scikit-learn")
    assert shown["kernels"] == kernels.description()
    assert shown["cores"] == str(n_cores())
    monkeypatch.setattr(kernels, "native", None)
    rp.show_versions()
    assert "kernels: array code\n" in capsys.readouterr().out


def test_libraries_that_are_not_installed_are_left_out(capsys, monkeypatch):
    monkeypatch.setattr("reprior._versions.distribution", lambda _: Requiring())
    rp.show_versions()
    assert capsys.readouterr().out.splitlines()[-1].startswith("numpy: ")


class Requiring:
    requires = (
        "numpy>=1.26",
        "no-such-library[x]>=2 ; extra == 'y'",
        "reprior[cli] ; extra == 'all'",
    )


def test_no_library_is_imported():
    probe = "import sys, reprior; reprior.show_versions(); sys.exit('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    "variable, value, words",
    [
        ("REPRIOR_SIMD", "foo", "REPRIOR_SIMD must be one of baseline"),
        ("REPRIOR_NATIVE", "no", "REPRIOR_NATIVE must be 'off' or 'require'"),
    ],
)
def test_a_wrong_environment_variable_is_one_sentence(variable, value, words):
    command = [sys.executable, "-m", "reprior", "--version"]
    environment = {**os.environ, variable: value}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {words}")
    assert done.stderr.count("\n") == 1
