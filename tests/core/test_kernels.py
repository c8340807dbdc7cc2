"""Loading the compiled kernels, and the environment variables that control it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import reprior
from reprior import OptionError, RepriorWarning
from reprior.core import kernels


@pytest.fixture
def extension(monkeypatch):
    """The extension, whose level is restored."""
    native = pytest.importorskip("reprior._native")
    monkeypatch.delenv("REPRIOR_NATIVE", raising=False)
    monkeypatch.delenv("REPRIOR_SIMD", raising=False)
    level = native.level()
    yield native
    native.set_level(level)


@pytest.fixture
def no_extension(monkeypatch):
    monkeypatch.setitem(sys.modules, "reprior._native", None)
    monkeypatch.delattr(reprior, "_native", raising=False)


def test_the_extension_is_used_unless_it_is_turned_off(extension, monkeypatch):
    assert kernels._load() is extension
    monkeypatch.setenv("REPRIOR_NATIVE", "off")
    assert kernels._load() is None


def test_without_the_extension_array_code_computes(no_extension, monkeypatch):
    monkeypatch.delenv("REPRIOR_NATIVE", raising=False)
    assert kernels._load() is None
    monkeypatch.setenv("REPRIOR_NATIVE", "require")
    with pytest.raises(ImportError):
        kernels._load()


def test_an_extension_that_cannot_be_loaded_brings_a_warning(extension, monkeypatch, tmp_path):
    broken = tmp_path / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}"
    broken.write_bytes(b"no library")
    monkeypatch.delitem(sys.modules, "reprior._native")
    monkeypatch.setattr(reprior, "__path__", [str(tmp_path)])
    with pytest.warns(RepriorWarning, match="cannot be loaded: array code") as caught:
        assert kernels._load() is None
    assert "pip install --no-cache-dir --force-reinstall reprior" in str(caught[0].message)
    monkeypatch.setenv("REPRIOR_NATIVE", "require")
    with pytest.raises(ImportError, match="_native"):
        kernels._load()


def test_what_a_loaded_extension_lacks_is_no_missing_extension(monkeypatch, tmp_path):
    (tmp_path / "_native.py").write_text("import no_such_module")
    monkeypatch.delitem(sys.modules, "reprior._native", raising=False)
    monkeypatch.delenv("REPRIOR_NATIVE", raising=False)
    monkeypatch.setattr(reprior, "__path__", [str(tmp_path)])
    with pytest.warns(RepriorWarning, match="No module named 'no_such_module'"):
        assert kernels._load() is None


def test_a_missing_extension_is_an_error_with_its_remedy(tmp_path):
    """In a copy of the package without it, as a pure wheel installs it."""
    source = Path(reprior.__file__).parent
    shutil.copytree(
        source, tmp_path / "reprior", ignore=shutil.ignore_patterns("_native*", "__pycache__")
    )
    probe = "from reprior.core import kernels; print(kernels.description())"
    # -S: the import hook of an editable installation would win over the path.
    path = os.pathsep.join([str(tmp_path), str(Path(np.__file__).parents[1])])
    for choice, said in (("", True), ("off", False)):
        done = subprocess.run(
            [sys.executable, "-S", "-c", probe],
            env={**os.environ, "PYTHONPATH": path, "REPRIOR_NATIVE": choice},
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.startswith("array code")
        assert ("pip install --no-cache-dir --force-reinstall reprior" in done.stdout) is said


def test_an_unknown_choice_is_refused(monkeypatch):
    monkeypatch.setenv("REPRIOR_NATIVE", "on")
    with pytest.raises(OptionError, match=r"REPRIOR_NATIVE must be 'off' or 'require'.* Got 'on'"):
        kernels._load()


def test_an_instruction_set_is_chosen_by_name(extension, monkeypatch):
    monkeypatch.setenv("REPRIOR_SIMD", "baseline")
    assert kernels._load().level() == "baseline"
    monkeypatch.setenv("REPRIOR_SIMD", "mmx")
    with pytest.raises(OptionError, match=r"REPRIOR_SIMD must be one of baseline.* Got 'mmx'"):
        kernels._load()


def test_plain_arrays_of_floats_are_served(extension, monkeypatch):
    monkeypatch.setattr(kernels, "native", extension)
    assert all(kernels.serves(np.zeros((2, 3), t)) for t in ("f2", "f4", "f8"))
    others = [np.zeros((2, 3), "i8"), np.ma.zeros((2, 3)), np.zeros((2, 3), ">f8"), [[0.0]]]
    assert not any(kernels.serves(each) for each in others)
    assert kernels.description() == f"native ({extension.level()})"


def test_nothing_is_served_without_the_extension(monkeypatch):
    monkeypatch.setattr(kernels, "native", None)
    assert not kernels.serves(np.zeros((2, 3)))
    assert kernels.description() == "array code"


def test_rows_that_are_not_aligned_are_copied():
    raw = np.zeros(8 * 6 + 1, np.uint8)[1:].view(np.float64).reshape(2, 3)
    raw[...] = np.arange(6.0).reshape(2, 3)
    view = kernels.strided_rows(raw)
    assert not raw.flags.aligned
    assert view.flags.aligned
    np.testing.assert_array_equal(view[0], raw)


def misaligned(values):
    """Return equal values one byte off their alignment."""
    raw = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    raw[...] = values
    return raw


def test_arrays_become_contiguous_and_aligned():
    values = np.arange(6.0).reshape(2, 3)
    assert kernels.contiguous(values) is values
    for other in (misaligned(values), values.T.copy().T):
        found = kernels.contiguous(other)
        assert found.flags.aligned
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, values)


def test_misaligned_arrays_are_served_all_the_same(rng):
    scores, labels = rng.normal(size=(60, 3)), rng.integers(3, size=60)
    scores[np.arange(60), labels] += 1
    weights = rng.random(60)
    plain = reprior.PosteriorCalibrator([0.5, 0.3, 0.2]).fit(scores, labels, weights)
    off = reprior.PosteriorCalibrator([0.5, 0.3, 0.2])
    off.fit(misaligned(scores), misaligned(labels), misaligned(weights))
    assert off.strength_ == plain.strength_
    plain = reprior.fit_temperature(scores, labels, sample_weight=weights)
    off = reprior.fit_temperature(
        misaligned(scores), misaligned(labels), sample_weight=misaligned(weights)
    )
    assert off.temperature == plain.temperature
