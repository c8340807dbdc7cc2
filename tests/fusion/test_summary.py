"""A fusion in words, and as fields that JSON can hold."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.fusion.shared import PRIOR, modalities

import reprior as rp
from reprior.fusion.summary import fusion_fields


@pytest.fixture
def data(rng):
    return modalities(rng, n=20, pixels=(3,))


def test_the_text_shows_before_and_after(data):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, metric="f1[2]").fit(scores, labels)
    lines = fusion.summary().splitlines()
    plain = rp.ModalityFusion(PRIOR, class_axis=1, strength=0).fit(scores, labels)
    row = next(line.split() for line in lines if line.startswith("accuracy"))
    for shown, each in zip(row[1:3], (plain, fusion), strict=True):
        assert float(shown) == pytest.approx((each.predict(scores) == labels).mean(), abs=5e-5)
    assert any(line.startswith("f1[2]") for line in lines)
    assert (
        "not flattened"
        in rp.ModalityFusion(PRIOR, class_axis=1, flatten=False, strength=1)
        .fit(scores, labels)
        .summary()
    )


def test_fields_are_plain(data):
    scores, labels = data
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, flatten=np.True_).fit(scores, labels)
    fields = fusion_fields(fusion)
    assert json.loads(json.dumps(fields)) == fields
    assert fields["strengths"] == "shared"
    assert fields["modalities"][1]["entropy"] == {
        "mean": fusion.references_["depth"].mean, "std": fusion.references_["depth"].std,
    }  # fmt: skip
    assert fields["modalities"][0]["mutual_information"] is None
