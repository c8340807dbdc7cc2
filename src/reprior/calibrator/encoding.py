"""Turn frames and class names into score arrays and class indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from reprior._warnings import warn
from reprior.core.arrays import constant, is_traced, namespace, to_numpy
from reprior.core.checks import check_bounds, few, index_of, is_missing
from reprior.core.prior import as_prior, as_target_prior
from reprior.exceptions import (
    Argument,
    Element,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
    Setting,
)
from reprior.metrics.count_metrics import find_metric, group_indices
from reprior.profile.dask_arrays import (
    DaskArrays,
    is_lazy_frame,
    lazy_column,
    lazy_columns,
    lazy_names,
    same_partitions,
)
from reprior.profile.objective import Constraint
from reprior.profile.samples import Samples, refuse_nothing
from reprior.profile.source import InMemory
from reprior.tuning.problem import Problem

__all__ = [
    "Terms",
    "are_indices",
    "as_classes",
    "as_mapping",
    "assumed_order",
    "cost_array",
    "encode",
    "encode_part",
    "encode_part_labels",
    "is_range",
    "read_terms",
    "refuse_missing",
    "refuse_other_index",
    "score_array",
    "state_problem",
]

Vector: TypeAlias = np.ndarray[Any, Any]

MISSING_LABELS = (
    "Drop such samples and their scores, or give them a label of their own, such as 'unlabelled' "
    "or -1, and pass it as ignore_index."
)

IGNORED = -1
"""Label of samples to leave out, where class names are replaced by indices."""


class Terms(NamedTuple):
    """The classes, and both priors in their order."""

    classes: Vector
    names: Vector | None
    """The classes where labels are names, None where they are indices."""
    source_prior: Vector
    target_prior: Vector


def encode(
    options: Any, scores: Any, labels: Any, sample_weight: Any, image_ids: Any = None
) -> tuple[InMemory | DaskArrays, Terms]:
    """Return a source of samples, read as a calibrator's ``options`` say, and the classes."""
    _refuse_names_as_scores(scores, labels)
    refuse_other_index(labels, scores, "labels", "scores")
    refuse_other_index(sample_weight, scores, "sample_weight", "scores")
    refuse_other_index(sample_weight, labels, "sample_weight", "labels")
    scores, labels, sample_weight = same_partitions(scores, labels, sample_weight)
    labels, sample_weight = lazy_column(labels), lazy_column(sample_weight)
    terms = read_terms(options, options.classes, scores=scores, labels=labels)
    indices, ignored = encode_labels(labels, terms.names, options.ignore_index)
    values = score_array(scores, terms.names)
    if isinstance(indices, np.ndarray) and indices is not labels and not _is_array(labels):
        indices = constant(indices, namespace(values), like=values)
    if _has_to_numpy(sample_weight):
        sample_weight = sample_weight.to_numpy()
    n_classes = terms.classes.size
    _refuse_certified_maps(options, np.ndim(indices) if not is_traced(indices) else indices.ndim)
    if array_api_compat.is_dask_array(values):
        if image_ids is not None:
            raise OptionError(
                argument="image_ids",
                rule="must go with arrays in memory",
                got="them with Dask arrays",
                remedy="Compute the arrays first, or leave the ids out.",
            )
        arrays = DaskArrays(
            values,
            indices,
            sample_weight,
            n_classes=n_classes,
            kind=options.kind,
            class_axis=options.class_axis,
            ignore_index=ignored,
        )
        return arrays, terms
    samples = Samples.of(
        values,
        indices,
        sample_weight,
        n_classes=n_classes,
        kind=options.kind,
        class_axis=options.class_axis,
        ignore_index=ignored,
        part=True,
        image_ids=image_ids,
        first_image=0,
    )
    if not samples.any_counts:
        refuse_nothing(samples.labels.size)
    return InMemory(samples), terms


def encode_part(
    options: Any,
    terms: Terms,
    scores: Any,
    labels: Any,
    sample_weight: Any,
    first_image: int | None = None,
) -> Samples:
    """Read one part of a larger set, whose classes are known.

    Its first image, of maps, has the number ``first_image``.

    Integer labels are class indices; others are names. Columns of a frame are put in the order of
    the classes.
    """
    indices, ignored = encode_part_labels(options, terms, labels)
    _refuse_certified_maps(options, np.ndim(indices))
    return Samples.of(
        score_array(scores, None if is_range(terms.classes) else terms.classes),
        indices,
        sample_weight,
        n_classes=terms.classes.size,
        kind=options.kind,
        class_axis=options.class_axis,
        ignore_index=ignored,
        part=True,
        first_image=first_image,
    )


def encode_part_labels(options: Any, terms: Terms, labels: Any) -> tuple[Any, int | None]:
    """Return class indices of one part, and the index that marks samples to leave out."""
    ignore_index = options.ignore_index
    if not are_indices(labels):
        return encode_labels(labels, terms.classes, ignore_index)
    is_index = ignore_index is None or isinstance(ignore_index, int | np.integer)
    return labels, ignore_index if is_index else IGNORED


def read_terms(options: Any, classes: Any, *, scores: Any = None, labels: Any = ()) -> Terms:
    """Return the classes, given or read from the data, and both priors in their order."""
    prior = as_mapping(options.source_prior)
    named = isinstance(prior, Mapping)
    n_classes = len(prior) if named else as_prior(prior, name="source_prior").size
    names = resolve_classes(
        classes,
        n_classes=n_classes,
        source_prior=prior,
        scores=scores,
        labels=labels,
        ignore_index=options.ignore_index,
    )
    resolved = np.arange(n_classes) if names is None else names
    order = resolved.tolist()
    return Terms(
        classes=resolved,
        names=names,
        source_prior=as_prior(prior, name="source_prior", classes=order),
        target_prior=as_target_prior(
            as_mapping(options.target_prior), n_classes=n_classes, classes=order
        ),
    )


def state_problem(options: Any, terms: Terms, *, log_loss: bool = False) -> Problem:
    """Return the tuning problem that a calibrator's ``options`` state, for these classes.

    With ``log_loss`` no metric of decisions is tuned: the option ``metric`` is not used.
    """
    order = terms.classes.tolist()
    n_classes = terms.classes.size
    names = None if terms.names is None else order
    label_prior = options.label_prior
    if label_prior is not None:
        label_prior = as_prior(
            as_mapping(label_prior),
            name="label_prior",
            n_classes=n_classes,
            allow_zero=True,
            classes=order,
        )
    groups = group_indices(getattr(options, "class_groups", None), n_classes, names)
    metric = find_metric(
        "balanced_accuracy" if log_loss else options.metric,
        n_classes=n_classes,
        classes=names,
        class_groups=groups,
    )
    return Problem(
        classes=terms.classes,
        source_prior=terms.source_prior,
        target_prior=terms.target_prior,
        metric=metric,
        constraints=[
            rule.resolved(n_classes=n_classes, classes=names, class_groups=groups)
            for rule in Constraint.parse_all(options.subject_to, metric)
        ],
        bounds=check_bounds(options.bounds),
        temperature=1.0 if options.temperature is None else options.temperature,
        label_prior=label_prior,
    )


def _refuse_certified_maps(options: Any, n_dimensions: int) -> None:
    """Refuse to promise constraints by the pixels of images, which are no independent samples."""
    if options.certify is not None and n_dimensions > 1:
        raise OptionError(
            argument="certify",
            rule="must be left out for maps: the pixels of an image are not drawn independently",
            got=f"{options.certify:g} with labels of {n_dimensions} axes",
            remedy="Pass one sample per image, or leave it out.",
        )


def _refuse_names_as_scores(scores: Any, labels: Any) -> None:
    """Refuse names of classes in the place of scores: labels, predicted or in the wrong order."""
    first = scores[0] if isinstance(scores, list | tuple) and scores else None
    dtype = getattr(scores, "dtype", None)
    if not isinstance(first, str) and getattr(dtype, "kind", "") not in ("U", "O", "T"):
        return
    if len(np.shape(labels)) < 2:
        if len(np.shape(scores)) == 1:
            raise ScoresError(
                argument="scores",
                rule="must hold a score per class for every sample, not the predicted labels",
                got=f"names of classes, of shape {np.shape(scores)}",
                remedy=[
                    "Pass the model's logits, or its probabilities with ",
                    Setting("kind", "probs"),
                    ".",
                ],
            )
        return
    raise ScoresError(
        argument="scores",
        rule=["must come before ", Argument("labels")],
        got=f"names of classes, and then numbers of shape {np.shape(labels)}",
        remedy="Pass the scores first, then the labels.",
    )


def refuse_other_index(values: Any, like: Any, name: str, like_name: str) -> None:
    """Refuse a pandas object whose index is not that of another one.

    Rows are paired by position, which would be silently wrong where the rows were re-ordered or
    selected. Objects without an index, and of another length, are not compared.
    """
    index, other = _row_index(values), _row_index(like)
    if index is None or other is None or len(index) != len(other) or index.equals(other):
        return
    pairs = zip(index.tolist(), other.tolist(), strict=True)
    different = ((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    first = next(different, None)
    if first is None:  # equal values of other types, such as the same times in two time zones
        return
    place, (got, expected) = first
    raise LabelsError(
        argument=name,
        rule=["must have the index of ", Argument(like_name)],
        got=f"{name}.index[{place}]={got!r}, where {like_name}.index[{place}]={expected!r}",
        remedy=f"Align them with {name}.loc[{like_name}.index]; or, if the rows already are in the "
        f"same order, pass {name}.to_numpy().",
    )


def _row_index(values: Any) -> Any:
    """Return the index of a series or frame of pandas; None for everything else."""
    index = getattr(values, "index", None)
    return index if hasattr(index, "equals") and _has_to_numpy(values) else None


def as_mapping(prior: Any) -> Any:
    """Return a prior with an index (a pandas series) as {class: value}, and others unchanged."""
    index = index_of(prior)
    return prior if index is None else dict(zip(index, prior.tolist(), strict=True))


def score_array(scores: Any, classes: Vector | None) -> Any:
    """Return scores as an array; the columns of a frame in the order of ``classes``.

    A frame (pandas, polars) whose columns are named after the classes is put in their order. If no
    column is named after a class, the order stays; if only some are, the frame is refused.
    """
    if is_lazy_frame(scores):
        if classes is not None and set(scores.columns) != set(classes.tolist()):
            _refuse_partial_names(
                list(scores.columns),
                classes.tolist(),
                "columns",
                "scores",
                ScoresError,
                as_array="to_dask_array(lengths=True)",
            )
        return lazy_columns(scores, classes)
    if not _is_frame(scores):
        return scores.to_numpy() if _has_to_numpy(scores) else scores
    columns = list(scores.columns)
    names = list(range(len(columns))) if classes is None else classes.tolist()
    if columns != names and set(columns) == set(names):
        scores = scores[names]
    elif columns != names and classes is not None:
        _refuse_partial_names(columns, names, "columns", "scores", ScoresError)
    values = scores.to_numpy()
    if values.dtype == object:
        raise ScoresError(
            argument="scores",
            rule="must be numbers in every column",
            got="a frame with other types in it",
            remedy="Select the columns of scores, one per class.",
        )
    return values


def cost_array(costs: Any, classes: Vector) -> Any:
    """Return costs as an array; rows and columns of a frame in the order of ``classes``.

    If no name is a class, the order stays; if only some are, the frame is refused. If there are
    more or fewer columns than classes, they are decisions and stay in their order.
    """
    if not _is_frame(costs):
        return costs
    names = classes.tolist()
    rows = _row_names(costs)
    columns = list(costs.columns)
    values = costs.to_numpy()
    if rows is not None and rows != names:
        if set(rows) == set(names):
            values = values[[rows.index(name) for name in names]]
        else:
            _refuse_partial_names(rows, names, "index", "costs", OptionError)
    if len(columns) == len(names) and columns != names:
        if set(columns) == set(names):
            values = values[:, [columns.index(name) for name in names]]
        else:
            _refuse_partial_names(columns, names, "columns", "costs", OptionError)
    return values


def _row_names(frame: Any) -> list[Any] | None:
    """Return the index of a frame; None for one without an index (polars)."""
    index = getattr(frame, "index", None)
    return None if index is None or callable(index) else list(index)


def _refuse_partial_names(
    names: list[Any],
    classes: list[Any],
    axis: str,
    argument: str,
    error: type[RepriorError],
    as_array: str = "to_numpy()",
) -> None:
    """Refuse the names on an axis of a frame if some are classes and others are not."""
    if set(names).isdisjoint(classes):
        return
    unknown = [name for name in names if name not in set(classes)]
    missing = [name for name in classes if name not in set(names)]
    got = f"{unknown[0]!r}, which is no class" if unknown else f"no {missing[0]!r}"
    raise error(
        [
            f"the {axis} of ",
            Argument(argument),
            " must be the classes, each once and in any order, or none of them.",
        ],
        got=f"{got}, among {few(names)}",
        remedy=f"The classes are {few(classes)}. Rename or select, or pass {argument}.{as_array} "
        f"to take what is there in the order of the classes.",
    )


def resolve_classes(
    classes: Any,
    *,
    n_classes: int,
    source_prior: Any,
    scores: Any,
    labels: Any,
    ignore_index: Any = None,
) -> Vector | None:
    """Return the class of every score column, or None where labels are class indices.

    These are ``classes``, if given. Otherwise, where a ``source_prior`` mapping or the labels have
    names, they are the columns of a frame of scores with these names, or else the sorted names, as
    scikit-learn's models order their columns, with a warning.
    """
    if classes is None and (isinstance(source_prior, Mapping) or not are_indices(labels)):
        is_mapping = isinstance(source_prior, Mapping)
        names = set(source_prior) if is_mapping else _label_names(labels, ignore_index)
        if hasattr(scores, "columns") and names <= set(scores.columns):
            classes = list(scores.columns)
        elif len(names) == n_classes:
            classes = assumed_order(names)
        else:
            classes = sorted(names)  # refused below, by their number
    if classes is None:
        return None
    resolved = as_classes(classes)
    if resolved.size != n_classes or len(set(resolved.tolist())) != n_classes:
        raise OptionError(
            argument="classes",
            rule=[
                f"must name {n_classes} different classes, one per entry of ",
                Argument("source_prior"),
            ],
            got=f"{resolved.size}: {few(resolved.tolist())}",
            remedy="Pass classes=… in the order of the scores.",
        )
    return resolved


def assumed_order(names: Iterable[Any], scores: Any = None) -> list[Any]:
    """Return class names in sorted order, with a warning that this order is assumed.

    No warning for 0 … K−1 and booleans, which have no other order, and where ``scores`` are a
    frame with these columns.
    """
    order = sorted(names)
    are_booleans = all(isinstance(name, bool) for name in order)
    in_columns = hasattr(scores, "columns") and set(order) <= set(scores.columns)
    if order != list(range(len(order))) and not are_booleans and not in_columns:
        shown = [name.item() if isinstance(name, np.generic) else name for name in order]
        warn(
            [
                "The order of the classes is not given: the columns of ",
                Argument("scores"),
                f" are taken to be in sorted order, {few(shown)}. Pass ",
                Setting("classes", shown) if len(shown) <= 6 else Argument("classes"),
                " if they are, or the names in the order of the columns.",
            ]
        )
    return order


def _label_names(labels: Any, ignore_index: Any) -> set[Any]:
    """Return the different names among the labels, without the one of samples to leave out."""
    flat = np.asarray(_values(labels), dtype=object).reshape(-1)
    refuse_missing(flat)
    names = set(flat.tolist()) - {ignore_index}
    if len({isinstance(name, str) for name in names}) > 1:
        odd = next(i for i, name in enumerate(flat) if not isinstance(name, str))
        raise LabelsError(
            argument="labels",
            rule="must be all names or all class indices",
            got=[Element("labels", (odd,), repr(flat[odd])), " among names"],
            remedy=["Correct the labels, or pass all classes as ", Argument("classes"), "."],
        )
    return names


def refuse_missing(labels: Vector, name: str = "labels") -> None:
    """Refuse labels that are missing: None, NaN, or pandas' NA."""
    if labels.dtype.kind not in "fO":
        return
    for i, label in enumerate(labels.tolist()):
        if is_missing(label):
            raise LabelsError(
                argument=name,
                rule="must name a class for every sample",
                got=[Element(name, (i,), repr(label)), ", which is missing"],
                remedy=MISSING_LABELS if name == "labels" else "Drop such samples.",
            )


def encode_labels(labels: Any, classes: Vector | None, ignore_index: Any) -> tuple[Any, int | None]:
    """Return class indices, and the index that marks samples to leave out."""
    if _may_hold_nan(labels):
        refuse_missing(np.asarray(_values(labels), dtype=object).reshape(-1))
    if classes is None or is_range(classes):
        return (labels.to_numpy() if _has_to_numpy(labels) else labels), ignore_index
    namespace(labels)
    ignored = None if ignore_index is None else IGNORED
    if is_traced(labels):  # Dask arrays: names are looked up when they are computed
        codes = labels.map_blocks(_codes, classes, ignore_index, dtype=np.int64)
        return codes, ignored
    codes = _codes(_values(labels), classes, ignore_index)
    if _is_array(labels):  # put the indices on the labels' device
        codes = constant(codes, namespace(labels), like=labels)
    return codes, ignored


def _codes(host: Any, classes: Vector, ignore_index: Any) -> Vector:
    """Return the class indices of names."""
    index = {name: i for i, name in enumerate(classes.tolist())}
    flat = np.asarray(host, dtype=object).reshape(-1)
    codes = np.fromiter((index.get(name, IGNORED - 1) for name in flat), np.int64, flat.size)
    if ignore_index is not None:
        codes[flat == ignore_index] = IGNORED
    unknown = np.flatnonzero(codes == IGNORED - 1)
    if unknown.size:
        refuse_missing(flat)
        first = int(unknown[0])
        raise LabelsError(
            argument="labels",
            rule=f"must be among the classes, {few(classes.tolist())}",
            got=Element("labels", (first,), repr(flat[first])),
            remedy=[
                "For indices of the classes, pass np.asarray(classes)[labels]. "
                if isinstance(flat[first], int | np.integer) and 0 <= flat[first] < classes.size
                else "",
                "Correct the label, or pass all classes as ",
                Argument("classes"),
                ".",
            ],
        )
    return codes.reshape(np.shape(host))


def is_range(classes: Vector) -> bool:
    """Tell whether the classes are 0 … K−1, so that names and indices are the same."""
    return classes.dtype.kind in "iu" and bool((classes == np.arange(classes.size)).all())


def as_classes(classes: Any) -> Vector:
    """Return class names as a vector, with the dtype of their type if they have the same one."""
    values = list(classes.tolist() if hasattr(classes, "tolist") else classes)
    is_one_type = len({type(value) for value in values}) == 1
    return np.asarray(values) if is_one_type else np.asarray(values, dtype=object)


def _values(labels: Any) -> Any:
    """Return labels as (nested) Python values, so that 1 and np.int64(1) are one class."""
    if is_traced(labels):
        return lazy_names(labels)
    array = labels.to_numpy() if _has_to_numpy(labels) else labels
    if not isinstance(array, list | tuple):
        return to_numpy(array).tolist()
    values = np.asarray(array)
    # In a list with names NumPy turns numbers and missing values into names as well.
    return (np.asarray(array, dtype=object) if values.dtype.kind in "US" else values).tolist()


def are_indices(labels: Any) -> bool:
    """Tell whether labels are numbers, and so may be class indices."""
    if _has_to_numpy(labels):
        labels = labels.to_numpy()
    if hasattr(labels, "dtype"):
        return (
            str(labels.dtype)
            .rsplit(".", maxsplit=1)[-1]
            .startswith(("int", "uint", "bool", "float"))
        )
    return np.asarray(labels).dtype.kind in "iubf"


def _may_hold_nan(labels: Any) -> bool:
    """Tell whether labels are floats in memory."""
    if is_traced(labels):
        return False
    dtype = getattr(labels, "dtype", None)
    if dtype is None:
        return isinstance(labels, list | tuple) and np.asarray(labels).dtype.kind == "f"
    return str(dtype).rsplit(".", maxsplit=1)[-1].lower().startswith("float")


def _is_array(values: Any) -> bool:
    """Tell whether ``values`` belong to an array library other than NumPy."""
    return not isinstance(values, np.ndarray) and array_api_compat.is_array_api_obj(values)


def _has_to_numpy(values: Any) -> bool:
    return hasattr(values, "to_numpy")


def _is_frame(values: Any) -> bool:
    return _has_to_numpy(values) and hasattr(values, "columns")
