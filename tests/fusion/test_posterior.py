"""δ from references, and the parts of a recipe."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.fusion.shared import delta

from reprior.core.flatten import EntropyReference
from reprior.fusion.posterior import Doubt, Recipe, References

RECIPE = Recipe(
    names=("rgb", "depth"),
    references=(References(EntropyReference(0.5, 0.1)), References()),
    slopes=np.array([-1.0, 0.5, 2.0]),
    rule="mean",
    order="rebalance_first",
    flatten_by="image",
    kind="logits",
    passes=False,
)

positive = st.floats(1e-3, 3.0)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=4), positive, st.floats(0, 1))
def test_the_factor_of_the_entropy(values, mean, std):
    known = References(EntropyReference(mean, std))
    found = known.factor(Doubt(np.array(values)), np)
    np.testing.assert_allclose(found, [delta(value, (mean, std)) for value in values], rtol=1e-14)
    assert (found > 0).all()
    np.testing.assert_array_equal(found[np.array(values) <= mean + std], 1.0)


@given(st.floats(0, 5), st.floats(0, 5), positive, positive)
def test_of_two_references_the_smaller_factor(entropy, information, mean, other):
    both = References(EntropyReference(mean, 0.0), EntropyReference(other, 0.1))
    found = both.factor(Doubt(np.array([entropy]), np.array([information])), np)
    expected = min(delta(entropy, (mean, 0.0)), delta(information, (other, 0.1)))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_without_a_reference_there_is_no_factor():
    assert References().factor(Doubt(np.ones(2)), np) is None
    alone = References(information=EntropyReference(0.1, 0.0))
    assert alone.factor(Doubt(np.array([9.0]), np.array([0.0])), np) == 1.0


def test_shift():
    assert RECIPE.shift(0.0) is None
    np.testing.assert_array_equal(RECIPE.shift(2.0), [-2.0, 1.0, 4.0])


def test_only_some_modalities():
    assert RECIPE.flattens
    rest = RECIPE.only(["depth"])
    assert (rest.names, rest.references) == (("depth",), (References(),))
    assert not rest.flattens
    assert RECIPE.only(["depth", "rgb"]).names == RECIPE.names
