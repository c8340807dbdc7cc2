"""Likelihood flattening: the δ(x) of Algorithm 1, line 3, of the paper on prior rebalancing.

It is defined in "UNO: Uncertainty-aware Noisy-Or Multimodal Fusion" (see `flatten`).
Where the model is less sure of an image than of in-distribution images, the image's logits are
scaled down. This spreads its posterior, so that other modalities count more in a fusion.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reprior.core import kernels
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    device_of,
    is_floating,
    namespace,
    to_numpy,
)
from reprior.core.binary import log_columns
from reprior.core.checks import check_class_axis, check_finite_number, check_kind
from reprior.core.logspace import as_scores, log_softmax
from reprior.exceptions import OptionError, ScoresError

__all__ = ["EntropyReference", "entropy", "flatten", "flattening_factor", "image_entropy"]


def entropy(log_probs: Array, *, axis: int, xp: Namespace) -> Array:
    """Return −Σ p log p in nats over ``axis``, with 0·log 0 = 0, from log-probabilities."""
    p = xp.exp(log_probs)
    # Replace −inf before multiplying: otherwise gradients become NaN even if the value is replaced
    # afterwards.
    finite = xp.where(p > 0, log_probs, xp.zeros_like(log_probs))
    return 0.0 - xp.sum(p * finite, axis=axis)


def image_entropy(scores: Any, *, kind: str = "logits", class_axis: int = -1) -> Array:
    """Return the mean entropy of every image's posteriors, in nats.

    Images are on the first axis that is not the class axis, the rest are pixels: (N, K) gives
    the entropy of every row, (N, K, H, W) with ``class_axis=1`` the mean over H·W pixels.

    Examples
    --------
    >>> import numpy as np
    >>> image_entropy(np.array([[0.0, 0.0], [0.0, -np.inf]])).round(4)
    array([0.6931, 0.    ])
    """
    xp = namespace(scores)
    _, log_z, axis = _prepared(scores, kind, class_axis, xp)
    return _image_entropy(log_z, axis, xp)


@dataclass(frozen=True)
class EntropyReference:
    r"""How sure a model is on images like those it was trained on.

    .. math:: μ = \frac1N \sum_i \bar H_i, \qquad
        σ = \sqrt{\frac1N \sum_i (\bar H_i - μ)^2}

    where :math:`\bar H_i` is the mean entropy, in nats, of the pixels' posteriors of validation
    image i. One reference per modality.

    Attributes
    ----------
    mean : float
        μ, above 0.
    std : float
        σ, the population standard deviation.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: δ(x) of Algorithm 1.
    .. [2] Tian et al. "UNO: Uncertainty-aware Noisy-Or Multimodal Fusion for Unanticipated Input
       Degradation", ICRA 2020.

    Examples
    --------
    >>> import numpy as np
    >>> EntropyReference.fit(np.array([[2.0, 0.0], [1.0, 0.0]]))
    EntropyReference(mean=0.4738, std=0.1084)
    """

    mean: float
    std: float

    def __post_init__(self) -> None:
        """Refuse statistics that define no flattening."""
        check_finite_number(
            "mean",
            self.mean,
            positive=True,
            hint="Where every validation posterior is 0 or 1 there is no entropy to refer to: "
            "pass scores of a calibrated model.",
        )
        check_finite_number("std", self.std, minimum=0.0)

    @classmethod
    def fit(cls, scores: Any, *, kind: str = "logits", class_axis: int = -1) -> "EntropyReference":
        """Return the reference of one modality's scores on in-distribution validation images.

        Parameters
        ----------
        scores : array of shape (N, K), or (N, K, H, W) with ``class_axis=1``
            The first axis that is not the class axis is the images; the rest are pixels.
        kind : {"logits", "probs", "log_probs"}, default "logits"
            What the scores are.
        class_axis : int, default -1
            The axis of the classes.
        """
        per_image = to_numpy(image_entropy(scores, kind=kind, class_axis=class_axis))
        return cls(mean=float(per_image.mean()), std=float(per_image.std()))


def flattening_factor(
    scores: Any, reference: EntropyReference, *, kind: str = "logits", class_axis: int = -1
) -> Array:
    """Return δ(x) of every image, see :func:`flatten`.

    Examples
    --------
    >>> import numpy as np
    >>> flattening_factor(np.zeros((1, 4)), EntropyReference(mean=0.5, std=0.1)).round(3)
    array([0.389])
    """
    xp = namespace(scores)
    _, log_z, axis = _prepared(scores, kind, class_axis, xp)
    return _factor(log_z, axis, reference, xp)


def flatten(
    scores: Any, reference: EntropyReference, *, kind: str = "logits", class_axis: int = -1
) -> Array:
    r"""Return log-scores scaled down on images the model is unusually unsure of.

    .. math:: δ(x)\,z(x), \qquad δ(x) = \frac{μ}{μ + \max(0,\; \bar H(x) - μ - σ)}

    where z are the log-scores of the image x, :math:`\bar H(x)` the mean entropy of its pixels'
    posteriors, and μ and σ the mean and standard deviation of :math:`\bar H` over the reference's
    in-distribution images. δ lies in (0, 1] and is 1 within one σ of the mean.

    Parameters
    ----------
    scores : array of shape (N, K), or (N, K, H, W) with ``class_axis=1``
        The first axis that is not the class axis is the images; the rest are pixels. For two
        classes the class axis may have length 1.
    reference : EntropyReference
        μ and σ of this modality.
    kind : {"logits", "probs", "log_probs"}, default "logits"
        What the scores are. Under "probs" and "log_probs" the log-posterior is scaled.
    class_axis : int, default -1
        The axis of the classes.

    Returns
    -------
    array of the scores' shape, library, device and dtype (integers: float64)
        Log-scores, whatever ``kind`` was: pass them on as ``kind="logits"``.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: Algorithm 1, line 3.

    Examples
    --------
    >>> import numpy as np
    >>> reference = EntropyReference(mean=0.1, std=0.05)
    >>> flatten(np.array([[9.0, 0.0], [1.0, 0.0]]), reference).round(3)
    array([[9.   , 0.   ],
           [0.188, 0.   ]])
    """
    xp = namespace(scores)
    given, log_z, axis = _prepared(scores, kind, class_axis, xp)
    delta = _factor(log_z, axis, reference, xp)
    if given.shape[axis] == 1:
        # One score per sample stays one: the logit of class 1.
        pair = xp.moveaxis(log_z, axis, -1)
        log_z = xp.reshape(pair[..., 1] - pair[..., 0], given.shape)
    shape = [1] * log_z.ndim
    shape[1 if axis == 0 else 0] = -1
    scaled = log_z * xp.reshape(xp.astype(delta, log_z.dtype, copy=False), tuple(shape))
    return xp.astype(scaled, given.dtype, copy=False) if is_floating(given.dtype) else scaled


def _prepared(scores: Any, kind: str, class_axis: int, xp: Namespace) -> tuple[Array, Array, int]:
    """Return the scores as given, their log-scores with at least two classes, and the axis."""
    check_kind(kind)
    given = as_scores(scores, xp)
    if given.ndim == 1:
        raise ScoresError(
            argument="scores",
            rule="must have an axis of images and one of classes",
            got=f"shape {tuple(given.shape)}",
            remedy="Pass shape (1, K) for one image, or (N, 1) for one score per image.",
        )
    axis = check_class_axis(given.shape, class_axis)
    return given, log_columns(given, kind, axis=axis, xp=xp), axis


def _image_entropy(log_z: Array, axis: int, xp: Namespace) -> Array:
    if kernels.serves(log_z):
        rows = np.moveaxis(log_z, axis, -1)
        entropies = np.empty((1, math.prod(rows.shape[:-1])))
        # log_columns has refused rows without a posterior.
        kernels.native.entropies(kernels.strided_rows(rows)[None], "logits", 0.0, entropies)
        return entropies.reshape(rows.shape[0], -1).mean(axis=1)
    per_pixel = entropy(log_softmax(log_z, axis=axis, xp=xp), axis=axis, xp=xp)
    wide = xp.astype(per_pixel, accumulation_dtype(xp, device_of(per_pixel)), copy=False)
    return wide if wide.ndim == 1 else xp.mean(wide, axis=tuple(range(1, wide.ndim)))


def _factor(log_z: Array, axis: int, reference: EntropyReference, xp: Namespace) -> Array:
    if not isinstance(reference, EntropyReference):
        raise OptionError(
            argument="reference",
            rule="must be an EntropyReference",
            got=type(reference).__name__,
            remedy="Pass EntropyReference.fit(validation_scores).",
        )
    excess = _image_entropy(log_z, axis, xp) - (reference.mean + reference.std)
    excess = xp.where(excess > 0, excess, xp.zeros_like(excess))
    return reference.mean / (reference.mean + excess)
