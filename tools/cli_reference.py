"""docs/cli.md, from the commands themselves: `python -m tools.cli_reference > docs/cli.md`."""

import inspect
from collections import Counter

import click

from balloons.cli.main import balloons

_INTRO = """# Commands

This page is made from the commands (`python -m tools.cli_reference > docs/cli.md`). As a kubectl plug-in all of
them are also `kubectl balloons ...`.

- All but `run`, `guard`, `give-back`, `pause` and `resume` only read, with whatever rights you have, and say what they
  could not see.
- Data goes to stdout, everything else to stderr. In a pipe a table has one row per object and neither colour nor boxes.
- `--color always` or `never` says when to print in colour; without it `NO_COLOR`, then `FORCE_COLOR`, then `TERM=dumb`
  are heeded. A terminal that knows no more than ASCII gets charts made of it.
- Every option with a variable below can be given in the environment.
- `-v` shows each request; requests name themselves `kube-balloons-cli/VERSION (COMMAND)`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed while running: the API server away, a request that timed out |
| 2 | bad input |
| 3 | findings at or above `--fail-on`, such a check that could not look, or a plan that breaks its promise |
| 4 | a `--wait` ran out |
| 130 | interrupted |
"""
_SHARED_BY = 4
"""From so many commands on an option that means the same in all of them stands on the page once."""
_SHARED_HEAD = """
## Options of several commands

They say which cluster to ask and how to print. Each command below names those that it has.
"""
_LIKE_PLAN = ("report", "simulate")
"""Commands that ask what `plan` asks: the options that they have in common stand there."""


def page() -> str:
    """The whole page: what several commands share, then the commands in alphabetical order."""
    rows = {name: _rows(name, balloons.commands[name]) for name in sorted(balloons.commands)}
    used = Counter(row for of_command in rows.values() for row in of_command.values())
    once = [row for row, times in used.items() if times >= _SHARED_BY]
    elsewhere = {name: {"[above](#options-of-several-commands)": set(once)} for name in rows}
    for name in _LIKE_PLAN:
        elsewhere[name]["[as in `plan`](#plan)"] = set(rows["plan"].values()) - set(once)
    sections = [_section(name, balloons.commands[name], rows[name], elsewhere[name]) for name in rows]
    return "".join([_INTRO, _SHARED_HEAD, _table(once), *sections])


def _section(name: str, command: click.Command, rows: dict[str, str], elsewhere: dict[str, set[str]]) -> str:
    context = click.Context(command, info_name=f"balloons {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    text = f"\n## {name}\n\n```\n{usage}\n```\n\n{_help(command)}\n"
    text += _table([row for row in rows.values() if not any(row in there for there in elsewhere.values())])
    for place, there in elsewhere.items():
        if names := [f"`{option}`" for option, row in rows.items() if row in there]:
            text += f"\nAlso, {place}: {', '.join(names)}.\n"
    return text


def _rows(name: str, command: click.Command) -> dict[str, str]:
    """The row of each option, by its longest name."""
    context = click.Context(command, info_name=f"balloons {name}")
    options = [each for each in command.params if isinstance(each, click.Option)]
    return {max(each.opts, key=len): _row(each, context) for each in options}


def _table(rows: list[str]) -> str:
    return "\n| option | variable | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _help(command: click.Command) -> str:
    """Paragraphs that are printed as they stand (`\\b`) become code."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(_code(each) if each.startswith("\b") else " ".join(each.split()) for each in paragraphs)


def _code(paragraph: str) -> str:
    return "```\n" + paragraph.removeprefix("\b\n") + "\n```"


def _row(option: click.Option, context: click.Context) -> str:
    names, meaning = option.get_help_record(context) or (", ".join(option.opts), "")
    variable = f"`{option.envvar}`" if isinstance(option.envvar, str) else ""
    return f"| `{_cell(names)}` | {variable} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
