"""Nodes after the scores: the correction itself, and labels taken from corrected scores."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from reprior.exceptions import FoldError
from reprior.onnx.graph import Graph, has_weights, reads, reread
from reprior.onnx.score_tensors import Place

__all__ = ["Affine", "Edit", "append_correction", "append_labels", "needs_softmax"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Operators broadcast as NumPy does from here on.
OLDEST_OPSET = 7
#: From here on Softmax takes one axis alone, not all from it on.
SOFTMAX_OPSET = 13
#: The version of the file format that goes with operator set 13.
_IR_OPSET_13 = 7
#: The domain of trees and labels, and its version where a model had none of it.
_ML, _ML_OPSET = "ai.onnx.ml", 3


@dataclass(frozen=True)
class Affine:
    """softmax(scale·z + bias) is the posterior of log-scores z."""

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
    """What was done to a model, for the reader."""

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
            f"`model` must use operator set {needed} or newer for this correction. "
            f"Got {graph.opset}. Export it again with a newer opset, or convert it: "
            f"onnx.version_converter.convert_version(model, {SOFTMAX_OPSET})."
        )


def needs_softmax(place: Place) -> bool:
    """Whether the corrected scores must be normalised to stay what they are."""
    return place.kind != "logits" and not place.single


class _Chain:
    """Nodes one behind the other, each reading the one before."""

    def __init__(self, graph: Graph, start: str, base: str) -> None:
        self.graph, self.last, self.base = graph, start, base
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
    """Put the correction behind the scores; what is computed from them follows.

    Layers with weights that read the scores, or what is computed from them, belong to another
    model and keep reading the scores as they were.
    """
    check_opset(graph, place)
    name = place.tensor
    kept = _keep_for_layers(graph, name)
    is_input = graph.producer(name) is None
    raw = name if is_input else _step_aside(graph, name)
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
    graph, dtype = chain.graph, np.dtype(place.dtype)
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
    """Return the bias in the shape that meets the class axis."""
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    behind = -1 - place.axis if place.axis < 0 else place.rank - 1 - place.axis
    return bias.reshape(-1, *[1] * behind)


def _step_aside(graph: Graph, name: str) -> str:
    """Give the maker's tensor a new name, so that its old name can be the corrected one."""
    maker = graph.producer(name)
    raw = graph.fresh(f"{name}/uncorrected")
    assert maker is not None  # noqa: S101 - inputs are not renamed
    for k, output in enumerate(maker.output):
        if output == name:
            maker.output[k] = raw
    graph.index()
    return raw


def _keep_for_layers(graph: Graph, name: str) -> list[onnx.NodeProto]:
    """Copy what layers with weights read of the scores; return who reads the scores themselves."""
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
    """Take the labels in tensor ``label`` anew from the corrected scores at ``place``."""
    _step_aside(graph, label)
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
    # Gather of texts is not in every runtime; the encoder of labels is.
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
