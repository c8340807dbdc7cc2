"""A corrected ONNX model against the same model uncorrected, of the size of a ResNet-50."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime

import reprior as rp
from benchmarks.timing import Row, compare
from reprior.onnx import fold_report
from reprior.onnx.correction import Affine, append_correction
from reprior.onnx.graph import Graph
from reprior.onnx.score_tensors import Place

N_CLASSES = 1000
#: Blocks, and channels inside each, of the four stages of a ResNet-50.
STAGES = [(3, 64), (4, 128), (6, 256), (3, 512)]
#: The allowed cost of folding, and the number of timed pairs: many, because 2 % is a small effect.
BAR, PAIRS = 1.02, 61


def resnet50() -> onnx.ModelProto:
    """A ResNet-50 with random weights: image to probabilities and label."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, given: int, inner: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(given, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
                nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
                nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner),
            )  # fmt: skip
            same = stride == 1 and given == 4 * inner
            self.skip = nn.Identity() if same else nn.Conv2d(given, 4 * inner, 1, stride)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.skip(x))

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            blocks: list[nn.Module] = [
                nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                nn.MaxPool2d(3, 2, 1),
            ]  # fmt: skip
            given = 64
            for stage, (n, inner) in enumerate(STAGES):
                for k in range(n):
                    blocks.append(Block(given, inner, 2 if stage and k == 0 else 1))
                    given = 4 * inner
            self.body = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
            self.head = nn.Linear(given, N_CLASSES)

        def forward(self, x: Any) -> Any:
            p = self.head(self.body(x)).softmax(1)
            return p, p.argmax(1)

    torch.manual_seed(0)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Network().eval(), (torch.zeros(1, 3, 224, 224),), file, input_names=["image"],
            output_names=["p", "label"], dynamo=False, dynamic_axes={"image": {0: "n"}},
        )  # fmt: skip
    return onnx.load_from_string(file.getvalue())


def calibrator() -> rp.PosteriorCalibrator:
    rng = np.random.default_rng(0)
    prior = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, N_CLASSES))
    labels = np.arange(4000) % N_CLASSES
    logits = rng.standard_normal((4000, N_CLASSES)) + np.log(prior)
    logits[np.arange(4000), labels] += 5
    return rp.PosteriorCalibrator(prior, temperature=1.3).fit(logits, labels)


def with_tail(model: onnx.ModelProto, cal: rp.PosteriorCalibrator) -> onnx.ModelProto:
    """Append the correction to the probabilities, as if the logits were not accessible."""
    own = onnx.ModelProto()
    own.CopyFrom(model)
    graph = Graph(own)
    append_correction(graph, Place("p", "probs", -1), Affine(*cal.as_affine()))
    return graph.commit()


def runner(model: onnx.ModelProto) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # threads that wait for each other would be most of the noise
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    return lambda: session.run(None, {"image": image})


def rows() -> Iterator[Row]:
    model, cal = resnet50(), calibrator()
    plain = runner(model)
    folded = runner(fold_report(model, cal).model)
    tail = runner(with_tail(model, cal))
    peer = "the same network uncorrected"
    yield compare(
        "ONNX Runtime, ResNet-50, weights changed", folded, peer, plain, bar=BAR, pairs=PAIRS
    )
    yield compare(
        "ONNX Runtime, ResNet-50, nodes appended", tail, peer, plain, bar=BAR, pairs=PAIRS
    )
