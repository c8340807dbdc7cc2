"""Sums over labelled rows: the log-loss of softmax(a·z + b), its slopes and curvatures.

Each comes from one pass over blocks of rows, by a kernel or by array code. Threads share the
blocks, and their sums are added in order: results have the same bits for any number of threads.
Ctrl-C ends a pass after the present block.

:func:`log_loss_moments` has one scale and a bias that moves along slopes (two numbers);
:func:`posterior_sums` has a scale and a bias of its own for every class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.arrays import Array, Namespace, constant, is_numpy_namespace, to_numpy
from reprior.core.threads import n_shares, sum_in_threads

if TYPE_CHECKING:
    from reprior.core.weighted_rows import WeightedRows

__all__ = [
    "log_loss_moments",
    "posterior_curvature",
    "posterior_sums",
    "posterior_variances",
    "sum_blocks",
    "sum_native",
    "takes_native",
]

BLOCK_ITEMS = 1 << 16
"""Scores per block of array code on NumPy: one block and its temporaries stay in the cache."""

KERNEL_SCORES = 1 << 18
"""Scores in a block of a kernel, at least: about a millisecond's work."""

KERNEL_ROWS = 256
"""Rows in such a block, at least: the 1 + 2·K sums of a block are then small beside its scores."""


def posterior_sums(
    data: WeightedRows, scale: NDArray[np.float64], bias: NDArray[np.float64]
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
        sums = sum_native(data, "posterior_sums", (scale, bias), n_sums=1 + 2 * n_classes)
    else:
        sums = sum_blocks(data, lambda part: _sums_block(data, part, scale, bias))
    support = np.bincount(data.labels, data.weights, minlength=n_classes)
    of_labels = np.bincount(data.labels, data.weights * data.label_scores, minlength=n_classes)
    by_scale = sums[1 : n_classes + 1] - of_labels
    by_bias = sums[n_classes + 1 :] - support
    return float(sums[0]), by_scale, by_bias


def posterior_curvature(
    data: WeightedRows, scale: NDArray[np.float64], bias: NDArray[np.float64], *, per_class: bool
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

    sums = sum_blocks(data, work)
    product = sums[: width**2].reshape(width, width)
    zz, z, one = sums[width**2 :].reshape(3, k)
    curvature = np.zeros((width, width))
    classes = np.arange(k)
    scales = classes if per_class else 0 * classes
    biases = classes + width - k
    np.add.at(curvature, (scales, scales), zz)
    curvature[scales, biases] = curvature[biases, scales] = z
    curvature[biases, biases] = one
    return curvature - product


def posterior_variances(
    data: WeightedRows, scale: NDArray[np.float64], bias: NDArray[np.float64]
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
    data: WeightedRows, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> NDArray[np.float64]:
    xp, v = data.xp, data.weights[part]
    z, mass, peak = _masses(data, part, scale, bias)
    total = to_numpy(_row_sums(mass, data.wide, xp)).astype(np.float64)
    labels = data.labels[part]
    of_labels = scale[labels] * data.label_scores[part] + bias[labels]
    value = v @ (np.log(total) + peak - of_labels)
    share = constant(v / total, xp, like=data.rows)
    by_class = to_numpy(xp.matmul(share, mass))
    mass *= z
    return np.concatenate([[value], to_numpy(xp.matmul(share, mass)), by_class])


def _masses(
    data: WeightedRows, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[Array, Array, NDArray[np.float64]]:
    """Return z and exp(a·z + b − peak) in the dtype to sum in, and the peaks of the rows."""
    xp, dtype = data.xp, data.rows.dtype
    z = data.rows[part, :]
    impossible = z == -xp.inf if data.has_impossible else None
    if impossible is not None:
        z = xp.where(impossible, xp.zeros_like(z), z)
    x = z * constant(scale, xp, like=z, dtype=dtype)
    x += constant(bias, xp, like=z, dtype=dtype)
    if impossible is not None:
        x = xp.where(impossible, xp.full_like(x, -xp.inf), x)
    peak = _row_peaks(x, xp)
    x -= peak
    mass = xp.astype(_exponential(x, xp), data.wide, copy=False)
    return xp.astype(z, data.wide, copy=False), mass, to_numpy(peak)[:, 0].astype(np.float64)


def _posteriors(
    data: WeightedRows, part: slice, scale: NDArray[np.float64], bias: NDArray[np.float64]
) -> tuple[Array, Array]:
    """Return z and the posterior of some rows, in the dtype to sum in."""
    z, mass, _ = _masses(data, part, scale, bias)
    return z, mass / data.xp.sum(mass, axis=1, keepdims=True)


def log_loss_moments(
    data: WeightedRows,
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
    return sum_blocks(data, lambda part: _moments_block(data, part, scale, shift, slopes))


def _moments_block(
    data: WeightedRows,
    part: slice,
    scale: float,
    shift: NDArray[np.float64],
    slopes: NDArray[np.float64],
) -> NDArray[np.float64]:
    xp, dtype = data.xp, data.rows.dtype
    move = partial(constant, xp=xp, like=data.rows)
    labels = data.labels[part]
    v = data.weights[part]
    z = data.rows[part, :] - move(data.label_scores[part][:, None], dtype=dtype)
    x = z * scale
    if shift.any():
        x += move(shift, dtype=dtype)
    peak = _row_peaks(x, xp)
    x -= peak
    mass = xp.astype(_exponential(x, xp), data.wide, copy=False)
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
    data: WeightedRows, mass: Array, slopes: NDArray[np.float64], power: int
) -> NDArray[np.float64]:
    """Return the row sums of mass · w^0, … mass · w^power, of shape (n, power + 1)."""
    xp = data.xp
    sums = np.zeros((int(mass.shape[0]), power + 1))
    if power and slopes.any():
        powers = constant(slopes[:, None] ** np.arange(power + 1), xp, like=data.rows)
        sums[:] = to_numpy(xp.matmul(mass, powers))
    else:
        sums[:, 0] = to_numpy(_row_sums(mass, data.wide, xp))
    return sums


def takes_native(data: WeightedRows) -> bool:
    """Whether the kernels take the rows."""
    return data.on_numpy and kernels.serves(data.rows)


def sum_native(
    data: WeightedRows, kernel: str, parameters: tuple[NDArray[np.float64], ...], *, n_sums: int
) -> NDArray[np.float64]:
    """Return the sums over all rows that a kernel of the log-loss writes."""
    add = getattr(kernels.native, kernel)
    rows = kernels.strided_rows(data.rows)
    labels = kernels.contiguous(data.labels)
    weights = kernels.contiguous(data.weights)
    contiguous = [kernels.contiguous(parameter) for parameter in parameters]

    def work(block: slice) -> NDArray[np.float64]:
        sums = np.empty(n_sums)
        add(rows[:, block], labels[block], weights[block], *contiguous, sums)
        return sums

    step = max(KERNEL_ROWS, KERNEL_SCORES // data.n_classes)
    return _sum(data, work, step)


def sum_blocks(
    data: WeightedRows, work: Callable[[slice], NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the sum of ``work`` over blocks: cache-sized on NumPy, all rows elsewhere."""
    step = max(1, BLOCK_ITEMS // data.n_classes) if data.on_numpy else max(1, data.labels.size)
    return _sum(data, work, step)


def _sum(
    data: WeightedRows, work: Callable[[slice], NDArray[np.float64]], step: int
) -> NDArray[np.float64]:
    """Return the sum of ``work`` over blocks of ``step`` rows; one empty block without rows."""
    n = data.labels.size
    blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)] or [slice(0, 0)]
    n_threads = n_shares(n, n * data.n_classes) if data.on_numpy else 1
    return sum_in_threads(work, blocks, n_threads)


def _exponential(x: Array, xp: Namespace) -> Array:
    """Return exp(x); NumPy's takes the place of ``x``, which is not used again."""
    return np.exp(x, out=x) if is_numpy_namespace(xp) else xp.exp(x)


def _row_sums(x: Array, wide: Any, xp: Namespace) -> Array:
    """Return the sums over the classes, in the dtype ``wide``."""
    if is_numpy_namespace(xp) and x.flags.c_contiguous:
        # As exact as `sum(dtype=float64)` and twice as fast on rows.
        return np.einsum("nk->n", x, dtype=wide, casting="unsafe")
    return xp.sum(x, axis=1, dtype=wide)


def _row_peaks(x: Array, xp: Namespace) -> Array:
    """Return the row maxima, of shape (n, 1)."""
    if is_numpy_namespace(xp) and x.flags.c_contiguous:
        # Half the time of `max`, whose inner loop is slow on rows of tens or hundreds.
        return x[np.arange(len(x)), x.argmax(axis=1)][:, None]
    return xp.max(x, axis=1, keepdims=True)
