"""Which cells a pattern asks for, in which order, and that one process has a cell at a time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.support.child_processes import started

from reprior.exceptions import OptionError
from reprior_lab.cifar import COLUMNS, chains, select_cells
from reprior_lab.config import METHODS
from reprior_lab.reproduction import claimed


def test_by_default_the_paper_s_rows_on_the_columns_of_ratio_100():
    names = [cell.name for cell in select_cells()]
    assert {name.split("/")[0] for name in names} == {
        "cifar10-exp100",
        "cifar10-step100",
        "cifar100-exp100",
        "cifar100-step100",
    }
    of_one = sorted(name.split("/", 1)[1] for name in names if name.startswith("cifar10-exp100/"))
    single = [m for m in METHODS if m not in ("ce", "ce-drw", "logit_adjusted")]
    assert of_one == sorted(
        [f"{m}/s{s}" for m in ("ce", "ce-drw") for s in range(3)] + [f"{m}/s0" for m in single]
    )


@pytest.mark.parametrize(
    "pattern, n",
    [
        ("cifar10-exp10", 14),  # ten rows, two of them from three seeds
        ("cifar10-exp10/ldam", 1),
        ("*/ce/s0", len(COLUMNS)),
        ("cifar100-*/ce*/s[12]", 4 * 2 * 2),
    ],
)
def test_patterns(pattern, n):
    assert len(select_cells([pattern])) == n


def test_a_seed_of_one_s_own_holds_for_all_rows():
    cells = select_cells(["cifar10-exp100"], settings={"seed": 7})
    assert {cell.config.seed for cell in cells} == {7}
    assert len(cells) == len(METHODS)


def test_what_shares_a_first_stage_comes_after_its_base():
    cells = select_cells()
    names = [cell.name for cell in cells]
    for cell in cells:
        if cell.base is not None:
            assert cell.base.config.first_stage == cell.config.first_stage
            assert names.index(cell.base.name) == names.index(cell.name) - 1
    assert sum(len(chain) for chain in chains(cells)) == len(cells)


def test_settings_reach_every_run():
    cells = select_cells(["cifar10-step100"], settings={"epochs": 3}, root="data")
    assert {(cell.config.epochs, cell.config.root) for cell in cells} == {(3, "data")}


def test_what_matches_nothing_is_an_error():
    with pytest.raises(OptionError, match=r"Got 'cifar10-exp100/cee', which matches none"):
        select_cells(["cifar10-exp100/cee"])


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_a_cell_is_one_process_s_until_that_ends(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from reprior_lab.cifar import claimed\n"
        "with claimed(pathlib.Path(sys.argv[1])) as ours:\n"
        "    print(ours, flush=True); sys.stdin.read()\n"
    )
    with started(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == "True\n"
        with claimed(tmp_path) as ours:
            assert not ours
        other.kill()
        other.wait()
    with claimed(tmp_path) as ours:
        assert ours


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_a_claim_creates_and_changes_no_other_file(tmp_path):
    (tmp_path / "cell").mkdir()
    (tmp_path / "cell" / ".claim").symlink_to("../precious")
    for content in (None, "precious"):
        if content is not None:
            (tmp_path / "precious").write_text(content)
        with (
            pytest.raises(OptionError, match=r"must have a plain file '\.claim'"),
            claimed(tmp_path / "cell"),
        ):
            pass
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
@pytest.mark.timeout(60)  # a program that opens a pipe waits for ever
def test_a_claim_that_is_a_pipe_does_not_wait(tmp_path):
    os.mkfifo(tmp_path / ".claim")
    with claimed(tmp_path) as ours:
        assert ours


def test_a_row_may_be_spelt_with_dashes():
    assert [cell.name for cell in select_cells(["cifar10-exp100/cb-ce"])] == [
        "cifar10-exp100/cb_ce/s0"
    ]
    assert select_cells(["*/ce-drw/s0"])[0].method == "ce-drw"


def test_one_epoch_is_refused_for_drw_alone():
    one = {"epochs": 1}
    assert len(select_cells(["cifar10-exp100/ce/s0"], settings=one)) == 1
    with pytest.raises(OptionError, match="at least 2 for the schedule 'drw'"):
        select_cells(["cifar10-exp100/ce*"], settings=one)


def test_an_unknown_model_is_refused_whether_or_not_it_is_trained():
    with pytest.raises(OptionError, match=r"`model` must be one of toy, resnet8, .* Got 'foo'"):
        select_cells(settings={"model": "foo"})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_what_fails_before_it_began_leaves_no_folder(tmp_path):
    home = tmp_path / "out" / "cells" / "one"
    with pytest.raises(OptionError), claimed(home):
        raise OptionError("no data")
    assert not (tmp_path / "out").exists()

    def begin_and_fail():
        (home / "checkpoints").mkdir()
        raise OptionError("no luck")

    with pytest.raises(OptionError), claimed(home):
        begin_and_fail()
    assert (home / "checkpoints").exists()
    with pytest.raises(OptionError), claimed(home.parent / "two"):
        raise OptionError("no data")
    assert [path.name for path in home.parent.iterdir()] == ["one"]
