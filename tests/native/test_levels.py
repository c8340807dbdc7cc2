"""Instruction sets: which there are, and which one is used."""

from __future__ import annotations

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
