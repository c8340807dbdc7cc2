"""A file is there whole, or as it was before."""

import io
import os
import shutil
import signal
import stat
import sys

import numpy as np
import pytest
from tests.support.child_processes import ended

import reprior as rp
from reprior.exceptions import OptionError
from reprior.files import Chunk, atomic_paths, atomic_write, remove_stale_staging
from reprior.report import write_report


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


def contents(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*.txt")}


def fill(path, text):
    """Write a file, or a folder with a file in it."""
    if path.suffix == ".txt":
        path.write_text(text)
    else:
        path.mkdir()
        (path / "inside.txt").write_text(text)


@pytest.mark.parametrize("old", [False, True])
def test_several_paths_take_their_names_together(tmp_path, old):
    targets = [tmp_path / "a.txt", tmp_path / "store", tmp_path / "b.txt"]
    if old:
        for target in targets:
            fill(target, "old")
    with atomic_paths(*targets) as fresh:
        for path in fresh:
            fill(path, "new")
    assert contents(tmp_path) == dict.fromkeys(["a.txt", "store/inside.txt", "b.txt"], "new")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt", "store"]


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("names", [("a.txt", "b.txt", "store"), ("store", "a.txt", "b.txt")])
@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_trouble_while_renaming_undoes_what_was_renamed(tmp_path, monkeypatch, old, names, last):
    targets = [tmp_path / name for name in names]
    if old:
        for target in targets:
            fill(target, "old")
    before = contents(tmp_path)
    calls = []
    real = {"replace": os.replace, "rename": os.rename}

    def patched(name):
        def call(a, b):
            calls.append(name)
            if len(calls) == last:
                raise OSError("no space left")
            return real[name](a, b)

        return call

    for name in real:
        monkeypatch.setattr(os, name, patched(name))

    def attempt():
        with atomic_paths(*targets) as fresh:
            for path in fresh:
                fill(path, "new")

    if last == 4 and not old:
        attempt()
        assert set(contents(tmp_path).values()) == {"new"}
        return
    with pytest.raises(OSError, match="no space left"):
        attempt()
    assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == (sorted(names) if old else [])


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("names", [("a.txt", "b.txt", "store"), ("store", "a.txt"), ("store",)])
@pytest.mark.parametrize("last", [1, 2, 3, 4, 5, 6])
def test_an_interrupt_in_a_system_call_that_was_made(tmp_path, monkeypatch, old, names, last):
    # Ctrl-C while the system renames is raised when the call returns: it was made all the same.
    targets = [tmp_path / name for name in names]
    if old:
        for target in targets:
            fill(target, "old")
    before, calls = contents(tmp_path), []

    def interrupted(real):
        def call(*arguments, **options):
            real(*arguments, **options)
            calls.append(real)
            if len(calls) >= last:  # and once more while it is undone
                signal.raise_signal(signal.SIGINT)

        return call

    for name in ("replace", "rename", "link"):
        monkeypatch.setattr(os, name, interrupted(getattr(os, name)))

    def attempt():
        with atomic_paths(*targets) as fresh:
            for path in fresh:
                fill(path, "new")

    if last > len(names) * (1 + old):  # folders: away and there; files: kept and replaced
        attempt()
        assert set(contents(tmp_path).values()) == {"new"}
    else:
        with pytest.raises(KeyboardInterrupt):
            attempt()
        assert contents(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == (sorted(names) if old or len(calls) < last else [])


def test_an_interrupt_as_a_single_file_is_replaced_leaves_the_new_one_whole(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("old")
    real = os.replace

    def interrupted(a, b):
        real(a, b)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_paths(tmp_path / "a.txt") as (path,):
        path.write_text("new")
    assert contents(tmp_path) == {"a.txt": "new"}
    assert os.listdir(tmp_path) == ["a.txt"]


def test_old_data_that_cannot_be_put_back_are_not_deleted(tmp_path, monkeypatch):
    store = tmp_path / "store"
    fill(store, "old")
    real = os.rename

    def once(a, b):
        if os.path.basename(a) == "old":
            raise OSError("no space left")
        real(a, b)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", once)
    with pytest.raises(OSError, match="no space left"), atomic_paths(store) as (path,):
        fill(path, "new")
    assert [p.read_text() for p in tmp_path.rglob("old/inside.txt")] == ["old"]


@pytest.mark.parametrize("links", [True, False])
def test_old_files_are_not_copied_where_they_can_be_linked(tmp_path, monkeypatch, links):
    targets = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "link.txt"]
    for target in targets[:2]:
        fill(target, "old")
    fill(tmp_path / "c.txt", "old")
    targets[2].symlink_to("c.txt")
    copied, copy = [], shutil.copy2
    monkeypatch.setattr(shutil, "copy2", lambda a, b, **how: copied.append(copy(a, b, **how)))
    if not links:

        def refused(*_, **__):
            raise OSError("links are not supported")

        monkeypatch.setattr(os, "link", refused)
    real = os.replace

    def full(a, b):
        if os.path.basename(b) == "c.txt":
            raise OSError("no space left")
        real(a, b)

    monkeypatch.setattr(os, "replace", full)

    def attempt():
        with atomic_paths(*targets) as fresh:
            for path in fresh:
                fill(path, "new")

    with pytest.raises(OSError, match="no space left"):
        attempt()
    assert contents(tmp_path) == dict.fromkeys(["a.txt", "b.txt", "c.txt", "link.txt"], "old")
    assert targets[2].is_symlink()
    assert len(copied) == (0 if links else 3)


@pytest.mark.parametrize("trouble", [RuntimeError, KeyboardInterrupt])
def test_trouble_before_the_end_leaves_nothing(tmp_path, trouble):
    def interrupted():
        with atomic_paths(tmp_path / "a.txt", tmp_path / "store") as (a, b):
            fill(a, "half")
            fill(b, "half")
            raise trouble

    with pytest.raises(trouble):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_a_file_that_was_not_written_is_an_error(tmp_path):
    with (
        pytest.raises(FileNotFoundError),
        atomic_paths(tmp_path / "a.txt", tmp_path / "b.txt") as p,
    ):
        fill(p[0], "one")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("opened", [atomic_write, atomic_paths])
def test_an_error_names_the_file_that_was_wanted(tmp_path, opened):
    with pytest.raises(FileNotFoundError) as caught, opened(tmp_path / "no" / "a.txt"):
        pass
    assert caught.value.filename == str(tmp_path / "no" / "a.txt")


def write_whole(path):
    with atomic_write(path) as file:
        file.write(b"new")


def write_one_of_two(path):
    with atomic_paths(path.with_name("other.txt"), path) as fresh:
        for each in fresh:
            each.write_text("new")


WRITERS = [write_whole, write_one_of_two]
SCORES, LABELS = np.array([[2.0, 0.0], [0.4, 0.0], [0.0, 1.0]]), np.array([0, 1, 1])


def calibrator():
    return rp.PosteriorCalibrator([0.8, 0.2]).fit(SCORES, LABELS)


def profile():
    return rp.StrengthProfile.from_scores(SCORES, LABELS, source_prior=[0.8, 0.2])


SAVERS = {
    "calibrator": lambda path: calibrator().save(path),
    "profile": lambda path: profile().save(path),
    "tracker": lambda path: rp.PriorTracker([0.5, 0.5], half_life=100).save(path),
    "report": lambda path: write_report(path, calibrator(), [Chunk(SCORES, LABELS)]),
}


TEXT_SAVERS = ("calibrator", "tracker", "report")


@pytest.mark.parametrize("name", TEXT_SAVERS)
def test_text_goes_to_standard_output_where_that_is_asked_for(tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    SAVERS[name]("-")
    SAVERS[name]("./-")
    assert capfd.readouterr().out == (tmp_path / "-").read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["-"]


def test_what_is_no_text_is_not_written_to_standard_output(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for write in (SAVERS["profile"], write_whole):
        with pytest.raises(OptionError, match=r"Got '-': only text.* write \./-\."):
            write("-")
    assert not os.listdir(tmp_path)
    assert capfd.readouterr().out == ""


def test_trouble_shows_nothing_on_standard_output(tmp_path, capfd):
    def interrupted():
        with atomic_write("-", text=True) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with atomic_paths(tmp_path / "a.txt", "-", text=True) as (path, stream):
        path.write_text("one")
        stream.write_text("two")
    assert capfd.readouterr().out == "two"
    assert contents(tmp_path) == {"a.txt": "one"}


def test_standard_output_that_takes_no_bytes(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    with atomic_write("-", text=True) as file:
        file.write("élan\n".encode())
    assert shown.getvalue() == "élan\n"


def test_a_target_that_becomes_a_pipe_meanwhile_is_refused(tmp_path):
    def overtaken():
        with atomic_write(tmp_path / "a.txt") as file:
            file.write(b"new")
            os.mkfifo(tmp_path / "a.txt")

    with pytest.raises(OptionError, match="FIFO"):
        overtaken()
    assert stat.S_ISFIFO((tmp_path / "a.txt").lstat().st_mode)
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.parametrize("through_a_link", [False, True])
@pytest.mark.parametrize("write", [*WRITERS, *(pytest.param(w, id=n) for n, w in SAVERS.items())])
def test_a_pipe_is_refused_and_stays(tmp_path, write, through_a_link):
    path = fifo = tmp_path / "a.txt"
    os.mkfifo(fifo)
    if through_a_link:
        path = tmp_path / "link.txt"
        path.symlink_to(fifo)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(
        OptionError,
        match=rf"`path` must be a new name or a regular file. Got '.*{path.name}', which is a "
        r"named pipe \(FIFO\). Choose another name",
    ):
        write(path)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize("write", [write_whole, *SAVERS.values()], ids=["whole", *SAVERS])
def test_no_name_is_refused(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptionError, match=r"`path` must be a new name or a regular file. Got no "):
        write("")
    assert os.listdir() == []


@pytest.mark.parametrize("write", WRITERS)
def test_a_folder_is_not_replaced_by_a_file(tmp_path, write):
    fill(tmp_path / "store", "old")
    with pytest.raises(OptionError, match="store', which is a folder"):
        write(tmp_path / "store")
    assert contents(tmp_path) == {"store/inside.txt": "old"}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("write", WRITERS)
def test_a_link_is_followed_and_stays(tmp_path, write, old):
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real.txt", tmp_path / "link.txt"
    if old:
        real.write_text("old")
        real.chmod(0o600)
    link.symlink_to("elsewhere/real.txt")
    write(link)
    assert os.readlink(link) == "elsewhere/real.txt"
    assert real.read_text() == "new"
    assert os.listdir(real.parent) == ["real.txt"]
    assert not old or stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_writer_sees_the_extension_of_a_link(tmp_path):
    (tmp_path / "link.txt").symlink_to("real")
    with atomic_paths(tmp_path / "link.txt") as (path,):
        assert path.name == "link.txt"
        path.write_text("new")
    assert (tmp_path / "real").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link.txt", "real"]


def test_a_link_to_a_folder_is_followed_and_stays(tmp_path):
    fill(tmp_path / "real", "old")
    (tmp_path / "store").symlink_to("real")
    with atomic_paths(tmp_path / "store") as (path,):
        fill(path, "new")
    assert (tmp_path / "store").is_symlink()
    assert (tmp_path / "real" / "inside.txt").read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["real", "store"]


def test_links_that_lead_in_a_circle(tmp_path):
    (tmp_path / "a.txt").symlink_to("b.txt")
    (tmp_path / "b.txt").symlink_to("a.txt")
    with pytest.raises(OSError, match=r"a\.txt"):
        write_whole(tmp_path / "a.txt")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "b.txt"]


def killed(path):
    """Let a process die while it writes two outputs."""
    script = (
        "import os, signal, sys\n"
        "from reprior.files import atomic_paths, atomic_write\n"
        "with atomic_write(sys.argv[1]) as file, atomic_paths(sys.argv[1]) as (path,):\n"
        "    file.write(b'half')\n"
        "    path.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = ended([sys.executable, "-c", script, path])
    assert done.returncode == -signal.SIGKILL


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    killed(tmp_path / "a.txt")
    assert len(list(tmp_path.iterdir())) == 2
    remove_stale_staging(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", WRITERS)
def test_the_next_output_into_the_folder_removes_it_too(tmp_path, write):
    killed(tmp_path / "a.txt")
    write(tmp_path / "b.txt")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("replaced", [False, True])
def test_old_data_get_their_name_back_unless_new_ones_have_it(tmp_path, replaced):
    staging = tmp_path / ".reprior-staging-abcdefgh"
    staging.mkdir()
    (staging / "a.txt").write_text("new")
    (staging / "old").write_text("old")
    if replaced:
        (tmp_path / "a.txt").write_text("new")
    remove_stale_staging(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == ("new" if replaced else "old")


def test_staging_in_use_and_other_folders_stay(tmp_path):
    for name in (".a.txt.abcdefgh", ".reprior", ".reprior-staging-abc", "reprior-staging-abcdefgh"):
        (tmp_path / name).mkdir()
    with atomic_paths(tmp_path / "a.txt") as (path,):
        path.write_text("whole")
        there = sorted(tmp_path.iterdir())
        assert path.parent in there
        remove_stale_staging(tmp_path)
        assert sorted(tmp_path.iterdir()) == there
    assert (tmp_path / "a.txt").read_text() == "whole"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="SKIPPED: no FIFOs here")
@pytest.mark.timeout(60)  # opening a FIFO waits for ever
@pytest.mark.parametrize("kind", ["pipe", "file", "symlink", "broken symlink"])
def test_what_is_no_staging_folder_is_left_alone(tmp_path, kind):
    stale, victim = tmp_path / ".reprior-staging-abcdefgh", tmp_path / "victim"
    victim.mkdir()
    for name in ("old", "other"):
        (victim / name).write_text("precious")
    if kind == "pipe":
        os.mkfifo(stale)
    elif kind == "file":
        stale.write_text("mine")
    else:
        stale.symlink_to("victim" if kind == "symlink" else "nowhere")
    write_whole(tmp_path / "a.txt")
    assert sorted(os.listdir(tmp_path)) == [stale.name, "a.txt", "victim"]
    assert {path.name: path.read_text() for path in victim.iterdir()} == {
        "old": "precious",
        "other": "precious",
    }


def test_a_folder_that_may_not_be_looked_into(tmp_path):
    remove_stale_staging(tmp_path / "nowhere")


def test_where_folders_cannot_be_locked_outputs_are_written_and_nothing_is_removed(
    tmp_path, monkeypatch
):
    def no_locks(*_given):
        raise OSError(95, "not supported")

    monkeypatch.setattr("fcntl.flock", no_locks)
    stale = tmp_path / ".reprior-staging-abcdefgh"
    stale.mkdir()
    with atomic_paths(tmp_path / "a.txt") as (path,):
        path.write_text("whole")
    remove_stale_staging(tmp_path)
    assert sorted(tmp_path.iterdir()) == [stale, tmp_path / "a.txt"]
