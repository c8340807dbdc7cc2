"""The names of the package, and what importing it does not load."""

from __future__ import annotations

import pytest
from tests.test_imports import loaded_frameworks

from reprior_lab import synthia


def test_every_name_is_there():
    for name in synthia.__all__:
        assert getattr(synthia, name) is not None
    assert sorted(synthia._HOMES) == sorted(synthia.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        synthia.nothing  # noqa: B018 - the access is the test


@pytest.mark.parametrize("module", ["synthia", "synthia.data", "synthia.runs", "synthia.weather"])
def test_what_needs_no_framework_loads_none(module):
    assert loaded_frameworks(f"reprior_lab.{module}") == set()
