"""What the tests of the ONNX adapter share: calibrators, small models, ways to run them."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import reprior as rp

TIE = 1e-5
"""Samples whose two best posteriors are nearer than this have no certain label."""

POSTERIOR = 1e-5
"""Posteriors of single precision agree to this."""


def calibrator(n_classes: int = 5, kind: str = "logits", seed: int = 0, **options: Any):
    """A calibrator with a real correction, fitted on scores of a model that knows its prior."""
    rng = np.random.default_rng(seed)
    prior = rp.prior_from_counts(10.0 ** -np.linspace(0, 2, n_classes))
    labels = rng.integers(0, n_classes, 2000)
    z = rng.normal(size=(2000, n_classes)) * 1.5 + np.log(prior)
    z[np.arange(2000), labels] += 2
    if kind == "probs":
        z = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    axis = options.pop("class_axis", -1)
    names = options.get("classes")
    fitted = rp.PosteriorCalibrator(prior, kind=kind, **options)
    fitted.fit(z, labels if names is None else np.asarray(names)[labels])
    fitted.class_axis = axis
    return fitted


def run(model: onnx.ModelProto, feed: Any) -> dict[str, Any]:
    """Every output by name; a single array goes to the only input."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    if not isinstance(feed, dict):
        feed = {session.get_inputs()[0].name: feed}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feed), strict=True))


def text(body: str, *, opset: int = 17, ml: bool = False) -> onnx.ModelProto:
    """A model in ONNX's text form."""
    domains = f'["": {opset}' + (', "ai.onnx.ml": 3]' if ml else "]")
    return onnx.parser.parse_model(f"<ir_version: 8, opset_import: {domains}> {body}")


def linear(
    nodes: list[onnx.NodeProto],
    outputs: dict[str, tuple[int, list[Any]]],
    *,
    n_features: int = 4,
    n_classes: int = 5,
    opset: int = 17,
    dtype: Any = np.float32,
    seed: int = 0,
    more: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """A model with the weights w (features, classes), b (classes), and the given nodes."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.normal(size=(n_features, n_classes)).astype(dtype),
        "b": rng.normal(size=n_classes).astype(dtype),
        **(more or {}),
    }
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", element, ["N", n_features])],
        [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
LOGITS = {"z": (FLOAT, ["N", 5])}


def gemm_model(**options: Any) -> onnx.ModelProto:
    return linear([helper.make_node("Gemm", ["x", "w", "b"], ["z"])], LOGITS, **options)


def full_model(**options: Any) -> onnx.ModelProto:
    """Logits, probabilities and labels of one head."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"], axis=1),
        helper.make_node("ArgMax", ["z"], ["label"], axis=1, keepdims=0),
    ]
    outputs = {**LOGITS, "p": (FLOAT, ["N", 5]), "label": (INT64, ["N"])}
    return linear(nodes, outputs, **options)


def operators(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def samples(n: int = 10_000, n_features: int = 4, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


def assert_follows(posterior: Any, labels: Any, found: Any, found_labels: Any = None) -> None:
    """Labels agree on every sample that is no tie, and posteriors to 1e-5."""
    posterior, found = np.asarray(posterior), np.asarray(found)
    assert posterior.shape == found.shape
    assert np.abs(posterior - found).max() <= POSTERIOR
    top = np.sort(posterior, axis=1)
    clear = top[:, -1] - top[:, -2] > TIE
    assert clear.sum() > 0.9 * clear.size
    if found_labels is not None:
        assert (np.asarray(found_labels) == np.asarray(labels))[clear].all()


def exported(
    module: Any, example: Any, outputs: list[str], axes: dict[int, str]
) -> onnx.ModelProto:
    """A torch module as ONNX."""
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(), (example,), file, input_names=["x"], output_names=outputs,
            dynamo=False, dynamic_axes={"x": axes},
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())
