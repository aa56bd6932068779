"""docs/cli.md and docs/cli-service.md, from the commands themselves: `python -m tools.cli_reference` writes both."""

import inspect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from balloons.cli.main import balloons

DOCS = Path(__file__).resolve().parents[1] / "docs"
_INTRO = """# Commands

These are the commands for people. [The service](cli-service.md) has three of its own. As a kubectl plug-in each command
is also `kubectl balloons ...`. `python -m tools.cli_reference` makes both pages from the commands.

COMMANDS

- All commands but `pause` and `resume` only read. They use the rights that you have, and say what they could not see.
- Data goes to stdout, everything else to stderr. In a pipe a table has one row per object, without colour and boxes.
- `--color always` or `never` says when to use colour. Without it the commands follow `NO_COLOR`, then `FORCE_COLOR`,
  then `TERM=dumb`. A terminal that knows only ASCII gets charts of ASCII.
- An option with a variable beside it can also be set in the environment.
- `-v` shows each request. Requests carry the name `kube-balloons-cli/VERSION (COMMAND)`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | failed while running: no API server answered, or a request timed out |
| 2 | bad input |
| 3 | a finding at or above `--fail-on`, a check of that severity that could not look, or a plan that breaks a promise |
| 4 | the time of `--wait` is over |
| 130 | interrupted |

`-o json` and `-o yaml` print one document with the same data. Its `kind` says what it is, and its schema what it holds:

KINDS
"""
_PRINTED_BY = {"plan-comparison": "plan --compare", "plan-simulation": "simulate"}
"""What a command prints whose schema has another name."""
_SERVICE_INTRO = """# Commands of the service

These commands run in the cluster: the service, the guard that restores your objects when the service is dead, and what
runs before you uninstall. [Commands](cli.md) has the commands for people. `python -m tools.cli_reference` makes both
pages.

COMMANDS

An option with a variable beside it can also be set in the environment.
"""
OF_SERVICE = ("run", "guard", "give-back")
_SHARED_BY = 4
"""From so many commands on an option that means the same in all of them stands on the page once."""
_SHARED_HEAD = """
## Options of several commands

These options say which cluster to ask and how to print. Each command below names those that it has.
"""
_LIKE_PLAN = ("report", "simulate")
"""Commands that ask what `plan` asks: the options that they have in common stand there."""


def pages() -> dict[str, str]:
    """Each page by its name: the commands for people in alphabetical order, and those of the service."""
    people = [name for name in sorted(balloons.commands) if name not in OF_SERVICE]
    rows = {name: _rows(name, balloons.commands[name]) for name in people}
    used = Counter(row for of_command in rows.values() for row in of_command.values())
    once = [row for row, times in used.items() if times >= _SHARED_BY]
    elsewhere = {name: {"[above](#options-of-several-commands)": set(once)} for name in rows}
    for name in _LIKE_PLAN:
        elsewhere[name]["[as in `plan`](#plan)"] = set(rows["plan"].values()) - set(once)
    sections = [_section(name, rows[name], elsewhere[name]) for name in people]
    of_service = [_section(name, _rows(name, balloons.commands[name]), {}) for name in OF_SERVICE]
    intro = _INTRO.replace("COMMANDS", _contents(people)).replace("KINDS", _kinds())
    return {
        "cli.md": "".join([intro, _SHARED_HEAD, _table(once), *sections]),
        "cli-service.md": "".join([_SERVICE_INTRO.replace("COMMANDS", _contents(OF_SERVICE)), *of_service]),
    }


def _contents(names: Sequence[str]) -> str:
    lines = [f"| [`{name}`](#{name}) | {balloons.commands[name].get_short_help_str(100)} |" for name in names]
    return "\n".join(["| command | what it does |", "|---|---|", *lines])


def _kinds() -> str:
    """What each command prints for programs, as the schemas say."""
    files = {path.stem: path for path in (DOCS / "schemas").glob("*.json")}
    of = sorted((_PRINTED_BY.get(name, name), path) for name, path in files.items())
    lines = [f"| `{name}` | {_kind(path)} | [{path.name}](schemas/{path.name}) |" for name, path in of]
    return "\n".join(["| command | kind | schema |", "|---|---|---|", *lines])


def _kind(path: Path) -> str:
    """Where a schema was made from types, the document is one of its definitions."""
    schema = json.loads(path.read_text())
    document = schema["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    kind = document["properties"]["kind"]
    return str(kind.get("const") or kind["enum"][0])


def _section(name: str, rows: Mapping[str, str], elsewhere: Mapping[str, set[str]]) -> str:
    command = balloons.commands[name]
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
    options = [param for param in command.params if isinstance(param, click.Option)]
    return {max(option.opts, key=len): _row(option, context) for option in options}


def _table(rows: list[str]) -> str:
    return "\n| option | variable | meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""


def _help(command: click.Command) -> str:
    """Paragraphs that are printed as they stand (`\\b`) become code."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(
        _code(paragraph) if paragraph.startswith("\b") else " ".join(paragraph.split()) for paragraph in paragraphs
    )


def _code(paragraph: str) -> str:
    return "```\n" + paragraph.removeprefix("\b\n") + "\n```"


def _row(option: click.Option, context: click.Context) -> str:
    names, meaning = option.get_help_record(context) or (", ".join(option.opts), "")
    variable = f"`{option.envvar}`" if isinstance(option.envvar, str) else ""
    return f"| `{_cell(names)}` | {variable} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
