"""Kernels read arrays of PyTorch and JAX in place, and results are returned as the same type."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from tests.support.backends import BACKENDS, EPS, library_of

import reprior as rp
from reprior.core import kernels, to_numpy

PRIOR = np.array([0.6, 0.3, 0.1])
HOSTED = [b for b in BACKENDS if b.library != "array_api_strict"]


@pytest.fixture
def z(rng):
    return rng.normal(size=(40, 3)) * 3


@pytest.fixture
def labels(rng):
    return rng.integers(3, size=40)


def without_kernels(work):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", None)
        return work()


@pytest.mark.parametrize("backend", HOSTED, ids=str)
def test_memory_is_shared(backend, z):
    scores = backend.make(z)
    view = kernels.host_view(scores)
    assert view.dtype == ("uint16" if backend.dtype == "bfloat16" else backend.dtype)
    if backend.library == "numpy":
        assert np.shares_memory(view, scores)
    else:
        where = scores.data_ptr() if backend.library == "torch" else scores.unsafe_buffer_pointer()
        assert view.ctypes.data == where
    back = kernels.as_library(np.array(view), scores)
    assert type(back) is type(scores)
    assert back.dtype == scores.dtype
    np.testing.assert_array_equal(to_numpy(back), to_numpy(scores))


@pytest.mark.parametrize("backend", HOSTED, ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_posteriors_are_those_of_array_code(backend, kind, z):
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    scores = backend.make({"logits": z, "probs": p, "log_probs": np.log(p)}[kind])
    for work in (rp.rebalance, rp.log_rebalance):

        def compute(work=work):
            return work(scores, PRIOR, strength=0.7, temperature=1.2, kind=kind)

        found, wanted = compute(), without_kernels(compute)
        assert library_of(found) == backend.library
        assert found.dtype == scores.dtype
        near = 32 * EPS["float32"] + EPS[backend.dtype]
        np.testing.assert_allclose(
            to_numpy(found).astype(float), to_numpy(wanted).astype(float), rtol=near, atol=near
        )


@pytest.mark.parametrize("backend", HOSTED, ids=str)
@pytest.mark.parametrize("class_axis", [1, -1])
def test_fits_and_decisions_are_those_of_array_code(backend, class_axis, z, labels):
    given = z.reshape(4, 10, 3)
    given = np.moveaxis(given, -1, 1) if class_axis == 1 else given
    scores = backend.make(given)
    y = backend.make_integers(labels.reshape(4, 10)) if backend.library != "numpy" else labels
    y = np.reshape(y, (4, 10)) if backend.library == "numpy" else y

    def fit():
        return rp.PosteriorCalibrator(PRIOR, class_axis=class_axis).fit(scores, y)

    found, wanted = fit(), without_kernels(fit)
    assert found.strength_ == pytest.approx(wanted.strength_, rel=1e-6)
    assert found.best_score_ == wanted.best_score_
    decided = found.predict(scores)
    assert library_of(decided) == backend.library
    np.testing.assert_array_equal(
        to_numpy(decided), to_numpy(without_kernels(lambda: found.predict(scores)))
    )
    counts = found.profile_.counts(found.strength_)
    right = np.bincount(labels[to_numpy(decided).reshape(-1) == labels], minlength=3)
    np.testing.assert_array_equal(counts.true_positive, right)


@pytest.mark.parametrize("backend", HOSTED, ids=str)
def test_temperatures_are_those_of_array_code(backend, z, labels):
    scores, y = backend.make(z), backend.make_integers(labels)
    if backend.library == "numpy":
        y = labels

    def fit():
        return rp.fit_temperature(scores, y).temperature

    assert fit() == pytest.approx(without_kernels(fit), rel=1e-4)


def test_tensors_that_require_gradients_keep_them(z):
    scores = torch.tensor(z, requires_grad=True)
    assert kernels.host_view(scores) is None
    loss = -rp.log_rebalance(scores, PRIOR)[:, 0].sum()
    loss.backward()
    # Of −log P(0): P − [k = 0].
    wanted = rp.rebalance(z, PRIOR)
    wanted[:, 0] -= 1
    np.testing.assert_allclose(scores.grad, wanted, rtol=1e-12, atol=1e-14)
    with torch.no_grad():
        assert kernels.host_view(scores).ctypes.data == scores.data_ptr()
    assert kernels.host_view(scores.detach()) is not None


def test_without_the_private_names_of_pytorch_array_code_computes(z, monkeypatch):
    scores = torch.tensor(z)
    monkeypatch.delattr(torch._C._functorch, "is_functorch_wrapped_tensor")
    assert kernels.host_view(scores) is None
    np.testing.assert_allclose(rp.rebalance(scores, PRIOR), rp.rebalance(z, PRIOR), rtol=1e-12)


@pytest.mark.heavy  # imports PyTorch's compiler
@pytest.mark.filterwarnings("ignore:Dynamo detected a call:UserWarning")  # of array_api_compat's
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)  # PyTorch's own
def test_compiled_code_takes_array_code(z):
    scores = torch.tensor(z, dtype=torch.float32)
    compiled = torch.compile(lambda x: rp.rebalance(x, PRIOR), backend="eager")(scores)
    torch.testing.assert_close(compiled, rp.rebalance(scores, PRIOR))


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)  # PyTorch's own
def test_transformed_tensors_and_subclasses_take_array_code(z):
    scores = torch.tensor(z, dtype=torch.float32)
    assert kernels.host_view(torch.nn.Parameter(scores, requires_grad=False)) is None
    assert kernels.host_view(scores.to("meta")) is None
    assert kernels.host_view(scores.to_sparse()) is None
    views = []

    def view(row):
        views.append(kernels.host_view(row))
        return row

    torch.vmap(view)(scores)
    torch.func.jvp(view, (scores,), (scores,))
    assert views == [None, None]


def test_jax_under_jit_and_grad(z):
    scores = jnp.asarray(z, dtype="float32")
    plain = rp.rebalance(scores, PRIOR)
    traced = jax.jit(lambda x: rp.rebalance(x, PRIOR))(scores)
    np.testing.assert_allclose(traced, plain, rtol=1e-5, atol=1e-7)
    slope = jax.grad(lambda x: -rp.log_rebalance(x, PRIOR)[:, 0].sum())(scores)
    np.testing.assert_allclose(slope[:, 1:], plain[:, 1:], rtol=1e-4, atol=1e-6)


def test_neither_library_is_imported():
    code = (
        "import sys, numpy as np, reprior as rp\n"
        "rp.PosteriorCalibrator([.5, .5]).fit(np.eye(2) * 3, [0, 1]).predict(np.eye(2) * 3)\n"
        "assert not {'torch', 'jax'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0
