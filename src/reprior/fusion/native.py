"""The kernels of a fusion on some images; :mod:`reprior.fusion.arrays` does the same in arrays.

Scores are NumPy arrays (images, K, pixels), or (passes, images, K, pixels), that the kernels take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from reprior.core import kernels
from reprior.fusion.posterior import Doubt, NoPosteriorError, Recipe

__all__ = ["classes", "doubt", "fused"]

Vector: TypeAlias = np.ndarray[Any, Any]


def doubt(recipe: Recipe, m: int, z: Vector, tolerance: float) -> Doubt:
    """How unsure modality m is of every pixel, (images, pixels)."""
    rows = _rows(z)
    found = np.empty((2 if recipe.passes else 1, rows.shape[1] * rows.shape[2]))
    if not _extension().entropies(rows, recipe.kind, tolerance, found):
        raise NoPosteriorError(m)
    return Doubt(*found.reshape(len(found), *rows.shape[1:3]))


def fused(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
    strengths: Sequence[float],
    form: str,
    out: Vector,
) -> None:
    """Write the posterior, its logarithm or its scores into ``out`` (images, K, pixels).

    ``deltas`` are (images, pixels), or (images, 1) where the pixels of an image share one.
    """
    settings = np.array(strengths, np.float64)
    common = _common(recipe, parts, tolerances, deltas)
    target = out.swapaxes(1, 2)
    bad = _extension().fuse(*common, settings, *_how(recipe), form, target)
    _refuse(bad, len(parts))


def classes(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
    settings: Sequence[Sequence[float]],
) -> Vector:
    """The arg max of the posterior at every setting of the strengths, (settings, images, pixels).

    The posterior is rounded to the dtype of the scores before.
    """
    n_images, n_pixels = parts[0].shape[-3], parts[0].shape[-1]
    found = np.empty((len(settings), n_images * n_pixels), np.int64)
    strengths = np.array(settings, np.float64).reshape(len(settings), len(parts))
    common = _common(recipe, parts, tolerances, deltas)
    bad = _extension().fused_classes(*common, strengths, *_how(recipe), found)
    _refuse(bad, len(parts))
    return found.reshape(len(settings), n_images, n_pixels)


def _extension() -> Any:
    return kernels.native


def _rows(z: Vector) -> Vector:
    """(passes, images, pixels, K), as the kernels take it."""
    if not z.flags.aligned or any(stride % z.itemsize for stride in z.strides):
        z = z.copy()
    rows = z.swapaxes(-1, -2)
    return rows if rows.ndim == 4 else rows[None]


def _common(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
) -> tuple[Any, ...]:
    rows = [_rows(z) for z in parts]
    return rows, recipe.kind, np.array(tolerances), _factors(deltas), recipe.slopes


def _factors(deltas: Sequence[Vector | None]) -> Vector | None:
    known = [delta for delta in deltas if delta is not None]
    if not known:
        return None
    return np.stack([np.ones_like(known[0]) if delta is None else delta for delta in deltas])


def _how(recipe: Recipe) -> tuple[str, bool]:
    return recipe.rule, recipe.order == "flatten_first"


def _refuse(bad: int, n_modalities: int) -> None:
    if bad >= 0:
        raise NoPosteriorError(bad if bad < n_modalities else None if n_modalities > 1 else 0)
