"""One pass over labelled rows: the log-loss of softmax(a·z + b), its slopes and curvatures.

Every class has a scale a and a bias b of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import Array, constant, to_numpy
from reprior.core.row_passes import sum_blocks, sum_native, takes_native
from reprior.core.weighted_rows import Labelled, exponential, row_peaks, row_sums

__all__ = ["posterior_curvature", "posterior_sums", "posterior_variances"]


def posterior_sums(
    data: Labelled, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    r"""Return the log-loss of softmax(a·z + b), with its derivatives by a and by b.

    .. math:: \frac{\partial}{\partial a_k} = \sum_i v_i (p_{ik} - [y_i = k]) z_{ik}, \qquad
        \frac{\partial}{\partial b_k} = \sum_i v_i (p_{ik} - [y_i = k])

    where z_ik is the log-score of class k for sample i, v_i the weight of the sample, y_i its
    class, a the scales, b the biases and p_i the posterior softmax(a·z_i + b). A class that is
    impossible for a sample stays so.
    """
    n_classes = data.n_classes
    if takes_native(data):
        found = sum_native(data, "add_posteriors", (scale, bias), n_sums=1 + 2 * n_classes)
    else:
        found = sum_blocks(data, lambda part: _sums_block(data, part, scale, bias))
    support = np.bincount(data.labels, data.weights, minlength=n_classes)
    own = np.bincount(data.labels, data.weights * data.own, minlength=n_classes)
    return float(found[0]), found[1 : n_classes + 1] - own, found[n_classes + 1 :] - support


def posterior_curvature(
    data: Labelled, scale: NDArray[np.float64], bias: NDArray[np.float64], *, per_class: bool
) -> NDArray[np.float64]:
    r"""Return the second derivatives of the log-loss of softmax(a·z + b) by the scales and biases.

    .. math:: \sum_i v_i \Bigl( \mathrm{diag}(p_i) - p_i p_i^T \Bigr)

    for the biases, and with a factor of z_ik in row or column k for the scales; the symbols are
    those of :func:`posterior_sums`.

    Returns
    -------
    ndarray of shape (2K, 2K), or (K+1, K+1) where not ``per_class``
        First the K scales, or the one that all classes share, then the K biases.
    """
    k = data.n_classes
    width = (k if per_class else 1) + k

    def work(part: slice) -> NDArray[np.float64]:
        xp, v = data.xp, constant(data.weights[part], data.xp, like=data.rows)
        z, p = _posteriors(data, part, scale, bias)
        pz = p * z
        of_scale = pz if per_class else xp.sum(pz, axis=1, keepdims=True)
        both = xp.concat([of_scale, p], axis=1)
        product = xp.matmul(xp.matrix_transpose(both * v[:, None]), both)
        sums = [to_numpy(xp.matmul(v, x)) for x in (pz * z, pz, p)]
        return np.concatenate([to_numpy(product).reshape(-1), *sums]).astype(np.float64)

    found = sum_blocks(data, work)
    product, (zz, z, one) = found[: width**2].reshape(width, width), found[width**2 :].reshape(3, k)
    curvature, at = np.zeros((width, width)), np.arange(k)
    first, second = at if per_class else 0 * at, at + width - k
    np.add.at(curvature, (first, first), zz)
    curvature[first, second] = curvature[second, first] = z
    curvature[second, second] = one
    return curvature - product


def posterior_variances(
    data: Labelled, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the parts of :func:`posterior_curvature` by a class's own scale and bias alone.

    Of shape (3, K): by the scale twice, by scale and bias, by the bias twice.
    """

    def work(part: slice) -> NDArray[np.float64]:
        xp, v = data.xp, constant(data.weights[part], data.xp, like=data.rows)
        z, p = _posteriors(data, part, scale, bias)
        spread = p * (1.0 - p)
        sums = [xp.matmul(v, x) for x in (spread * z * z, spread * z, spread)]
        return np.concatenate([to_numpy(x) for x in sums]).astype(np.float64)

    return sum_blocks(data, work).reshape(3, data.n_classes)


def _sums_block(
    data: Labelled, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    xp, v = data.xp, data.weights[part]
    z, mass, peak = _masses(data, part, scale, bias)
    total = to_numpy(row_sums(mass, data.wide, xp)).astype(np.float64)
    own = scale[data.labels[part]] * data.own[part] + bias[data.labels[part]]
    value = v @ (np.log(total) + peak - own)
    share = constant(v / total, xp, like=data.rows)
    by_class = to_numpy(xp.matmul(share, mass))
    mass *= z
    return np.concatenate([[value], to_numpy(xp.matmul(share, mass)), by_class])


def _masses(
    data: Labelled, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Return z and exp(a·z + b − peak) in the dtype to sum in, and the peaks of the rows."""
    xp, dtype = data.xp, data.rows.dtype
    z = data.rows[part, :]
    gone = z == -xp.inf if data.has_impossible else None
    if gone is not None:
        z = xp.where(gone, xp.zeros_like(z), z)
    x = z * constant(scale, xp, like=z, dtype=dtype)
    x += constant(bias, xp, like=z, dtype=dtype)
    if gone is not None:
        x = xp.where(gone, xp.full_like(x, -xp.inf), x)
    peak = row_peaks(x, xp)
    x -= peak
    mass = xp.astype(exponential(x, xp), data.wide, copy=False)
    return xp.astype(z, data.wide, copy=False), mass, to_numpy(peak)[:, 0].astype(np.float64)


def _posteriors(
    data: Labelled, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[Array, Array]:
    """Return z and the posterior of some rows, in the dtype to sum in."""
    z, mass, _ = _masses(data, part, scale, bias)
    return z, mass / data.xp.sum(mass, axis=1, keepdims=True)
