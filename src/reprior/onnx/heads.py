"""The last layer's own weights: where the correction costs nothing at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from reprior.onnx.correction import Affine, Edit
from reprior.onnx.graph import Graph, attribute, has_weights
from reprior.onnx.score_tensors import Place

__all__ = ["change_head"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Through these a scale and a bias per class can be taken back to the layer before.
_PASSES = ("Identity", "Dropout", "Cast", "Resize", "Upsample", "GlobalAveragePool", "Transpose",
           "Flatten", "Squeeze", "Reshape")  # fmt: skip


def change_head(graph: Graph, place: Place, affine: Affine) -> Edit | None:
    """Change the weights of the layer that makes the scores, or return None where that cannot be.

    It can be where the layer's output serves the class scores and nothing else. Weights get new
    names, so that another layer with the same weights keeps its own.
    """
    node = graph.producer(place.tensor)
    if node is not None and node.op_type == "LinearClassifier":
        return _linear_classifier(graph, node, place, affine)
    if place.kind != "logits" or _feeds_layers(graph, place.tensor):
        return None
    found = _climb(graph, place, 1 if place.single else affine.bias.size)
    if found is None:
        return None
    node = found
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
    """Return the layer that makes the scores, or None where something else is in between."""
    tensor, rank = place.tensor, place.rank
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
    """Return class axis and rank before a node, or None where they cannot be told."""
    if node.op_type in ("Identity", "Dropout", "Cast"):
        return axis, rank
    if node.op_type == "Transpose":
        order = attribute(node, "perm", list(range(rank))[::-1])
        return int(order[axis]), rank
    before, after = graph.shape(node.input[0]), graph.shape(node.output[0])
    if before is None or len(before) < 2 or before[1] is None:
        return None
    if node.op_type in ("Resize", "Upsample", "GlobalAveragePool"):
        # Sizes taken from the input hide the number of channels behind; it is that of the scores.
        same = before[1] == width and (after is None or after[1] in (None, width))
        return (1, len(before)) if axis == 1 and same else None
    # Flatten and the like: only from (N, K, 1, 1).
    ones = all(length == 1 for length in before[2:])
    return (1, len(before)) if ones and axis == 1 and rank == 2 else None


@dataclass(frozen=True)
class _Layer:
    """A layer to be changed, and by what."""

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
        """Set an input to a new constant; None where the type cannot hold it."""
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
    """Scale the weights, unless the scale is 1; None where they are not the layer's own."""
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
    old, weight = layer.weight(2), layer.weight(1)
    if (given and old is None) or weight is None or beta == 0.0 or not _is_float(weight):
        return None
    start = np.zeros(1) if old is None else _wide(old)
    # Rows of a bias of shape (N, K) or (N, 1) stay apart; K comes last.
    return _both(layer, layer.scale * start + layer.bias / beta, weight.dtype)


def _conv(layer: _Layer) -> list[str] | None:
    given = len(layer.node.input) > 2 and bool(layer.node.input[2])
    old, weight = layer.weight(2), layer.weight(1)
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
    """Change the bias of MatMul + Add, and with a scale the weights of the MatMul."""
    graph, node = layer.graph, layer.node
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
    """Change coefficients and intercepts of a linear model; its labels follow inside the node."""
    if _feeds_layers(graph, node.output[1]) or _feeds_layers(graph, node.output[0]):
        return None
    transform = attribute(node, "post_transform", "NONE")
    intercepts = np.array(attribute(node, "intercepts", []), np.float64)
    if intercepts.size != affine.bias.size or place.single:
        return None
    if transform == "LOGISTIC" and intercepts.size == 2:
        # Each class's probability is the logistic function of its own score, ±z.
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
