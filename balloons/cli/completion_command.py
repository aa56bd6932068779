"""`balloons completion`: scripts for shells, and for kubectl."""

import click

_KUBECTL = """\
#!/bin/sh
# Completion of `kubectl balloons`: put this on your PATH as kubectl_complete-balloons and make it executable.
COMP_WORDS="balloons $*" COMP_CWORD="$#" _BALLOONS_COMPLETE=bash_complete balloons | sed 's/^[^,]*,//'
echo ":4"
"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "kubectl"]))
def completion(shell: str) -> None:
    """Print a completion script.

    \b
    Examples:
      source <(balloons completion bash)
      balloons completion kubectl > ~/.local/bin/kubectl_complete-balloons
    """
    click.echo(_KUBECTL if shell == "kubectl" else _script(shell), nl=False)


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from balloons.cli.main import COMPLETION, balloons

    made_by = get_completion_class(shell)
    if made_by is None:
        raise click.UsageError(f"no completion for {shell}")
    return made_by(balloons, {}, "balloons", COMPLETION).source().strip() + "\n"
