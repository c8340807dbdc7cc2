r"""The priors of the paper: P_s(y), what the model was trained on, and P_t(y), what awaits it.

The source prior is the distribution of classes *as the model saw it in training*: the counts,
times the class weights of the loss or of the sampler. It never comes from the calibration labels.
"""

import math
import numbers
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.arrays import Array, as_array, constant, is_numpy_namespace, namespace, to_numpy
from reprior.core.checks import (
    as_parts,
    check_choice,
    check_finite_number,
    check_labels,
    check_sample_weight,
    few,
    index_of,
    is_increasing,
    sentences,
)
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    OptionError,
    PriorError,
    RepriorWarning,
    Setting,
    Text,
    Words,
)

__all__ = ["as_prior", "as_target_prior", "prior_from_counts", "prior_from_labels", "slopes"]

EQUAL_SLOPES = 1e-13
"""Slopes closer than this differ by the rounding of two logarithms alone (each below 50)."""

_LEFT_OUT = 255
"""What often marks a label to be left out."""

LABELS_PER_VALUE = 20
"""How often each number occurs, on average and at least, among counts that look like labels."""

SUM_TOLERANCE = 1e-6
"""How far a prior's sum may be from 1: room for float32 rounding over thousands of classes."""


def prior_from_counts(counts: Any, *, weights: Any = None, smoothing: float = 0.0) -> Array:
    r"""Return the prior that class counts, and class weights, amount to.

    .. math:: P_s(k) = \frac{(n_k + a)\, v_k}{\sum_j (n_j + a)\, v_j}

    where n_k is the number of training samples of class k, a is ``smoothing`` and v_k is the
    weight of class k in the loss or in the sampler (1 where none was used). With weights this is
    the *effective* prior, the one a model trained with them has learnt.

    Parameters
    ----------
    counts : array-like of shape (K,), or {class: count}
        Training samples per class. A mapping from class names is in the order of the classes; one
        from the indices 0 … K−1, such as ``collections.Counter(labels)``, in any order. A pandas
        Series must be sorted by its index: ``labels.value_counts().sort_index()``.
    weights : array-like of shape (K,), or {class: weight}, optional
        Class weights the model was trained with.
    smoothing : float, default 0
        Added to every count, before weighting; makes classes that were never seen possible.

    Returns
    -------
    array of shape (K,)
        Positive, sums to 1. Of the counts' array library; NumPy float64 for plain numbers.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: P_s(y) of Eq. 5.

    Examples
    --------
    >>> prior_from_counts([900, 90, 10])
    array([0.9 , 0.09, 0.01])

    A model trained with inverse-frequency weights has seen balanced classes:

    >>> prior_from_counts([900, 100], weights=[1 / 900, 1 / 100])
    array([0.5, 0.5])
    """
    if isinstance(counts, Mapping):
        classes = _mapping_order(counts)
        if weights is not None:
            weights = _in_class_order(weights, classes, "weights")
        counts = [counts[c] for c in classes]
    elif isinstance(weights, Mapping):
        raise PriorError(
            argument="weights",
            rule=["must be in the order of ", Argument("counts")],
            got="a mapping for counts without class names",
            remedy=["Pass a list of weights, or ", Argument("counts"), " as a mapping too."],
        )
    xp = namespace(counts)
    n = _numbers(counts, "counts", remedy="Pass one count per class.")
    smoothing = check_finite_number("smoothing", smoothing, minimum=0.0)
    _refuse_negative(n, "counts")
    mass = n + smoothing
    labels = _label_range(counts)
    _refuse_zero_counts(mass, "counts", labels)
    if labels is not None:
        warn(
            RepriorWarning(
                argument="counts",
                rule="must be the number of training samples of each class",
                got=f"{n.size} integers that repeat all numbers from {labels[0]} to {labels[1]}, "
                "which look like labels",
                remedy=_if_labels(labels[0]),
            )
        )
    if weights is not None:
        mass = mass * _class_weights(weights, n.size)
    # Scaled by the largest first: the sum of huge counts or weights must not overflow.
    mass = mass / mass.max()
    prior = mass / mass.sum()
    return prior if is_numpy_namespace(xp) else constant(prior, xp, like=counts)


def prior_from_labels(
    labels: Any,
    n_classes: int | None = None,
    *,
    classes: Any = None,
    sample_weight: Any = None,
    ignore_index: Any = None,
    smoothing: float = 0.0,
) -> Array:
    r"""Return the prior of *training* labels.

    .. math:: P_s(k) = \frac{\sum_i v_i\,[y_i = k] + a}{\sum_i v_i + K a}

    where y_i is the label of training sample i, v_i its weight (1 where none was used), a is
    ``smoothing`` and K the number of classes.

    Parameters
    ----------
    labels : array of integers or of strings, of any shape
        Class indices 0 … K−1, or class names: those the model was trained on, not those it is
        calibrated on.
    n_classes : int, optional
        K. The largest label plus one where it is not given.
    classes : sequence of str, optional
        The names in the order of the model's scores, where the labels are names. Sorted, as
        scikit-learn sorts its classes, by default.
    sample_weight : array of the labels' shape, optional
        Weights the model was trained with.
    ignore_index : int or str, optional
        A label that marks samples to leave out.
    smoothing : float, default 0
        Added to every class's weighted count.

    Returns
    -------
    array of shape (K,)
        Positive, sums to 1. Of the labels' array library.

    References
    ----------
    .. [1] Tian, Liu, Glaser, Hsu, Kira. "Posterior Re-calibration for Imbalanced Datasets",
       NeurIPS 2020: P_s(y) of Eq. 5.

    Examples
    --------
    >>> prior_from_labels([0, 0, 0, 1])
    array([0.75, 0.25])
    >>> prior_from_labels([0, 0, 1, 255], n_classes=3, ignore_index=255, smoothing=1)
    array([0.5       , 0.33333333, 0.16666667])

    Names are sorted, unless their order is given:

    >>> prior_from_labels(["dog", "cat", "cat", "cat"])
    array([0.75, 0.25])
    >>> prior_from_labels(["dog", "cat", "cat", "cat"], classes=["dog", "cat"])
    array([0.25, 0.75])
    """
    if classes is not None or _are_names(labels):
        labels, n_classes = _indices(labels, n_classes, classes, ignore_index)
        ignore_index = None if ignore_index is None else -1
    xp = namespace(labels, sample_weight)
    host = to_numpy(labels)
    weight = None if sample_weight is None else to_numpy(sample_weight)
    if weight is not None:
        check_sample_weight(weight, host.shape)
    inferred = n_classes is None
    n_classes = _number_of_classes(host, n_classes, ignore_index)
    check_labels(host, n_classes=n_classes, shape=host.shape, ignore_index=ignore_index)
    keep = np.ones(host.shape, dtype=bool) if ignore_index is None else host != ignore_index
    counts = np.bincount(
        host[keep].astype(np.intp),
        weights=None if weight is None else weight[keep].astype(np.float64),
        minlength=n_classes,
    ).astype(np.float64)
    smoothing = check_finite_number("smoothing", smoothing, minimum=0.0)
    like_counts = inferred and host.size < n_classes
    _refuse_zero_counts(counts + smoothing, "labels", like_counts=like_counts)
    prior: NDArray[np.float64] = prior_from_counts(counts, smoothing=smoothing)
    if is_numpy_namespace(xp):
        return prior
    return constant(prior, xp, like=as_array(labels, xp))


def _are_names(labels: Any) -> bool:
    """Tell whether labels are class names: all of them strings."""
    if isinstance(labels, list | tuple):
        labels = np.asarray(labels)
    kind = getattr(getattr(labels, "dtype", None), "kind", "")  # others' dtypes may have no kind
    if kind in "iufbc" and kind:
        return False
    if type(labels).__module__.partition(".")[0] not in ("numpy", "pandas", "polars"):
        return False
    return all(isinstance(label, str) for label in to_numpy(labels).ravel().tolist())


def _indices(
    labels: Any, n_classes: int | None, classes: Any, ignored: Any
) -> tuple[NDArray[np.int64], int]:
    """Return the class indices of names, −1 for those to leave out, and the number of classes."""
    host = to_numpy(np.asarray(labels) if isinstance(labels, list | tuple) else labels)
    names = host.ravel().tolist()
    order = sorted(set(names) - {ignored}) if classes is None else list(classes)
    number = {name: k for k, name in enumerate(order)}
    if len(number) != len(order) or (n_classes is not None and n_classes != len(order)):
        raise OptionError(
            argument="classes",
            rule="must name every class once",
            got=f"{len(number)} different names"
            + ("" if n_classes is None else f" and n_classes={n_classes}"),
            remedy="Pass the names in the order of the model's scores.",
        )
    if ignored is not None:
        number.setdefault(ignored, -1)
    for i, name in enumerate(names):
        if name not in number:
            raise LabelsError(
                argument="labels",
                rule=["must be among ", Argument("classes")],
                got=Element("labels", np.unravel_index(i, host.shape), repr(name)),
                remedy=f"The classes are {few(order)}.",
            )
    found = np.array([number[name] for name in names], np.int64).reshape(host.shape)
    return found, max(2, len(order))


def _number_of_classes(host: NDArray[Any], n_classes: int | None, ignore_index: int | None) -> int:
    if n_classes is not None:
        if isinstance(n_classes, bool) or int(n_classes) != n_classes or n_classes < 2:
            raise OptionError(
                argument="n_classes",
                rule="must be an integer of at least 2",
                got=repr(n_classes),
                remedy="Leave it out to take the largest label plus one.",
            )
        return int(n_classes)
    kept = host if ignore_index is None else host[host != ignore_index]
    if kept.size == 0:
        raise LabelsError(
            argument="labels",
            rule="must contain at least one sample that is not ignored",
            got=f"{host.size} samples, none of them kept",
            remedy=["Check ", Argument("ignore_index"), "."],
        )
    return max(2, int(kept.max()) + 1) if kept.dtype.kind in "iub" else 2


def as_prior(
    prior: Any,
    *,
    name: str,
    n_classes: int | None = None,
    allow_zero: bool = False,
    classes: Sequence[Any] | None = None,
) -> NDArray[np.float64]:
    """Return ``prior`` as float64 of shape (K,), or refuse what is no prior over the classes.

    Accepts any array-like, and {class: value} where ``classes`` gives the order; that order is
    also given to a series that is indexed by just these classes. The sum may miss 1 by 1e-6 and
    is then made 1.

    Examples
    --------
    >>> as_prior({"dog": 0.25, "cat": 0.75}, name="source_prior", classes=["cat", "dog"])
    array([0.75, 0.25])
    """
    index = index_of(prior)
    if classes is not None and index is not None and set(index) == set(classes):
        prior = dict(zip(index, prior.tolist(), strict=True))
    if isinstance(prior, Mapping):
        if classes is None:
            raise PriorError(
                argument=name,
                rule="must be in the order of the classes",
                got="a mapping, and no classes to order it by",
                remedy="Pass a list of values, in the order of the scores' columns.",
            )
        prior = _in_class_order(prior, list(classes), name)
    values = _numbers(prior, name, remedy="Pass one probability per class.")
    if n_classes is not None and values.size != n_classes:
        raise PriorError(
            argument=name,
            rule="must have one value per class",
            got=f"{values.size} values for {n_classes} classes",
            remedy=["Check the number of classes, and ", Argument("class_axis"), "."],
        )
    _refuse_negative(values, name)
    if not allow_zero and (values == 0).any():
        where = int(np.argmax(values == 0))
        raise PriorError(
            argument=name,
            rule="must be positive for every class",
            got=Element(name, (where,), 0),
            remedy=[
                "Drop the class, or pass ",
                Setting("smoothing", 1),
                Words(". (`prior_from_counts` takes `smoothing`.)", " with --counts."),
            ],
        )
    total = math.fsum(values)
    if abs(total - 1.0) > SUM_TOLERANCE:
        counts = total >= 1.5 and values.max() >= 1
        raise PriorError(
            argument=name,
            rule="must sum to 1",
            got=f"a sum of {total:.9g}",
            remedy=sentences(
                "These look like counts." if counts else "", f"Pass prior_from_counts({name})."
            ),
        )
    return values / total


def as_target_prior(
    target_prior: Any, *, n_classes: int, classes: Sequence[Any] | None = None
) -> NDArray[np.float64]:
    """Return the target prior, ``"uniform"`` or given, as float64 of shape (K,); zeros allowed.

    Examples
    --------
    >>> as_target_prior("uniform", n_classes=4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    if isinstance(target_prior, str):
        hint = "Or pass one probability per class."
        if target_prior == "estimate":
            hint += (
                " A mix that nobody knows is estimated by estimate_target_prior from unlabelled "
                "scores; of scikit-learn's, RebalancedClassifierCV.predict takes 'estimate'."
            )
        check_choice("target_prior", target_prior, ["uniform"], hint=hint)
        return np.full(n_classes, 1.0 / n_classes)
    return as_prior(
        target_prior, name="target_prior", n_classes=n_classes, allow_zero=True, classes=classes
    )


def slopes(
    source_prior: NDArray[np.float64], target_prior: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return w = log P_t − log P_s: how fast each class's log-score grows with the strength.

    −inf where P_t is 0. Slopes that differ by the rounding of two logarithms alone are made equal.

    Examples
    --------
    >>> slopes(np.array([0.8, 0.2]), np.array([0.0, 1.0])).round(3)
    array([ -inf, 1.609])
    """
    with np.errstate(divide="ignore"):
        w: NDArray[np.float64] = np.log(target_prior) - np.log(source_prior)
    ranked = np.sort(w[w > -np.inf])
    gaps = ranked[1:] - ranked[:-1]
    if not ((gaps > 0) & (gaps <= EQUAL_SLOPES)).any():
        return w
    new = np.concatenate([[True], gaps > EQUAL_SLOPES])
    first = ranked[new]
    snapped: NDArray[np.float64] = first[np.searchsorted(first, w, side="right") - 1]
    snapped[w == -np.inf] = -np.inf
    return snapped


def _numbers(values: Any, name: str, *, remedy: str) -> NDArray[np.float64]:
    """Return a vector of at least two finite float64 numbers."""
    _refuse_other_order(values, name)
    host = to_numpy(values)
    if host.dtype.kind not in "iuf":
        raise PriorError(
            argument=name, rule="must be numbers", got=f"dtype {host.dtype}", remedy=remedy
        )
    if host.ndim != 1:
        raise PriorError(
            argument=name, rule="must have shape (K,)", got=f"shape {host.shape}", remedy=remedy
        )
    if host.size < 2:
        raise PriorError(
            argument=name, rule="must cover at least two classes", got=f"{host.size}", remedy=remedy
        )
    finite: NDArray[np.float64] = host.astype(np.float64)
    bad = ~np.isfinite(finite)
    if bad.any():
        raise PriorError(
            argument=name,
            rule="must be finite for every class",
            got=_first_element(name, finite, bad),
            remedy=remedy,
        )
    return finite


def _first_element(name: str, values: NDArray[np.float64], bad: NDArray[np.bool_]) -> Element:
    where = int(np.argmax(bad))
    return Element(name, (where,), float(values[where]))


def _refuse_other_order(values: Any, name: str) -> None:
    """Refuse a series with an index of its own, pandas', that is not in increasing order.

    Such is what ``value_counts`` returns: by position its values would be those of other classes.
    """
    names = index_of(values)
    if names is None or is_increasing(names):
        return
    raise PriorError(
        argument=name,
        rule="must be in the order of the classes",
        got=f"a Series indexed by {few(names)}",
        remedy=f"Pass {name}.sort_index(), or {name}.reindex(classes).to_numpy() for another "
        f"order.",
    )


def _mapping_order(counts: Mapping[Any, Any]) -> list[Any]:
    """Return the classes of a mapping in their order: indices 0 … K−1 sorted, names as given.

    Other numbers, and names that a Counter lists as they first occurred, must be sorted.
    """
    classes = list(counts)
    if set(classes) == set(range(len(classes))):
        return sorted(classes)
    are_numbers = all(isinstance(c, numbers.Real) for c in classes)
    if (are_numbers or isinstance(counts, Counter)) and not is_increasing(classes):
        raise PriorError(
            argument="counts",
            rule="must be in the order of the classes",
            got=f"a {type(counts).__name__} of {few(classes)}",
            remedy="Pass a list of counts in the order of the scores' columns: "
            "[counts[c] for c in classes].",
        )
    return classes


def _refuse_negative(values: NDArray[np.float64], name: str) -> None:
    if (values < 0).any():
        raise PriorError(
            argument=name,
            rule="must not be negative",
            got=_first_element(name, values, values < 0),
            remedy="Check how it was computed.",
        )


def _refuse_zero_counts(
    mass: NDArray[np.float64],
    name: str,
    labels: tuple[int, int] | None = None,
    *,
    like_counts: bool = False,
) -> None:
    """Refuse classes without samples.

    ``labels`` is the range of counts that look like labels; ``like_counts`` says that there are
    fewer labels than classes, as of counts.
    """
    if not (mass == 0).any():
        return
    where = int(np.argmax(mass == 0))
    got: Text = Element(name, (where,), 0)
    remedy: list[Any] = ["Drop the class, or pass ", Setting("smoothing", 1), "."]
    if labels is not None:
        remedy += [" ", *as_parts(_if_labels(labels[0]))]
    if name != "counts":
        got = f"no sample of class {where}"
        if where == 0 and (mass[1:] > 0).all():
            remedy.append(f" Of labels from 1 to {mass.size - 1}, subtract 1.")
        remedy += [
            " If a label marks samples to leave out, name it by ",
            Words("ignore_index", "--ignore-index"),
            ".",
        ]
        if like_counts:
            remedy.append(
                Words(" If they are counts, pass prior_from_counts(labels).", " Are they counts?")
            )
    raise PriorError(
        argument=name,
        rule="must have at least one sample of every class",
        got=got,
        remedy=remedy,
    )


def _label_range(counts: Any) -> tuple[int, int] | None:
    """Return the smallest and the largest of counts that look like labels; None for others.

    Labels are many integers that take every value from 0 or 1 to their largest, each often. Counts
    of a long tail have gaps among the large ones. A few shots of each class may have none: a
    warning is right, not an error.
    """
    host = to_numpy(counts)
    host = host[host != _LEFT_OUT]
    if not host.size or host.dtype.kind not in "iuf" or not 0 <= host.min() <= 1:
        return None
    if host.dtype.kind == "f" and (host != np.floor(host)).any():
        return None
    low, high = int(host.min()), int(host.max())
    n_values = high - low + 1
    if not 2 <= n_values <= host.size // LABELS_PER_VALUE:
        return None
    return (low, high) if np.unique(host).size == n_values else None


def _if_labels(lowest: int) -> Text:
    called = "labels - 1" if lowest else "labels"
    return [
        "If they are labels, ",
        Words(f"pass prior_from_labels({called})", "pass their file by --counts-from-labels"),
        ".",
    ]


def _class_weights(weights: Any, n_classes: int) -> NDArray[np.float64]:
    v = _numbers(weights, "weights", remedy="Pass one weight per class.")
    if v.size != n_classes:
        raise PriorError(
            argument="weights",
            rule="must have one value per class",
            got=f"{v.size} weights for {n_classes} counts",
            remedy="Pass one weight per class.",
        )
    if (v <= 0).any():
        raise PriorError(
            argument="weights",
            rule="must be positive for every class",
            got=_first_element("weights", v, v <= 0),
            remedy="A class of weight 0 was never learnt: drop it.",
        )
    return v


def _in_class_order(values: Any, classes: Sequence[Any], name: str) -> Any:
    """Return a mapping's values in the order of ``classes``; other values as they are."""
    if not isinstance(values, Mapping):
        return values
    missing = [c for c in classes if c not in values]
    unknown = [c for c in values if c not in set(classes)]
    if missing or unknown:
        got = f"no value for {missing[0]!r}" if missing else f"a value for {unknown[0]!r}"
        raise PriorError(
            argument=name,
            rule="must have exactly one value for every class",
            got=got,
            remedy=f"The classes are {', '.join(map(repr, list(classes)[:10]))}.",
        )
    return [values[c] for c in classes]
