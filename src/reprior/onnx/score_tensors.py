"""Find the class scores of a model: traced back from its outputs, or named by the user."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import onnx

import reprior as rp
from reprior.exceptions import Argument, FoldError, Setting, Text, Words, parts
from reprior.onnx.graph import Graph, attribute

__all__ = ["CLASSIFIERS", "Place", "find_places", "lineage", "softmax_axis"]

Vector: TypeAlias = np.ndarray[Any, Any]
Values: TypeAlias = Callable[[str], Vector]

FLOATS = frozenset(
    (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.DOUBLE,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
    )
)

#: Element types of labels.
_LABEL_TYPES = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.STRING)

#: Operators with two outputs, labels and scores.
CLASSIFIERS = ("TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier")

#: Operators that do not change scores.
_SAME = ("Identity", "Dropout", "Cast")
#: Operators that do not change labels.
_SHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten")
_SAME_LABEL = (*_SAME, *_SHAPES, "LabelEncoder")

#: Operators whose outputs are log-scores unless something says otherwise, and their class axis.
_HEADS = {"Gemm": -1, "MatMul": -1, "Conv": 1, "ConvTranspose": 1}

#: How far sums of probabilities may be from 1, as in :func:`reprior.rebalance`.
_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Place:
    """A tensor of class scores, their kind, and the class axis."""

    tensor: str
    kind: str | None = None
    axis: int | None = None
    single: bool = False  # one score per sample, that of class 1
    rank: int = 2
    dtype: str = "float32"


def lineage(graph: Graph, tensor: str, *, n_classes: int) -> list[Place]:
    """Return the tensors that hold the same scores, from ``tensor`` back to the first of them."""
    return list(_climb(graph, tensor, n_classes))


def _climb(graph: Graph, tensor: str, n_classes: int) -> Iterator[Place]:
    is_label = graph.element(tensor) not in (0, *FLOATS)
    kind: str | None = None
    axis: int | None = None
    while True:
        node = graph.producer(tensor)
        if node is not None and not is_label and kind is None:
            kind, axis = _made_by(graph, node, axis)
        if node is not None and node.op_type in CLASSIFIERS and tensor == node.output[0]:
            tensor = node.output[1]
            is_label = False
            continue
        if not is_label and (node is None or node.op_type != "ZipMap"):
            yield Place(tensor, kind, axis)
        step = None if node is None else _step(graph, node, is_label, kind, axis, n_classes)
        if step is None:
            return
        tensor, is_label, kind, axis = step


def _made_by(graph: Graph, node: onnx.NodeProto, axis: int | None) -> tuple[str | None, int | None]:
    """Return kind and class axis of a node's output, as far as the node determines them."""
    operator = node.op_type
    if operator in ("Softmax", "LogSoftmax"):
        return {"Softmax": "probs", "LogSoftmax": "log_probs"}[operator], softmax_axis(graph, node)
    if operator in ("ZipMap", "Normalizer", "Sigmoid"):
        return "probs", axis if operator == "Sigmoid" else -1
    if operator in CLASSIFIERS:
        if attribute(node, "post_transform", "NONE") != "NONE" or attribute(node, "prob_a"):
            return "probs", -1
        return None if operator == "TreeEnsembleClassifier" else "logits", -1
    if operator in _HEADS:
        return "logits", _HEADS[operator] if axis is None else axis
    if operator == "Add":
        for name in node.input:
            inner = graph.producer(name)
            if inner is not None and inner.op_type in _HEADS:
                return _made_by(graph, inner, axis)
    return None, axis


def softmax_axis(graph: Graph, node: onnx.NodeProto) -> int:
    """Return the axis of a Softmax or LogSoftmax in the model's operator set."""
    return int(attribute(node, "axis", -1 if graph.opset >= 13 else 1))


def _step(
    graph: Graph,
    node: onnx.NodeProto,
    is_label: bool,
    kind: str | None,
    axis: int | None,
    n_classes: int,
) -> tuple[str, bool, str | None, int | None] | None:
    """Return the tensor before with (is_label, kind, axis), or None where the scores begin."""
    operator = node.op_type
    if is_label:
        if operator in _SAME_LABEL:
            return node.input[0], True, None, None
        if operator == "ArgMax":
            return node.input[0], False, None, int(attribute(node, "axis", 0))
        if operator == "TopK":
            return node.input[0], False, None, int(attribute(node, "axis", -1))
        if operator in ("ArrayFeatureExtractor", "Gather"):
            constant = graph.constant(node.input[0]) is not None
            return (node.input[1], True, None, None) if constant else None
        return None
    if operator == "ZipMap":
        return node.input[0], False, None, -1
    if kind is None and _is_column(graph, node, n_classes):
        return node.input[0], False, None, None if operator in _SHAPES else -1
    if operator in _SAME:
        return node.input[0], False, kind, axis
    if operator == "Transpose":
        order = attribute(node, "perm")
        shape = graph.shape(node.output[0]) or ()
        if axis is None and shape[1:].count(n_classes) == 1:
            axis = 1 + shape[1:].index(n_classes)
        moved = axis if axis is None or order is None else int(order[axis])
        return (node.input[0], False, kind, moved) if order is not None else None
    if operator in ("Softmax", "LogSoftmax") and kind != "logits":
        return node.input[0], False, "logits", softmax_axis(graph, node)
    if operator == "Sigmoid" and kind != "logits" and n_classes == 2 and _is_single(graph, node):
        return node.input[0], False, "logits", axis
    above = graph.producer(node.input[0]) if node.input else None
    if operator == "Normalizer" and above is not None and above.op_type == "LinearClassifier":
        # Normalising scores that already sum to 1 changes nothing.
        return (node.input[0], False, "probs", -1) if _sums_to_one(above) else None
    if operator == "Log" and above is not None and above.op_type == "Softmax":
        return node.input[0], False, "probs", softmax_axis(graph, above)
    return None


def _is_column(graph: Graph, node: onnx.NodeProto, n_classes: int) -> bool:
    """Whether a node selects one class's column of (N, K) scores, or reshapes it."""
    above = graph.producer(node.input[0]) if node.input else None
    if above is None:
        return False
    if node.op_type in _SHAPES:
        return _is_column(graph, above, n_classes)
    shape = graph.shape(node.input[0])
    if shape is not None and (len(shape) != 2 or shape[1] not in (None, n_classes)):
        return False
    if not _takes_one(graph, node):
        return False
    kinds = [p.kind for p in _climb(graph, node.input[0], n_classes) if p.kind is not None]
    # Of the log-scores −z and z, the second column alone is the log-odds.
    return n_classes > 2 or kinds[:1] != ["logits"]


def _takes_one(graph: Graph, node: onnx.NodeProto) -> bool:
    """Whether a node selects one fixed entry of axis 1."""
    given = [graph.constant(name) for name in node.input[1:4]]
    fixed = [np.asarray(value).reshape(-1).tolist() for value in given if value is not None]
    if node.op_type == "Slice" and len(fixed) == 3:
        start, end, axes = fixed
        return axes in ([1], [-1]) and end[0] - start[0] == 1
    if node.op_type in ("Gather", "ArrayFeatureExtractor"):
        axis = attribute(node, "axis", 0) if node.op_type == "Gather" else 1
        return axis in (1, -1) and len(fixed) == 1 and len(fixed[0]) == 1
    return False


def _has_columns(graph: Graph, outputs: list[str]) -> bool:
    makers = [graph.producer(output) for output in outputs]
    return any(node is not None and _is_column(graph, node, 2) for node in makers)


def _is_single(graph: Graph, node: onnx.NodeProto) -> bool:
    shape = graph.shape(node.output[0]) or graph.shape(node.input[0])
    return shape is not None and (len(shape) == 1 or shape[-1] == 1 or 1 in shape[1:2])


def _sums_to_one(node: onnx.NodeProto) -> bool:
    transform = attribute(node, "post_transform", "NONE")
    two = len(attribute(node, "intercepts", [])) == 2
    return transform == "SOFTMAX" or (transform == "LOGISTIC" and two)


# --------------------------------------------------------------------------------- choosing


def find_places(
    graph: Graph, calibrator: rp.PosteriorCalibrator, scores: str | None, values: Values
) -> list[Place]:
    """Return the places to try, the first in the graph first.

    ``values`` gives a tensor's value on some input; it is called only if the graph does not
    determine shape, type or kind of the tensor.
    """
    n_classes = calibrator.source_prior_.size
    if scores is not None:
        chain = _named(graph, scores, n_classes)
        traced, named = (
            _resolve(graph, place, calibrator, values) for place in (chain[-1], chain[0])
        )
        _check_width(graph, named, calibrator, values)
        _check_kind(calibrator, [named], scores, other=traced)
        fits = traced.single or _width(graph, traced, values) == n_classes
        return list(dict.fromkeys([traced, named] if fits else [named]))
    groups: dict[str, list[Place]] = {}
    names: dict[str, list[str]] = {}
    for output in graph.outputs:
        chain = lineage(graph, output, n_classes=n_classes)
        if chain and graph.element(chain[-1].tensor) in (0, *FLOATS):
            groups.setdefault(chain[-1].tensor, []).extend(chain[::-1])
            names.setdefault(chain[-1].tensor, []).append(output)
    fitting: dict[str, Place] = {}
    wrong: dict[str, Any] = {}
    for root, chain in groups.items():
        # Outputs may imply different class axes for one tensor: one of them must fit.
        for candidate in dict.fromkeys(place for place in chain if place.tensor == root):
            place = _resolve(graph, candidate, calibrator, values)
            width = _width(graph, place, values)
            odds = place.kind == "logits" and candidate.kind is None and n_classes == 2
            if odds and _has_columns(graph, names[root]):
                continue
            if width == n_classes or place.single:
                fitting[root] = place
                break
            wrong[root] = (names[root][0], width)
    fitting = _own(graph, fitting, names)
    matching = {r: p for r, p in fitting.items() if _matches(calibrator, [p, *groups[r]])}
    place = _only(matching or fitting, wrong, names, n_classes)
    _check_kind(calibrator, [place, *groups[place.tensor]], names[place.tensor][0])
    return [place]


def _own(graph: Graph, fitting: dict[str, Place], names: dict[str, list[str]]) -> dict[str, Place]:
    """Drop scores that only give labels, if other scores are computed from the same tensors."""
    shown = [r for r in fitting if any(graph.element(o) in (0, *FLOATS) for o in names[r])]
    near = graph.upstream(shown, through_layers=False)
    read = {name for i in near for name in graph.nodes[i].input}
    return {root: place for root, place in fitting.items() if root in shown or root not in read}


def _named(graph: Graph, scores: Any, n_classes: int) -> list[Place]:
    if not isinstance(scores, str) or not graph.knows(scores):
        known = [*graph.outputs, *(name for name in graph.maker if name not in graph.outputs)]
        near = difflib.get_close_matches(str(scores), known, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else "Pass the name of an output."
        raise FoldError(
            argument="scores",
            rule="must be the name of a tensor of the model",
            got=f"{scores!r}",
            remedy=f"{remedy} Its outputs are {_listed(graph.outputs)}.",
        )
    chain = lineage(graph, scores, n_classes=n_classes)
    if not chain or graph.element(scores) in _LABEL_TYPES:
        what = "is the label output" if chain and scores in graph.outputs else "holds integers"
        source: Text = "Name the tensor of logits or probabilities that it is taken from."
        if chain:
            source = ["Pass ", Setting("scores", chain[0].tensor), ", from which it is taken."]
        raise FoldError(
            argument="scores",
            rule="must name class scores",
            got=f"{scores!r}, which {what}",
            remedy=source,
        )
    return chain


def _only(
    fitting: dict[str, Place], wrong: dict[str, Any], names: dict[str, list[str]], n_classes: int
) -> Place:
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    if fitting:
        candidates = [names[root][0] for root in fitting]
        raise FoldError(
            argument="scores",
            rule="must be given where several outputs may be the scores",
            got=f"{len(candidates)} of {n_classes} classes: {_listed(candidates)}",
            remedy=[
                "Pass ",
                Setting("scores", candidates[0]),
                " or another of them.",
            ],
        )
    got = "; ".join(f"{name!r} with {width}" for name, width in wrong.values()) or "none"
    raise FoldError(
        argument="model",
        rule=f"must have an output of one score per class, {n_classes} as the calibrator",
        got=got,
        remedy=[
            (
                "Check that model and calibrator belong together, or name the tensor of "
                "the scores by "
            ),
            Argument("scores"),
            ".",
        ],
    )


def _check_width(
    graph: Graph, place: Place, calibrator: rp.PosteriorCalibrator, values: Values
) -> None:
    n_classes = calibrator.source_prior_.size
    width = _width(graph, place, values)
    if width != n_classes and not place.single:
        raise FoldError(
            argument="scores",
            rule=f"must have one entry per class, {n_classes} as the calibrator",
            got=f"{width} on axis {place.axis} of {place.tensor!r}",
            remedy="Check that model and calibrator belong together.",
        )


def _matches(calibrator: rp.PosteriorCalibrator, seen: list[Place]) -> bool:
    """Whether one of the tensors has the kind that the calibrator was fitted on."""
    logits = calibrator.kind == "logits"
    return any(place.kind is not None and (place.kind == "logits") == logits for place in seen)


def _check_kind(
    calibrator: rp.PosteriorCalibrator, seen: list[Place], name: str, other: Place | None = None
) -> None:
    """Refuse a calibrator of logits for a model without logits, and the other way round."""
    if _matches(calibrator, seen):
        return
    logits = calibrator.kind == "logits"
    holds, refit = ("probabilities", "probs") if logits else ("logits", "logits")
    remedy: Text = ["or name the other tensor by ", Argument("scores"), ", if the model has one"]
    if other is not None and _matches(calibrator, [other]):
        remedy = ["or pass ", Setting("scores", other.tensor), f", from which {name!r} is made"]
    raise FoldError(
        argument="calibrator",
        rule="must be fitted on the kind of scores that the model has",
        got=[
            Setting("kind", calibrator.kind),
            f", but {name!r} holds {holds}",
        ],
        remedy=[
            "Fit it again on this output with ",
            Words(f"kind={refit!r}", f"reprior fit --kind {refit}"),
            ", ",
            *parts(remedy),
            ".",
        ],
    )


def _resolve(
    graph: Graph, place: Place, calibrator: rp.PosteriorCalibrator, values: Values
) -> Place:
    """Complete a place from the calibrator, checked against values."""
    shape = graph.shape(place.tensor)
    element = graph.element(place.tensor)
    n_classes = calibrator.source_prior_.size
    axis = calibrator.class_axis if place.axis is None else place.axis
    value = None
    if shape is None or element not in FLOATS or place.kind is None:
        value = values(place.tensor)
        shape = tuple(value.shape)
        dtype = str(value.dtype)
    else:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(element))
    rank = len(shape)
    if not -rank <= axis < rank:
        axis = -1
    if place.axis is None and shape[axis] not in (None, n_classes) and n_classes in shape[1:]:
        axis = 1 + shape[1:].index(n_classes)
    axis = axis - rank if axis == rank - 1 else axis % rank if axis != -1 else -1
    single = n_classes == 2 and (rank == 1 or shape[axis] == 1)
    kind = place.kind
    if kind is None and value is not None:
        kind = _kind_seen(value, axis, single, calibrator.kind)
    return replace(place, kind=kind, axis=axis, single=single, rank=rank, dtype=dtype)


def _kind_seen(value: Vector, axis: int, single: bool, declared: str) -> str:
    """Return the kind of scores: as the calibrator declares, unless values contradict it."""
    z = value.astype(np.float64)
    if single:
        return "logits" if declared == "logits" or (z < 0).any() or (z > 1).any() else "probs"
    if (z >= 0).all() and (np.abs(z.sum(axis) - 1) < _SUM_TOLERANCE).all():
        return "probs"
    with np.errstate(over="ignore"):
        rows = np.exp(z).sum(axis)
    if declared != "logits" and (z <= 0).all() and (np.abs(rows - 1) < _SUM_TOLERANCE).all():
        return "log_probs"
    return "logits"


def _width(graph: Graph, place: Place, values: Values) -> int:
    shape = graph.shape(place.tensor)
    assert place.axis is not None  # noqa: S101 - _resolve has set it
    if shape is not None and len(shape) == place.rank and shape[place.axis] is not None:
        return int(shape[place.axis] or 0)
    head = graph.producer(place.tensor)
    if head is not None and head.op_type == "Gemm":
        weight = graph.shape(head.input[1])
        if weight and all(weight):
            return int(weight[0 if attribute(head, "transB", 0) else 1] or 0)
    return int(values(place.tensor).shape[place.axis])


def _listed(names: list[str], n: int = 6) -> str:
    shown = ", ".join(map(repr, names[:n]))
    return shown + (", …" if len(names) > n else "")
