"""Checks of arguments that many functions share.

Each refuses a bad argument with an error that carries the argument, the rule, what was got
instead and where, and the remedy. ``name`` is what the argument is called, or a reference to a
part of one such as ``Argument("bounds", (0,))``.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
    Setting,
    Text,
    Words,
)

__all__ = [
    "KINDS",
    "as_parts",
    "check_bounds",
    "check_choice",
    "check_class_axis",
    "check_finite_number",
    "check_kind",
    "check_labels",
    "check_sample_weight",
    "column_names",
    "few",
    "first_index",
    "index_of",
    "is_increasing",
    "is_missing",
    "name_of",
    "nearest_name",
    "refuse_reordered",
    "sentences",
    "short_number",
    "within_classes",
]

LARGEST_WEIGHTS = 1e150
"""What sample weights may sum to: squares of the sum, which intervals need, stay finite."""

KINDS = ("logits", "probs", "log_probs")
"""What scores can be: unnormalised log-scores, probabilities, or their logarithms."""


def check_choice(
    name: str | Argument,
    value: Any,
    allowed: Iterable[str],
    *,
    error: type[RepriorError] = OptionError,
    hint: Text = "",
) -> None:
    """Refuse a ``value`` that is not among the ``allowed`` names; suggest the nearest one.

    Examples
    --------
    >>> check_choice("kind", "logit", KINDS)
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `kind` must be one of 'logits', 'probs', 'log_probs'. Got 'logit'. Did you mean 'logits'?
    """  # noqa: E501 - the sentence as it is raised
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return
    choice = f"one of {', '.join(map(repr, names))}" if len(names) > 1 else repr(names[0])
    near = nearest_name(value, names)
    raise error(
        argument=name,
        rule=f"must be {choice}",
        got=repr(value),
        remedy=sentences(f"Did you mean {near!r}?" if near else "", hint),
    )


def sentences(*texts: Text) -> list[Any]:
    """Return texts as one, with spaces between those that are not empty.

    Examples
    --------
    >>> sentences("Drop the class.", "", ["Or pass ", Setting("smoothing", 1), "."])
    ['Drop the class.', ' ', 'Or pass ', Setting(name='smoothing', value=1), '.']
    """
    joined: list[Any] = []
    for text in texts:
        parts = as_parts(text)
        if parts not in ([], [""]):
            joined += [" ", *parts] if joined else parts
    return joined


def as_parts(text: Text) -> list[Any]:
    """Return a text as the list of its parts."""
    return list(text) if isinstance(text, list | tuple) else [text]


def nearest_name(value: Any, names: list[str]) -> str | None:
    """The name that was probably meant: spelt alike, or one that begins with or holds it."""
    if not isinstance(value, str) or not value:
        return None
    word = value.lower()
    import difflib

    alike = difflib.get_close_matches(word, names, n=1)
    begun = [name for name in names if name.startswith(word)]
    held = [name for name in names if word in name]
    return next(iter([*alike, *begun, *held]), None)


def check_kind(kind: str) -> None:
    """Refuse a ``kind`` of scores that is not in :data:`KINDS`."""
    check_choice("kind", kind, KINDS)


def check_finite_number(
    name: str | Argument,
    value: Any,
    *,
    positive: bool = False,
    minimum: float | None = None,
    hint: Text = "",
) -> float:
    """Return ``value`` as a float; refuse what is no finite number, or too small, or a boolean."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    rule = "must be a finite number"
    if positive:
        rule += " above 0"
    elif minimum is not None:
        rule += f" of at least {minimum:g}"
    below = (positive and number <= 0) or (minimum is not None and number < minimum)
    if isinstance(value, str | bool | np.bool_) or not math.isfinite(number) or below:
        raise OptionError(argument=name, rule=rule, got=repr(value), remedy=hint)
    return number


def check_bounds(
    bounds: Any, *, name: str | Argument = "bounds", positive: bool = False
) -> tuple[float, float]:
    """Return ``bounds`` as (low, high); refuse what is not finite, or low not below high."""
    called = name_of(name)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or len(bounds) != 2:
        raise OptionError(
            argument=name,
            rule="must be two numbers (low, high)",
            got=repr(bounds),
            remedy=["Pass for example ", Setting(called, (0.0, 2.0)), "."],
        )
    low = check_finite_number(Argument(called, (0,)), bounds[0], positive=positive)
    high = check_finite_number(Argument(called, (1,)), bounds[1], positive=positive)
    rule = "must be (low, high) with low below high"
    if low > high:
        raise OptionError(
            argument=name,
            rule=rule,
            got=f"({low:g}, {high:g}): bounds reversed",
            remedy=["Pass ", Setting(called, (short_number(high), short_number(low))), "."],
        )
    if low == high:
        raise OptionError(
            argument=name,
            rule=rule,
            got=f"({low:g}, {high:g}), an empty range",
            remedy="Pass two different numbers.",
        )
    return low, high


def short_number(number: float) -> float:
    """Return a finite number that is shown as it is typed: 2 for 2.0."""
    short = float(f"{number:g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short


def check_class_axis(shape: Sequence[int], class_axis: Any) -> int:
    """Return the class axis of scores of this ``shape``, counted from 0."""
    ndim = len(shape)
    is_integer = isinstance(class_axis, int | np.integer) and not isinstance(class_axis, bool)
    if not is_integer or not -ndim <= class_axis < ndim:
        raise OptionError(
            argument="class_axis",
            rule="must be an axis of the scores",
            got=f"{class_axis!r} for scores of shape {tuple(shape)}",
            remedy=f"Pass an integer from {-ndim} to {ndim - 1}.",
        )
    return int(class_axis) % ndim


def check_labels(
    labels: Any,
    *,
    n_classes: int,
    shape: Sequence[int],
    ignore_index: int | None = None,
    name: str | Argument = "labels",
) -> None:
    """Refuse labels that are no class indices 0 … K−1 of the given shape.

    ``ignore_index`` is allowed whatever its value. Booleans are allowed where K = 2.
    """
    host = to_numpy(labels)
    _check_label_dtype(host, n_classes, name)
    if host.shape != tuple(shape):
        raise LabelsError(
            argument=name,
            rule="must have one entry per sample",
            got=f"shape {host.shape} for samples of shape {tuple(shape)}",
            remedy=[
                "Check ",
                Argument("class_axis"),
                ", or pass class indices, not one-hot rows.",
            ],
        )
    if host.size == 0:
        raise LabelsError(
            argument=name,
            rule="must not be empty",
            got=f"shape {host.shape}",
            remedy="Pass some samples.",
        )
    if within_classes(host, n_classes):
        return
    bad = (host < 0) | (host >= n_classes)
    if ignore_index is not None:
        bad &= host != ignore_index
    if bad.any():
        where = first_index(bad)
        label = host[where].item()
        raise LabelsError(
            argument=name,
            rule=f"must be class indices from 0 to {n_classes - 1}",
            got=Element(name_of(name), where, label),
            remedy=sentences(
                _if_from_1(host, n_classes, ignore_index),
                [
                    f"Map the labels to 0…{n_classes - 1}, or pass ",
                    Setting("ignore_index", label),
                    " if it marks samples to leave out. If it is a class, the prior lacks it.",
                ],
            ),
        )


def _if_from_1(host: np.ndarray[Any, Any], n_classes: int, ignore_index: int | None) -> str:
    """Return what to do about labels 1 … K, where these are; an empty text for others."""
    kept = host if ignore_index is None else host[host != ignore_index]
    if kept.min() != 1 or kept.max() != n_classes:
        return ""
    text = f"They are from 1 to {n_classes}: if they count from 1, subtract 1"
    return f"{text} from all that are not ignored." if kept.size < host.size else f"{text}."


def within_classes(host: np.ndarray[Any, Any], n_classes: int) -> bool:
    """Whether all integers are 0 … K−1; in one pass: negative ones, read unsigned, are huge."""
    if not host.size:
        return True
    if host.dtype.kind == "i" and host.dtype.isnative and n_classes <= np.iinfo(host.dtype).max:
        return bool(host.view(f"u{host.dtype.itemsize}").max() < n_classes)
    return bool(host.min() >= 0 and host.max() < n_classes)


def is_missing(label: Any) -> bool:
    """Tell whether a label is missing: None, NaN, or NA or NaT of pandas.

    Examples
    --------
    >>> [is_missing(label) for label in (None, float("nan"), 0, "cat")]
    [True, True, False, False]
    """
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, float | np.floating) and bool(label != label)


def _check_label_dtype(host: np.ndarray[Any, Any], n_classes: int, name: str | Argument) -> None:
    if host.dtype.kind in "iu" or (host.dtype.kind == "b" and n_classes == 2):
        return
    missing = host != host if host.dtype.kind == "f" else np.zeros(host.shape, bool)
    if host.dtype.kind == "O":
        missing = np.array([is_missing(label) for label in host.flat], bool).reshape(host.shape)
    if missing.any():
        where = first_index(missing)
        raise LabelsError(
            argument=name,
            rule="must be integers (class indices)",
            got=Element(name_of(name), where, str(host[where])),
            remedy="Drop the samples without a label, from the scores too.",
        )
    remedy: Text
    if host.dtype.kind == "f":
        called = name_of(name)
        remedy = Words(
            f"Cast them, after checking for NaN: {called}.astype(int), or {called}.long() in "
            f"PyTorch.",
            "Cast them to integers, after checking for NaN.",
        )
    elif host.dtype.kind == "b":
        remedy = f"Booleans name two classes only; there are {n_classes}."
    else:
        remedy = "Replace class names by their indices."
    raise LabelsError(
        argument=name,
        rule="must be integers (class indices)",
        got=f"dtype {host.dtype}",
        remedy=remedy,
    )


def check_sample_weight(sample_weight: Any, shape: Sequence[int]) -> None:
    """Refuse sample weights that are not finite, negative, all zero, huge, or of another shape."""
    host = to_numpy(sample_weight)
    if host.dtype.kind not in "iufb":
        raise LabelsError(
            argument="sample_weight",
            rule="must be numbers",
            got=f"dtype {host.dtype}",
            remedy="Pass one number per sample.",
        )
    if host.shape != tuple(shape):
        raise LabelsError(
            argument="sample_weight",
            rule="must have one entry per sample",
            got=f"shape {host.shape} for samples of shape {tuple(shape)}",
            remedy="Pass weights of the labels' shape.",
        )
    bad = ~np.isfinite(host) | (host < 0)
    if bad.any():
        where = first_index(bad)
        raise LabelsError(
            argument="sample_weight",
            rule="must be finite and not negative",
            got=Element("sample_weight", where, f"{host[where]:g}"),
            remedy="Give samples to leave out the weight 0.",
        )
    if not host.any():
        raise LabelsError(
            argument="sample_weight",
            rule="must be positive for at least one sample",
            got="zeros only",
            remedy="Leave it out to weigh all samples alike.",
        )
    with np.errstate(over="ignore"):
        total = float(host.sum(dtype=np.float64))
    if total > LARGEST_WEIGHTS:
        raise LabelsError(
            argument="sample_weight",
            rule=f"must sum to at most {LARGEST_WEIGHTS:g}: larger sums overflow",
            got=f"a sum of {total:g}",
            remedy="Divide all weights by the largest.",
        )


def name_of(argument: str | Argument) -> str:
    """Return how Python calls an argument, without quotes: ``bounds[0]``."""
    if isinstance(argument, str):
        return argument
    place = f"[{', '.join(map(str, argument.place))}]" if argument.place else ""
    return f"{argument.name}{place}"


def first_index(mask: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Return the index of the first True of ``mask``."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def few(names: Sequence[Any], n: int = 6) -> str:
    """Return names as sentences list them."""
    listed = ", ".join(repr(name) for name in names[:n])
    return listed + (", …" if len(names) > n else "")


def index_of(values: Any) -> list[Any] | None:
    """Return the index of a series, pandas' for one; None for what has no names.

    Examples
    --------
    >>> index_of([0.3, 0.7]) is None
    True
    """
    if isinstance(values, np.ndarray):
        return None
    index = getattr(values, "index", None)
    if index is None or callable(index) or not hasattr(values, "tolist"):
        return None
    return list(index.tolist())


def column_names(values: Any) -> list[Any] | None:
    """Return the names of the columns of a frame; None for what is none."""
    columns = getattr(values, "columns", None)
    return None if columns is None or not hasattr(values, "to_numpy") else list(columns)


def is_increasing(names: Sequence[Any]) -> bool:
    """Tell whether names are sorted, each once; those of several types are not."""
    try:
        return all(bool(a < b) for a, b in itertools.pairwise(names))
    except TypeError:
        return False


def refuse_reordered(
    names: Sequence[Any] | None, like: Sequence[Any] | None, *, name: str, of: Text
) -> None:
    """Refuse columns that are in other places than those of the same names elsewhere.

    ``name`` and ``of`` are what the two are called. None is of what has no names.
    """
    if names is None or like is None:
        return
    place = {each: i for i, each in enumerate(like)}
    if all(place.get(each, i) == i for i, each in enumerate(names)):
        return
    raise ScoresError(
        argument=name,
        rule=["must have its columns in the order of ", *as_parts(of)],
        got=f"{few(names)}, and there {few(like)}",
        remedy=["Select the columns of ", Argument(name), " in that order."],
    )
