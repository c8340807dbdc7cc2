"""Nodes after the scores: the correction itself, and labels taken from corrected scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from reprior.exceptions import FoldError
from reprior.onnx.graph import Graph, attribute, has_weights, reads, reread
from reprior.onnx.score_tensors import Place

__all__ = ["Affine", "Edit", "append_correction", "append_labels", "change_head", "needs_softmax"]


Vector: TypeAlias = np.ndarray[Any, Any]

#: From this operator set on, operators broadcast as in NumPy.
OLDEST_OPSET = 7
#: From this operator set on, Softmax acts on one axis, not on that axis and all behind it.
SOFTMAX_OPSET = 13
#: The version of the file format that goes with operator set 13.
_IR_OPSET_13 = 7
#: The domain of trees and labels, and the version to import if a model has none.
_ML = "ai.onnx.ml"
_ML_OPSET = 3


@dataclass(frozen=True)
class Affine:
    """The correction of log-scores z: softmax(scale·z + bias) is their posterior."""

    scale: float
    bias: Vector

    @property
    def is_identity(self) -> bool:
        """Whether no posterior changes."""
        return self.scale == 1.0 and bool((self.bias == self.bias[0]).all())

    @property
    def odds(self) -> float:
        """The bias of class 1 over class 0, for one score per sample."""
        return float(self.bias[1] - self.bias[0])


@dataclass
class Edit:
    """A description of what was changed in a model."""

    where: str
    changed: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    reaches: list[str] = field(default_factory=list)  # tensors from which all that changed follows


def check_opset(graph: Graph, place: Place) -> None:
    """Refuse operator sets in which the correction cannot be written; add one where none is."""
    if graph.opset == 0:
        graph.model.opset_import.append(helper.make_opsetid("", SOFTMAX_OPSET))
        graph.model.ir_version = max(graph.model.ir_version, _IR_OPSET_13)
    last = place.axis == -1 or place.axis == place.rank - 1
    needed = SOFTMAX_OPSET if needs_softmax(place) and not last else OLDEST_OPSET
    if graph.opset < needed:
        raise FoldError(
            argument="model",
            rule=f"must use operator set {needed} or newer for this correction",
            got=f"{graph.opset}",
            remedy=(
                "Export it again with a newer opset, or convert it: "
                f"onnx.version_converter.convert_version(model, {SOFTMAX_OPSET})."
            ),
        )


def needs_softmax(place: Place) -> bool:
    """Whether corrected scores must be normalised to remain probabilities or log-probabilities."""
    return place.kind != "logits" and not place.single


class _Chain:
    """A chain of nodes, each of which reads the output of the previous one."""

    def __init__(self, graph: Graph, start: str, base: str) -> None:
        self.graph = graph
        self.last = start
        self.base = base
        self.nodes: list[onnx.NodeProto] = []

    def then(self, operator: str, *others: str, last: str | None = None, **options: Any) -> str:
        output = last or self.graph.fresh(f"{self.base}/{operator}")
        inputs = [self.last, *others]
        name = self.graph.fresh(f"reprior/{operator}/{len(self.graph.nodes)}")
        self.nodes.append(helper.make_node(operator, inputs, [output], name=name, **options))
        self.graph.nodes.append(self.nodes[-1])
        self.graph.index()
        self.last = output
        return output


def append_correction(graph: Graph, place: Place, affine: Affine) -> Edit:
    """Add the correction behind the scores; everything computed from them follows.

    Layers with weights that read the scores, directly or indirectly, belong to another model and
    keep reading the uncorrected scores.
    """
    check_opset(graph, place)
    name = place.tensor
    kept = _keep_for_layers(graph, name)
    is_input = graph.producer(name) is None
    raw = name if is_input else _rename_uncorrected(graph, name)
    readers = [node for node in graph.consumers(name) if not any(node is k for k in kept)]
    chain = _Chain(graph, raw, f"{name}/reprior")
    _correct(chain, place, affine)
    if is_input:
        for node in readers:
            reread(node, {name: chain.last})
    else:
        chain.nodes[-1].output[0] = name
        for node in kept:
            reread(node, {name: raw})
    graph.index()
    added = [node.op_type for node in chain.nodes]
    return Edit(f"behind {name!r}", added=added, reaches=[chain.nodes[-1].output[0]])


def _correct(chain: _Chain, place: Place, affine: Affine) -> None:
    graph = chain.graph
    dtype = np.dtype(place.dtype)
    positive = place.kind == "probs"
    if place.single and positive:
        one = graph.add_constant("reprior/one", np.ones((), dtype))
        p = chain.last
        log_p = chain.then("Log")
        chain.last = one
        chain.then("Sub", p)
        log_q = chain.then("Log")
        chain.last = log_p
        chain.then("Sub", log_q)
    elif positive:
        chain.then("Log")
    if affine.scale != 1.0:
        chain.then("Mul", graph.add_constant("reprior/scale", np.asarray(affine.scale, dtype)))
    bias = np.asarray(affine.odds) if place.single else broadcast(affine.bias, place)
    chain.then("Add", graph.add_constant("reprior/bias", bias.astype(dtype)))
    if place.single and positive:
        chain.then("Sigmoid")
    elif positive:
        chain.then("Softmax", axis=place.axis)
    elif place.kind == "log_probs":
        chain.then("LogSoftmax", axis=place.axis)


def broadcast(bias: Vector, place: Place) -> Vector:
    """Return the bias in a shape that broadcasts along the class axis."""
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    behind = -1 - place.axis if place.axis < 0 else place.rank - 1 - place.axis
    return bias.reshape(-1, *[1] * behind)


def _rename_uncorrected(graph: Graph, name: str) -> str:
    """Rename the uncorrected tensor, so that the corrected one can have its name."""
    maker = graph.producer(name)
    raw = graph.fresh(f"{name}/uncorrected")
    assert maker is not None  # noqa: S101 - inputs are not renamed
    for k, output in enumerate(maker.output):
        if output == name:
            maker.output[k] = raw
    graph.index()
    return raw


def _keep_for_layers(graph: Graph, name: str) -> list[onnx.NodeProto]:
    """Copy the nodes between the scores and layers with weights; return the scores' readers."""
    followers = graph.follows(name)
    copies: dict[str, str] = {name: name}
    direct: list[onnx.NodeProto] = []

    def uncorrected(tensor: str) -> str:
        if tensor in copies or tensor not in followers:
            return copies.get(tensor, tensor)
        node = graph.producer(tensor)
        assert node is not None  # noqa: S101 - followers are made by nodes
        twin = onnx.NodeProto()
        twin.CopyFrom(node)
        twin.name = graph.fresh(f"{node.name or node.op_type}/uncorrected")
        for k, output in enumerate(node.output):
            if output:
                copies[output] = twin.output[k] = graph.fresh(f"{output}/uncorrected")
        reread(twin, {source: uncorrected(source) for source in reads(node)})
        graph.nodes.append(twin)
        graph.index()
        if name in reads(twin):
            direct.append(twin)
        return copies[tensor]

    for node in list(graph.nodes):
        if has_weights(node) and followers & set(reads(node)):
            reread(node, {source: uncorrected(source) for source in reads(node)})
            direct.append(node)
    return direct


def append_labels(
    graph: Graph, place: Place, label: str, names: Vector | None, *, keepdims: bool, element: int
) -> list[str]:
    """Recompute the labels in tensor ``label`` from the corrected scores at ``place``."""
    _rename_uncorrected(graph, label)
    chain = _Chain(graph, place.tensor, f"{label}/reprior")
    if place.single:
        half = 0.5 if place.kind == "probs" else 0.0
        dtype = np.dtype(place.dtype)
        chain.then("Greater", graph.add_constant("reprior/threshold", np.asarray(half, dtype)))
        chain.then("Cast", to=onnx.TensorProto.INT64)
        if place.rank > 1 and not keepdims:
            _squeeze(chain, place)
    else:
        chain.then("ArgMax", axis=place.axis, keepdims=int(keepdims))
    made = int(onnx.TensorProto.INT64)
    if names is not None and not _is_range(names):
        made = _look_up(chain, names)
    if element not in (0, made):
        chain.then("Cast", to=element)
    chain.nodes[-1].output[0] = label
    graph.index()
    return [node.op_type for node in chain.nodes]


def _squeeze(chain: _Chain, place: Place) -> None:
    """Drop the class axis, of length 1; from operator set 13 on it is an input of Squeeze."""
    graph = chain.graph
    if place.rank == 2:
        chain.then("Reshape", graph.add_constant("reprior/shape", np.array([-1])))
    elif graph.opset < SOFTMAX_OPSET:
        chain.then("Squeeze", axes=[place.axis])
    else:
        chain.then("Squeeze", graph.add_constant("reprior/axis", np.array([place.axis])))


def _is_range(names: Vector) -> bool:
    return names.dtype.kind in "iu" and bool((names == np.arange(len(names))).all())


def _look_up(chain: _Chain, names: Vector) -> int:
    """Turn class indices into names; return the element type of these."""
    if names.dtype.kind in "iuf":
        chain.then("Gather", chain.graph.add_constant("reprior/classes", names), axis=0)
        return int(helper.np_dtype_to_tensor_dtype(names.dtype))
    # Not every runtime gathers strings; every one has LabelEncoder.
    texts = [str(name) for name in names.tolist()]
    model = chain.graph.model
    versions = [o.version for o in model.opset_import if o.domain == _ML]
    if not versions:
        model.opset_import.append(helper.make_opsetid(_ML, _ML_OPSET))
    options: dict[str, Any] = {"keys_int64s": list(range(len(texts))), "values_strings": texts}
    if versions and versions[0] < 2:
        options = {"classes_strings": texts}
    chain.then("LabelEncoder", domain=_ML, **options)
    return int(onnx.TensorProto.STRING)


#: Operators through which a scale and bias per class can be moved to the layer before.
_PASSES = (
    "Identity",
    "Dropout",
    "Cast",
    "Resize",
    "Upsample",
    "GlobalAveragePool",
    "Transpose",
    "Flatten",
    "Squeeze",
    "Reshape",
)


def change_head(graph: Graph, place: Place, affine: Affine) -> Edit | None:
    """Change the weights of the layer that computes the scores; return None if that is impossible.

    It is possible if the layer's output is used for the class scores only. Changed weights get
    new names, so that another layer that shares them keeps its own.
    """
    node = graph.producer(place.tensor)
    if node is not None and node.op_type == "LinearClassifier":
        return _linear_classifier(graph, node, place, affine)
    if place.kind != "logits" or _feeds_layers(graph, place.tensor):
        return None
    layer = _climb(graph, place, 1 if place.single else affine.bias.size)
    if layer is None:
        return None
    node = layer
    changes = {"Gemm": _gemm, "Conv": _conv, "ConvTranspose": _conv, "Add": _add}
    change = changes.get(node.op_type)
    if change is None:
        return None
    bias = np.array([affine.odds]) if place.single else affine.bias
    done = change(_Layer(graph, node, affine.scale, bias))
    if not done:
        return None
    graph.index()
    label = node.name or node.output[0]
    where = f"in the weights of {node.op_type} {label!r}"
    return Edit(where, changed=done, reaches=list(node.output))


def _feeds_layers(graph: Graph, tensor: str) -> bool:
    followers = graph.follows(tensor)
    return any(has_weights(node) for name in followers for node in graph.consumers(name))


def _climb(graph: Graph, place: Place, width: int) -> onnx.NodeProto | None:
    """Return the layer that computes the scores, or None if another operator is in between."""
    tensor = place.tensor
    rank = place.rank
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    axis = place.axis % rank
    while True:
        node = graph.producer(tensor)
        if node is None:
            return None
        if node.op_type not in _PASSES:
            spatial = node.op_type in ("Conv", "ConvTranspose")
            fits = axis == 1 if spatial else axis == rank - 1
            return node if fits else None
        step = _pass(graph, node, axis, rank, width)
        above = node.input[0]
        readers = [node for node in graph.consumers(above) if node.op_type != "Shape"]
        alone = len(readers) == 1 and above not in graph.outputs
        if step is None or not alone:
            return None
        axis, rank = step
        tensor = above


def _pass(
    graph: Graph, node: onnx.NodeProto, axis: int, rank: int, width: int
) -> tuple[int, int] | None:
    """Return class axis and rank before a node, or None if they are unknown."""
    if node.op_type in ("Identity", "Dropout", "Cast"):
        return axis, rank
    if node.op_type == "Transpose":
        order = attribute(node, "perm", list(range(rank))[::-1])
        return int(order[axis]), rank
    before = graph.shape(node.input[0])
    after = graph.shape(node.output[0])
    if before is None or len(before) < 2 or before[1] is None:
        return None
    if node.op_type in ("Resize", "Upsample", "GlobalAveragePool"):
        # Sizes taken from the input hide the number of channels; it must be that of the scores.
        same = before[1] == width and (after is None or after[1] in (None, width))
        return (1, len(before)) if axis == 1 and same else None
    # Flatten and the like: only from (N, K, 1, 1).
    ones = all(length == 1 for length in before[2:])
    return (1, len(before)) if ones and axis == 1 and rank == 2 else None


@dataclass(frozen=True)
class _Layer:
    """A layer to change, and the scale and bias to change it by."""

    graph: Graph
    node: onnx.NodeProto
    scale: float
    bias: Vector

    def weight(self, position: int) -> Vector | None:
        if len(self.node.input) <= position or not self.node.input[position]:
            return None
        return self.graph.constant(self.node.input[position])

    def shared(self, position: int) -> bool:
        return len(self.graph.consumers(self.node.input[position])) > 1

    def replace(self, position: int, value: Vector, dtype: Any) -> str | None:
        """Set an input to a new constant; return None if its type cannot hold the values."""
        with np.errstate(over="ignore"):
            held = value.astype(dtype)
        if not (np.isfinite(held.astype(np.float64)) | np.isneginf(value)).all():
            return None
        node = self.node
        old = node.input[position] if len(node.input) > position else ""
        while len(node.input) <= position:
            node.input.append("")
        base = old or f"{node.name or node.op_type}.bias"
        node.input[position] = self.graph.add_constant(f"{base}/reprior", held)
        self.graph.index()
        if old:
            self.graph.drop_constant(old)
        return base


def _is_float(value: Vector) -> bool:
    return bool(value.dtype.kind == "f" or value.dtype.name == "bfloat16")


def _wide(value: Vector) -> Vector:
    return np.asarray(value, np.float64)


def _scaled_weight(layer: _Layer, position: int) -> list[str] | None:
    """Scale the weights, unless the scale is 1; return None if another node reads them too."""
    weight = layer.weight(position)
    if weight is None or not _is_float(weight):
        return None
    if layer.scale == 1.0:
        return []
    if layer.shared(position):
        return None
    name = layer.replace(position, layer.scale * _wide(weight), weight.dtype)
    return None if name is None else [name]


def _gemm(layer: _Layer) -> list[str] | None:
    beta = attribute(layer.node, "beta", 1.0)
    given = len(layer.node.input) > 2 and bool(layer.node.input[2])
    old = layer.weight(2)
    weight = layer.weight(1)
    if (given and old is None) or weight is None or beta == 0.0 or not _is_float(weight):
        return None
    start = np.zeros(1) if old is None else _wide(old)
    # A bias of shape (N, K) or (N, 1) keeps its rows; the classes come last.
    return _both(layer, layer.scale * start + layer.bias / beta, weight.dtype)


def _conv(layer: _Layer) -> list[str] | None:
    given = len(layer.node.input) > 2 and bool(layer.node.input[2])
    old = layer.weight(2)
    weight = layer.weight(1)
    if (given and old is None) or weight is None or not _is_float(weight):
        return None
    start = np.zeros(1) if old is None else _wide(old)
    return _both(layer, layer.scale * start + layer.bias, weight.dtype)


def _both(layer: _Layer, bias: Vector, dtype: Any) -> list[str] | None:
    scaled = _scaled_weight(layer, 1)
    if scaled is None:
        return None
    name = layer.replace(2, bias, dtype)
    return None if name is None else [*scaled, name]


def _add(layer: _Layer) -> list[str] | None:
    """Change the bias of MatMul + Add, and for a scale the weights of the MatMul."""
    graph = layer.graph
    node = layer.node
    where = [k for k in (0, 1) if layer.weight(k) is not None]
    if len(where) != 1:
        return None
    old = layer.weight(where[0])
    assert old is not None  # noqa: S101 - where says so
    other = node.input[1 - where[0]]
    above = graph.producer(other)
    scaled: list[str] | None = []
    if layer.scale != 1.0:
        alone = len(graph.consumers(other)) == 1 and other not in graph.outputs
        if above is None or above.op_type != "MatMul" or not alone:
            return None
        scaled = _scaled_weight(_Layer(graph, above, layer.scale, layer.bias), 1)
    if scaled is None or not _is_float(old):
        return None
    name = layer.replace(where[0], layer.scale * _wide(old) + layer.bias, old.dtype)
    return None if name is None else [*scaled, name]


def _linear_classifier(
    graph: Graph, node: onnx.NodeProto, place: Place, affine: Affine
) -> Edit | None:
    """Change coefficients and intercepts of a LinearClassifier, which also gives the labels."""
    if _feeds_layers(graph, node.output[1]) or _feeds_layers(graph, node.output[0]):
        return None
    transform = attribute(node, "post_transform", "NONE")
    intercepts = np.array(attribute(node, "intercepts", []), np.float64)
    if intercepts.size != affine.bias.size or place.single:
        return None
    if transform == "LOGISTIC" and intercepts.size == 2:
        # The probability of each class is the logistic function of its own score, ±z.
        bias = np.array([-affine.odds, affine.odds])
    elif transform in ("SOFTMAX", "NONE"):
        bias = affine.bias
    else:
        return None
    coefficients = np.array(attribute(node, "coefficients"), np.float64)
    new = {
        "coefficients": affine.scale * coefficients,
        "intercepts": affine.scale * intercepts + bias,
    }
    changed = ["intercepts"] if affine.scale == 1.0 else list(new)
    for name in changed:
        for k in reversed([k for k, a in enumerate(node.attribute) if a.name == name]):
            del node.attribute[k]
        node.attribute.append(helper.make_attribute(name, new[name].astype(np.float32).tolist()))
    where = f"in the weights of LinearClassifier {node.name!r}"
    return Edit(where, changed=changed, reaches=list(node.output))
