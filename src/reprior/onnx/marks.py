"""Whether a model is corrected already: told by its metadata and by marks on its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from reprior.exceptions import FoldError
from reprior.onnx.graph import has_weights, reads

__all__ = ["CONVERTED", "KEY", "check_uncorrected", "noted_calibrator"]

#: The key of the calibrator in ``metadata_props``, and how a node's ``doc_string`` with it begins.
KEY = "reprior.calibrator"

#: How the names of nodes begin that the converter of RebalancedClassifierCV adds.
CONVERTED = "reprior_"

#: And of those that folding adds, which stay where a tool drops a model's metadata.
_FOLDED = "reprior/"

#: The layer's class, which torch.onnx.export(dynamo=True) notes on the nodes it makes of it.
_LAYER = "reprior.torch.rebalance.Rebalance"


def check_uncorrected(model: onnx.ModelProto, scores: str | None) -> None:
    """Refuse a model whose outputs, or named scores, are corrected as far as can be told."""
    if any(entry.key == KEY for entry in model.metadata_props):
        raise _refusal(_FOLDED)
    near = _near(model, [o.name for o in model.graph.output] if scores is None else [scores])
    for node in [*near, *(_behind(model, scores) if scores is not None else ())]:
        mark = _mark(node)
        if mark is not None:
            raise _refusal(mark)


def noted_calibrator(model: onnx.ModelProto) -> str | None:
    """Return the calibrator's JSON from the metadata, or from the nodes that make the outputs."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            return str(entry.value)
    for node in _near(model, [o.name for o in model.graph.output]):
        if node.doc_string.startswith(f"{KEY} "):
            return str(node.doc_string[len(KEY) + 1 :])
    return None


def _mark(node: onnx.NodeProto) -> str | None:
    for mark in (CONVERTED, _FOLDED):
        if node.name.startswith(mark):
            return mark
    # Older releases of onnx know no metadata of nodes.
    noted = any(_LAYER in entry.value for entry in getattr(node, "metadata_props", ()))
    return _LAYER if noted else None


def _refusal(mark: str) -> FoldError:
    got, remedy = {
        CONVERTED: (
            "an export of a RebalancedClassifierCV, which is corrected",
            "Use it as it is, or export its estimator_ and fold into that",
        ),
        _LAYER: (
            "an export of a network with a reprior.torch.Rebalance layer",
            "Use it as it is, or export the network without that layer",
        ),
        _FOLDED: (
            "one that a calibrator was folded into",
            "Fold the original export instead; calibrator_of(model) tells what is inside",
        ),
    }[mark]
    return FoldError(f"`model` must not hold a calibrator yet. Got {got}. {remedy}.")


def _near(model: onnx.ModelProto, tensors: list[str]) -> Iterator[onnx.NodeProto]:
    """Give the nodes that make tensors, up to the first layers with weights."""
    maker = {name: i for i, node in enumerate(model.graph.node) for name in node.output}
    seen: set[int] = set()
    todo = list(tensors)
    while todo:
        i = maker.get(todo.pop(0))
        if i is None or i in seen:
            continue
        seen.add(i)
        node = model.graph.node[i]
        yield node
        if not has_weights(node):
            todo.extend(reads(node))


def _behind(model: onnx.ModelProto, tensor: str) -> Iterator[onnx.NodeProto]:
    """Give the nodes that compute from a tensor, up to layers with weights; nodes are in order."""
    reached = {tensor}
    for node in model.graph.node:
        if reached & set(reads(node)) and not has_weights(node):
            reached.update(node.output)
            yield node
