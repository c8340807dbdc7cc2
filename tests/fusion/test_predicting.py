"""The path of a library is chosen, and gives what the user passed in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.fusion.shared import PRIOR, made, modalities

from reprior.core import kernels
from reprior.fusion import predicting
from reprior.fusion.predicting import decisions, posterior

KNOWN = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}


def read(scores, **options):
    return made(PRIOR, KNOWN, dict.fromkeys(KNOWN, 0.5), **options)._read(scores)


@pytest.mark.skipif(kernels.native is None, reason="needs the compiled kernels")
def test_numpy_takes_the_kernels(rng, monkeypatch):
    scores, _ = modalities(rng, n=3)
    inputs, recipe = read(scores, class_axis=1)
    expected = posterior(inputs, recipe, [0.5, 0.5], log=False)
    monkeypatch.setattr(predicting, "fused_arrays", None)
    np.testing.assert_array_equal(posterior(inputs, recipe, [0.5, 0.5], log=False), expected)
    np.testing.assert_array_equal(decisions(inputs, recipe, [0.5, 0.5]), expected.argmax(axis=1))


def test_others_take_the_array_api(rng, monkeypatch):
    scores, _ = modalities(rng, n=3)
    expected = posterior(*read(scores, class_axis=1), [0.5, 0.5], log=True)
    monkeypatch.setattr(predicting, "Batch", None)
    tensors = {name: torch.tensor(z) for name, z in scores.items()}
    found = posterior(*read(tensors, class_axis=1), [0.5, 0.5], log=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_axes_come_back_where_they_were(rng, axis):
    scores, _ = modalities(rng, n=3)
    moved = {name: np.moveaxis(z, 1, axis) for name, z in scores.items()}
    expected = np.moveaxis(posterior(*read(scores, class_axis=1), [0.5, 0.5], log=False), 1, axis)
    for library in (np.asarray, torch.tensor):
        given = {name: library(z) for name, z in moved.items()}
        found = posterior(*read(given, class_axis=axis), [0.5, 0.5], log=False)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10)
