"""Files that are fused have the same samples, where labels or ids can tell."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.shared import FORMATS, Data, data, is_one_sentence, write

from reprior.cli import fuse_inputs


def fuse(run, folder, *files):
    paths = [folder / file for file in files]
    return run("fuse", *paths, "--kind", "logits", "-o", folder / "fused.npz")


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "npy"])
def test_other_labels_are_refused(job, run, form, monkeypatch):
    monkeypatch.setattr(fuse_inputs, "AT_ONCE", 70)
    scores, labels = data(0)
    write(job / f"same.{form}", Data(scores + 1, labels))
    assert fuse(run, job, "val.csv", f"same.{form}").code == 0
    swapped = labels.copy()
    swapped[250] = (swapped[250] + 1) % 3
    write(job / f"other.{form}", Data(scores, swapped))
    result = fuse(run, job, "val.csv", f"other.{form}")
    assert is_one_sentence(result)
    assert "entry 250" in result.err


def test_other_ids_are_refused(job, run):
    (job / "a.csv").write_text("cat,dog,image_id\n1,2,x\n3,4,y\n")
    (job / "b.csv").write_text("cat,dog,image_id\n1,2,y\n3,4,x\n")
    result = fuse(run, job, "a.csv", "b.csv")
    assert is_one_sentence(result)
    assert "'image_id' in entry 0: 'x'" in result.err


def test_what_has_neither_is_fused(job, run):
    np.save(job / "a.npy", data(0).scores)
    np.save(job / "b.npy", data(1).scores)
    assert fuse(run, job, "a.npy", "b.npy").code == 0
