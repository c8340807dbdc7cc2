from __future__ import annotations

import itertools

import array_api_strict
import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import (
    BACKENDS,
    EPS,
    EXACT,
    OPERATIONS,
    library_of,
    priors,
    problems,
)

from reprior import (
    OptionError,
    PriorError,
    RepriorError,
    RepriorWarning,
    ScoresError,
    log_rebalance,
    odds_ratio,
    rebalance,
)
from reprior.core import to_numpy

STRENGTHS = st.floats(-1.0, 3.0)

CHAINED = 1e-10
"""Absolute, on log-posteriors of at most 100: two or three calls, each rounding at 1e-14."""


# ------------------------------------------------------------------------------- identities


@given(problems(), STRENGTHS, STRENGTHS)
def test_strengths_add(problem, a, b):
    z, source, target = problem
    first = log_rebalance(z, source, target_prior=target, strength=a)
    twice = log_rebalance(first, source, target_prior=target, strength=b, kind="log_probs")
    once = log_rebalance(z, source, target_prior=target, strength=a + b)
    np.testing.assert_allclose(twice, once, rtol=0, atol=CHAINED)


@given(problems(), STRENGTHS)
def test_swapping_the_priors_inverts(problem, strength):
    z, source, target = problem
    there = log_rebalance(z, source, target_prior=target, strength=strength)
    back = log_rebalance(there, target, target_prior=source, strength=strength, kind="log_probs")
    np.testing.assert_allclose(back, scipy.special.log_softmax(z, axis=-1), rtol=0, atol=CHAINED)


@given(problems())
def test_strength_zero_is_the_models_posterior(problem):
    z, source, target = problem
    target = target * np.r_[0, np.ones(target.size - 1)]  # 0·(−inf) counts as 0
    found = rebalance(z, source, target_prior=target / target.sum(), strength=0)
    np.testing.assert_allclose(found, scipy.special.softmax(z, axis=-1), rtol=EXACT)


@given(problems())
def test_equal_priors_change_nothing(problem):
    z, source, _ = problem
    found = rebalance(z, source, target_prior=source, strength=1.7)
    np.testing.assert_allclose(found, scipy.special.softmax(z, axis=-1), rtol=EXACT)


@given(problems(), STRENGTHS, st.randoms(use_true_random=False))
def test_permuting_the_classes_commutes(problem, strength, random):
    z, source, target = problem
    order = list(range(source.size))
    random.shuffle(order)
    after = log_rebalance(z, source, target_prior=target, strength=strength)[:, order]
    before = log_rebalance(
        z[:, order], source[order], target_prior=target[order], strength=strength
    )
    np.testing.assert_allclose(after, before, rtol=0, atol=CHAINED)


@given(problems(), st.floats(0, 3))
def test_a_uniform_target_is_post_hoc_logit_adjustment(problem, strength):
    """Menon et al. 2021: f(x) − τ·log π with τ = λ."""
    z, source, _ = problem
    adjusted = scipy.special.log_softmax(z - strength * np.log(source), axis=-1)
    found = log_rebalance(z, source, strength=strength)
    np.testing.assert_allclose(found, adjusted, rtol=0, atol=CHAINED)


@given(problems(), STRENGTHS, st.floats(0.2, 5))
def test_the_posterior_is_a_distribution_and_the_exponential_of_its_logarithm(problem, a, t):
    z, source, target = problem
    options = {"target_prior": target, "strength": a, "temperature": t}
    posterior = rebalance(z, source, **options)
    np.testing.assert_allclose(posterior.sum(axis=-1), 1.0, rtol=EXACT)
    np.testing.assert_allclose(
        np.log(posterior + 1e-300), log_rebalance(z, source, **options), rtol=0, atol=CHAINED
    )


@given(problems(), STRENGTHS)
def test_kinds_agree(problem, strength):
    z, source, target = problem
    log_p = scipy.special.log_softmax(z, axis=-1)
    options = {"target_prior": target, "strength": strength}
    expected = log_rebalance(z, source, **options)
    for scores, kind in ((log_p, "log_probs"), (np.exp(log_p), "probs")):
        found = log_rebalance(scores, source, kind=kind, **options)
        np.testing.assert_allclose(found, expected, rtol=0, atol=CHAINED)


@given(problems(), st.floats(0.2, 5))
def test_temperature_divides_the_scores_not_the_shift(problem, temperature):
    z, source, _ = problem
    np.testing.assert_allclose(
        log_rebalance(z, source, temperature=temperature),
        log_rebalance(z / temperature, source),
        rtol=0,
        atol=CHAINED,
    )


# ---------------------------------------------------------------------------------- oracles


def paper_posterior(z, source, target, strength):
    """Eqs. 5 and 7, transcribed, in probability space."""
    p_d = scipy.special.softmax(z, axis=-1)
    p_r = p_d * target / source
    p_f = p_d ** (1 - strength) * p_r**strength
    return p_f / p_f.sum(axis=-1, keepdims=True)


@given(problems(size=10.0), STRENGTHS)
def test_the_papers_two_steps(problem, strength):
    z, source, target = problem
    np.testing.assert_allclose(
        rebalance(z, source, target_prior=target, strength=strength),
        paper_posterior(z, source, target, strength),
        rtol=1e-9,  # powers of probabilities as small as 1e-9
    )


KL_TOLERANCE = 2e-4
"""On probabilities: a minimiser stops where the objective, flat at its minimum, no longer
falls by 1e-12 or so; the square root of that is the distance."""


@pytest.mark.parametrize("strength", [0.0, 0.3, 1.0, 1.6, 2.5])
def test_the_closed_form_minimises_the_papers_objective(strength, rng):
    """Eq. 6: (1−λ)·KL(P_f, P_d) + λ·KL(P_f, P_r), minimised numerically over the simplex."""
    for _ in range(2):
        z, source = rng.normal(size=4), rng.dirichlet(np.full(4, 2.0))
        target = rng.dirichlet(np.full(4, 2.0))
        p_d = scipy.special.softmax(z)
        p_r = p_d * target / source
        p_r /= p_r.sum()

        def objective(free, p_d=p_d, p_r=p_r):
            p = scipy.special.softmax(np.append(free, 0.0))
            d, r = scipy.stats.entropy(p, p_d), scipy.stats.entropy(p, p_r)
            return (1 - strength) * d + strength * r

        best = scipy.optimize.minimize(objective, np.zeros(3), method="BFGS", tol=1e-9)
        minimiser = scipy.special.softmax(np.append(best.x, 0.0))
        found = rebalance(z, source, target_prior=target, strength=strength)
        np.testing.assert_allclose(found, minimiser, atol=KL_TOLERANCE)
        at = found[:-1] / found[-1]
        assert objective(np.log(at)) <= best.fun + 1e-12


def test_theorem_1_full_strength_reaches_the_bayes_risk_of_the_target(rng):
    """Known Gaussians, a perfect source posterior, another class mix in the test."""
    means, source, target = np.array([-1.0, 0.0, 1.5]), [0.9, 0.08, 0.02], [0.2, 0.3, 0.5]
    y = rng.choice(3, p=target, size=20_000)
    x = rng.normal(means[y])
    log_f = scipy.stats.norm.logpdf(x[:, None], means)
    log_source_posterior = scipy.special.log_softmax(log_f + np.log(source), axis=-1)
    bayes = (log_f + np.log(target)).argmax(axis=-1)

    def decisions(strength):
        return rebalance(
            log_source_posterior, source, target_prior=target, strength=strength, kind="log_probs"
        ).argmax(axis=-1)

    np.testing.assert_array_equal(decisions(1.0), bayes)
    risks = {a: (decisions(a) != y).mean() for a in (0.0, 0.5, 1.0, 1.5, 2.0)}
    assert min(risks, key=risks.__getitem__) == 1.0
    assert risks[0.0] > risks[1.0] + 0.1
    # The Bayes risk itself, by quadrature over x.
    grid = np.linspace(-12, 14, 20_001)
    joint = scipy.stats.norm.pdf(grid[:, None], means) * target
    risk = 1 - scipy.integrate.trapezoid(joint.max(axis=-1), grid)
    assert abs(risks[1.0] - risk) < 4 * np.sqrt(risk * (1 - risk) / y.size)  # four std. errors


def test_scipy_log_softmax_is_strength_zero(rng):
    z = rng.normal(size=(300, 40)) * 30
    np.testing.assert_allclose(
        log_rebalance(z, np.full(40, 1 / 40)), scipy.special.log_softmax(z, axis=-1), atol=EXACT
    )


def test_rare_classes_survive_half_precision():
    """In probability space a class of prior 1e-6 comes out 0 in float16."""
    source = np.array([1 - 1e-6, 1e-6])
    z = np.array([[12.0, 0.0]], dtype=np.float16)
    assert rebalance(z, source)[0, 1] == np.float16(scipy.special.expit(np.log(1e6) - 12))


# ------------------------------------------------------------------------------------ zeros


def test_a_class_of_target_prior_zero_is_exactly_impossible():
    z = np.array([[5.0, 1.0, 2.0]])
    target = [0.0, 0.5, 0.5]
    for strength in (1e-9, 1.0, 2.0):
        posterior = rebalance(z, [0.2, 0.3, 0.5], target_prior=target, strength=strength)
        assert posterior[0, 0] == 0.0
        assert posterior.sum() == pytest.approx(1.0)
    log_posterior = log_rebalance(z, [0.2, 0.3, 0.5], target_prior=target)
    assert log_posterior[0, 0] == -np.inf


@pytest.mark.parametrize("kind, impossible", [("probs", 0.0), ("log_probs", -np.inf)])
def test_a_class_of_probability_zero_stays_at_zero(kind, impossible):
    p = np.array([[0.0, 0.25, 0.75]])
    scores = p.copy() if kind == "probs" else np.log(p, where=p > 0, out=np.full_like(p, -np.inf))
    assert scores[0, 0] == impossible
    for strength in (-1.0, 0.0, 3.0):
        assert rebalance(scores, [0.01, 0.5, 0.49], kind=kind, strength=strength)[0, 0] == 0.0


def test_minus_infinity_among_logits_is_a_masked_class():
    posterior = rebalance(np.array([[0.0, -np.inf, 0.0]]), [0.25, 0.5, 0.25])
    np.testing.assert_allclose(posterior, [[0.5, 0.0, 0.5]])


def test_huge_and_tiny_scores():
    z = np.array([[3e38, -3e38], [-3e38, 3e38]], dtype=np.float32)
    np.testing.assert_array_equal(rebalance(z, [0.9, 0.1]), np.eye(2))


# ----------------------------------------------------------------------------------- parity

AXES = [((40, 5), -1), ((40, 30), 1), ((5, 40), 0), ((2, 5, 6, 7), 1), ((6, 7, 5), -1), ((5,), 0)]

# JAX compiles every shape, which is slow: its 16-bit types are tested on the first only.
CASES = [
    (backend, shape, axis)
    for backend, (shape, axis) in itertools.product(BACKENDS, AXES)
    if backend.library != "jax" or backend.dtype == "float32" or shape == AXES[0][0]
]


@pytest.mark.parametrize("backend, shape, axis", CASES, ids=str)
@pytest.mark.parametrize("log", [True, False], ids=["log", "posterior"])
def test_every_library_dtype_and_axis_agrees_with_float64(backend, shape, axis, log, rng):
    source = rng.dirichlet(np.full(shape[axis], 2.0))
    scores = backend.make(rng.normal(size=shape) * 2)
    function = log_rebalance if log else rebalance
    options = {"strength": 1.4, "temperature": 0.8, "class_axis": axis}
    found = function(scores, source, **options)
    assert library_of(found) == backend.library
    assert found.dtype == scores.dtype
    assert found.shape == scores.shape
    wide = function(to_numpy(scores).astype(np.float64), source, **options)
    compute = "float64" if backend.dtype == "float64" else "float32"
    scale = np.abs(wide).max() if log else 1.0
    tolerance = OPERATIONS * 8 * EPS[compute] + EPS[backend.dtype] * scale
    np.testing.assert_allclose(to_numpy(found).astype(np.float64), wide, rtol=0, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_every_library_takes_every_kind(backend, kind, rng):
    source = rng.dirichlet(np.full(5, 2.0))
    log_p = scipy.special.log_softmax(rng.normal(size=(20, 5)), axis=-1)
    scores = backend.make(np.exp(log_p) if kind == "probs" else log_p)
    found = rebalance(scores, source, kind=kind)
    assert found.dtype == scores.dtype
    wide = to_numpy(scores).astype(np.float64)
    expected = rebalance(wide if kind == "log_probs" else np.log(wide), source)
    compute = "float64" if backend.dtype == "float64" else "float32"
    tolerance = OPERATIONS * EPS[compute] + EPS[backend.dtype]
    np.testing.assert_allclose(to_numpy(found).astype(np.float64), expected, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16])
def test_integers_become_float64(dtype):
    found = rebalance(np.array([[3, 2, 4]], dtype=dtype), [0.2, 0.3, 0.5])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, rebalance(np.array([[3.0, 2.0, 4.0]]), [0.2, 0.3, 0.5]))
    assert rebalance(torch.tensor([[3, 2]]), [0.5, 0.5]).dtype == torch.float64
    assert rebalance(jnp.asarray([[3, 2]]), [0.5, 0.5]).dtype == jnp.float32


@pytest.mark.parametrize("dtype", [np.longdouble, jnp.bfloat16, np.int64, ">f4"], ids=str)
def test_unusual_numpy_dtypes_take_every_path(dtype):
    """Rows long enough not to be turned, and probabilities, whose sums are checked."""
    one_hot = np.eye(30).astype(dtype)
    np.testing.assert_array_equal(
        rebalance(one_hot, np.full(30, 1 / 30), kind="probs").astype(float), np.eye(30)
    )


def test_a_log_posterior_out_of_reach_of_float16_is_minus_infinity():
    z = np.array([-60000.0], dtype=np.float16)
    assert log_rebalance(z, [0.5, 0.5], temperature=0.5)[0] == -np.inf
    pair = np.array([[0.0, -60000.0]], dtype=np.float16)
    assert log_rebalance(pair, [0.5, 0.5], temperature=0.5)[0, 1] == -np.inf


def test_lists_and_wide_floats():
    assert rebalance([[2.0, 3.0]], [0.5, 0.5]).dtype == np.float64
    wide = rebalance(np.array([[2.0, 3.0]], dtype=np.longdouble), [0.5, 0.5])
    assert wide.dtype == np.longdouble


def test_jax_in_float64(rng):
    z = rng.normal(size=(5, 4))
    with jax.enable_x64(True):
        found = log_rebalance(jnp.asarray(z), np.full(4, 0.25))
        assert found.dtype == jnp.float64
        np.testing.assert_allclose(
            np.asarray(found), log_rebalance(z, np.full(4, 0.25)), rtol=EXACT
        )


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_jax_jit_and_grad(kind, rng):
    log_p = scipy.special.log_softmax(rng.normal(size=(5, 4)), axis=-1).astype(np.float32)
    scores = jnp.asarray(np.exp(log_p) if kind == "probs" else log_p)
    source = np.array([0.4, 0.3, 0.2, 0.1])

    def value(s):
        return log_rebalance(s, source, strength=1.5, temperature=2.0, kind=kind)

    np.testing.assert_allclose(
        np.asarray(jax.jit(value)(scores)), np.asarray(value(scores)), atol=8 * EPS["float32"]
    )
    gradient = jax.grad(lambda s: value(s)[:, 0].sum())(scores)
    assert np.isfinite(np.asarray(gradient)).all()


def test_dask_stays_lazy(rng):
    z = rng.normal(size=(12, 3))
    lazy = log_rebalance(da.from_array(z, chunks=(4, 3)), [0.5, 0.3, 0.2])
    assert isinstance(lazy, da.Array)
    np.testing.assert_allclose(lazy.compute(), log_rebalance(z, [0.5, 0.3, 0.2]), atol=EXACT)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("shape, axis", [((1, 5), 0), ((1, 5, 2), -3), ((5, 1, 2), 1)], ids=str)
def test_one_score_of_two_classes_on_any_axis(kind, shape, axis, rng):
    positive = rng.uniform(0.05, 0.95, shape)
    scores = {
        "logits": scipy.special.logit(positive), "probs": positive, "log_probs": np.log(positive)
    }[kind]  # fmt: skip
    options = {"kind": kind, "strength": 0.7, "temperature": 1.3}
    found = rebalance(scores, [0.8, 0.2], class_axis=axis, **options)
    assert found.shape == shape
    wanted = rebalance(scores.reshape(-1), [0.8, 0.2], **options)
    np.testing.assert_array_equal(found.reshape(-1), wanted)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("shape, axis", [((3, 4), -1), ((2, 4, 3), 1)], ids=str)
def test_torch_gradients_are_exact(kind, shape, axis, rng):
    log_p = scipy.special.log_softmax(rng.normal(size=shape), axis=axis)
    scores = torch.tensor(np.exp(log_p) if kind == "probs" else log_p, requires_grad=True)
    options = {"kind": kind, "class_axis": axis, "strength": 1.3, "temperature": 0.7}
    source = [0.4, 0.3, 0.2, 0.1]
    # Steps of 1e-6 keep the rows of probabilities within 1e-3 of 1.
    assert torch.autograd.gradcheck(lambda s: log_rebalance(s, source, **options), scores)
    assert torch.autograd.gradcheck(lambda s: rebalance(s, source, **options), scores)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_torch_gradients_of_single_scores_are_exact(kind, rng):
    z = rng.normal(size=4)
    p = scipy.special.expit(z)
    values = {"logits": z, "probs": p, "log_probs": np.log(p)}[kind]
    scores = torch.tensor(values, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: log_rebalance(s, [0.8, 0.2], kind=kind), scores)


def test_torch_gradients_survive_an_impossible_class():
    scores = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    rebalance(scores, [0.2, 0.3, 0.5], target_prior=[0, 0.5, 0.5])[0, 1].backward()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize("make", [np.array, torch.tensor, jnp.asarray, array_api_strict.asarray])
def test_nothing_is_mutated(make):
    for values, kind in itertools.product(([[0.25, 0.75]],), ("logits", "probs")):
        scores, source, target = make(values), np.array([0.9, 0.1]), np.array([0.4, 0.6])
        if kind == "logits":
            scores = make([[3.0, 2.0]])
        before = to_numpy(scores).copy()
        found = rebalance(scores, source, target_prior=target, kind=kind, temperature=2.0)
        np.testing.assert_array_equal(to_numpy(scores), before)
        assert not np.shares_memory(to_numpy(found), to_numpy(scores))
        np.testing.assert_array_equal(source, [0.9, 0.1])
        np.testing.assert_array_equal(target, [0.4, 0.6])


def test_priors_may_come_from_any_library():
    z = np.array([[2.0, 3.0]])
    expected = rebalance(z, [0.25, 0.75])
    for prior in (torch.tensor([0.25, 0.75]), jnp.asarray([0.25, 0.75]), (0.25, 0.75)):
        np.testing.assert_allclose(rebalance(z, prior), expected)


# ------------------------------------------------------------------------------- odds_ratio


@given(problems(size=10.0), STRENGTHS)
def test_the_odds_ratio_is_that_of_the_posterior(problem, strength):
    """Eq. 8."""
    z, source, target = problem
    before = scipy.special.softmax(z, axis=-1)
    after = rebalance(z, source, target_prior=target, strength=strength)
    odds = odds_ratio(
        before[:, 0] / before[:, 1],
        source[1] / source[0],
        target[0] / target[1],
        strength=strength,
    )
    np.testing.assert_allclose(odds, after[:, 0] / after[:, 1], rtol=1e-9)


@given(st.floats(1.5, 1e4), st.floats(0.05, 0.95), st.floats(1.05, 3))
def test_below_one_the_ratio_is_damped_and_above_one_amplified(ratio, below, above):
    """The paper's figure: sub-linear in the prior ratio for λ < 1, super-linear for λ > 1."""
    assert odds_ratio(1.0, ratio, strength=below) < ratio < odds_ratio(1.0, ratio, strength=above)

    def growth(strength):
        return odds_ratio(1.0, 2 * ratio, strength=strength) / odds_ratio(
            1.0, ratio, strength=strength
        )

    assert growth(below) < 2 < growth(above)
    assert growth(1.0) == pytest.approx(2)
    assert odds_ratio(1.0, 1 / ratio, strength=above) < 1 / ratio  # and mirrored for large classes


@pytest.mark.parametrize("number", [-1.0, 0.0, np.nan, np.inf, "2", None, 1j], ids=str)
@pytest.mark.parametrize("name", ["source_ratio", "target_ratio"])
def test_ratios_that_no_priors_have_are_refused(name, number):
    with pytest.raises(OptionError, match=f"`{name}` must be finite and above 0. Got {name}="):
        odds_ratio(0.5, **{"source_ratio": 1.0, name: number}, strength=0.5)


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, jnp.asarray])
def test_odds_and_ratios_in_arrays_are_checked(make):
    good = make([0.5, 4.0])
    np.testing.assert_allclose(to_numpy(odds_ratio(good, good, good, strength=0.5)), [0.25, 16.0])
    with pytest.raises(OptionError, match=r"above 0. Got source_ratio\[1\]=-1"):
        odds_ratio(good, make([1.0, -1.0]), strength=0.5)
    with pytest.raises(OptionError, match=r"`odds` must be at least 0. Got odds\[0\]=-0.5"):
        odds_ratio(make([-0.5, 1.0]), good, strength=0.5)


def test_odds_may_be_none_or_certain_but_not_nan():
    assert odds_ratio(0.0, 4, strength=0.5) == 0
    assert odds_ratio(np.inf, 4, strength=0.5) == np.inf
    with pytest.raises(OptionError, match=r"`odds` must be at least 0\. Got odds=nan"):
        odds_ratio(np.nan, 4, strength=0.5)
    assert jax.jit(lambda x: odds_ratio(x, x, strength=0.5))(4.0) == 8


# ------------------------------------------------------------------------------------ words

Z = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
P = [0.5, 0.3, 0.2]

WORDS = {
    "kind": (
        lambda: rebalance(Z, P, kind="prob"),
        OptionError,
        "`kind` must be one of 'logits', 'probs', 'log_probs'. Got 'prob'. Did you mean 'probs'?",
    ),
    "prior too short": (
        lambda: rebalance(Z, [0.5, 0.5]),
        ScoresError,
        "`scores` must have one entry per class on the class axis. Got 3 on axis -1 of shape "
        "(2, 3), and 2 classes in the prior. Pass class_axis=0.",
    ),
    "target too short": (
        lambda: rebalance(Z, P, target_prior=[0.5, 0.5]),
        PriorError,
        "`target_prior` must have one value per class. Got 2 values for 3 classes.",
    ),
    "counts as prior": (
        lambda: rebalance(Z, [50, 30, 20]),
        PriorError,
        "These look like counts. Pass prior_from_counts(source_prior).",
    ),
    "zero in the source": (
        lambda: rebalance(Z, [0.5, 0.5, 0.0]),
        PriorError,
        "Got source_prior[2]=0. Drop the class, or pass smoothing=1",
    ),
    "target name": (
        lambda: rebalance(Z, P, target_prior="unform"),
        OptionError,
        "Did you mean 'uniform'?",
    ),
    "named prior": (
        lambda: rebalance(Z, {"a": 0.5, "b": 0.3, "c": 0.2}),
        PriorError,
        "Pass a list of values",
    ),
    "strength": (
        lambda: rebalance(Z, P, strength=np.nan),
        OptionError,
        "`strength` must be a finite number. Got nan.",
    ),
    "temperature": (
        lambda: rebalance(Z, P, temperature=0),
        OptionError,
        "`temperature` must be a finite number above 0. Got 0.",
    ),
    "class axis": (lambda: rebalance(Z, P, class_axis=2), OptionError, "`class_axis` must be"),
    "negative strength, zero target": (
        lambda: rebalance(Z, P, target_prior=[0.5, 0.5, 0.0], strength=-0.5),
        PriorError,
        "Got target_prior[2]=0 and strength=-0.5, which would divide by 0. Give the class",
    ),
    "NaN": (lambda: rebalance(Z * [1, np.nan, 1], P), ScoresError, "Got scores[0, 1]=nan."),
    "NaN in torch": (
        lambda: rebalance(torch.tensor([[1.0, float("nan"), 2.0]]), P),
        ScoresError,
        "Got scores[0, 1]=nan.",
    ),
    "infinity on another axis": (
        lambda: rebalance(np.where(Z == 5, np.inf, Z).T, P, class_axis=0),
        ScoresError,
        "Got scores[1, 1]=inf.",
    ),
    "sum": (
        lambda: rebalance(Z / 10, P, kind="probs"),
        ScoresError,
        "Got scores[0, :] with sum 0.6.",
    ),
    "mass removed": (
        lambda: rebalance(np.eye(3), P, target_prior=[0.5, 0.5, 0], kind="probs"),
        ScoresError,
        "Got scores[2, :], whose every possible class has target prior 0.",
    ),
    "mass removed in JAX": (
        lambda: rebalance(jnp.eye(3), P, target_prior=[0.5, 0.5, 0], kind="probs"),
        ScoresError,
        "Got scores[2, :], whose every possible class has target prior 0.",
    ),
    "overflow": (
        lambda: rebalance(np.array([[1e308, 0, 0]]), P, temperature=0.5),
        ScoresError,
        "must stay finite when divided by the temperature",
    ),
    "empty": (
        lambda: rebalance(np.empty((0, 3)), P),
        ScoresError,
        "`scores` must hold at least one sample. Got shape (0, 3).",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_probabilities_declared_as_logits_bring_a_warning_at_the_callers_line(make):
    with pytest.warns(RepriorWarning, match="kind='probs'") as caught:
        rebalance(make([[0.2, 0.3, 0.5]]), P)
    assert caught[0].filename == __file__


@given(st.data())
def test_the_result_is_never_nan(data):
    """Any finite scores, priors and strength give a posterior, or an error with the reason."""
    z, source, target = data.draw(problems(size=1e5))
    strength, t = data.draw(st.floats(-20, 20)), data.draw(st.floats(1e-3, 1e3))
    options = {"target_prior": target, "strength": strength, "temperature": t}
    assert np.isfinite(rebalance(z, source, **options)).all()
    assert not np.isnan(log_rebalance(z.astype(np.float32), source, **options)).any()


@given(priors(3))
def test_one_sample_is_a_row(prior):
    row = np.array([3.0, 2.0, -1.0])
    np.testing.assert_array_equal(rebalance(row, prior), rebalance(row[None], prior)[0])
