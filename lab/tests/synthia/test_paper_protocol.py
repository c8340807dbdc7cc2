"""The protocol of the paper: its settings, and that it starts and finishes on tiny frames."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from lab.tests.support.drives import write_cameras, write_drives
from lab.tests.support.installed import run_installed

from reprior_lab.departures import DEPARTURES
from reprior_lab.synthia.settings import CAMERAS, rgb_networks, rgbd_networks

#: What the authors' public code says; see DEPARTURES for where it says otherwise.
PAPER = {
    "model": "deeplabv3plus-resnet101",
    "depth_code": "jet8",
    "crop": (384, 768),
    "steps": 500_000,
    "batch_size": 4,
    "lr": 1e-5,
    "lr_schedule": "steps",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "seed": 0,
    "beta": 0.9999,
    "gamma": 1.0,
    "max_margin": 0.5,
    "scale": 30.0,
    "augment": "none",
    "normalization": "synthia",
    "pretrained": False,
    "cameras": "all",
    "size": (384, 768),
    "test_every": 5,
}


def test_settings_of_tables_4_and_5():
    found = [asdict(network) for network in rgb_networks(protocol="paper")]
    losses = ("ce", "median_ce", "max_ce", "ldam", "focal")
    assert found == [{"modality": "rgb", "loss": loss, **PAPER} for loss in losses]
    found = [asdict(network) for network in rgbd_networks(protocol="paper")]
    assert found == [{"modality": each, "loss": "ce", **PAPER} for each in ("rgb", "depth")]


def test_departures_are_told_apart_and_have_a_reason():
    found = DEPARTURES["synthia"]
    assert len({each.setting for each in found}) == len(found)
    for each in found:
        assert each.theirs != each.ours
        assert each.reason.endswith(".")


#: DeepLab's own network and recipe; frames, parts and steps are few and small.
SMALL = ("steps=2", "crop=64,96", "batch_size=2", "size=64,96")


@pytest.mark.heavy
@pytest.mark.parametrize("layout, devices", [("SYNTHIA-SF", 1), ("SYNTHIA-Sequences", 2)])
def test_the_tables_are_made(tmp_path, layout, devices):
    root = tmp_path / layout
    if layout == "SYNTHIA-SF":
        write_drives(root)
    else:
        write_cameras(root, "SUMMER", range(30), CAMERAS["all"])
        write_cameras(root, "FOG", range(6), CAMERAS["all"])
    chosen = [word for setting in SMALL for word in ("--set", setting)]
    for table in ("synthia-rgb", "synthia-rgbd"):
        made = run_installed(
            "reproduce",
            table,
            "--protocol",
            "paper",
            "--root",
            root,
            *chosen,
            "--devices",
            devices,
            "-o",
            tmp_path / "out",
        )
        assert made["tables"]
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("networks/*/run.json")]
    assert len(runs) == 6
    for run in runs:
        assert run["status"] == "finished"
        assert run["settings"]["augment"] == "none"
        assert run["epochs"][-1]["step"] == 2
