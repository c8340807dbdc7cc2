"""The public face: `reprior.__all__` is the whole of it."""

from __future__ import annotations

import pkgutil

import pytest

import reprior

SUBMODULES = {module.name for module in pkgutil.iter_modules(reprior.__path__)}


def test_all_is_sorted_and_without_repeats():
    assert list(reprior.__all__) == sorted(set(reprior.__all__))


@pytest.mark.parametrize("name", reprior.__all__)
def test_name_resolves(name):
    assert getattr(reprior, name) is not None


@pytest.mark.parametrize("name", reprior.__all__)
def test_name_is_public(name):
    assert name == "__version__" or not name.startswith("_")


def test_nothing_else_is_visible():
    visible = {name for name in dir(reprior) if not name.startswith("_")}
    assert visible - SUBMODULES - {"annotations"} <= set(reprior.__all__)


def test_names_are_listed_before_they_are_used():
    assert set(reprior.__all__) <= set(dir(reprior))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError):
        _ = reprior.no_such_name
