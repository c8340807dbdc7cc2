"""The kernels of entropy and fusion against the array code and brute force, at every level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.fusions import ORDERS, RULES, fused_by_hand

from reprior import EntropyReference
from reprior.core import entropy, kernels, log_softmax
from reprior.fusion.fused import (
    NoPosteriorError,
    Recipe,
    References,
    array_fused,
    array_uncertainty,
    native_classes,
    native_fused,
    native_uncertainty,
)

CLASSES = [1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000]
KINDS = ("logits", "probs", "log_probs")
EPS = {"f2": 2.0**-11, "f4": 2.0**-24, "f8": 2.0**-53}
FORMS = ("posterior", "log")
LEVELS_SHARE_A_FIXTURE = [HealthCheck.function_scoped_fixture]


@pytest.fixture(autouse=True, params=kernels.native.levels())
def level(request):
    """Use every instruction set that this processor has."""
    before = kernels.native.level()
    kernels.native.set_level(request.param)
    yield request.param
    kernels.native.set_level(before)


@pytest.fixture
def rng():
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


def recipe_of(n_classes, *, n_modalities=2, slopes=None, kind="logits", passes=False, **options):
    return Recipe(
        names=tuple("abc"[:n_modalities]),
        references=(References(EntropyReference(1.0, 0.0)),) * n_modalities,
        slopes=np.linspace(-2, 2, n_classes) if slopes is None else np.asarray(slopes, float),
        rule=options.pop("rule", "noisy_or"),
        order=options.pop("order", "rebalance_first"),
        flatten_by="image",
        kind=kind,
        passes=passes,
    )


def softmax(z):
    """Over the classes of (…, K, pixels), in float64."""
    mass = np.exp(z - z.max(axis=-2, keepdims=True))
    return mass / mass.sum(axis=-2, keepdims=True)


def of_kind(z, kind, dtype):
    wide = softmax(z.astype(np.float64))
    with np.errstate(divide="ignore"):
        return {"logits": z, "probs": wide, "log_probs": np.log(wide)}[kind].astype(dtype)


def fused(recipe, parts, strengths, form="posterior", deltas=None, tolerance=1e-2, dtype=None):
    deltas = [None] * len(parts) if deltas is None else deltas
    shape, computed = parts[0].shape[-3:], np.result_type(np.float32, *parts)
    out = np.full(shape, np.nan, computed if dtype is None else dtype)
    native_fused(recipe, parts, (tolerance,) * len(parts), deltas, strengths, form, out)
    return out


def in_arrays(recipe, parts, strengths, form="posterior", deltas=None, tolerance=1e-2):
    """The array code, on the same numbers as float64."""
    deltas = [None] * len(parts) if deltas is None else deltas
    wide = [z.astype(np.float64) for z in parts]
    with np.errstate(all="ignore"):
        return array_fused(recipe, wide, (tolerance,) * len(parts), deltas, strengths, form)


def assert_near(found, expected, dtype, size=1.0):
    """Equal to some roundings of numbers of that size; −inf where −inf is expected."""
    computed = "f4" if dtype == "f2" else dtype
    gone = np.isneginf(expected)
    np.testing.assert_array_equal(np.isneginf(found), gone)
    np.testing.assert_allclose(
        found[~gone], expected[~gone], rtol=0, atol=40 * size * EPS[computed]
    )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("kind", KINDS)
def test_entropies_for_any_number_of_classes(rng, dtype, kind):
    for n_classes in CLASSES:
        z = of_kind(3 * rng.standard_normal((3, n_classes, 7)), kind, dtype)
        found = native_uncertainty(recipe_of(n_classes, kind=kind), 0, z, 1e-2)
        with np.errstate(divide="ignore"):
            wide = np.log(z.astype(float)) if kind == "probs" else z.astype(float)
        expected = entropy(log_softmax(wide, axis=1, xp=np), axis=1, xp=np)
        assert found.information is None
        assert_near(found.entropy, expected, dtype, size=10)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES)
def test_fusion_for_any_number_of_classes(rng, dtype, form, rule):
    for n_classes in CLASSES:
        parts = [(3 * rng.standard_normal((3, n_classes, 6))).astype(dtype) for _ in range(2)]
        deltas = [rng.uniform(0.2, 1.0, (3, 1)), None]
        recipe = recipe_of(n_classes, rule=rule)
        found = fused(recipe, parts, [0.4, 0.9], form, deltas)
        assert_near(found, in_arrays(recipe, parts, [0.4, 0.9], form, deltas), dtype, size=20)
        settings = [[0.4, 0.9], [0.0, 0.0], [0.4, 0.0]]
        classes = native_classes(recipe, parts, (0.0, 0.0), deltas, settings)
        for strengths, of_setting in zip(settings, classes, strict=True):
            p = fused(recipe, parts, strengths, "posterior", deltas, dtype=dtype)
            np.testing.assert_array_equal(of_setting, p.argmax(axis=1))


@settings(max_examples=60, suppress_health_check=LEVELS_SHARE_A_FIXTURE, deadline=None)
@given(st.data())
def test_equals_the_paper_in_float64(data):
    draw = data.draw
    n, n_classes, pixels = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 6)),
        draw(st.integers(1, 20)),
    )
    names = "abc"[: draw(st.integers(1, 3))]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scores = {m: 4 * rng.standard_normal((n, n_classes, pixels)) for m in names}
    strengths = {m: float(rng.uniform(-0.5, 2.0)) for m in names}
    rule, order = draw(st.sampled_from(RULES)), draw(st.sampled_from(ORDERS))
    by, slopes = draw(st.sampled_from(["image", "pixel"])), rng.standard_normal(n_classes)
    known = {m: (float(rng.uniform(0.05, 1)), float(rng.uniform(0, 0.2))) for m in names}
    recipe = recipe_of(n_classes, n_modalities=len(names), slopes=slopes, rule=rule, order=order)
    deltas = []
    for i, m in enumerate(names):
        unsure = native_uncertainty(recipe, i, scores[m], 0.0).entropy
        unsure = unsure if by == "pixel" else unsure.mean(axis=1, keepdims=True)
        mean, std = known[m]
        deltas.append(mean / (mean + np.maximum(0, unsure - mean - std)))
    expected = fused_by_hand(
        scores, slopes=slopes, strengths=strengths, references=known, rule=rule, order=order, by=by
    )
    parts = list(scores.values())
    found = fused(recipe, parts, list(strengths.values()), "posterior", deltas)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    log = fused(recipe, parts, list(strengths.values()), "log", deltas)
    np.testing.assert_allclose(np.exp(log), expected, rtol=1e-9)


def everything(parts, recipe, deltas):
    """What every kernel finds."""
    found = [native_uncertainty(recipe, m, z, 1e-2).entropy for m, z in enumerate(parts)]
    found += [fused(recipe, parts, [0.3, 0.8], form, deltas) for form in FORMS]
    return [*found, native_classes(recipe, parts, (1e-2, 1e-2), deltas, [[0.3, 0.8], [1.0, 0.0]])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("rule", RULES)
def test_every_level_gives_the_same_bits(rng, kind, dtype, rule, level):
    parts = [of_kind(5 * rng.standard_normal((4, 19, 37)), kind, dtype) for _ in range(2)]
    deltas = [rng.uniform(0.1, 1.0, (4, 37))] * 2
    recipe = recipe_of(19, kind=kind, rule=rule)
    found = everything(parts, recipe, deltas)
    kernels.native.set_level("baseline")
    for here, there in zip(found, everything(parts, recipe, deltas), strict=True):
        np.testing.assert_array_equal(here, there)


def layouts(z):
    """The same numbers in other places."""
    yield np.asfortranarray(z)
    yield np.moveaxis(np.ascontiguousarray(np.moveaxis(z, 1, -1)), -1, 1)
    yield np.moveaxis(np.ascontiguousarray(np.moveaxis(z, 1, 0)), 0, 1)
    yield np.repeat(z, 2, axis=2)[:, :, ::2]
    yield np.ascontiguousarray(z[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    raw = np.empty(z.nbytes + 1, np.uint8)[1:].view(z.dtype).reshape(z.shape)  # misaligned
    raw[...] = z
    yield raw
    fixed = z.copy()
    fixed.flags.writeable = False
    yield fixed


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(3, 5, 40), (1, 3, 1), (33, 4, 1), (2, 130, 17)])
def test_any_layout_gives_the_same_bits(rng, dtype, shape):
    parts = [rng.standard_normal(shape).astype(dtype) for _ in range(2)]
    deltas = [rng.uniform(0.1, 1.0, (shape[0], 1)), None]
    recipe = recipe_of(shape[1])
    expected = everything(parts, recipe, deltas)
    for first, second in zip(*map(layouts, parts), strict=True):
        for found, known in zip(everything([first, second], recipe, deltas), expected, strict=True):
            np.testing.assert_array_equal(found, known)
    for place in layouts(np.zeros(shape, np.result_type(dtype, "f4"))):
        if place.flags.writeable and place.flags.aligned:
            native_fused(recipe, parts, (0.0, 0.0), deltas, [0.3, 0.8], "posterior", place)
            np.testing.assert_array_equal(place, expected[2])


def test_modalities_of_several_dtypes_are_computed_in_the_widest(rng):
    z = rng.standard_normal((2, 3, 5))
    parts = [z.astype("f2"), z.astype("f4"), z]
    recipe = recipe_of(3, n_modalities=3)
    found = fused(recipe, parts, [0.5] * 3)
    assert found.dtype == np.float64
    assert_near(found, in_arrays(recipe, parts, [0.5] * 3), "f8")


def test_half_precision_decides_what_its_posterior_shows(rng):
    parts = [np.round(rng.standard_normal((1, 300, 900)) * 0.01, 2).astype("f2") for _ in range(2)]
    recipe = recipe_of(300, slopes=np.zeros(300))
    p = fused(recipe, parts, [0.0, 0.0], dtype="f2")
    found = native_classes(recipe, parts, (0.0, 0.0), [None, None], [[0.0, 0.0]])
    np.testing.assert_array_equal(found[0], p.argmax(axis=1))
    assert (p == p.max(axis=1, keepdims=True)).sum(axis=1).max() > 1  # there are ties


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["logits", "probs"])
@pytest.mark.parametrize("rule", RULES)
def test_impossible_classes(rng, dtype, kind, rule):
    z = 3 * rng.standard_normal((2, 4, 6, 9))
    z[:, :, 1:3][rng.random((2, 4, 2, 9)) < 0.5] = -np.inf
    z[:, :, 5] = -np.inf
    parts, slopes = [of_kind(part, kind, dtype) for part in z], [0.5, 1.0, 0.0, -np.inf, 0.2, 0.0]
    recipe = recipe_of(6, kind=kind, rule=rule, slopes=slopes)
    deltas = [rng.uniform(0.3, 1, (4, 1))] * 2
    for form in FORMS:
        found = fused(recipe, parts, [0.7, 0.2], form, deltas)
        expected = in_arrays(recipe, parts, [0.7, 0.2], form, deltas)
        assert_near(found, expected, dtype, size=20)
        assert (found[:, [3, 5]] == (0 if form == "posterior" else -np.inf)).all()
    with_all = fused(recipe, parts, [0.0, 0.0])  # a strength of 0 rules no class out
    assert (with_all[:, 3] > 0).all()
    unsure = native_uncertainty(recipe, 0, parts[0], 1e-2).entropy
    p = softmax(z[0])
    logs = np.log(np.where(p > 0, p, 1.0))
    assert_near(unsure, -(p * logs).sum(axis=1), dtype, size=20)


@pytest.mark.parametrize("rule", ["noisy_or", "mean"])
def test_log_posteriors_are_exact_where_probabilities_underflow(rule):
    z = np.array([-2000.0, 0.0]).reshape(1, 2, 1)
    found = fused(recipe_of(2, rule=rule), [z, z - [[[1.0], [0.0]]]], [0.0, 0.0], "log")
    both = np.logaddexp(-2000.0, -2001.0)
    assert found[0, 0, 0] == pytest.approx(both - np.log(2) * (rule == "mean"), rel=1e-12)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_denormal_probabilities_and_scores(dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    p = np.array([[tiny, 3 * tiny, 0.5, 0.5, 0.0]], dtype).reshape(1, 5, 1)
    recipe = recipe_of(5, kind="probs", slopes=np.zeros(5))
    found = fused(recipe, [p, p], [0.0, 0.0], "log")
    assert_near(found, in_arrays(recipe, [p, p], [0.0, 0.0], "log"), dtype, size=1000)
    z = np.array([[tiny, -tiny, 0.0]], dtype).reshape(1, 3, 1)
    np.testing.assert_allclose(
        fused(recipe_of(3, slopes=np.zeros(3)), [z, z], [0, 0]), 1 / 3, rtol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n_passes", [1, 2, 5])
def test_passes(rng, kind, dtype, n_passes):
    z = 2 * rng.standard_normal((2, n_passes, 3, 4, 21))
    z[0, :, :, 3] -= 300.0  # below what float32 can hold
    z[1, 0, :, 2] = -np.inf
    parts = [of_kind(part, kind, dtype) for part in z]
    recipe = recipe_of(4, kind=kind, passes=True)
    for m, part in enumerate(parts):
        found = native_uncertainty(recipe, m, part, 1e-2)
        with np.errstate(all="ignore"):
            expected = array_uncertainty(recipe, m, part.astype(float), 1e-2)
        assert_near(found.entropy, expected.entropy, dtype, size=20)
        assert_near(found.information, expected.information, dtype, size=20)
        assert (found.information >= 0).all()
    found = fused(recipe, parts, [0.4, 0.6], "log")
    assert_near(found, in_arrays(recipe, parts, [0.4, 0.6], "log"), dtype, size=2000)


@pytest.mark.parametrize("place", [0, 15, 16, 40])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_bad_scores_name_their_modality(rng, place, bad, kind):
    parts = [of_kind(rng.standard_normal((1, 3, 41)), kind, "f4") for _ in range(2)]
    parts[1][0, 2, place] = bad
    recipe = recipe_of(3, kind=kind)
    for work in (
        lambda: native_uncertainty(recipe, 1, parts[1], 1e-3),
        lambda: fused(recipe, parts, [0.0, 0.0]),
        lambda: native_classes(recipe, parts, (1e-3, 1e-3), [None, None], [[0.0, 0.0]]),
    ):
        with pytest.raises(NoPosteriorError) as caught:
            work()
        assert caught.value.modality == 1


@pytest.mark.parametrize("kind, row", [("probs", [0.5, 0.6, 0.2]), ("probs", [-0.5, 1.0, 0.5]),
                                       ("log_probs", [0.0, 0.0, -1.0]), ("log_probs", [90.0, 0, 0]),
                                       ("logits", [-np.inf] * 3)])  # fmt: skip
def test_rows_that_have_no_posterior(kind, row):
    z = np.array(row).reshape(1, 3, 1)
    with pytest.raises(NoPosteriorError) as caught:
        native_uncertainty(recipe_of(3, kind=kind), 0, z, 1e-3)
    assert caught.value.modality == 0


def test_nothing_in_common():
    eye = np.eye(4)
    recipe = recipe_of(4, kind="probs", rule="product")
    with pytest.raises(NoPosteriorError) as caught:
        fused(recipe, [eye[:1, :, None], eye[1:2, :, None]], [0.0, 0.0])
    assert caught.value.modality is None


def test_scores_of_the_product_are_the_sum_of_lines(rng):
    parts = [rng.standard_normal((2, 5, 7)) for _ in range(2)]
    deltas = [rng.uniform(0.2, 1, (2, 7)) for _ in range(2)]
    found = fused(recipe_of(5, rule="product"), parts, [0.0, 0.0], "scores", deltas)
    expected = sum(z * d[:, None] for z, d in zip(parts, deltas, strict=True))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0)])
def test_no_samples(shape):
    z = np.empty(shape, np.float32)
    assert native_uncertainty(recipe_of(3), 0, z, 0.0).entropy.size == 0
    assert fused(recipe_of(3), [z, z], [0.0, 0.0]).shape == shape
    assert native_classes(recipe_of(3), [z, z], (0, 0), [None, None], [[0, 0]]).size == 0


def test_sizes_are_checked_at_the_border(rng):
    z, slopes, two = np.zeros((1, 2, 5, 3), np.float32), np.zeros(3), np.zeros(2)
    out, classes = np.zeros((2, 5, 3), np.float32), np.zeros((1, 10), np.int64)
    good = {
        "scores": [z, z], "kind": "logits", "tolerances": two, "factors": None, "slopes": slopes,
        "strengths": two, "rule": "mean", "flatten_first": False, "form": "posterior", "out": out,
    }  # fmt: skip
    assert kernels.native.fuse(**good) == -1
    for name, value in {
        "scores": [z, z[:, :1]], "kind": "odds", "tolerances": np.zeros(1), "rule": "or",
        "factors": np.ones((2, 2, 4)), "slopes": np.zeros(4), "strengths": np.zeros(3),
        "form": "scores", "out": np.zeros((2, 5, 4), np.float32),
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match="must"):
            kernels.native.fuse(**{**good, name: value})
    for name, value in {"scores": [z.astype(int)] * 2, "out": np.zeros((2, 5, 3), int)}.items():
        with pytest.raises(TypeError):
            kernels.native.fuse(**{**good, name: value})
    with pytest.raises(ValueError, match="must"):
        kernels.native.fuse(**{**good, "scores": [], "tolerances": np.zeros(0)})
    with pytest.raises(ValueError, match="must"):
        kernels.native.fuse(**{**good, "out": np.zeros((2, 5, 3))})
    rest = {name: v for name, v in good.items() if name not in ("form", "out")}
    rest["strengths"] = np.zeros((1, 2))
    assert kernels.native.fused_classes(**rest, classes=classes) == -1
    for bad in (np.zeros((2, 10), np.int64), np.zeros((1, 9), np.int64)):
        with pytest.raises(ValueError, match="must"):
            kernels.native.fused_classes(**rest, classes=bad)
    for bad in (np.zeros((3, 10)), np.zeros((1, 9))):
        with pytest.raises(ValueError, match="must"):
            kernels.native.entropies(z, "logits", 0.0, bad)
    with pytest.raises(ValueError, match="must"):
        kernels.native.entropies(z[:0], "logits", 0.0, np.zeros((1, 10)))


@pytest.mark.parametrize("shape", [(3, 40, 20_000), (4000, 40, 9)], ids=["long", "many"])
@pytest.mark.parametrize("by", ["image", "pixel"])
def test_pieces_between_pauses_change_no_bit(rng, shape, by, level):
    """Many samples are computed in pieces, so that Ctrl-C is answered: images, or parts of one."""
    if level != kernels.native.levels()[-1]:
        pytest.skip("pieces are cut in the same way at every level")
    n_images, n_classes, n_pixels = shape
    parts = [rng.standard_normal(shape).astype("f4") for _ in range(2)]
    deltas = [rng.uniform(0.1, 1.0, (n_images, n_pixels if by == "pixel" else 1))] * 2
    recipe = recipe_of(n_classes)
    whole = everything(parts, recipe, deltas)
    images = np.array_split(np.arange(n_images), 3 if n_images < 10 else 11)
    for pixels in np.array_split(np.arange(n_pixels), 2):
        for some in images:
            few = [part[some][:, :, pixels] for part in parts]
            of_few = [delta[some][:, pixels] if by == "pixel" else delta[some] for delta in deltas]
            for result, expected in zip(everything(few, recipe, of_few), whole, strict=True):
                axis = 1 if result.ndim == 3 and result.shape[0] == 2 else 0
                picked = np.take(np.take(expected, some, axis=axis), pixels, axis=-1)
                np.testing.assert_array_equal(result, picked)


@pytest.mark.parametrize("n_passes", [1, 3])
def test_entropies_of_many_samples_are_those_of_few(rng, n_passes):
    z = rng.standard_normal((n_passes, 1, 50, 30_000)).astype("f4")
    recipe = recipe_of(50, passes=True)
    whole = native_uncertainty(recipe, 0, z, 0.0)
    for pixels in np.array_split(np.arange(30_000), 3):
        part = native_uncertainty(recipe, 0, z[..., pixels], 0.0)
        np.testing.assert_array_equal(part.entropy, whole.entropy[:, pixels])
        np.testing.assert_array_equal(part.information, whole.information[:, pixels])
