"""A file is there whole, or as it was before."""

import os
import stat

import pytest

from reprior.files.atomic import atomic_write


def test_a_new_file_is_whole_and_alone(tmp_path):
    with atomic_write(tmp_path / "a.bin") as file:
        file.write(b"one")
        assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / "a.bin").read_bytes() == b"one"
    assert os.listdir(tmp_path) == ["a.bin"]


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt, OSError])
def test_trouble_leaves_the_old_file_and_nothing_else(tmp_path, trouble):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def interrupted():
        with atomic_write(path) as file:
            file.write(b"half")
            raise trouble

    with pytest.raises(trouble):
        interrupted()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_trouble_at_the_last_step_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"), atomic_write(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_permissions_are_those_of_any_new_file_or_of_the_old_one(tmp_path):
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    with atomic_write(tmp_path / "new") as file:
        file.write(b"")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    plain.chmod(0o600)
    with atomic_write(plain) as file:
        file.write(b"x")
    assert stat.S_IMODE(plain.stat().st_mode) == 0o600


def test_a_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="nowhere"),
        atomic_write(tmp_path / "nowhere" / "a") as file,
    ):
        file.write(b"")
