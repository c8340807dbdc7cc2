"""The run file of a network."""

from __future__ import annotations

import json

import pytest

from reprior.exceptions import FileFormatError
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.settings import NetworkSettings


def test_written_and_read(tmp_path):
    run = NetworkRun(
        NetworkSettings(loss="ldam", crop=(16, 32)),
        data="ab",
        classes=("road", "sky"),
        class_counts=(5, 7),
        effective_prior=(0.4, 0.6),
        epochs=({"epoch": 1, "lr": 0.1},),
        result={"mean_iou": 0.5},
        notes=("Absent.",),
        n_train=3,
    )
    run.write(tmp_path)
    assert NetworkRun.read(tmp_path) == run
    document = json.loads((tmp_path / "run.json").read_text())
    assert document["id"] == run.settings.id
    assert run.identity["data"] == "ab"
    assert run.identity["recipe"] == document.pop("recipe") == 2
    (tmp_path / "run.json").write_text(json.dumps(document))
    assert NetworkRun.read(tmp_path) == run, "what does not say is of the first recipe"
    assert not run.finished
    assert run.updated(status="finished").finished


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "must be JSON as reprior wrote it"),
        ("[]", "must be JSON as reprior wrote it"),
        ('{"format_version": 1}', "KeyError"),
        ('{"format_version": 9, "id": "", "settings": {}}', "must have format_version 1. Got 9"),
        ('{"format_version": 1, "id": "", "settings": {"lrr": 1}}', "Did you mean 'lr'"),
    ],
)
def test_damaged_files(tmp_path, text, words):
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(FileFormatError, match=words):
        NetworkRun.read(tmp_path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        NetworkRun.read(tmp_path)
