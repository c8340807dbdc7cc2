"""The skl2onnx converter of RebalancedClassifierCV; it corrects labels and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from skl2onnx import update_registered_converter
from skl2onnx._parse import _parse_sklearn
from skl2onnx.common.data_types import guess_proto_type
from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
from sklearn.frozen import FrozenEstimator

from reprior.exceptions import FoldError, Setting
from reprior.onnx.files import CONVERTED, KEY, as_text
from reprior.sklearn import RebalancedClassifierCV

__all__ = ["convert", "register"]

ALIAS = "RepriorRebalancedClassifierCV"

_INT64, _STRING = 7, 8  # of onnx.TensorProto


def register() -> None:
    """Register the converter: skl2onnx then exports the meta-estimator, alone or in a pipeline."""
    update_registered_converter(
        RebalancedClassifierCV,
        ALIAS,
        calculate_linear_classifier_output_shapes,
        convert,
        overwrite=True,
        options={
            "zipmap": [True, False, "columns"],
            "nocl": [True, False],
            "output_class_labels": [False, True],
        },
    )


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the wrapped classifier, the correction of its scores, and the labels they give."""
    meta = operator.raw_operator
    _without_booleans(container)
    scores = _scores_of(meta, scope, operator, container)
    nodes = _Nodes(scope, container, guess_proto_type(operator.outputs[1].type))
    if meta.calibrator_.probability_map_ is not None:
        raise FoldError(
            argument="model",
            rule="must have one map for decisions and probabilities to be converted",
            got=[
                "two (",
                Setting("separate", True),
                ")",
            ],
            remedy="Keep one: meta.calibrator_ = meta.calibrator_.one_map('decision').",
        )
    scale, bias = meta.calibrator_.as_affine()
    if meta.response_method_ != "decision_function":
        name = nodes.add("Log", [scores])
    elif bias.size == 2:
        # One column z, or the columns −z and z: the last is the log-odds of the second class.
        last = nodes.constant([-1], [1], _INT64)
        odds = nodes.add("Gather", [scores, last], axis=1)
        name = nodes.add("Mul", [odds, nodes.constant([0.0, 1.0], [1, 2])])
    else:
        name = scores
    scales = np.atleast_1d(scale)
    if (scales != 1.0).any():
        name = nodes.add("Mul", [name, nodes.constant(scales.tolist(), [scales.size])])
    shift = nodes.constant(bias.tolist(), [1, bias.size])
    # A converter has no access to the model's metadata, but a node can hold a text.
    note = f"{KEY} {as_text(meta.calibrator_)}"
    name = nodes.add("Add", [name, shift], doc_string=note)
    posterior = nodes.add("Softmax", [name], axis=1)
    nodes.add("Identity", [posterior], output=operator.outputs[1].full_name)
    classes = np.asarray(meta.classes_)
    if scope.get_options(meta, {"nocl": False}).get("nocl"):  # indices instead of names
        classes = np.arange(classes.size)
    _labels(nodes, posterior, classes, operator.outputs[0].full_name)


def _scores_of(meta: Any, scope: Any, operator: Any, container: Any) -> str:
    """Convert the wrapped classifier; return the name of its scores, a column per class."""
    inner = meta.estimator_
    while isinstance(inner, FrozenEstimator):
        inner = inner.estimator
    if not np.array_equal(np.asarray(inner.classes_), np.asarray(meta.classes_)):
        raise FoldError(
            argument="estimator_",
            rule=f"must know the classes of the meta-estimator, {meta.classes_.tolist()}",
            got=f"{inner.classes_.tolist()}",
            remedy=[
                "Fit with ",
                Setting("refit", True),
                ", or on data in which every class occurs.",
            ],
        )
    options: dict[str, Any] = {"zipmap": False}
    if meta.response_method_ == "decision_function":
        options["raw_scores"] = True
    for holder in (scope, container):
        holder.add_options(id(inner), options=options)
        if hasattr(inner, "steps"):
            holder.add_options(id(inner.steps[-1][1]), options=options)
    outputs = _parse_sklearn(scope, inner, operator.inputs, custom_parsers=None)
    return str(outputs[1].full_name)


def _without_booleans(container: Any) -> None:
    """Make this export write booleans in lists as integers.

    skl2onnx 1.20 passes booleans to protobuf for histogram boosting, where protobuf 7 accepts
    integers only.
    """
    plain = container.add_node

    def add_node(*values: Any, **attributes: Any) -> None:
        for name, value in attributes.items():
            if isinstance(value, list) and any(isinstance(v, bool | np.bool_) for v in value):
                attributes[name] = [int(v) for v in value]
        plain(*values, **attributes)

    container.add_node = add_node


class _Nodes:
    """Adds nodes and constants of one element type."""

    def __init__(self, scope: Any, container: Any, element: int) -> None:
        self.scope = scope
        self.container = container
        self.element = element

    def constant(self, values: list[Any], shape: list[int], element: int | None = None) -> str:
        name = str(self.scope.get_unique_variable_name("reprior"))
        self.container.add_initializer(name, element or self.element, shape, values)
        return name

    def add(
        self,
        operator: str,
        inputs: list[str],
        *,
        output: str | None = None,
        domain: str = "",
        version: int | None = None,
        **options: Any,
    ) -> str:
        name = output or str(self.scope.get_unique_variable_name(f"{CONVERTED}{operator}"))
        self.container.add_node(
            operator,
            inputs,
            [name],
            name=self.scope.get_unique_operator_name(f"{CONVERTED}{operator}"),
            op_domain=domain,
            op_version=version or self.container.target_opset,
            **options,
        )
        return name


def _labels(nodes: _Nodes, posterior: str, classes: Any, output: str) -> None:
    index = nodes.add("ArgMax", [posterior], axis=1, keepdims=0)
    texts = classes.dtype.kind in "OUS"
    if not texts and np.array_equal(classes, np.arange(classes.size)):
        nodes.add("Identity", [index], output=output)
        return
    values = [str(name).encode() for name in classes] if texts else classes.astype(int).tolist()
    names = nodes.constant(values, [classes.size], _STRING if texts else _INT64)
    picked = nodes.add("ArrayFeatureExtractor", [names, index], domain="ai.onnx.ml", version=1)
    shape = nodes.constant([-1], [1], _INT64)
    nodes.add("Reshape", [picked, shape], output=output)
