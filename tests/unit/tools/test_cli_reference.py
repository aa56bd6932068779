"""docs/cli.md is what the commands say of themselves, and every command says enough."""

from pathlib import Path

import click
import pytest

from balloons.cli.main import balloons
from tools.cli_reference import page

READING = [command for name, command in balloons.commands.items() if name not in ("run", "guard", "completion")]


def test_the_page_is_the_commands() -> None:
    """`python -m tools.cli_reference > docs/cli.md` makes it anew."""
    assert (Path(__file__).parents[3] / "docs" / "cli.md").read_text() == page()


def test_options_of_several_commands_stand_on_the_page_once() -> None:
    assert [page().count(f"| `{each} ") for each in ("--kubeconfig", "--as-group", "--to", "--launch-rate")] == [1] * 4


@pytest.mark.parametrize("command", balloons.commands.values(), ids=lambda command: command.name)
def test_help_has_two_examples(command: click.Command) -> None:
    _, _, examples = (command.help or "").partition("Examples:\n")
    assert sum(line.strip().startswith(("balloons ", "source ")) for line in examples.splitlines()) >= 2


@pytest.mark.parametrize("command", READING, ids=lambda command: command.name)
def test_connections_are_spelled_alike(command: click.Command) -> None:
    names = {name for each in command.params for name in each.opts}
    assert names >= {"--kubeconfig", "--context"}
