"""Instruction sets: which there are, and which one is used."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from reprior.core import kernels

native = pytest.importorskip("reprior._native")


@pytest.fixture(autouse=True)
def level_is_restored():
    level = native.level()
    yield
    native.set_level(level)


def test_every_processor_has_the_baseline_first():
    assert native.levels()[0] == "baseline"


@pytest.mark.parametrize("level", native.levels())
def test_a_level_is_used_once_it_is_set(level):
    native.set_level(level)
    assert native.level() == level
    assert kernels.description() in (f"native ({level})", "array code")


def test_a_level_the_processor_does_not_have_is_refused():
    before = native.level()
    with pytest.raises(ValueError, match="This processor has no level 'mmx'"):
        native.set_level("mmx")
    assert native.level() == before


def test_results_do_not_depend_on_the_mathematics_library():
    """Its functions differ in their last bits from one version and processor to the next."""
    nm = shutil.which("nm")
    if nm is None or not sys.platform.startswith("linux"):
        pytest.skip("needs nm, and its form of symbols")
    shown = subprocess.run(
        [nm, "-D", "--undefined-only", native.__file__], capture_output=True, check=True, text=True
    ).stdout
    wanted = {line.split()[-1].partition("@")[0] for line in shown.splitlines()}
    assert not wanted & {"exp", "expf", "log", "logf", "log1p", "log2", "pow", "powf"}
