"""Top-k accuracy: how often the true class is among the k largest scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from reprior.exceptions import OptionError, Setting
from reprior.metrics.score_blocks import ScoreBlocks

__all__ = ["top_k_accuracy"]


def top_k_accuracy(
    scores: Any,
    labels: Any,
    *,
    k: int = 5,
    class_axis: int = -1,
    ignore_index: int | None = None,
    sample_weight: Any = None,
) -> float:
    r"""Return the share of samples whose true class is among the k largest scores.

    .. math:: \frac{1}{\sum_i v_i} \sum_i v_i\,[r_i < k], \qquad
        r_i = \#\{j: s_{ij} > s_{i y_i}\} + \#\{j < y_i: s_{ij} = s_{i y_i}\}

    where s_ij is the score of class j for sample i, y_i its label, v_i its weight and r_i the
    number of classes ahead of the true one. Equal scores go to the lower index first, so that
    k = 1 is the accuracy of the arg max.

    Parameters
    ----------
    scores : array of shape (..., K, ...)
        Logits, probabilities or log-probabilities: only their order counts.
    labels : integer array of the scores' shape without the class axis
        Class indices 0 … K−1.
    k : int, default 5
        1 … K.
    class_axis : int, default -1
        The axis of the classes.
    ignore_index : int, optional
        A label that marks samples to leave out.
    sample_weight : array of the labels' shape, optional
        A weight per sample.

    References
    ----------
    .. [1] Russakovsky et al. "ImageNet Large Scale Visual Recognition Challenge", IJCV 2015,
       section 4.1 (as an error, k = 5).

    Examples
    --------
    >>> scores = [[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.2, 0.2, 0.6]]
    >>> top_k_accuracy(scores, [1, 1, 2], k=2)
    1.0
    >>> top_k_accuracy([[0.4, 0.4, 0.2]], [1], k=1)
    0.0
    """
    samples = ScoreBlocks.read(
        scores,
        labels,
        kind=None,
        class_axis=class_axis,
        ignore_index=ignore_index,
        sample_weight=sample_weight,
    )
    _check_k(k, samples.n_classes)
    classes = np.arange(samples.n_classes)
    hit = total = 0.0
    for s, y, w in samples.ranks():
        true = np.take_along_axis(s, y[:, None], axis=1)
        ahead = np.count_nonzero(s > true, axis=1)
        ahead += np.count_nonzero((s == true) & (classes < y[:, None]), axis=1)
        hit += float(w[ahead < k].sum())
        total += float(w.sum())
    return hit / total


def _check_k(k: Any, n_classes: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n_classes:
        raise OptionError(
            argument="k",
            rule=f"must be an integer from 1 to the number of classes, {n_classes}",
            got=repr(k),
            remedy=[
                "Pass a smaller k: with ",
                Setting("k", n_classes),
                " every prediction is right.",
            ],
        )
