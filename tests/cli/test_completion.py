"""``reprior completion``: scripts that a shell can read, and what they complete."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tests.support.command_line import is_one_sentence

from reprior.__main__ import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(run, shell):
    result = run("completion", shell)
    assert result.code == 0
    assert "_REPRIOR_COMPLETE" in result.out
    if shutil.which(shell):
        checked = subprocess.run([shell, "-n"], input=result.out, text=True, check=False)
        assert checked.returncode == 0


@pytest.mark.parametrize(
    "words, found",
    [("reprior ev", "evaluate"), ("reprior fit --met", "--metric"),
     ("reprior fit --metric mea", "mean_iou"), ("reprior fit --kind lo", "log_probs")],
)  # fmt: skip
def test_commands_options_and_metrics_are_completed(monkeypatch, capsys, words, found):
    monkeypatch.setenv("_REPRIOR_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    with pytest.raises(SystemExit):
        main([])
    assert f"plain,{found}" in capsys.readouterr().out.splitlines()


def test_another_shell_is_refused(run):
    assert is_one_sentence(run("completion", "cmd"))
