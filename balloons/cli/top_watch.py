"""`balloons top --watch`: one bar per pool, drawn anew as nodes and pods change."""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from textwrap import wrap
from time import time
from typing import Any

import click

from balloons.cli.cluster_options import open_cluster
from balloons.cli.look import Look
from balloons.cli.status_watch import COLUMNS, LINES, REDRAW_S, height, on_screen, start
from balloons.cli.top_rows import Group, groups
from balloons.preview.words import count
from balloons.printable import printable
from balloons.service.watched_objects import NODES, PODS
from balloons.service.watches import UNFINISHED
from throttler.kube.node import NodeWire, Shared, node_from_wire
from throttler.kube.pod import PodWire, pod_from_wire
from throttler.kube.reflector import Reflector
from throttler.kube.requests import Selection

STATES = {
    "busy": ("█", "#", "\x1b[34m"),
    "warm": ("▓", "+", "\x1b[32m"),
    "idle": ("░", ".", ""),
    "joining": ("▒", "=", "\x1b[33m"),
    "sick": ("x", "x", "\x1b[31m"),
}
"""Glyph, the same in ASCII, colour."""
END = "\x1b[0m"
LEAST_BAR, MOST_BAR = 10, 50
"""Cells."""


def bars(by_zone: Mapping[tuple[str, str], Group], look: Look) -> list[str]:
    """The lines: which glyph is what, then each pool's bar with its counts and what it costs an hour.

    Where a bar and its counts do not fit side by side they stand one below the other.
    """
    pools: dict[str, Counter[str]] = {}
    prices: Counter[str] = Counter()
    for (pool, _), group in by_zone.items():
        pools.setdefault(pool, Counter()).update({state: getattr(group, state) for state in STATES})
        prices[pool] += group.price_per_hour or 0  # type: ignore[assignment]
    if not pools:
        return ["No nodes seen."]
    names = {pool: printable(pool) for pool in pools}
    widest = max(map(len, names.values()))
    texts = {pool: _counts(states, prices[pool]) for pool, states in pools.items()}
    width = look.width or COLUMNS
    room = width - widest - max(map(len, texts.values())) - 4
    text = ["  ".join(f"{_painted(state, 1, look)} {state}" for state in STATES)]
    for pool, states in pools.items():
        if room >= LEAST_BAR:
            text.append(f"{names[pool]:<{widest}}  {_bar(states, min(MOST_BAR, room), look)}  {texts[pool]}")
        else:
            text += wrap(f"{names[pool]}  {texts[pool]}", width, subsequent_indent="  ", break_on_hyphens=False)
            text.append(_bar(states, min(MOST_BAR, width), look))
    return text


def _counts(states: Mapping[str, int], price: float) -> str:
    """What there is of none is not said."""
    parts = [f"{number:,} {name}" for name, number in states.items() if number]
    nodes = count(sum(states.values()), "node")
    return f"{nodes}: {', '.join([*parts, *([f'{price:,.2f}/h'] if price else [])])}"


def _bar(states: Mapping[str, int], cells: int, look: Look) -> str:
    """Every state that there is has a cell; the rest go by share, to those that have most left over."""
    total = sum(states.values())
    parts = {name: max(1, cells * number // total) for name, number in states.items() if number}
    over = cells - sum(parts.values())
    for name in sorted(parts, key=lambda state: -(cells * states[state] / total - parts[state]))[: max(0, over)]:
        parts[name] += 1
    if over < 0:
        parts[max(parts, key=lambda state: parts[state])] += over
    return "".join(_painted(name, parts.get(name, 0), look) for name in STATES)


def _painted(state: str, cells: int, look: Look) -> str:
    glyph, plain, colour = STATES[state]
    text = (glyph if look.is_unicode else plain) * cells
    return f"{colour}{text}{END}" if cells and colour and look.is_coloured else text


async def follow(options: Mapping[str, Any], look: Look, prices: Mapping[str, float]) -> None:
    """Show the bars until cancelled: in place on a terminal, elsewhere a line for each that has changed."""
    changed, shared = asyncio.Event(), Shared()
    async with open_cluster(dict(options), "top") as (client, _), AsyncExitStack() as running:
        nodes = Reflector(client, NODES, NodeWire, lambda wire: node_from_wire(wire, shared), on_change=changed.set)
        selection = Selection(fields=UNFINISHED)
        pods = Reflector(
            client, PODS, PodWire, lambda wire: pod_from_wire(wire, shared), selection, on_change=changed.set
        )
        await start(nodes, running)
        await start(pods, running)
        shown: Sequence[str] = ()
        while True:
            changed.clear()
            by_zone = groups(nodes.store.items.values(), pods.store.items.values(), time(), prices)
            if look.is_terminal:  # whose width may have changed
                look = replace(look, width=shutil.get_terminal_size((COLUMNS, LINES)).columns)
            shown = _show(bars(by_zone, look), shown, look)
            await changed.wait()
            await asyncio.sleep(REDRAW_S)


def _show(text: list[str], before: Sequence[str], look: Look) -> Sequence[str]:
    """What stands on the terminal now."""
    if not look.is_terminal:
        click.echo("".join(f"{line}\n" for line in text if line not in before), nl=False)
        sys.stdout.flush()
        return text
    size = shutil.get_terminal_size((COLUMNS, LINES))
    fit = on_screen(text, size.columns, size.lines - 1, "a taller terminal, or top without -w")
    rows = sum(height(line, size.columns) for line in before)
    click.echo((f"\x1b[{rows}A\x1b[J" if rows else "") + "\n".join(fit))
    return fit
