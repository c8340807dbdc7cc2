"""The rows of several files come together, whatever chunks they are read in."""

from __future__ import annotations

import numpy as np
import pytest
from tests.cli.shared import Data, data, write

import reprior as rp
from reprior.cli.fuse_inputs import aligned
from reprior.files.scores import open_scores


@pytest.fixture
def files(tmp_path):
    """The same 300 rows in three files, and in four."""
    for name, parts in (("a", 3), ("b", 4)):
        for i, part in enumerate(np.array_split(np.arange(300), parts)):
            values = Data(data(0).scores[part], data(0).labels[part])
            write(tmp_path / f"{name}-{i}.parquet", values)
    return [open_scores(str(tmp_path / f"{name}-*.parquet")) for name in "ab"]


def test_scores_and_labels_are_cut_alike(files):
    for one, other in aligned(files):
        assert (one.start, len(one)) == (other.start, len(other))
        assert np.array_equal(one.scores, other.scores)
        assert np.array_equal(one.labels, other.labels)


def test_a_file_that_ends_early_is_refused(tmp_path, files):
    write(tmp_path / "short.parquet", Data(data(0).scores[:250], data(0).labels[:250]))
    short = open_scores(tmp_path / "short.parquet")
    with pytest.raises(rp.ScoresError, match=r"Got 250 in .*short\.parquet' and more in another"):
        list(aligned([files[0], short]))
