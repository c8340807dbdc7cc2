"""Tables 4 and 5 of tiny frames and networks, made once for all tests that look at them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from lab.tests.support.drives import write_drives
from lab.tests.support.tiny_networks import SETTINGS


@pytest.fixture(scope="session")
def drives(tmp_path_factory):
    pytest.importorskip("PIL", reason="pillow is not installed")
    return write_drives(tmp_path_factory.mktemp("drives"))


@pytest.fixture(scope="session")
def made(drives, tmp_path_factory):
    """Both tables in one folder: the folder, what was made, and what progress was told."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from reprior_lab.synthia import rgb, rgbd

    folder, told = tmp_path_factory.mktemp("synthia"), []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    options = {
        "root": drives,
        "settings": SETTINGS,
        "progress": lambda *what: told.append(what),
    }
    first = rgb.reproduce(folder, **options)
    second = rgbd.reproduce(folder, **options)
    torch.set_num_threads(threads)
    return SimpleNamespace(folder=folder, root=drives, rgb=first, rgbd=second, told=told)
