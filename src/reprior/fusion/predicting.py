"""From checked scores to the fused posterior, by kernels or in their array library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from reprior.core import kernels
from reprior.core.arrays import Array, is_floating
from reprior.core.binary import contract
from reprior.fusion.arrays import by_images, fused_arrays
from reprior.fusion.blocks import Batch
from reprior.fusion.inputs import Inputs
from reprior.fusion.posterior import NoPosteriorError, Recipe

__all__ = ["decisions", "posterior"]


def posterior(inputs: Inputs, recipe: Recipe, strengths: Sequence[float], *, log: bool) -> Array:
    """Return the fused (log-)posterior, of the shape, library and dtype of the scores."""
    with _refusing(inputs, recipe):
        if _takes_kernels(inputs):
            columns = np.empty(inputs.columns_shape, inputs.dtype)
            batch = Batch(inputs.images_first(), inputs.tolerances, recipe)
            batch.posterior(strengths, inputs.view(columns), log=log)
        else:
            columns = inputs.as_given(_arrays(inputs, recipe, strengths, log=log))
    if inputs.single:
        return contract(columns, inputs.shape, xp=inputs.xp, class_axis=inputs.axis)
    return columns


def decisions(inputs: Inputs, recipe: Recipe, strengths: Sequence[float]) -> Array:
    """Return the arg max of the posterior, of the labels' shape."""
    with _refusing(inputs, recipe):
        if _takes_kernels(inputs):
            index = np.empty(inputs.labels_shape, np.int64)
            batch = Batch(inputs.images_first(), inputs.tolerances, recipe)
            batch.decisions(strengths, index, inputs.dtype)
            return index
        return inputs.xp.argmax(_arrays(inputs, recipe, strengths, log=False), axis=1)


def _takes_kernels(inputs: Inputs) -> bool:
    return all(kernels.serves(z) for z in inputs.arrays.values())


def _arrays(inputs: Inputs, recipe: Recipe, strengths: Sequence[float], *, log: bool) -> Array:
    """The (log-)posterior (images, K, pixels …) in the array API."""
    xp = inputs.xp
    dtype = xp.result_type(*inputs.given.values())

    def work(parts: list[Any]) -> Array:
        found = fused_arrays(recipe, strengths, inputs.tolerances, parts, log=log)
        return xp.astype(found, dtype, copy=False) if is_floating(dtype) else found

    return by_images(work, inputs.images_first(), recipe)


@contextmanager
def _refusing(inputs: Inputs, recipe: Recipe) -> Iterator[None]:
    """Refuse bad scores in words."""
    try:
        yield
    except NoPosteriorError as error:
        inputs.refuse(error.modality, recipe)
