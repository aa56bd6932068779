"""Reads pools from the cluster and prints them, once or as they change."""

import asyncio
import json
import os
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import click
import yaml

from balloons.cli.failing import CommandError
from balloons.cli.pool_rows import COLUMNS, WIDE, Pool, document, names, row
from balloons.cli.table import fitting, lines
from balloons.service.resources import POOLS
from balloons.service.wire import PoolWire, pool_from_wire
from throttler.client.connection import ConnectionOptions, load_connection
from throttler.client.errors import NotFoundError
from throttler.client.kube_client import KubeClient, open_client
from throttler.client.reflector import Reflector
from throttler.client.requests import Selection

GLYPHS = {"True": "✓", "False": "✗", "Unknown": "?"}
COLOURS = {"✓ True": "\x1b[32m", "✗ False": "\x1b[31m", "? Unknown": "\x1b[33m"}
REDRAW_S = 0.2
"""Changes within this time are shown together."""


@dataclass(frozen=True, slots=True)
class Look:
    """How to print: `output` as the option says, `width` of the terminal (None: no limit)."""

    output: str = ""
    has_headers: bool = True
    width: int | None = None
    is_terminal: bool = False
    is_coloured: bool = False

    @classmethod
    def of_terminal(cls, output: str, *, has_headers: bool) -> "Look":
        """What stdout is: a terminal gets colour (unless NO_COLOR) and only the columns that fit."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        return cls(output, has_headers, width, is_terminal, is_terminal and not os.environ.get("NO_COLOR"))


async def show_pools(
    options: ConnectionOptions, namespace: str | None, is_everywhere: bool, is_watching: bool, look: Look
) -> None:
    """Print the pools; raises ConfigError, ApiError and CommandError."""
    connection = await load_connection(options)
    where = None if is_everywhere else namespace or connection.namespace
    async with open_client(connection, "cli") as client:
        try:
            pools = await _list(client, where)
        except NotFoundError as error:
            raise CommandError(
                "this cluster does not serve BalloonPool (kube-balloons.github.io/v1alpha1): apply the CRD first"
            ) from error
        if is_watching:
            await _follow(client, where, look)
        else:
            _print(pools, where, look)


async def _list(client: KubeClient, namespace: str | None) -> list[Pool]:
    found: list[Pool] = []
    async for page in client.pages(POOLS, PoolWire, Selection(namespace=namespace)):
        found += [pool_from_wire(wire) for wire in page.items]
    return sorted(found, key=lambda pool: pool.key)


def _print(pools: list[Pool], where: str | None, look: Look) -> None:
    match look.output:
        case "json":
            click.echo(json.dumps(document(pools), indent=2))
        case "yaml":
            click.echo(yaml.safe_dump(document(pools), sort_keys=False), nl=False)
        case "name":
            click.echo("".join(f"{name}\n" for name in names(pools)), nl=False)
        case _ if not pools:
            click.echo(f"No balloon pools found{f' in namespace {where}' if where else ''}.", err=True)
        case _:
            click.echo("\n".join(table(pools, where, look, datetime.now(UTC))))


def table(pools: list[Pool], where: str | None, look: Look, now: datetime) -> list[str]:
    """The lines of the table."""
    columns = WIDE if look.output == "wide" else COLUMNS
    headers = columns if where else ("NAMESPACE", *columns)
    rows = [row(pool, now, GLYPHS if look.is_coloured else {}) for pool in pools]
    shown = fitting(headers, rows, look.width, kept=1 if where else 2)
    return lines(shown, rows, has_headers=look.has_headers, colours=COLOURS if look.is_coloured else {})


async def _follow(client: KubeClient, where: str | None, look: Look) -> None:
    """On a terminal the table is drawn anew in place; elsewhere a line is added for each change, as kubectl does."""
    reflector = Reflector(client, POOLS, PoolWire, pool_from_wire, Selection(namespace=where))
    running = asyncio.create_task(reflector.run())
    try:
        await reflector.wait_complete()
        await _show_changes(reflector, where, look)
    finally:
        running.cancel()


async def _show_changes(reflector: "Reflector[PoolWire, Pool]", where: str | None, look: Look) -> None:
    version, shown, height = -1, dict[object, Pool](), 0
    has_headers = look.has_headers
    while True:
        version = await reflector.wait_changed(version)
        pools = sorted(reflector.store.items.values(), key=lambda pool: pool.key)
        if look.is_terminal:
            text = table(pools, where, look, datetime.now(UTC)) if pools else ["No balloon pools found."]
            click.echo((f"\x1b[{height}A\x1b[J" if height else "") + "\n".join(text))
            height = len(text)
        elif changed := [pool for pool in pools if shown.get(pool.key) != pool]:
            plain = Look(look.output, has_headers)
            click.echo(
                "\n".join(names(changed) if look.output == "name" else table(changed, where, plain, datetime.now(UTC)))
            )
            shown, has_headers = {pool.key: pool for pool in pools}, False
        sys.stdout.flush()
        await asyncio.sleep(REDRAW_S)
