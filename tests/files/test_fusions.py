"""Fusions as versioned JSON."""

from __future__ import annotations

import json

import pytest

import reprior as rp
from reprior.exceptions import FileFormatError
from reprior.files import fusion_document, is_fusion, parsed, write_fusion
from reprior.files.documents import FUSION_CHOICES, FUSION_FORMAT

REFERENCE = {"mean": 0.5, "std": 0.1}
FIELDS = {
    "rule": "noisy_or",
    "flatten": True,
    "order": "rebalance_first",
    "strengths": "per_modality",
    "flatten_by": "image",
    "uncertainty": "entropy",
    "missing": "error",
    "kind": "logits",
    "class_axis": 1,
    "source_prior": [0.75, 0.25],
    "target_prior": [1.0, 0.0],
    "classes": ["cat", "dög"],
    "metric": "mean_iou",
    "search": "grid",
    "best_score": None,
    "modalities": [
        {"name": "rgb", "strength": 1.0, "entropy": REFERENCE, "mutual_information": None},
        {"name": "dèpth", "strength": -0.5, "entropy": REFERENCE, "mutual_information": None},
    ],
    "provenance": None,
}


def read(path):
    return fusion_document(path, parsed(path, FUSION_FORMAT))


def test_round_trip(tmp_path):
    path = tmp_path / "fusion.json"
    write_fusion(path, FIELDS)
    assert read(path) == {"format": "reprior fusion", "format_version": 1, **FIELDS}
    assert is_fusion(parsed(path, FUSION_FORMAT))
    loaded = rp.load(path)
    assert loaded.strengths_ == {"rgb": 1.0, "dèpth": -0.5}


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "fusion.json"
    write_fusion(path, FIELDS)
    whole = path.read_bytes()
    for size in range(0, len(whole.rstrip()), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(FileFormatError, match="truncated, damaged"):
            rp.load(path)


def modalities(**changed):
    return [{**FIELDS["modalities"][0], **changed}, FIELDS["modalities"][1]]


BAD = [
    *((name, "other") for name in FUSION_CHOICES),
    ("flatten", 1),
    ("class_axis", 1.0),
    ("source_prior", [1.0, 0.0]),
    ("target_prior", [0.2, 0.3, 0.5]),
    ("classes", ["cat", "cat"]),
    ("metric", None),
    ("best_score", "good"),
    ("provenance", {}),
    ("modalities", []),
    ("modalities", {"rgb": {}}),
    ("modalities", ["rgb"]),
    ("modalities", modalities(name="dèpth")),
    ("modalities", modalities(name="")),
    ("modalities", modalities(name=3)),
    ("modalities", modalities(strength=None)),
    ("modalities", modalities(entropy=None)),
    ("modalities", modalities(mutual_information=REFERENCE)),
    ("modalities", modalities(entropy={"mean": 0.0, "std": 0.1})),
    ("modalities", modalities(entropy={"mean": 0.5, "std": -0.1})),
    ("modalities", modalities(entropy={"mean": 0.5})),
    ("modalities", modalities(entropy=[0.5, 0.1])),
]


@pytest.mark.parametrize("name, value", BAD)
def test_every_bad_field_is_named(tmp_path, name, value):
    path = tmp_path / "fusion.json"
    write_fusion(path, {**FIELDS, name: value})
    with pytest.raises(FileFormatError, match=rf"'{name}'.*save\(\)"):
        rp.load(path)


@pytest.mark.parametrize("name", [n for n in FIELDS if n not in ("best_score", "provenance")])
def test_every_missing_field_is_named(tmp_path, name):
    path = tmp_path / "fusion.json"
    write_fusion(path, {key: value for key, value in FIELDS.items() if key != name})
    with pytest.raises(FileFormatError, match=rf"'(source_prior|modalities|{name})'. Got"):
        rp.load(path)


@pytest.mark.parametrize(
    "uncertainty, has", [("smaller", ("entropy", "mutual_information")),
                         ("mutual_information", ("mutual_information",))],
)  # fmt: skip
def test_references_must_fit_the_uncertainty(tmp_path, uncertainty, has):
    path = tmp_path / "fusion.json"
    both = [
        {**each, **{k: REFERENCE if k in has else None for k in ("entropy", "mutual_information")}}
        for each in FIELDS["modalities"]
    ]
    write_fusion(path, {**FIELDS, "uncertainty": uncertainty, "modalities": both})
    assert set(rp.load(path).information_references_) == {"rgb", "dèpth"}
    write_fusion(path, {**FIELDS, "uncertainty": uncertainty})
    with pytest.raises(FileFormatError, match="the references that 'flatten' and 'uncertainty'"):
        rp.load(path)


def test_other_versions_are_refused(tmp_path):
    path = tmp_path / "fusion.json"
    write_fusion(path, FIELDS)
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 9}))
    with pytest.raises(FileFormatError, match=r"reads up to 1. Install a newer reprior"):
        rp.load(path)
