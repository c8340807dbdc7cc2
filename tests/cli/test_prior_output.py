"""A prior as a file and as a short table."""

from __future__ import annotations

import json

import pytest

from reprior.cli.prior import SHOWN, Share, shortened, write_prior


@pytest.mark.parametrize("names", [None, ["cat", "dög"]])
def test_json_is_by_name_where_there_are_names(tmp_path, names):
    write_prior(str(tmp_path / "p.json"), names, [0.25, 0.75])
    found = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert found == ([0.25, 0.75] if names is None else {"cat": 0.25, "dög": 0.75})


def test_csv(tmp_path):
    write_prior(str(tmp_path / "p.csv"), None, [0.25, 0.75])
    assert (tmp_path / "p.csv").read_text() == "class,prior\n0,0.25\n1,0.75\n"


@pytest.mark.parametrize("n", [1, SHOWN, SHOWN + 1, SHOWN + 2, 1000])
def test_both_ends_are_shown(n):
    rows = [(k, k / n) for k in range(n)]
    found = shortened(rows)
    if n <= SHOWN + 1:
        assert found == rows
    else:
        assert len(found) == SHOWN + 1
        assert found[SHOWN // 2] == (f"… {n - SHOWN:,} more", None)
        assert [found[0], found[-1]] == [rows[0], rows[-1]]


@pytest.mark.parametrize(
    "share, words",
    [(0.117, "0.1170"), (1.0, "1.0000"), (0.0, "0.0000"), (5e-13, "< 0.0001"), (6e-5, "0.0001")],
)
def test_shares_have_four_decimals(share, words):
    assert f"{Share(share):.4f}" == words
    assert Share(share) == share
