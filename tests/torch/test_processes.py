"""Several processes get one calibrator: that of all their samples."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import ExitStack

import pytest
from tests.child_processes import started
from tests.torch.shared import PRIOR, logits_and_labels
from torch import distributed

import reprior as rp
from reprior.engines import OnlineFit
from reprior.torch.processes import merged


def online(part: slice) -> OnlineFit:
    scores, labels = logits_and_labels(100)
    fit = OnlineFit(rp.PosteriorCalibrator(PRIOR))
    fit.update(scores[part], labels[part])
    return fit


def wanted() -> rp.PosteriorCalibrator:
    scores, labels = logits_and_labels(100)
    return rp.PosteriorCalibrator(PRIOR).fit(scores, labels)


def test_one_process_keeps_what_it_has():
    fit = online(slice(None))
    assert merged(fit) is fit


def test_the_parts_of_all_ranks(monkeypatch):
    parts = [online(slice(0, 30)), online(slice(30, 100))]

    def gather(results: list, own: OnlineFit) -> None:
        assert own is parts[1]
        results[:] = parts

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_object", gather)
    cal = merged(parts[1]).finish()
    assert cal.strength_ == wanted().strength_
    assert cal.profile_.n_samples == 100


RANK = """
import json, sys
from torch import distributed
from reprior.torch.processes import merged
from tests.torch.test_processes import online
rank, file = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
cal = merged(online(slice(0, 30) if rank == 0 else slice(30, 100))).finish()
print(json.dumps([cal.strength_, cal.best_score_, cal.profile_.n_samples]))
distributed.destroy_process_group()
"""


@pytest.mark.heavy
@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch was built without gloo")
def test_two_real_processes(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), environment.get("PYTHONPATH", "")])
    commands = [[sys.executable, "-c", RANK, str(rank), str(tmp_path / "meet")] for rank in (0, 1)]
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(started(command, stdout=subprocess.PIPE, env=environment))
            for command in commands
        ]
        results = [json.loads(rank.communicate()[0]) for rank in ranks]
    expected = wanted()
    assert results == 2 * [[expected.strength_, expected.best_score_, 100]]


def test_a_fit_travels_between_processes():
    fit = pickle.loads(pickle.dumps(online(slice(0, 40))))  # as all_gather_object does
    fit.merge(online(slice(40, 100)))
    assert fit.finish().strength_ == wanted().strength_
