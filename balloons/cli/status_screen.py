"""Reads throttles and pools from the cluster or a dump and prints them: once, as they change, or when they are so.

`balloons status --watch`: on a terminal the tables are drawn anew in place, elsewhere a line is added per change.
`balloons status --wait`: until what was asked for is so, or the time is over.
"""

import asyncio
import contextlib
import re
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from textwrap import wrap
from time import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from balloons.cli.cluster_source import open_cluster, see
from balloons.cli.json_and_yaml_output import printed
from balloons.cli.status_text import Awaited, Listing, document, missing, names, table, tables, throttle_table
from balloons.cli.terminal import CommandError, ExitCode, Look, keys_unseen, warn
from balloons.cluster import kinds, seen_cluster
from balloons.cluster.seen_cluster import SeenCluster
from balloons.service.watched_kinds import POOLS, PoolWire, pool_from_wire
from balloons.text_and_colours import duration, printable
from balloons.view.index_and_snapshot import StoredPool
from throttler.api.throttle_rules import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.errors import ForbiddenError, NotFoundError, UnauthorizedError
from throttler.kube.quantities_and_durations import count
from throttler.kube.requests import Selection

if TYPE_CHECKING:
    from throttler.kube.kube_client import KubeClient
    from throttler.kube.reflector import Reflector, T, W

REDRAW_S = 0.5
"""Changes within this time are shown together: two redraws a second at most."""
AGE_S = 10.0
"""Ages, and what follows from them, are told anew after this time also where nothing changes."""
OLD_S = 5.0
"""A watch that breaks is usually resumed within this time."""
LINES, COLUMNS = 24, 80
_PAINT = re.compile(r"\x1b\[[0-9;]*m")
TELL_S = 10.0
"""What is missing is told when it changes, and not more often than this."""
MOST_TOLD = 5
NO_CRD = "this cluster does not serve BalloonPool (kube-balloons.github.io/v1alpha1): kubectl apply -k manifests/crds"
DAY_0 = f"{NO_CRD}\nwithout it: balloons doctor, balloons plan --to N, balloons top, balloons explain node NAME"


async def follow(
    changes: AsyncGenerator[Listing, None], where: str | None, look: Look, clock: Callable[[], float]
) -> None:
    """Show changes until cancelled; ages go by the clock (seconds since the epoch)."""
    screen = Screen(where, look, clock)
    with keys_unseen():
        async with aclosing(changes):
            async for listing in changes:
                screen.show(listing)


async def changes_of(
    client: "KubeClient", where: str | None, only: Sequence[str], *, has_throttles: bool
) -> AsyncGenerator[Listing, None]:
    """What is there (`only` these names), and again when it has changed; `has_throttles`: they may be seen."""
    # Imported here, as below: with the client it takes longer than a dump to read.
    from throttler.kube.reflector import Reflector
    from throttler.service.throttle_watches import THROTTLES

    changed = asyncio.Event()
    pools = Reflector(client, POOLS, PoolWire, pool_from_wire, Selection(namespace=where), on_change=changed.set)
    throttles = Reflector(client, THROTTLES, ThrottleWire, throttle_from_wire, on_change=changed.set)
    async with AsyncExitStack() as running:
        await start(pools, running)
        if has_throttles:
            await start(throttles, running)
        while True:
            changed.clear()
            listing = Listing(
                sorted(throttles.store.items.values(), key=lambda throttle: throttle.key),
                sorted(pools.store.items.values(), key=lambda pool: pool.key),
                outage(throttles, pools),
            )
            yield listing.only(only)
            await until_changed(changed)


async def until_changed(changed: asyncio.Event) -> None:
    """Returns when it is time to draw again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(AGE_S):
            await changed.wait()
    await asyncio.sleep(REDRAW_S)


def outage(*reflectors: "Reflector[Any, Any]") -> str:
    """What is shown and no longer followed, else empty: without a word an old view looks like a quiet cluster."""
    lost = [
        reflector for reflector in reflectors if reflector.last_error is not None and not reflector.store.is_complete
    ]
    age_s = max((reflector.age_s for reflector in lost), default=0.0)
    if age_s < OLD_S:
        return ""
    names, error = " and ".join(reflector.name for reflector in lost), lost[0].last_error
    return f"! This is as it was {duration(age_s)} ago. No news of {names}: {printable(str(error))}"


async def start(reflector: "Reflector[W, T]", running: AsyncExitStack) -> None:
    """Let it follow until `running` ends; returns when it shows everything.

    Raises the server's refusal: it would be tried again for ever, and nothing is shown yet that could say so. What else
    keeps it from beginning is told once.
    """
    running.callback(asyncio.create_task(reflector.run()).cancel)
    complete = asyncio.create_task(reflector.wait_complete())
    running.callback(complete.cancel)
    late_at = asyncio.get_running_loop().time() + OLD_S
    while not (await asyncio.wait([complete], timeout=REDRAW_S))[0]:
        error = reflector.last_error
        if isinstance(error, ForbiddenError | NotFoundError | UnauthorizedError):
            raise error
        if error is not None and asyncio.get_running_loop().time() >= late_at:
            warn(f"! No news of {reflector.name} yet: {error}")
            late_at = inf


@dataclass(slots=True)
class ToldOnce:
    """An outage in a pipe: it is told when it begins, and not again while it lasts."""

    is_told: bool = False

    def tell(self, text: str) -> None:
        """`text` is empty where there is none."""
        if text and not self.is_told:
            warn(text)
        self.is_told = bool(text)


@dataclass(slots=True)
class Screen:
    """What has been shown: lines in place, or objects of which a change is told."""

    where: str | None
    look: Look
    clock: Callable[[], float] = time
    height: int = 0
    last: str = ""
    """Of which kind the last row was."""
    outage: ToldOnce = field(default_factory=ToldOnce)
    throttles: dict[object, StoredThrottle] = field(default_factory=dict)
    pools: dict[object, StoredPool] = field(default_factory=dict)

    def show(self, listing: Listing) -> None:
        """Draw all of it again, or add what has changed."""
        if self.look.is_terminal:
            self._draw(listing)
        else:
            self._add(listing)
        sys.stdout.flush()

    def _draw(self, listing: Listing) -> None:
        size = shutil.get_terminal_size((COLUMNS, LINES))
        text = tables(listing, self.where, replace(self.look, width=size.columns), _date(self.clock))
        text += [] if listing.pools else ["No balloon pools found."]
        text += wrap(listing.outage, size.columns, subsequent_indent="  ")
        shown = on_screen(text, size.columns, size.lines - 1, "a taller terminal, -n or NAME")
        click.echo((f"\x1b[{self.height}A\x1b[J" if self.height else "") + "\n".join(shown))
        self.height = sum(height(line, size.columns) for line in shown)

    def _add(self, listing: Listing) -> None:
        changed = Listing(
            [throttle for throttle in listing.throttles if self.throttles.get(throttle.key) != throttle],
            [pool for pool in listing.pools if self.pools.get(pool.key) != pool],
        )
        self.throttles = {throttle.key: throttle for throttle in listing.throttles}
        self.pools = {pool.key: pool for pool in listing.pools}
        self.outage.tell(listing.outage)
        text = names(changed) if self.look.output == "name" else self._rows(changed, _date(self.clock))
        click.echo("".join(f"{line}\n" for line in text), nl=False)

    def _rows(self, changed: Listing, now: datetime) -> list[str]:
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


def _date(clock: Callable[[], float]) -> datetime:
    return datetime.fromtimestamp(clock(), UTC)


def on_screen(text: list[str], columns: int, rows: int, instead: str) -> list[str]:
    """The lines that are on the screen at once: what has left it upwards cannot be drawn anew.

    `instead` says how to see the others.
    """
    if sum(height(line, columns) for line in text) <= rows:
        return text
    kept = list(text)
    while kept and sum(height(line, columns) for line in kept) > rows - 1:
        kept.pop()
    return [*kept, f"... {count(len(text) - len(kept), 'line')} more: {instead}"]


def height(line: str, columns: int) -> int:
    """Rows that it takes, colours apart."""
    return max(1, -(-len(_PAINT.sub("", line)) // columns))


class AwaitedStatus:
    """Looks until nothing is missing; `listing` and `lacks` are the latest."""

    def __init__(self, wanted: Sequence[Awaited], names: Sequence[str]) -> None:
        self.listing = Listing()
        self.lacks: list[str] = []
        self._wanted, self._names = wanted, names
        self._told, self._told_at = "", -TELL_S

    async def until_so(self, first: Listing, changes: AsyncGenerator[Listing, None], timeout_s: float) -> bool:
        """Whether it came to be so in that time; 0 is one look. `changes` is closed."""
        self._look(first)
        try:
            async with asyncio.timeout(timeout_s), aclosing(changes):
                while self.lacks:
                    self._look(await anext(changes))
        except TimeoutError:
            warn(f"not so after {timeout_s:g} s: {told(self.lacks)}")
        return not self.lacks

    def _look(self, listing: Listing) -> None:
        self.listing, self.lacks = listing, missing(self._wanted, listing, self._names)
        text, now = told(self.lacks), asyncio.get_running_loop().time()
        if self.lacks and text != self._told and now - self._told_at >= TELL_S:
            warn(f"waiting: {text}")
            self._told, self._told_at = text, now


def told(lacks: Sequence[str]) -> str:
    """One line, however many objects there are."""
    more = f"; and {len(lacks) - MOST_TOLD:,} more" if len(lacks) > MOST_TOLD else ""
    return "; ".join(lacks[:MOST_TOLD]) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to show, and until when; nothing `awaited` means one look."""

    names: Sequence[str]
    look: Look
    is_watching: bool = False
    awaited: Sequence[Awaited] = ()
    timeout_s: float = 0.0


def show_dump(options: dict[str, Any], wanted: Wanted) -> int:
    """Print what a dump holds, as old as it was then; raises CommandError."""
    cluster = see(options, "status", (kinds.BALLOON_POOLS, kinds.THROTTLES))
    where = None if options["all_namespaces"] else options["namespace"]
    listing = Listing(
        sorted(seen_cluster.throttles(cluster), key=lambda throttle: throttle.key),
        sorted(
            (pool for pool in _dumped(cluster) if where in (None, pool.metadata.namespace)), key=lambda pool: pool.key
        ),
    )
    can_see_pools = cluster.listed(kinds.BALLOON_POOLS).unread is None
    _print(_chosen(listing, wanted.names, where), where, wanted, cluster.taken_at, can_see_pools=can_see_pools)
    return ExitCode.DONE


def _dumped(cluster: SeenCluster) -> Iterator[StoredPool]:
    """The pools, those that break a rule among them; what is no object of ours is left out, as everywhere."""
    for text in cluster.listed(kinds.BALLOON_POOLS).objects:
        with contextlib.suppress(*seen_cluster.UNREADABLE):
            yield pool_from_wire(msgspec.json.decode(text, type=PoolWire))


async def show_status(options: dict[str, Any], wanted: Wanted) -> int:
    """Print throttles and pools; raises ConfigError, ApiError and CommandError."""
    async with open_cluster(options, "status") as (client, connection):
        where = None if options["all_namespaces"] else options["namespace"] or connection.namespace
        try:
            first = await _first_look(client, where)
        except NotFoundError as error:
            if wanted.is_watching or wanted.awaited or wanted.names:
                raise CommandError(NO_CRD) from error
            click.echo(DAY_0, err=True)
            if wanted.look.output in ("json", "yaml"):
                _print(Listing(), where, wanted, _date(client.now_s))
            return ExitCode.DONE
        changes = changes_of(client, where, wanted.names, has_throttles=first.throttles is not None)
        if wanted.is_watching:
            await follow(changes, where, wanted.look, client.now_s)
        if wanted.awaited:
            return await _wait(first, changes, where, wanted, client.now_s)
        _print(_chosen(_told(first), wanted.names, where), where, wanted, _date(client.now_s))
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class _Look:
    """`throttles` is None where they are not served, or not shown to this user."""

    throttles: list[StoredThrottle] | None
    pools: list[StoredPool]


def _told(first: _Look) -> Listing:
    return Listing(first.throttles or (), first.pools)


async def _wait(
    first: _Look,
    changes: AsyncGenerator[Listing, None],
    where: str | None,
    wanted: Wanted,
    clock: Callable[[], float],
) -> int:
    """What was seen last is printed however the wait ends, also by Ctrl-C."""
    unseen = [awaited.text for awaited in wanted.awaited if awaited.needs_throttles]
    if unseen and first.throttles is None:
        raise CommandError(f"--for {unseen[0]} is about throttles, which this cluster does not show")
    waiting = AwaitedStatus(wanted.awaited, wanted.names)
    try:
        is_so = await waiting.until_so(_told(first).only(wanted.names), changes, wanted.timeout_s)
    finally:
        _print(waiting.listing, where, wanted, _date(clock))
    return ExitCode.DONE if is_so else ExitCode.TIMED_OUT


async def _first_look(client: "KubeClient", where: str | None) -> _Look:
    """Raises NotFoundError where there are no pools to be had."""
    pools = await _pools(client, where)
    return _Look(await _throttles(client), pools)


async def _pools(client: "KubeClient", namespace: str | None) -> list[StoredPool]:
    pools: list[StoredPool] = []
    async for page in client.pages(POOLS, PoolWire, Selection(namespace=namespace)):
        pools += [pool_from_wire(wire) for wire in page.items]
    return sorted(pools, key=lambda pool: pool.key)


async def _throttles(client: "KubeClient") -> list[StoredThrottle] | None:
    """None where they are not served, or not shown to this user: whoever may see one namespace still sees its pools."""
    from throttler.service.throttle_watches import THROTTLES

    throttles: list[StoredThrottle] = []
    try:
        async for page in client.pages(THROTTLES, ThrottleWire):
            throttles += [throttle_from_wire(wire) for wire in page.items]
    except NotFoundError:
        return None
    except ForbiddenError as error:
        click.echo(f"throttles are not shown: {error.message}", err=True)
        return None
    return sorted(throttles, key=lambda throttle: throttle.key)


def _chosen(listing: Listing, wanted: Sequence[str], where: str | None) -> Listing:
    """Raises CommandError for a name that nothing has."""
    there = {thing.metadata.name for thing in (*listing.throttles, *listing.pools)}
    for name in wanted:
        if name not in there:
            place = f" in namespace {where}" if where else ""
            raise CommandError(f"there is no throttle {name!r}, and no pool{place}", ExitCode.BAD_INPUT)
    return listing.only(wanted)


def _print(listing: Listing, where: str | None, wanted: Wanted, now: datetime, *, can_see_pools: bool = True) -> None:
    match wanted.look.output:
        case "json" | "yaml":
            click.echo(printed(document(listing), wanted.look.output), nl=False)
        case "name":
            click.echo("".join(f"{name}\n" for name in names(listing)), nl=False)
        case _:
            text = tables(listing, where, wanted.look, now)
            click.echo("".join(f"{line}\n" for line in text), nl=False)
            if can_see_pools and not listing.pools and not wanted.names:
                click.echo(f"No balloon pools found{f' in namespace {where}' if where else ''}.", err=True)
