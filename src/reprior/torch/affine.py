"""What a calibrator does to logits, as numbers: softmax(scale · z + bias)."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.core.flatten import EntropyReference
from reprior.core.rebalance import log_rebalance
from reprior.exceptions import OptionError

__all__ = ["Affine", "affine_of", "affine_of_prior"]

Vector: TypeAlias = np.ndarray[Any, Any]


class Affine(NamedTuple):
    """One scale, or one per class, a bias per class, and the scores they are meant for."""

    scale: float | Vector
    bias: Vector
    kind: str
    class_axis: int

    @property
    def scaled(self) -> bool:
        """Whether scores are multiplied by anything but 1."""
        return bool(np.any(np.asarray(self.scale) != 1.0))


def affine_of(calibrator: Any, which: str | None = None) -> Affine:
    """The affine map of a fitted calibrator; refuse what is not one, or depends on its input.

    ``which`` of its maps, "decision" or "probability", must be said where there are two.
    """
    if isinstance(calibrator, EntropyReference) or hasattr(calibrator, "flatten"):
        raise OptionError(
            f"`calibrator` must do the same to every input. Got {type(calibrator).__name__}, whose "
            f"flattening depends on the input, so that no fixed scale and bias can stand for it. "
            f"Pass the PosteriorCalibrator of one model, and flatten and fuse outside it."
        )
    if not hasattr(calibrator, "as_affine"):
        raise OptionError(
            f"`calibrator` must be a fitted PosteriorCalibrator. Got "
            f"{type(calibrator).__name__}. Pass the result of fit(…), fit_from_loader(…) or "
            f"reprior.load(path)."
        )
    scale, bias = calibrator.as_affine(map=which)
    scale = float(scale) if np.ndim(scale) == 0 else scale
    return Affine(scale, bias, calibrator.kind, calibrator.class_axis)


def affine_of_prior(
    source_prior: Any,
    *,
    target_prior: Any,
    strength: float,
    temperature: float,
    kind: str,
    class_axis: int,
) -> Affine:
    """The affine map of ``log_rebalance`` with these options, which checks them.

    The bias is the log-posterior of scores that say nothing: λ·w less a constant, which the
    softmax takes away again.
    """
    n_classes = np.size(source_prior) if np.ndim(source_prior) == 1 else 2
    bias = log_rebalance(
        np.zeros((1, n_classes)),
        source_prior,
        target_prior=target_prior,
        strength=strength,
        temperature=temperature,
    )
    return Affine(1.0 / float(temperature), bias[0], kind, class_axis)
