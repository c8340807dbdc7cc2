"""Networks are trained and scored once, stopped runs resume, and other files are left alone."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from lab.tests.support.drives import write_sf
from lab.tests.support.tiny_networks import SETTINGS

from reprior.exceptions import FileFormatError, OptionError
from reprior_lab.reproduction import claimed
from reprior_lab.synthia import network_jobs
from reprior_lab.synthia.data import DataSource
from reprior_lab.synthia.network_jobs import (
    NetworkJob,
    check_frames,
    finished_run,
    run_network,
    run_networks,
)
from reprior_lab.synthia.settings import NetworkSettings, home_of

NETWORK = NetworkSettings.resolve(**SETTINGS)


class StoppedError(Exception):
    pass


def test_it_goes_on_where_it_was_stopped(drives, tmp_path):
    job = NetworkJob(NETWORK, DataSource(drives), weather=False)

    def stop(title, done, total):
        if done == total:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_network(tmp_path, job, stop, "net")
    assert finished_run(tmp_path, NETWORK) is None
    told = []
    run_networks(tmp_path, [job], 1, lambda *what: told.append(what))
    assert told[0][0] == "network 1 of 1: rgb-ce/s0"
    assert told[0][1] > 1, "the first epoch is not trained again"
    assert told[-1] == ("network 1 of 1: rgb-ce/s0, scores: clear", 6, 6)
    home = home_of(tmp_path, NETWORK)
    assert {path.stem for path in (home / "scores").iterdir()} == {"held_out", "clear"}
    assert finished_run(tmp_path, NETWORK).finished


def test_a_network_is_trained_and_scored_on_its_device(drives, tmp_path, monkeypatch):
    import torch

    devices = []
    monkeypatch.setattr(
        "reprior_lab.synthia.training._device",
        lambda name: devices.append(name) or torch.device("cpu"),
    )
    job = NetworkJob(NETWORK, DataSource(drives), weather=False)
    assert run_network(tmp_path, job, device="cuda:1").finished
    assert devices == ["cuda:1", "cuda:1"]


def test_what_is_done_is_not_done_again(made, monkeypatch):
    monkeypatch.setattr(network_jobs, "run_network", pytest.fail)
    run_networks(made.folder, [NetworkJob(NETWORK, DataSource(None), weather=False)], 1, None)


def test_without_training_only_what_is_finished_is_scored(drives, tmp_path):
    job = NetworkJob(NETWORK, DataSource(drives), weather=True, train=False)
    assert run_network(tmp_path, job) is None
    run_networks(tmp_path, [job], 1, None)
    assert not (tmp_path / "networks").exists()


def test_what_another_process_is_at_is_left_to_it(drives, tmp_path):
    with claimed(home_of(tmp_path, NETWORK)):
        assert run_network(tmp_path, NetworkJob(NETWORK, DataSource(drives), weather=False)) is None


def other_drives(root, train, test):
    write_sf(root, "train", train, poles=[train[i] for i in (2, 3, 7, 8, 12, 17)])
    write_sf(root, "test", test, poles=[test[2]])
    return DataSource(root)


def test_networks_of_other_frames_are_refused(made, tmp_path):
    check_frames(made.folder, [NETWORK], DataSource(made.root))
    other = other_drives(tmp_path, [*range(100, 110), *range(150, 160)], range(20, 26))
    with pytest.raises(OptionError, match=r"learnt from others.*another folder, with -o"):
        check_frames(made.folder, [NETWORK], other)
    with pytest.raises(OptionError, match="learnt from others"):
        run_network(made.folder, NetworkJob(NETWORK, other, weather=True, train=False))
    check_frames(tmp_path / "empty", [NETWORK], other)


def test_scores_of_other_frames_are_refused(made, tmp_path):
    other = other_drives(tmp_path, [*range(10), *range(50, 60)], range(30, 36))
    with pytest.raises(OptionError, match=r"scores of the frames of `root`. Got .*clear\.npz"):
        check_frames(made.folder, [NETWORK], other)


def test_a_network_of_another_recipe_is_refused(made, tmp_path):
    home = home_of(tmp_path, NETWORK)
    home.mkdir(parents=True)
    shutil.copy(home_of(made.folder, NETWORK) / "run.json", home)
    document = json.loads((home / "run.json").read_text())
    (home / "run.json").write_text(json.dumps({**document, "recipe": 1}))
    with pytest.raises(OptionError, match=r"recipe, 2. Got .*of recipe 1.*with -o"):
        finished_run(tmp_path, NETWORK)
    del document["recipe"]
    (home / "run.json").write_text(json.dumps(document))
    assert finished_run(tmp_path, NETWORK).recipe == 2


def test_bad_input(tmp_path):
    job = NetworkJob(NETWORK, DataSource(tmp_path / "nowhere"), weather=False)
    with pytest.raises(OptionError, match="`jobs` must be at least 1"):
        run_networks(tmp_path, [job], 0, None)
    with pytest.raises(FileFormatError, match="`root` must be the folder of SYNTHIA"):
        run_networks(tmp_path, [job, job], 2, None)
