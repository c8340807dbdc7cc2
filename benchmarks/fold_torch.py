"""A folded ResNet-50 and one with a Rebalance layer, against the original network."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

import reprior as rp
from benchmarks.resnet import ResNet50
from benchmarks.timing import Row, compare
from reprior.torch import Rebalance, fold_into

#: Folded inference must cost what the original costs, within the resolution of paired ratios.
BAR = 1.02
PAIRS = 61


def rows() -> Iterator[Row]:
    torch.manual_seed(0)
    model = ResNet50().eval()
    prior = rp.prior_from_counts(100.0 ** -np.linspace(0, 1, 1000))
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 1000, 5000)
    logits = rng.standard_normal((5000, 1000)) + 4 * np.eye(1000)[labels] + np.log(prior)
    calibrator = rp.PosteriorCalibrator(prior, temperature=1.2).fit(logits, labels)
    image = torch.randn(1, 3, 224, 224)
    folded = fold_into(model, calibrator, head="fc", inputs=image)
    layered = torch.nn.Sequential(model, Rebalance.from_calibrator(calibrator)).eval()
    with torch.inference_mode():
        for what, other in (("fold_into", folded), ("Rebalance behind it", layered)):
            yield compare(
                f"ResNet-50, 1 image of 224 x 224, {what}",
                lambda other=other: other(image),
                "the network as it was",
                lambda: model(image),
                bar=BAR,
                pairs=PAIRS,
            )
