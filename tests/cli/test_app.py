"""The program as a whole: names, exit codes, sentences, signals, pipes."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import pytest
from tests.support.child_processes import ended, started
from tests.support.command_line import COMMAND, data, installed, is_one_sentence, write

COMMANDS = [
    "fit",
    "apply",
    "evaluate",
    "forecast",
    "report",
    "prior",
    "fuse",
    "fold",
    "export",
    "demo",
    "completion",
]
LAB = ["train", "reproduce"]


def test_version(run):
    shown = run("--version").out
    assert shown.startswith(f"reprior, version {version('reprior')}, kernels: ")


def test_python_m_reprior():
    done = ended([sys.executable, "-m", "reprior", "--version"])
    assert done.stdout == installed("--version").out


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution that adds commands from a module of this code."""

    def install(code, *names):
        metadata = tmp_path / "other-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
        points = [f"{name} = other_commands:command" for name in names]
        (metadata / "entry_points.txt").write_text("\n".join(["[reprior.commands]", *points]))
        (tmp_path / "other_commands.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "other_commands", raising=False)

    yield install
    sys.modules.pop("other_commands", None)


@pytest.mark.parametrize("name", LAB)
def test_without_the_lab_its_commands_say_what_to_install(run, monkeypatch, name):
    # The lab may be installed here, and cannot be uninstalled for one test.
    monkeypatch.setattr("reprior.cli.app.entry_points", lambda group: [])
    result = run(name, "--data", "digits")
    assert is_one_sentence(result)
    assert f"`reprior {name}` needs the lab" in result.err
    assert "pip install ./lab" in result.err
    assert f"\n  {name} " not in run("--help").out


@pytest.mark.parametrize("name", LAB)
def test_with_the_lab_its_commands_are_listed(run, name):
    pytest.importorskip("reprior_lab")
    shown = run("--help").out
    assert f"\n  {name} " in shown[shown.index("Commands of other distributions:") :]


HELLO = """
import click

@click.command(short_help="Say hello.")
def command():
    click.echo("hello")
"""


def test_other_distributions_add_commands(run, install):
    install(HELLO, "hello", "fit")
    assert run("hello").out == "hello\n"
    assert "Say hello." in run("--help").out
    assert "--counts" in run("fit", "--help").out  # ours is not replaced


@pytest.mark.parametrize("broken", ["raise ImportError('no such thing')", "command = 'no'"])
def test_a_broken_command_of_others_is_one_sentence(run, install, broken):
    install(broken, "hello")
    result = run("hello")
    assert is_one_sentence(result)
    assert "other_commands:command" in result.err
    shown = run("--help")
    assert (shown.code, "(broken)" in shown.out) == (0, True)


def test_help_lists_the_commands_in_the_order_of_the_job(run):
    _, _, listed = run("--help").out.partition("\nCommands:\n")
    assert [line.split()[0] for line in listed.splitlines()[: len(COMMANDS)]] == COMMANDS


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "fold"])
def test_help_ends_with_an_example(run, name):
    result = run(name, "--help")
    assert result.code == 0
    tail = result.out[result.out.index("Example:") :]
    assert f"$ reprior {name} " in tail


def test_help_imports_no_command():
    code = (
        "import sys; from reprior.__main__ import main; main(['--help']); "
        "assert not {'pyarrow', 'sklearn', 'zarr', 'reprior.cli.fit'} & set(sys.modules)"
    )
    assert ended([sys.executable, "-c", code]).returncode == 0


def test_a_near_command_is_suggested(run):
    result = run("evalute")
    assert is_one_sentence(result)
    assert "Did you mean 'evaluate'?" in result.err


def test_a_near_option_is_suggested(run):
    result = run("fit", "x.csv", "--metrc", "accuracy", "-o", "y")
    assert is_one_sentence(result)
    assert "--metric" in result.err


def test_a_near_choice_is_suggested(run):
    result = run("fit", "x.csv", "--kind", "logit", "-o", "y")
    assert is_one_sentence(result)
    assert "Did you mean 'logits'?" in result.err


def test_no_command_shows_the_help(run):
    result = run()
    assert result.code == 2
    assert "Commands:" in result.out + result.err


def test_a_missing_file_is_one_sentence():
    result = installed("apply", "no-such.json", "x.csv", "-o", "y.csv")
    assert is_one_sentence(result)
    assert "'no-such.json' does not exist" in result.err


def test_without_click_a_sentence_says_what_to_install(monkeypatch, run):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "click":
            raise ModuleNotFoundError("no click", name="click")
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "click")
    monkeypatch.setattr("importlib.import_module", without)
    result = run("--version")
    assert is_one_sentence(result)
    assert "pip install 'reprior[cli]'" in result.err


def test_a_full_disk_is_one_sentence(job):
    if not os.path.exists("/dev/full"):
        pytest.skip("SKIPPED: this system has no /dev/full, so a full disk cannot be tried")
    with open("/dev/full", "w") as full:
        done = ended([COMMAND, "prior", "--counts", str(job / "counts.json")], stdout=full)
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_is_silent(job):
    read, write_end = os.pipe()
    os.close(read)
    try:
        done = ended([COMMAND, "prior", "--counts", str(job / "counts.json")], stdout=write_end)
    finally:
        os.close(write_end)
    assert done.stderr == ""
    assert done.returncode == 1


# A calibrator that says when it has begun, and then takes its time: there is a moment to interrupt.
SLOW = """
import sys, time
from reprior.calibrator import PosteriorCalibrator
real = PosteriorCalibrator.predict_proba
def slow(self, scores):
    print("begun", flush=True)
    time.sleep(600)
    return real(self, scores)
PosteriorCalibrator.predict_proba = slow
from reprior.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "extension, number, code",
    [
        ("csv", signal.SIGINT, 130),
        ("zarr", signal.SIGINT, 130),
        ("parquet", signal.SIGTERM, 143),
    ],
)
def test_an_interrupt_leaves_nothing(fitted, extension, number, code):
    write(fitted / f"big.{extension}", data(2))
    before = sorted(path.name for path in fitted.iterdir())
    with started(
        [sys.executable, "-c", SLOW, "apply", fitted / "cal.json", fitted / f"big.{extension}",
         "-o", fitted / f"out.{extension}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == code
    assert "Traceback" not in err
    assert sorted(path.name for path in fitted.iterdir()) == before


def test_a_limit_on_file_size_leaves_nothing(fitted):
    write(fitted / "big.csv", data(2, n=3000))
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
        "from reprior.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    before = sorted(path.name for path in fitted.iterdir())
    done = ended(
        [sys.executable, "-c", limited, "apply", fitted / "cal.json", fitted / "big.csv",
         "-o", fitted / "out.csv"],
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in fitted.iterdir()) == before


@pytest.mark.parametrize("name", ["fit", "apply"])
def test_a_missing_output_folder_is_one_sentence(fitted, run, name):
    out = fitted / "nowhere" / "out.json"
    arguments = {
        "fit": ["fit", fitted / "val.csv", "--counts", fitted / "counts.json", "--kind", "logits"],
        "apply": ["apply", fitted / "cal.json", fitted / "test.csv"],
    }[name]
    result = run(*arguments, "-o", out.with_suffix(".csv" if name == "apply" else ".json"))
    assert is_one_sentence(result)
    assert "nowhere" in result.err


def test_a_read_only_folder_is_one_sentence(fitted, run):
    folder = fitted / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    try:
        (folder / "try").touch()
    except PermissionError:
        pass
    else:
        folder.chmod(0o700)
        pytest.skip("SKIPPED: this user (root?) may write into read-only folders")
    result = run("apply", fitted / "cal.json", fitted / "test.csv", "-o", folder / "out.csv")
    folder.chmod(0o700)
    assert is_one_sentence(result)
    assert list(folder.iterdir()) == []


def test_a_folder_that_takes_no_file_is_one_sentence(fitted, run):
    # /proc is read-only for everybody, root too.
    if not os.path.isdir("/proc/self"):
        pytest.skip("SKIPPED: this system has no /proc, so a read-only folder cannot be tried")
    for arguments in (
        ["apply", fitted / "cal.json", fitted / "test.csv", "-o", "/proc/out.csv"],
        ["fit", fitted / "val.csv", "--counts", fitted / "counts.json", "--kind", "logits",
         "-o", "/proc/cal.json"],
    ):  # fmt: skip
        assert is_one_sentence(run(*arguments))
