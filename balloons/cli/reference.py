"""docs/cli.md, from the commands themselves: `python -m balloons.cli.reference > docs/cli.md`."""

import inspect

import click

from balloons.cli.main import balloons

_INTRO = """# Commands

This page is made from the commands (`python -m balloons.cli.reference > docs/cli.md`). As a kubectl plug-in all of
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
| 3 | findings at or above `--fail-on`, or a plan that breaks its promise |
| 4 | a `--wait` ran out |
| 130 | interrupted |
"""


def page() -> str:
    """The whole page, commands in alphabetical order."""
    return _INTRO + "".join(_section(name, balloons.commands[name]) for name in sorted(balloons.commands))


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"balloons {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(each, context) for each in command.params if isinstance(each, click.Option)]
    table = "\n| option | variable | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    return f"\n## {name}\n\n```\n{usage}\n```\n\n{_help(command)}\n{table}"


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
