"""Files that change while they are read are noticed."""

from __future__ import annotations

import os

import numpy as np
import pytest
from tests.files.shared import write
from tests.support.chunked_scores import PRIOR, flat, quietly

import reprior as rp
from reprior.engines import target_prior
from reprior.engines.chunk_source import sources_of
from reprior.exceptions import OptionError
from reprior.files import ScoreFile, open_scores
from reprior.profile import source


@pytest.fixture
def changing(tmp_path, monkeypatch):
    """A file that has other scores, or weights as many bytes more, from the third pass on."""

    def make(more=b"", labels=False):
        path, apart = tmp_path / "a.npz", tmp_path / "y.npy"
        both = {} if labels else {"labels": flat(0).labels}
        np.savez(path, scores=flat(0).scores, **both)
        np.save(apart, flat(0).labels)
        begin, n = ScoreFile.chunks, [0]

        def chunks(self, *arguments, **options):
            n[0] += 1
            if n[0] == 3 and labels:
                np.save(apart, flat(5).labels)
            elif n[0] == 3:
                np.savez(path, scores=flat(5).scores, **both)
                path.write_bytes(path.read_bytes() + more)
            return begin(self, *arguments, **options)

        monkeypatch.setattr(ScoreFile, "chunks", chunks)
        return open_scores(path, kind="logits", labels=apart if labels else None)

    return make


@pytest.mark.parametrize("metric", ["balanced_accuracy", "log_loss"])
def test_other_scores_in_a_file_of_the_same_size(changing, monkeypatch, metric):
    monkeypatch.setattr(source, "HELD_SCORES", 0)
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature="fit", metric=metric)
    with pytest.raises(OptionError) as raised:
        quietly(rp.engines.fit, calibrator, changing())
    assert str(raised.value).startswith("`chunks` must give the same samples in every pass. Got '")
    assert str(raised.value).endswith(
        "a.npz', which was changed since. Leave the files alone while they are read."
    )
    assert not hasattr(calibrator, "strength_")


def test_a_file_that_grew_and_labels_that_were_changed(changing, monkeypatch):
    monkeypatch.setattr(source, "HELD_SCORES", 0)
    calibrator = rp.PosteriorCalibrator(PRIOR, temperature="fit")
    with pytest.raises(OptionError, match=r"a\.npz', which was \d+ bytes and is \d+ now"):
        quietly(rp.engines.fit, calibrator, changing(b"more"))
    with pytest.raises(OptionError, match=r"y\.npy', which was changed since"):
        quietly(rp.engines.fit, calibrator, changing(labels=True))


def test_scores_of_an_estimate_that_were_changed(changing, monkeypatch):
    monkeypatch.setattr(target_prior, "HELD_SCORES", 0)
    with pytest.raises(OptionError, match=r"a\.npz', which was changed since"):
        rp.engines.estimate_target_prior(changing(), source_prior=PRIOR)


def test_a_store_of_many_files_is_known_by_all_of_them(tmp_path):
    path, _ = write(tmp_path, "zarr", n=20)
    file = open_scores(path, kind="logits")
    before = sources_of(file)
    (path / "inner").mkdir()
    (path / "inner" / "1").write_bytes(b"abc")
    after = sources_of(file)
    assert after[0][0] == os.fspath(path)
    assert after[0][1] == before[0][1] + 3
    assert sources_of([]) is None
