"""The graph of an ONNX model: the producer, consumers, type and shape of each tensor."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from reprior.exceptions import FoldError

__all__ = [
    "Graph",
    "attribute",
    "check_functions",
    "decoded",
    "has_weights",
    "reads",
    "reread",
]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Layers with weights: the outputs behind one of them belong to another model.
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

#: The first file format version in which initialisers need not be inputs.
IR_INITIALISERS = 4

#: Initialisers with more entries than this are weights, and do not determine shapes.
_SMALL = 1024

#: Functions that call each other may be as deep as ``onnx.inliner`` allows since version 1.22.
_MAX_DEPTH = 100

#: A model with its functions inlined may have as many nodes: a chain of n functions, each of which
#: calls the next one twice, has 2ⁿ.
_MAX_NODES = 1_000_000

#: Domain, name and overload of an operator or a function.
FunctionId: TypeAlias = tuple[str, str, str]


def attribute(node: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of a node's attribute; strings as text."""
    for item in node.attribute:
        if item.name == name:
            value = helper.get_attribute_value(item)
            if isinstance(value, bytes):
                return decoded(value)
            if isinstance(value, list) and value and isinstance(value[0], bytes):
                return [decoded(text) for text in value]
            return value
    return default


def decoded(value: str | bytes) -> str:
    """Return a text of a model; refuse one that is not UTF-8."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise _not_utf8(f"{value[:40]!r}") from error


def _not_utf8(got: str) -> FoldError:
    return FoldError(
        argument="model", rule="must have texts in UTF-8", got=got, remedy="Export the model again."
    )


def _array(tensor: onnx.TensorProto) -> Vector:
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except UnicodeDecodeError as error:
        raise _not_utf8(f"{error.object[:40]!r} in the tensor {tensor.name!r}") from error


def has_weights(node: onnx.NodeProto) -> bool:
    """Whether a node is a layer with weights, or has one in an inner graph."""
    return node.op_type in LAYERS or any(
        has_weights(part) for inner in inner_graphs(node) for part in inner.node
    )


class Graph:
    """A model's main graph, indexed by tensor name; :meth:`commit` writes changes back.

    Parameters
    ----------
    model : ModelProto
        It is changed: pass a copy of a model that must not be.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: list[onnx.NodeProto] = []
        for node in model.graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            self.nodes.append(copy)
        self.initialisers = {tensor.name: tensor for tensor in model.graph.initializer}
        self.inputs = [i.name for i in model.graph.input if i.name not in self.initialisers]
        self.outputs = [o.name for o in model.graph.output]
        self.types = _types(model)
        self.index()
        self._ordered()  # a search through a cycle would not end

    def index(self) -> None:
        """Update the producer and the consumers of every tensor."""
        self.maker = {name: i for i, node in enumerate(self.nodes) for name in node.output if name}
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for name in dict.fromkeys(reads(node)):
                self.readers.setdefault(name, []).append(i)

    @property
    def opset(self) -> int:
        """The version of the standard operator set; 0 if the model uses none."""
        versions = [o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")]
        return int(versions[0]) if versions else 0

    def producer(self, name: str) -> onnx.NodeProto | None:
        """Return the node that computes a tensor; None for inputs and initialisers."""
        i = self.maker.get(name)
        return None if i is None else self.nodes[i]

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Return the nodes that read a tensor."""
        return [self.nodes[i] for i in self.readers.get(name, [])]

    def knows(self, name: str) -> bool:
        """Whether a tensor of that name exists and depends on the input."""
        return name in self.maker or name in self.inputs

    def constant(self, name: str) -> Vector | None:
        """Return the value of a tensor that never changes, or None."""
        node = self.producer(name)
        while node is not None and node.op_type == "Identity":  # a chain of any length
            name = node.input[0]
            node = self.producer(name)
        if name in self.initialisers:
            return _array(self.initialisers[name])
        if node is None or node.op_type != "Constant":
            return None
        for item in node.attribute:
            value = helper.get_attribute_value(item)
            if item.name == "value":
                return _array(value)
            if item.name in ("value_float", "value_floats"):
                return np.asarray(value, np.float32)
            if item.name in ("value_int", "value_ints"):
                return np.asarray(value, np.int64)
            if item.name == "value_strings":
                return np.asarray([decoded(text) for text in value], object)
        return None

    def shape(self, name: str) -> tuple[int | None, ...] | None:
        """Return the dimensions, None for each unknown one; None if the rank is unknown."""
        return self.types.get(name, (0, None))[1]

    def element(self, name: str) -> int:
        """Return the element type of a tensor, 0 if it is unknown."""
        return self.types.get(name, (0, None))[0]

    def fresh(self, base: str) -> str:
        """Return an unused tensor name."""
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
        """Remove an initialiser that no node reads any more."""
        self.index()
        if name not in self.initialisers or self.readers.get(name) or name in self.outputs:
            return
        del self.initialisers[name]
        for items in (self.model.graph.initializer, self.model.graph.input):
            for i in reversed([i for i, item in enumerate(items) if item.name == name]):
                del items[i]

    def upstream(self, names: Iterable[str], *, through_layers: bool = True) -> set[int]:
        """Return the nodes that compute tensors; optionally up to the first layers, inclusive."""
        indices: set[int] = set()
        todo = list(names)
        while todo:
            i = self.maker.get(todo.pop())
            if i is None or i in indices:
                continue
            indices.add(i)
            if through_layers or not has_weights(self.nodes[i]):
                todo.extend(reads(self.nodes[i]))
        return indices

    def follows(self, tensor: str) -> set[str]:
        """Return the tensors computed from one without a layer with weights between, and itself."""
        names = {tensor}
        todo = [tensor]
        while todo:
            for node in self.consumers(todo.pop()):
                if has_weights(node):
                    continue
                for name in node.output:
                    if name and name not in names:
                        names.add(name)
                        todo.append(name)
        return names

    def commit(self) -> onnx.ModelProto:
        """Write the nodes back, each behind what it reads, and return the model."""
        self.index()
        ordered = self._ordered()
        del self.model.graph.node[:]
        self.model.graph.node.extend(ordered)
        return self.model

    def _ordered(self) -> list[onnx.NodeProto]:
        """Return the nodes, each behind what it reads; refuse a cycle."""
        ordered = [self.nodes[i] for i in self._order()]
        if len(ordered) < len(self.nodes):
            raise FoldError(
                argument="model",
                rule="must be a graph without cycles",
                got="nodes that read each other's outputs",
                remedy="Check the model with onnx.checker, and export it again.",
            )
        return ordered

    def _order(self) -> Iterator[int]:
        """Yield the nodes in an order that can run, as close to the current one as possible."""
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


def check_functions(model: onnx.ModelProto, name: str) -> None:
    """Refuse functions that call themselves, or that are too deep or too large once inlined.

    ``onnx.inliner`` and ONNX Runtime follow calls by recursion and without a limit in many
    versions, which ends the interpreter.
    """
    calls: dict[FunctionId, list[FunctionId]] = {}
    for function in model.functions:
        key = _function_id(function.domain, function.name, function.overload)
        calls.setdefault(key, []).extend(_operators(function.node))
    depths: dict[FunctionId, int] = {}
    n_nodes: dict[FunctionId, int] = {}
    for key in _callees_first(calls, name):
        depths[key] = 1 + max((depths.get(callee, 0) for callee in calls[key]), default=0)
        size = sum(n_nodes.get(callee, 1) for callee in calls[key])
        n_nodes[key] = min(size, _MAX_NODES + 1)
    if max(depths.values(), default=0) > _MAX_DEPTH:
        _refuse_functions(
            name,
            f"must have functions that call each other at most {_MAX_DEPTH} deep",
            f"a depth of {max(depths.values())}",
        )
    if n_nodes and sum(n_nodes.get(key, 1) for key in _operators(model.graph.node)) > _MAX_NODES:
        _refuse_functions(
            name, f"must have at most {_MAX_NODES:,} nodes once its functions are inlined", "more"
        )


def _callees_first(calls: Mapping[FunctionId, list[FunctionId]], name: str) -> Iterator[FunctionId]:
    """Yield the functions, each after those it calls; refuse functions that call themselves."""
    waits = {key: {callee for callee in calls[key] if callee in calls} for key in calls}
    callers: dict[FunctionId, list[FunctionId]] = {key: [] for key in calls}
    for key, callees in waits.items():
        for callee in callees:
            callers[callee].append(key)
    ready = [key for key, callees in waits.items() if not callees]
    while ready:
        callee = ready.pop()
        del waits[callee]
        yield callee
        for key in callers[callee]:
            waits[key].discard(callee)
            if not waits[key]:
                ready.append(key)
    if waits:  # each of these calls another of them: following the calls ends in a circle
        key, passed = next(iter(waits)), set()
        while key not in passed:
            passed.add(key)
            key = next(iter(waits[key]))
        _refuse_functions(
            name, "must have no function that calls itself", f"{key[1][:40]!r}, which does"
        )


def _operators(nodes: Iterable[onnx.NodeProto]) -> list[FunctionId]:
    """Return the operators that nodes call, including those in their inner graphs."""
    operators = []
    for node in nodes:
        operators.append(_function_id(node.domain, node.op_type, node.overload))
        for inner in inner_graphs(node):
            operators += _operators(inner.node)
    return operators


def _function_id(domain: str, name: str, overload: str) -> FunctionId:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _refuse_functions(name: str, rule: str, got: str) -> NoReturn:
    raise FoldError(
        argument=name,
        rule=rule,
        got=got,
        remedy="Check where it comes from, and export it again.",
    )


def _made_inside(graph: onnx.GraphProto) -> set[str]:
    made = {name for part in graph.node for name in part.output}
    return made | {i.name for i in graph.input} | {t.name for t in graph.initializer}


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors a node reads, including those its inner graphs read from outside."""
    names = [name for name in node.input if name]
    for inner in inner_graphs(node):
        wanted = [name for part in inner.node for name in reads(part)]
        wanted += [o.name for o in inner.output]
        made = _made_inside(inner)
        names += [name for name in wanted if name not in made]
    return names


def reread(node: onnx.NodeProto, new: Mapping[str, str]) -> None:
    """Make a node, and its inner graphs, read other tensors: ``{old name: new name}``."""
    for k, source in enumerate(node.input):
        node.input[k] = new.get(source, source)
    for inner in inner_graphs(node):
        made = _made_inside(inner)
        outside = {old: name for old, name in new.items() if old not in made}
        for part in inner.node:
            reread(part, outside)


def _types(model: onnx.ModelProto) -> dict[str, tuple[int, tuple[int | None, ...] | None]]:
    """Return element type and dimensions of every tensor, where they can be inferred."""
    types: dict[str, tuple[int, tuple[int | None, ...] | None]] = {}
    for tensor in model.graph.initializer:
        types[tensor.name] = (tensor.data_type, tuple(tensor.dims))
    graph = _inferred(model).graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if not value.type.HasField("tensor_type"):
            continue
        kind = value.type.tensor_type
        dims: tuple[int | None, ...] | None = None
        if kind.HasField("shape"):
            dims = tuple(d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim)
        types.setdefault(value.name, (kind.elem_type, dims))
    return types


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with inferred types and without weights, which inference does not need."""
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
    except Exception:  # only the types that the model declares are then known
        return light
