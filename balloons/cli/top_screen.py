"""Nodes by pool and zone: how many are ready, warm, busy, and how full; as rows, or as one bar per pool drawn anew."""

import asyncio
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import click

from balloons.cli.cluster_source import open_cluster
from balloons.cli.json_and_yaml_output import NodeGroupItem, NodeGroupListDocument, RequestedItem
from balloons.cli.status_screen import COLUMNS, LINES, ToldOnce, height, on_screen, outage, start, until_changed
from balloons.cli.terminal import NONE, Look, keys_unseen
from balloons.preview.from_cluster import price_of
from balloons.text_and_colours import COLOURS, RESET, printable
from balloons.view.node_load_and_devices import counted_apart
from throttler.kube.errors import ForbiddenError, NotFoundError
from throttler.kube.node import Node, NodeWire, Shared, group_of, node_from_wire
from throttler.kube.pod import Pod, PodKind, PodWire, pod_from_wire
from throttler.kube.quantities_and_durations import count, total
from throttler.kube.requests import NODES, PODS, Selection
from throttler.kube.taints import is_joining_taint

NO_PRICES: Mapping[str, float] = MappingProxyType({})
NODE_STATES = ("busy", "warm", "idle", "joining", "sick")
GROUP_COLUMNS = ("POOL", "ZONE", "NODES", "READY", *map(str.upper, NODE_STATES), "CPU", "MEMORY", "GPU", "COST/H")
FIRST_TO_GO = ("MEMORY", "CPU", "READY", "COST/H")
JOIN_MOST_S = 900.0
"""After so long both autoscalers give a machine up: what nothing can start on then is sick."""
STATE_MARKS = {
    "busy": ("█", "#"),
    "warm": ("▓", "+"),
    "idle": ("░", "."),
    "joining": ("▒", "="),
    "sick": ("x", "x"),
}
"""Glyph, and the same in ASCII."""
LEAST_BAR, MOST_BAR = 10, 50
"""Cells."""


@dataclass(slots=True)
class Group:
    """The nodes of one pool in one zone. Amounts are milli-units, of what real work requests and of what there is."""

    nodes: int = 0
    ready: int = 0
    busy: int = 0
    warm: int = 0
    idle: int = 0
    joining: int = 0
    sick: int = 0
    price_per_hour: float | None = None
    """Of those nodes whose price is known; None where that is none of them."""
    used: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)


def groups(
    nodes: Iterable[Node], pods: Iterable[Pod], now_s: float, prices: Mapping[str, float] = NO_PRICES
) -> dict[tuple[str, str], Group]:
    """The groups by pool and zone, sorted. `now_s` is the epoch's; `prices` by instance type, `*` for every other."""
    on_node: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node and not pod.is_finished:
            on_node[pod.node].append(pod)
    by_group: dict[tuple[str, str], Group] = defaultdict(Group)
    for node in nodes:
        group = by_group[group_of(node.labels), node.zone]
        _add(group, node, on_node.get(node.name, []), now_s)
        price = prices.get(node.instance_type, price_of(node))
        price = prices.get("*") if price is None else price
        if price is not None:
            group.price_per_hour = (group.price_per_hour or 0.0) + price
    return dict(sorted(by_group.items()))


def rows(by_group: Mapping[tuple[str, str], Group]) -> list[dict[str, str]]:
    """One row for each group."""
    return [_row(pool, zone, group) for (pool, zone), group in by_group.items()]


def document(by_group: Mapping[tuple[str, str], Group]) -> NodeGroupListDocument:
    """For machines; shares are of what is allocatable."""
    return NodeGroupListDocument(items=[_item(*group) for group in by_group.items()])


def _add(group: Group, node: Node, pods: Sequence[Pod], now_s: float) -> None:
    """A node is in one of the five states: what nothing can start on is joining while it is young, else it is sick."""
    work = [pod for pod in pods if pod.kind is PodKind.WORK and pod.priority >= 0]
    is_held = any(pod.kind is PodKind.BALLOON or (pod.kind is PodKind.WORK and pod.priority < 0) for pod in pods)
    is_open = node.is_ready and (bool(work) or not any(map(is_joining_taint, node.taints)))
    is_young = now_s - node.created_s < JOIN_MOST_S
    group.nodes += 1
    group.ready += node.is_ready
    group.joining += not is_open and is_young
    group.sick += not is_open and not is_young
    group.busy += is_open and bool(work)
    group.warm += is_open and is_held and not work
    group.idle += is_open and not is_held and not work
    group.used = total((group.used, *(pod.requests for pod in work)))
    group.there = total((group.there, node.allocatable))


def _row(pool: str, zone: str, group: Group) -> dict[str, str]:
    counts = {name.upper(): str(getattr(group, name)) for name in ("nodes", "ready", *NODE_STATES)}
    amounts = {name.upper(): NONE if share is None else f"{share:.0%}" for name, share in _shares(group).items()}
    cost = NONE if group.price_per_hour is None else f"{group.price_per_hour:,.2f}"
    return {"POOL": pool or NONE, "ZONE": zone or NONE, **counts, **amounts, "COST/H": cost}


def _item(key: tuple[str, str], group: Group) -> NodeGroupItem:
    counts = {name: getattr(group, name) for name in ("nodes", "ready", *NODE_STATES)}
    requested = RequestedItem(**_shares(group))
    return NodeGroupItem(pool=key[0], zone=key[1], **counts, requested=requested, price_per_hour=group.price_per_hour)


def _shares(group: Group) -> dict[str, float | None]:
    known = [_share(group, names) for names in counted_apart(group.there)]
    gpu = max((share for share in known if share is not None), default=None)
    return {"cpu": _share(group, ["cpu"]), "memory": _share(group, ["memory"]), "gpu": gpu}


def _share(group: Group, names: Sequence[str]) -> float | None:
    there = sum(group.there.get(name, 0) for name in names)
    return round(sum(group.used.get(name, 0) for name in names) / there, 4) if there else None


def bars(by_zone: Mapping[tuple[str, str], Group], look: Look) -> list[str]:
    """The lines: which glyph is what, then each pool's bar with its counts and what it costs an hour.

    Where a bar and its counts do not fit side by side they stand one below the other. In a pipe a pool is one line,
    however long.
    """
    pools: dict[str, Counter[str]] = {}
    prices: Counter[str] = Counter()
    for (pool, _), group in by_zone.items():
        pools.setdefault(pool, Counter()).update({state: getattr(group, state) for state in STATE_MARKS})
        prices[pool] += group.price_per_hour or 0  # type: ignore[assignment]
    if not pools:
        return ["No nodes seen."]
    names = {pool: printable(pool or NONE) for pool in pools}
    widest = max(map(len, names.values()))
    texts = {pool: _counts(states, prices[pool]) for pool, states in pools.items()}
    width = look.width or sys.maxsize
    room = width - widest - max(map(len, texts.values())) - 4
    text = _legend(width, look)
    for pool, states in pools.items():
        if room >= LEAST_BAR:
            text.append(f"{names[pool]:<{widest}}  {_bar(states, min(MOST_BAR, room), look)}  {texts[pool]}")
        else:
            text += wrap(f"{names[pool]}  {texts[pool]}", width, subsequent_indent="  ", break_on_hyphens=False)
            text.append(_bar(states, min(MOST_BAR, width), look))
    return text


def _legend(width: int, look: Look) -> list[str]:
    """On as many lines as it takes."""
    rows: list[list[str]] = [[]]
    for state in STATE_MARKS:
        if rows[-1] and sum(len(word) + 4 for word in rows[-1]) + len(state) + 2 > width:
            rows.append([])
        rows[-1].append(state)
    return ["  ".join(f"{_painted(state, 1, look)} {state}" for state in row) for row in rows]


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
    return "".join(_painted(name, parts.get(name, 0), look) for name in STATE_MARKS)


def _painted(state: str, cells: int, look: Look) -> str:
    (glyph, plain), colour = STATE_MARKS[state], COLOURS[state].terminal
    text = (glyph if look.is_unicode else plain) * cells
    return f"{colour}{text}{RESET}" if cells and colour and look.is_coloured else text


async def follow(options: Mapping[str, Any], look: Look, prices: Mapping[str, float]) -> None:
    """Show the bars until cancelled: in place on a terminal, elsewhere a line for each that has changed."""
    # Imported here: with the client they take longer than a dump to read.
    from balloons.service.watches import UNFINISHED
    from throttler.kube.reflector import Reflector

    changed, shared = asyncio.Event(), Shared()
    async with open_cluster(dict(options), "top") as (client, _), AsyncExitStack() as running:
        # Who follows waits for a server to come back; one that is not there at all is told at once.
        with suppress(ForbiddenError, NotFoundError):
            await client.get_raw("/version")
        nodes = Reflector(client, NODES, NodeWire, lambda wire: node_from_wire(wire, shared), on_change=changed.set)
        selection = Selection(fields=UNFINISHED)
        pods = Reflector(
            client, PODS, PodWire, lambda wire: pod_from_wire(wire, shared), selection, on_change=changed.set
        )
        await start(nodes, running)
        await start(pods, running)
        running.enter_context(keys_unseen())
        screen = BarsScreen(look)
        while True:
            changed.clear()
            by_zone = groups(nodes.store.items.values(), pods.store.items.values(), client.now_s(), prices)
            screen.show(by_zone, outage(nodes, pods))
            await until_changed(changed)


@dataclass(slots=True)
class BarsScreen:
    """What has been shown: bars in place, or lines of which a change is told."""

    look: Look
    shown: Sequence[str] = ()
    outage: ToldOnce = field(default_factory=ToldOnce)

    def show(self, by_zone: Mapping[tuple[str, str], Group], old: str) -> None:
        """Draw all of it again, or add what has changed; `old` says that it is no longer followed, or is empty."""
        if self.look.is_terminal:
            self._draw(by_zone, old)
        else:
            self._add(bars(by_zone, self.look), old)
        sys.stdout.flush()

    def _draw(self, by_zone: Mapping[tuple[str, str], Group], old: str) -> None:
        size = shutil.get_terminal_size((COLUMNS, LINES))
        text = bars(by_zone, replace(self.look, width=size.columns)) + wrap(old, size.columns, subsequent_indent="  ")
        fit = on_screen(text, size.columns, size.lines - 1, "a taller terminal, or top without -w")
        rows = sum(height(line, size.columns) for line in self.shown)
        click.echo((f"\x1b[{rows}A\x1b[J" if rows else "") + "\n".join(fit))
        self.shown = fit

    def _add(self, text: list[str], old: str) -> None:
        self.outage.tell(old)
        click.echo("".join(f"{line}\n" for line in text if line not in self.shown), nl=False)
        self.shown = text
