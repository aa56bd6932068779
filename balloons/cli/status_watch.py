"""`balloons status --watch`: on a terminal the tables are drawn anew in place, elsewhere a line is added per change."""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import click

from balloons.cli.look import Look
from balloons.cli.pool_rows import Pool
from balloons.cli.status_text import Seen, names, table, tables, throttle_table
from balloons.service.watched_objects import POOLS, PoolWire, pool_from_wire
from throttler.api.throttle_decode import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.kube_client import KubeClient
from throttler.kube.reflector import Reflector, T, W
from throttler.kube.requests import Selection
from throttler.service.throttle_kinds import THROTTLES

REDRAW_S = 0.5
"""Changes within this time are shown together: two redraws a second at most."""
LINES, COLUMNS = 24, 80
_PAINT = re.compile(r"\x1b\[[0-9;]*m")


async def follow(changes: AsyncGenerator[Seen, None], where: str | None, look: Look) -> None:
    """Show changes until cancelled."""
    screen = Screen(where, look)
    async with aclosing(changes):
        async for seen in changes:
            screen.show(seen)


async def changes_of(
    client: KubeClient, where: str | None, only: Sequence[str], *, has_throttles: bool
) -> AsyncGenerator[Seen, None]:
    """What is there (`only` these names), and again when it has changed; `has_throttles`: they may be seen."""
    changed = asyncio.Event()
    pools = Reflector(client, POOLS, PoolWire, pool_from_wire, Selection(namespace=where), on_change=changed.set)
    throttles = Reflector(client, THROTTLES, ThrottleWire, throttle_from_wire, on_change=changed.set)
    async with AsyncExitStack() as running:
        await start(pools, running)
        if has_throttles:
            await start(throttles, running)
        while True:
            changed.clear()
            seen = Seen(
                sorted(throttles.store.items.values(), key=lambda throttle: throttle.key),
                sorted(pools.store.items.values(), key=lambda pool: pool.key),
            )
            yield seen.only(only)
            await changed.wait()
            await asyncio.sleep(REDRAW_S)


async def start(reflector: "Reflector[W, T]", running: AsyncExitStack) -> None:
    """Let it follow until `running` ends; returns when it shows everything."""
    running.callback(asyncio.create_task(reflector.run()).cancel)
    await reflector.wait_complete()


@dataclass(slots=True)
class Screen:
    """What has been shown: lines in place, or objects of which a change is told."""

    where: str | None
    look: Look
    height: int = 0
    last: str = ""
    """Of which kind the last row was."""
    throttles: dict[object, StoredThrottle] = field(default_factory=dict)
    pools: dict[object, Pool] = field(default_factory=dict)

    def show(self, seen: Seen) -> None:
        """Draw all of it again, or add what has changed."""
        if self.look.is_terminal:
            self._draw(seen)
        else:
            self._add(seen)
        sys.stdout.flush()

    def _draw(self, seen: Seen) -> None:
        size = shutil.get_terminal_size((COLUMNS, LINES))
        text = tables(seen, self.where, replace(self.look, width=size.columns), datetime.now(UTC))
        text += [] if seen.pools else ["No balloon pools found."]
        shown = on_screen(text, size.columns, size.lines - 1, "a taller terminal, -n or NAME")
        click.echo((f"\x1b[{self.height}A\x1b[J" if self.height else "") + "\n".join(shown))
        self.height = sum(height(line, size.columns) for line in shown)

    def _add(self, seen: Seen) -> None:
        changed = Seen(
            [each for each in seen.throttles if self.throttles.get(each.key) != each],
            [each for each in seen.pools if self.pools.get(each.key) != each],
        )
        self.throttles = {each.key: each for each in seen.throttles}
        self.pools = {each.key: each for each in seen.pools}
        text = names(changed) if self.look.output == "name" else self._rows(changed, datetime.now(UTC))
        click.echo("".join(f"{line}\n" for line in text), nl=False)

    def _rows(self, changed: Seen, now: datetime) -> list[str]:
        """The columns are named where the rows of one kind begin, so that every row has its names above it."""
        text = []
        if changed.throttles:
            text += throttle_table(changed.throttles, self._look_of("throttles"), now)
        if changed.pools:
            text += table(changed.pools, self.where, self._look_of("pools"), now)
        return text

    def _look_of(self, kind: str) -> Look:
        is_going_on, self.last = self.last == kind, kind
        return self.look.without_headers() if is_going_on else self.look


def on_screen(text: list[str], columns: int, rows: int, instead: str) -> list[str]:
    """The lines that are on the screen at once: what has left it upwards cannot be drawn anew.

    `instead` says how to see the others.
    """
    if sum(height(line, columns) for line in text) <= rows:
        return text
    kept = list(text)
    while kept and sum(height(line, columns) for line in kept) > rows - 1:
        kept.pop()
    return [*kept, f"... {len(text) - len(kept):,} lines more: {instead}"]


def height(line: str, columns: int) -> int:
    """Rows that it takes, colours apart."""
    return max(1, -(-len(_PAINT.sub("", line)) // columns))
