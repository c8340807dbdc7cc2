"""δ from references, and the parts of a recipe."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import BACKENDS, EPS, OPERATIONS, library_of
from tests.support.fusions import ORDERS, PRIOR, RULES, delta, made, modalities

from reprior import EntropyReference
from reprior.core import to_numpy
from reprior.exceptions import ScoresError
from reprior.fusion import fused as module
from reprior.fusion.fused import Recipe, References, Uncertainty

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
    found = known.factor(Uncertainty(np.array(values)), np)
    np.testing.assert_allclose(found, [delta(value, (mean, std)) for value in values], rtol=1e-14)
    assert (found > 0).all()
    np.testing.assert_array_equal(found[np.array(values) <= mean + std], 1.0)


@given(st.floats(0, 5), st.floats(0, 5), positive, positive)
def test_of_two_references_the_smaller_factor(entropy, information, mean, other):
    both = References(EntropyReference(mean, 0.0), EntropyReference(other, 0.1))
    found = both.factor(Uncertainty(np.array([entropy]), np.array([information])), np)
    expected = min(delta(entropy, (mean, 0.0)), delta(information, (other, 0.1)))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_without_a_reference_there_is_no_factor():
    assert References().factor(Uncertainty(np.ones(2)), np) is None
    alone = References(information=EntropyReference(0.1, 0.0))
    assert alone.factor(Uncertainty(np.array([9.0]), np.array([0.0])), np) == 1.0


def test_shift():
    assert RECIPE.shift(0.0) is None
    np.testing.assert_array_equal(RECIPE.shift(2.0), [-2.0, 1.0, 4.0])


def test_only_some_modalities():
    assert RECIPE.flattens
    rest = RECIPE.only(["depth"])
    assert (rest.names, rest.references) == (("depth",), (References(),))
    assert not rest.flattens
    assert RECIPE.only(["depth", "rgb"]).names == RECIPE.names


KNOWN = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}
STRENGTHS = {"rgb": 0.4, "depth": 0.8}


@pytest.fixture
def scores(rng):
    return modalities(rng, n=6, pixels=(3, 2))[0]


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_every_library_agrees_with_float64(backend, rule, scores):
    own = {name: backend.make(z) for name, z in scores.items()}
    wide = {name: to_numpy(z).astype(np.float64) for name, z in own.items()}
    fusion = made(PRIOR, KNOWN, STRENGTHS, rule=rule, class_axis=1)
    found, expected = fusion.predict_proba(own), fusion.predict_proba(wide)
    assert library_of(found) == backend.library
    assert found.dtype == own["rgb"].dtype
    compute = "float64" if backend.dtype == "float64" else "float32"
    atol = EPS[backend.dtype] + 2 * OPERATIONS * EPS[compute]
    np.testing.assert_allclose(to_numpy(found).astype(np.float64), expected, atol=atol)
    log = to_numpy(fusion.predict_log_proba(own)).astype(np.float64)
    size = np.abs(fusion.predict_log_proba(wide)).max()
    np.testing.assert_allclose(log, fusion.predict_log_proba(wide), atol=4 * size * atol)
    assert (to_numpy(fusion.predict(own)) == expected.argmax(axis=1)).mean() > 0.9


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("by", ["image", "pixel"])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_torch_is_numpy_in_every_setting(scores, order, by, kind):
    log_p = {n: torch.log_softmax(torch.tensor(z), 1).numpy() for n, z in scores.items()}
    given = {"logits": scores, "log_probs": log_p}.get(kind) or {
        n: np.exp(z) for n, z in log_p.items()
    }
    fusion = made(PRIOR, KNOWN, STRENGTHS, order=order, flatten_by=by, kind=kind, class_axis=1)
    expected = fusion.predict_proba(given)
    found = fusion.predict_proba({n: torch.tensor(z) for n, z in given.items()})
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("strength", [0.0, 0.7])
@pytest.mark.parametrize("names", [["rgb"], ["rgb", "depth"]])
def test_torch_is_numpy_without_flattening(scores, rule, strength, names):
    fusion = made(PRIOR, None, dict.fromkeys(names, strength), rule=rule, class_axis=1)
    some = {name: scores[name] for name in names}
    tensors = {name: torch.tensor(z) for name, z in some.items()}
    for use in (fusion.predict_proba, fusion.predict_log_proba):
        np.testing.assert_allclose(use(tensors).numpy(), use(some), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kind, row",
    [
        ("probs", [0.5, 0.6, 0.2, 0.1]),
        ("probs", [-0.5, 1.0, 0.5, 0.0]),
        ("log_probs", [0.0, 0.0, -1.0, -1.0]),
    ],
)
def test_rows_that_are_no_distribution_are_refused_in_torch(kind, row):
    fusion = made(PRIOR, None, {"rgb": 0.0}, kind=kind)
    with pytest.raises(ScoresError, match=r"`scores\['rgb'\]` must"):
        fusion.predict_proba({"rgb": torch.tensor([row])})


def test_nothing_in_common_is_refused_in_torch():
    fusion = made(PRIOR, None, {"a": 0.0, "b": 0.0}, kind="probs", rule="product")
    eye = torch.eye(4, dtype=torch.float64)
    with pytest.raises(ScoresError, match="some class possible in every row under rule='product'"):
        fusion.predict_proba({"a": eye[:1], "b": eye[1:2]})


def test_passes_in_torch(scores, rng):
    passes = {n: z + rng.standard_normal((4, *z.shape)) for n, z in scores.items()}
    for uncertainty, by in (("mutual_information", "image"), ("smaller", "pixel")):
        fusion = made(PRIOR, KNOWN, STRENGTHS, uncertainty=uncertainty, flatten_by=by, class_axis=1)
        fusion.information_references_ = {
            n: type(r)(0.05, 0.01) for n, r in fusion.references_.items()
        }
        found = fusion.predict_proba({n: torch.tensor(z) for n, z in passes.items()})
        np.testing.assert_allclose(found.numpy(), fusion.predict_proba(passes), rtol=1e-9)
    plain = made(PRIOR, None, STRENGTHS, uncertainty="smaller", class_axis=1)
    found = plain.predict_proba({n: torch.tensor(z) for n, z in passes.items()})
    np.testing.assert_allclose(found.numpy(), plain.predict_proba(passes), rtol=1e-9)


def test_some_images_at_a_time(scores, monkeypatch):
    fusion = made(PRIOR, KNOWN, STRENGTHS, class_axis=1)
    tensors = {n: torch.tensor(z) for n, z in scores.items()}
    whole, index = fusion.predict_proba(tensors), fusion.predict(tensors)
    arrays = {n: jnp.asarray(z) for n, z in scores.items()}
    at_once = fusion.predict_proba(arrays)
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 2 * 4 * 6)
    torch.testing.assert_close(fusion.predict_proba(tensors), whole)
    torch.testing.assert_close(fusion.predict(tensors), index)
    np.testing.assert_allclose(fusion.predict_proba(arrays), at_once, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("log", [False, True])
def test_gradients_flow(rule, log):
    fusion = made(PRIOR, KNOWN, STRENGTHS, rule=rule)
    rng = np.random.default_rng(1)
    tensors = [torch.tensor(2 * rng.standard_normal((3, 4)) + 2, requires_grad=True) for _ in KNOWN]
    use = fusion.predict_log_proba if log else fusion.predict_proba
    assert torch.autograd.gradcheck(lambda a, b: use({"rgb": a, "depth": b}), tensors)


def test_under_jit(scores):
    fusion = made(PRIOR, KNOWN, STRENGTHS, class_axis=1)
    traced = jax.jit(lambda a, b: fusion.predict_proba({"rgb": a, "depth": b}))
    found = traced(*map(jnp.asarray, scores.values()))
    np.testing.assert_allclose(found, fusion.predict_proba(scores), atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_axes_come_back_where_they_were(scores, axis):
    expected = np.moveaxis(
        made(PRIOR, KNOWN, STRENGTHS, class_axis=1).predict_proba(scores), 1, axis
    )
    moved = {name: np.moveaxis(z, 1, axis) for name, z in scores.items()}
    fusion = made(PRIOR, KNOWN, STRENGTHS, class_axis=axis)
    for library in (np.asarray, torch.tensor):
        found = fusion.predict_proba({name: library(z) for name, z in moved.items()})
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)
