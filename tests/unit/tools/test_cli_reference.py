"""docs/cli.md and cli-service.md are what the commands say of themselves, and every command says enough."""

import click
import pytest

from balloons.cli.main import balloons
from tools.cli_reference import DOCS, OF_SERVICE, pages

READING = [command for name, command in balloons.commands.items() if name not in ("run", "guard", "completion")]


def test_the_pages_are_the_commands() -> None:
    """`python -m tools.cli_reference` makes them anew."""
    assert {name: (DOCS / name).read_text() for name in pages()} == pages()


def test_each_command_is_on_one_page() -> None:
    people, service = pages()["cli.md"], pages()["cli-service.md"]
    assert {name: (f"\n## {name}\n" in people, f"\n## {name}\n" in service) for name in balloons.commands} == {
        name: (name not in OF_SERVICE, name in OF_SERVICE) for name in balloons.commands
    }


def test_options_of_several_commands_stand_on_the_page_once() -> None:
    page = pages()["cli.md"]
    assert [page.count(f"| `{each} ") for each in ("--kubeconfig", "--as-group", "--to", "--launch-rate")] == [1] * 4


@pytest.mark.parametrize("command", balloons.commands.values(), ids=lambda command: command.name)
def test_help_has_two_examples(command: click.Command) -> None:
    _, _, examples = (command.help or "").partition("Examples:\n")
    assert sum(line.strip().startswith(("balloons ", "source ")) for line in examples.splitlines()) >= 2


@pytest.mark.parametrize("command", READING, ids=lambda command: command.name)
def test_connections_are_spelled_alike(command: click.Command) -> None:
    names = {name for each in command.params for name in each.opts}
    assert names >= {"--kubeconfig", "--context"}
