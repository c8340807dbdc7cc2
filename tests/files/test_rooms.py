"""Rooms of processes that were killed are removed, and no others."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from tests.child_processes import ended, started

from reprior.files import atomic as rooms
from reprior.files.atomic import OLD, new_room, sweep


@pytest.fixture
def dead():
    """A number that no process has any more."""
    with started([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def room_of(folder, pid, machine=None):
    room = new_room(folder)
    name = room.name.replace(f"-{os.getpid()}-", f"-{pid}-")
    other = folder / name.replace(rooms._machine(), machine or rooms._machine())
    room.rename(other)
    (other / "a.txt").write_text("new")
    return other


def test_only_rooms_of_dead_processes_of_this_machine_go(tmp_path, dead):
    gone = room_of(tmp_path, dead)
    stay = [
        room_of(tmp_path, os.getpid()),
        room_of(tmp_path, 1),  # which runs, and may not be ours to ask
        room_of(tmp_path, dead, machine="00000000"),
        room_of(tmp_path, 10**30),  # no number of a process
    ]
    for name in (".a.txt.abcdefgh", ".reprior", f"reprior-{dead}", f"{gone.name}.txt"):
        stay.append(tmp_path / name)
        stay[-1].mkdir()
    sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(stay)


@pytest.mark.parametrize("replaced", [False, True])
def test_old_data_get_their_name_back_unless_new_ones_have_it(tmp_path, dead, replaced):
    room = room_of(tmp_path, dead)
    (room / OLD).write_text("old")
    if replaced:
        (tmp_path / "a.txt").write_text("new")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == ("new" if replaced else "old")


def test_where_processes_cannot_be_asked_for_nothing_goes(tmp_path, dead, monkeypatch):
    room = room_of(tmp_path, dead)
    monkeypatch.setattr("reprior.files.atomic.os.name", "nt")
    runs = rooms._runs(dead)
    monkeypatch.undo()
    assert runs
    assert room.exists()


def test_a_process_that_is_killed_leaves_a_room_that_is_swept(tmp_path):
    script = (
        "import os, signal, sys\n"
        "from reprior.files.atomic import atomic_paths\n"
        "with atomic_paths(sys.argv[1]) as (path,):\n"
        "    path.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = ended([sys.executable, "-c", script, tmp_path / "a.txt"])
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    sweep(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_may_not_be_looked_into(tmp_path):
    sweep(tmp_path / "nowhere")
