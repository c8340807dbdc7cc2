"""The graph of an ONNX model: who makes which tensor, who reads it, what it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from reprior.exceptions import FoldError

__all__ = ["Graph", "attribute", "has_weights", "reads", "reread"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Layers that learn from what they read: outputs behind one of them are another model's.
LAYERS = frozenset(
    (
        "Gemm",
        "MatMul",
        "Conv",
        "ConvTranspose",
        "ConvInteger",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "LSTM",
        "GRU",
        "RNN",
        "Attention",
        "Einsum",
        "TreeEnsembleClassifier",
        "TreeEnsembleRegressor",
        "TreeEnsemble",
        "LinearClassifier",
        "LinearRegressor",
        "SVMClassifier",
        "SVMRegressor",
    )
)

#: The first version of the file format whose initialisers need not be inputs.
IR_INITIALISERS = 4

#: Initialisers above this many entries are weights; shapes never follow from them.
_SMALL = 1024


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of a node's attribute; strings as text."""
    for item in node.attribute:
        if item.name == name:
            value = helper.get_attribute_value(item)
            if isinstance(value, bytes):
                return value.decode()
            if isinstance(value, list) and value and isinstance(value[0], bytes):
                return [text.decode() for text in value]
            return value
    return default


def has_weights(node: onnx.NodeProto) -> bool:
    """Whether a node is a layer of its own, or has one in an inner graph."""
    return node.op_type in LAYERS or any(
        has_weights(part) for inner in inner_graphs(node) for part in inner.node
    )


class Graph:
    """A model's main graph, indexed by tensor name; :meth:`commit` writes changes back.

    Parameters
    ----------
    model : ModelProto
        It belongs to this object from now on: pass a copy of what must stay.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: list[onnx.NodeProto] = []
        for node in model.graph.node:
            own = onnx.NodeProto()
            own.CopyFrom(node)
            self.nodes.append(own)
        self.initialisers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in self.initialisers]
        self.outputs = [o.name for o in model.graph.output]
        self.types = _types(model)
        self.index()

    def index(self) -> None:
        """Note anew who makes and who reads every tensor."""
        self.maker = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for name in dict.fromkeys(reads(node)):
                self.readers.setdefault(name, []).append(i)

    @property
    def opset(self) -> int:
        """The version of the standard operators; 0 where the model uses none."""
        found = [o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")]
        return int(found[0]) if found else 0

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that makes a tensor; None for inputs and initialisers."""
        i = self.maker.get(name)
        return None if i is None else self.nodes[i]

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read a tensor."""
        return [self.nodes[i] for i in self.readers.get(name, [])]

    def knows(self, name: str) -> bool:
        """Whether there is a tensor of that name that depends on the input."""
        return name in self.maker or name in self.inputs

    def constant(self, name: str) -> Vector | None:
        """Return the value of a tensor that never changes, or None."""
        if name in self.initialisers:
            return np.asarray(numpy_helper.to_array(self.initialisers[name]))
        node = self.producer(name)
        if node is not None and node.op_type == "Identity":
            return self.constant(node.input[0])
        if node is None or node.op_type != "Constant":
            return None
        for item in node.attribute:
            value = helper.get_attribute_value(item)
            if item.name == "value":
                return np.asarray(numpy_helper.to_array(value))
            if item.name in ("value_float", "value_floats"):
                return np.asarray(value, np.float32)
            if item.name in ("value_int", "value_ints"):
                return np.asarray(value, np.int64)
            if item.name == "value_strings":
                return np.asarray([text.decode() for text in value], object)
        return None

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """Return the dimensions as far as known, None for each unknown, None without a rank."""
        return self.types.get(name, (0, None))[1]

    def element(self, name: str) -> int:
        """Return the element type of a tensor, 0 where it is not known."""
        return self.types.get(name, (0, None))[0]

    def fresh(self, base: str) -> str:
        """Return a tensor name that nobody has."""
        used = {*self.maker, *self.readers, *self.initialisers, *self.inputs, *self.outputs}
        name = base
        number = 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        return name

    def add_constant(self, base: str, value: Vector) -> str:
        """Add an initialiser and return its name."""
        name = self.fresh(base)
        self.model.ir_version = max(self.model.ir_version, IR_INITIALISERS)
        tensor = numpy_helper.from_array(np.asarray(value), name)
        self.initialisers[name] = tensor
        self.model.graph.initializer.append(tensor)
        return name

    def drop_constant(self, name: str) -> None:
        """Remove an initialiser that nobody reads any more."""
        self.index()
        if name not in self.initialisers or self.readers.get(name) or name in self.outputs:
            return
        del self.initialisers[name]
        for items in (self.model.graph.initializer, self.model.graph.input):
            for i in reversed([i for i, item in enumerate(items) if item.name == name]):
                del items[i]

    def upstream(self, names: Iterable[str], *, through_layers: bool = True) -> set[int]:
        """Return the nodes that tensors are made by; optionally up to and with the first layers."""
        found: set[int] = set()
        todo = list(names)
        while todo:
            i = self.maker.get(todo.pop())
            if i is None or i in found:
                continue
            found.add(i)
            if through_layers or not has_weights(self.nodes[i]):
                todo.extend(reads(self.nodes[i]))
        return found

    def follows(self, tensor: str) -> set[str]:
        """Return the tensors computed from one without a layer of weights between, itself too."""
        found = {tensor}
        todo = [tensor]
        while todo:
            for node in self.consumers(todo.pop()):
                if has_weights(node):
                    continue
                for name in node.output:
                    if name and name not in found:
                        found.add(name)
                        todo.append(name)
        return found

    def commit(self) -> onnx.ModelProto:
        """Write the nodes back, each behind what it reads, and return the model."""
        self.index()
        ordered = [self.nodes[i] for i in self._order()]
        if len(ordered) < len(self.nodes):
            raise FoldError(
                argument="model",
                rule="must be a graph without cycles",
                got="nodes that wait for each other",
                remedy="Check the model with onnx.checker, and export it again.",
            )
        del self.model.graph.node[:]
        self.model.graph.node.extend(ordered)
        return self.model

    def _order(self) -> Iterator[int]:
        """Give the nodes in an order that can run, as near to theirs as can be."""
        waits = [{self.maker[n] for n in reads(node) if n in self.maker} for node in self.nodes]
        opens: dict[int, list[int]] = {}
        for i, needed in enumerate(waits):
            for j in needed:
                opens.setdefault(j, []).append(i)
        ready = [i for i, needed in enumerate(waits) if not needed]
        heapq.heapify(ready)
        while ready:
            i = heapq.heappop(ready)
            yield i
            for j in opens.get(i, []):
                waits[j].discard(i)
                if not waits[j]:
                    heapq.heappush(ready, j)


def inner_graphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the branches of an If, the body of a Loop or a Scan."""
    return [g for a in node.attribute for g in ([a.g] if a.HasField("g") else a.graphs)]


def _made_inside(graph: onnx.GraphProto) -> set[str]:
    made = {name for part in graph.node for name in part.output}
    return made | {i.name for i in graph.input} | {t.name for t in graph.initializer}


def reads(node: onnx.NodeProto) -> list[str]:
    """Return what a node reads, also what its inner graphs take from outside."""
    names = [name for name in node.input if name]
    for inner in inner_graphs(node):
        wanted = [name for part in inner.node for name in reads(part)]
        wanted += [o.name for o in inner.output]
        made = _made_inside(inner)
        names += [name for name in wanted if name not in made]
    return names


def reread(node: onnx.NodeProto, new: Mapping[str, str]) -> None:
    """Let a node, and its inner graphs, read other tensors: ``{old name: new name}``."""
    for k, source in enumerate(node.input):
        node.input[k] = new.get(source, source)
    for inner in inner_graphs(node):
        made = _made_inside(inner)
        outside = {old: name for old, name in new.items() if old not in made}
        for part in inner.node:
            reread(part, outside)


def _types(model: onnx.ModelProto) -> dict[str, tuple[int, tuple[int | None, ...] | None]]:
    """Return element type and dimensions of every tensor, as far as they can be inferred."""
    found: dict[str, tuple[int, tuple[int | None, ...] | None]] = {}
    for tensor in model.graph.initializer:
        found[tensor.name] = (tensor.data_type, tuple(tensor.dims))
    graph = _inferred(model).graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if not value.type.HasField("tensor_type"):
            continue
        kind = value.type.tensor_type
        dims: tuple[int | None, ...] | None = None
        if kind.HasField("shape"):
            dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)
        found.setdefault(value.name, (kind.elem_type, dims))
    return found


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with inferred types and without its weights, which are not needed."""
    light = onnx.ModelProto(ir_version=model.ir_version)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    known = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if int(np.prod(tensor.dims)) <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in known:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    try:
        return shape_inference.infer_shapes(light, data_prop=True)
    except Exception:  # what the model itself says is then all there is
        return light
