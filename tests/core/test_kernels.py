"""The door to the compiled kernels: which environment variables open and close it."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import reprior
from reprior.core import kernels
from reprior.exceptions import OptionError


@pytest.fixture
def extension(monkeypatch):
    """The extension, whose level is restored."""
    native = pytest.importorskip("reprior._native")
    monkeypatch.delenv("REPRIOR_NATIVE", raising=False)
    monkeypatch.delenv("REPRIOR_SIMD", raising=False)
    level = native.level()
    yield native
    native.set_level(level)


@pytest.fixture
def no_extension(monkeypatch):
    monkeypatch.setitem(sys.modules, "reprior._native", None)
    monkeypatch.delattr(reprior, "_native", raising=False)


def test_the_extension_is_used_unless_it_is_turned_off(extension, monkeypatch):
    assert kernels._load() is extension
    monkeypatch.setenv("REPRIOR_NATIVE", "off")
    assert kernels._load() is None


def test_without_the_extension_array_code_computes(no_extension, monkeypatch):
    monkeypatch.delenv("REPRIOR_NATIVE", raising=False)
    assert kernels._load() is None
    monkeypatch.setenv("REPRIOR_NATIVE", "require")
    with pytest.raises(ImportError):
        kernels._load()


def test_an_unknown_choice_is_refused(monkeypatch):
    monkeypatch.setenv("REPRIOR_NATIVE", "on")
    with pytest.raises(OptionError, match=r"REPRIOR_NATIVE must be 'off' or 'require'.* Got 'on'"):
        kernels._load()


def test_an_instruction_set_is_chosen_by_name(extension, monkeypatch):
    monkeypatch.setenv("REPRIOR_SIMD", "baseline")
    assert kernels._load().level() == "baseline"
    monkeypatch.setenv("REPRIOR_SIMD", "mmx")
    with pytest.raises(OptionError, match=r"REPRIOR_SIMD must be one of baseline.* Got 'mmx'"):
        kernels._load()


def test_plain_arrays_of_floats_are_served(extension, monkeypatch):
    monkeypatch.setattr(kernels, "native", extension)
    assert all(kernels.serves(np.zeros((2, 3), t)) for t in ("f2", "f4", "f8"))
    others = [np.zeros((2, 3), "i8"), np.ma.zeros((2, 3)), np.zeros((2, 3), ">f8"), [[0.0]]]
    assert not any(kernels.serves(each) for each in others)
    assert kernels.description() == f"native ({extension.level()})"


def test_nothing_is_served_without_the_extension(monkeypatch):
    monkeypatch.setattr(kernels, "native", None)
    assert not kernels.serves(np.zeros((2, 3)))
    assert kernels.description() == "array code"


def test_rows_that_are_not_aligned_are_copied():
    raw = np.zeros(8 * 6 + 1, np.uint8)[1:].view(np.float64).reshape(2, 3)
    raw[...] = np.arange(6.0).reshape(2, 3)
    view = kernels.strided_rows(raw)
    assert not raw.flags.aligned
    assert view.flags.aligned
    np.testing.assert_array_equal(view[0], raw)
