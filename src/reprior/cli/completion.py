"""``reprior completion``: a script that completes commands, options and metrics in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from reprior.cli.options import shows

__all__ = ["command"]

VARIABLE = "_REPRIOR_COMPLETE"


@click.command(
    "completion",
    epilog=shows(
        "reprior completion bash > ~/.reprior-complete.sh",
        "echo '. ~/.reprior-complete.sh' >> ~/.bashrc",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes reprior's commands and options in SHELL.

    For zsh, put the file where .zshrc reads it, in the same way. For fish, write it to
    ~/.config/fish/completions/reprior.fish.
    """
    shell_completion = get_completion_class(shell)
    if shell_completion is None:  # Choice lets none through that click does not know
        raise click.UsageError(f"click knows no completion for {shell}.")
    complete = shell_completion(ctx.find_root().command, {}, "reprior", VARIABLE)
    click.echo(complete.source_template % complete.source_vars())
