"""One pass over labelled rows: the log-loss of softmax(δ·z + λ·w), its slopes and curvatures."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import Array, constant, to_numpy
from reprior.core.row_passes import sum_blocks, sum_native, takes_native
from reprior.core.weighted_rows import Labelled, exponential, row_peaks, row_sums

__all__ = ["tilted_moments"]


def tilted_moments(
    data: Labelled,
    scale: float,
    shift: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> NDArray[np.float64]:
    r"""Return the log-loss of softmax(δ·z + shift), with its derivatives by δ and by λ.

    .. math:: \sum_i v_i \Bigl( \log \sum_k e^{u_{ik}} - u_{i y_i} \Bigr), \qquad
        u_{ik} = δ z_{ik} + b_k

    where z_ik is the log-score of class k for sample i, v_i the weight of the sample, y_i its
    class, δ the scale, b the shift, and λ what multiplies the slopes w in the shift. The slopes of
    the loss are E[z] − z_y and E[w] − w_y, its curvatures the variances and the covariance of z
    and w, under the posterior softmax(u).

    Returns
    -------
    ndarray of shape (6,)
        The loss, its derivatives by δ and λ, its second derivatives by δδ, δλ and λλ. The same
        sums of parts of the data add to those of the whole.
    """
    if takes_native(data):
        return sum_native(
            data, "tilted_sums", (np.full(data.n_classes, scale), shift, slopes), n_sums=6
        )
    return sum_blocks(data, lambda part: _tilted_block(data, part, scale, shift, slopes))


def _tilted_block(
    data: Labelled,
    part: slice,
    scale: float,
    shift: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> NDArray[np.float64]:
    xp, dtype = data.xp, data.rows.dtype
    move = partial(constant, xp=xp, like=data.rows)
    own, labels, v = data.own[part], data.labels[part], data.weights[part]
    z = data.rows[part, :] - move(own[:, None], dtype=dtype)
    x = z * scale
    if shift.any():
        x += move(shift, dtype=dtype)
    peak = row_peaks(x, xp)
    x -= peak
    mass = xp.astype(exponential(x, xp), data.wide, copy=False)
    if data.has_impossible:
        z = xp.where(z == -xp.inf, xp.zeros_like(z), z)
    z = xp.astype(z, data.wide, copy=False)
    of_w = _by_slopes(data, mass, slopes, 2)
    mass *= z
    of_z = _by_slopes(data, mass, slopes, 1)
    mass *= z
    of_zz = _by_slopes(data, mass, slopes, 0)[:, 0]
    total = of_w[:, 0]
    mean_w, mean_z = of_w[:, 1] / total, of_z[:, 0] / total
    value = np.log(total) + to_numpy(peak)[:, 0].astype(np.float64) - shift[labels]
    return np.array(
        [
            v @ value,
            v @ mean_z,
            v @ (mean_w - slopes[labels]),
            v @ np.maximum(of_zz / total - mean_z**2, 0.0),
            v @ (of_z[:, 1] / total - mean_z * mean_w),
            v @ np.maximum(of_w[:, 2] / total - mean_w**2, 0.0),
        ]
    )


def _by_slopes(
    data: Labelled, mass: Array, slopes: NDArray[np.float64], power: int
) -> NDArray[np.float64]:
    """Return the row sums of mass · w^0, … mass · w^power, of shape (n, power + 1)."""
    xp, found = data.xp, np.zeros((int(mass.shape[0]), power + 1))
    if power and slopes.any():
        powers = constant(slopes[:, None] ** np.arange(power + 1), xp, like=data.rows)
        found[:] = to_numpy(xp.matmul(mass, powers))
    else:
        found[:, 0] = to_numpy(row_sums(mass, data.wide, xp))
    return found
