"""Reads throttles and pools from the cluster or a dump and prints them: once, as they change, or when they are so."""

import contextlib
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
import yaml

from balloons.cli.awaited import Awaited
from balloons.cli.cluster_options import open_cluster, see
from balloons.cli.failing import CommandError, ExitCode
from balloons.cli.look import Look
from balloons.cli.pool_rows import Pool
from balloons.cli.status_text import Seen, document, names, tables
from balloons.cli.status_wait import AwaitedStatus
from balloons.cli.status_watch import changes_of, follow
from balloons.cluster import kinds, seen_cluster
from balloons.cluster.seen_cluster import SeenCluster
from balloons.service.watched_objects import POOLS, PoolWire, pool_from_wire
from throttler.api.throttle_decode import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.errors import ForbiddenError, NotFoundError
from throttler.kube.kube_client import KubeClient
from throttler.kube.requests import Selection
from throttler.service.throttle_kinds import THROTTLES

NO_CRD = "this cluster does not serve BalloonPool (kube-balloons.github.io/v1alpha1): kubectl apply -k manifests/crds"
DAY_0 = f"{NO_CRD}\nwithout it: balloons doctor, balloons plan --to N, balloons top, balloons explain node NAME"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to show, and until when; nothing `awaited` means one look."""

    names: Sequence[str]
    look: Look
    is_watching: bool = False
    awaited: Sequence[Awaited] = ()
    timeout_s: float = 0.0


def show_dump(given: dict[str, Any], wanted: Wanted) -> int:
    """Print what a dump holds, as old as it was then; raises CommandError."""
    found = see(given, "status", (kinds.BALLOON_POOLS, kinds.THROTTLES))
    where = given["namespace"]
    seen = Seen(
        sorted(seen_cluster.throttles(found), key=lambda throttle: throttle.key),
        sorted(
            (pool for pool in _dumped(found) if where in (None, pool.metadata.namespace)), key=lambda pool: pool.key
        ),
    )
    can_see_pools = found.listed(kinds.BALLOON_POOLS).unread is None
    _print(_chosen(seen, wanted.names, where), where, wanted, found.taken_at, can_see_pools=can_see_pools)
    return ExitCode.DONE


def _dumped(found: SeenCluster) -> Iterator[Pool]:
    """The pools, those that break a rule among them; what is no object of ours is left out, as everywhere."""
    for text in found.listed(kinds.BALLOON_POOLS).objects:
        with contextlib.suppress(*seen_cluster.UNREADABLE):
            yield pool_from_wire(msgspec.json.decode(text, type=PoolWire))


async def show_status(given: dict[str, Any], wanted: Wanted) -> int:
    """Print throttles and pools; raises ConfigError, ApiError and CommandError."""
    async with open_cluster(given, "status") as (client, connection):
        where = None if given["all_namespaces"] else given["namespace"] or connection.namespace
        try:
            seen = await _first_look(client, where)
        except NotFoundError as error:
            if wanted.is_watching or wanted.awaited or wanted.names:
                raise CommandError(NO_CRD) from error
            click.echo(DAY_0, err=True)
            if wanted.look.output in ("json", "yaml"):
                _print(Seen(), where, wanted, datetime.now(UTC))
            return ExitCode.DONE
        changes = changes_of(client, where, wanted.names, has_throttles=seen.throttles is not None)
        if wanted.is_watching:
            await follow(changes, where, wanted.look)
        if wanted.awaited:
            return await _wait(seen, changes, where, wanted)
        _print(_chosen(_told(seen), wanted.names, where), where, wanted, datetime.now(UTC))
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class _Look:
    """`throttles` is None where they are not served, or not shown to this user."""

    throttles: list[StoredThrottle] | None
    pools: list[Pool]


def _told(seen: _Look) -> Seen:
    return Seen(seen.throttles or (), seen.pools)


async def _wait(seen: _Look, changes: AsyncGenerator[Seen, None], where: str | None, wanted: Wanted) -> int:
    """What was seen last is printed however the wait ends, also by Ctrl-C."""
    unseen = [each.text for each in wanted.awaited if each.needs_throttles]
    if unseen and seen.throttles is None:
        raise CommandError(f"--for {unseen[0]} is about throttles, which this cluster does not show")
    waiting = AwaitedStatus(wanted.awaited, wanted.names)
    try:
        is_so = await waiting.until_so(_told(seen).only(wanted.names), changes, wanted.timeout_s)
    finally:
        _print(waiting.seen, where, wanted, datetime.now(UTC))
    return ExitCode.DONE if is_so else ExitCode.TIMED_OUT


async def _first_look(client: KubeClient, where: str | None) -> _Look:
    """Raises NotFoundError where there are no pools to be had."""
    pools = await _pools(client, where)
    return _Look(await _throttles(client), pools)


async def _pools(client: KubeClient, namespace: str | None) -> list[Pool]:
    found: list[Pool] = []
    async for page in client.pages(POOLS, PoolWire, Selection(namespace=namespace)):
        found += [pool_from_wire(wire) for wire in page.items]
    return sorted(found, key=lambda pool: pool.key)


async def _throttles(client: KubeClient) -> list[StoredThrottle] | None:
    """None where they are not served, or not shown to this user: whoever may see one namespace still sees its pools."""
    found: list[StoredThrottle] = []
    try:
        async for page in client.pages(THROTTLES, ThrottleWire):
            found += [throttle_from_wire(wire) for wire in page.items]
    except NotFoundError:
        return None
    except ForbiddenError as error:
        click.echo(f"throttles are not shown: {error.message}", err=True)
        return None
    return sorted(found, key=lambda throttle: throttle.key)


def _chosen(seen: Seen, wanted: Sequence[str], where: str | None) -> Seen:
    """Raises CommandError for a name that nothing has."""
    there = {each.metadata.name for each in (*seen.throttles, *seen.pools)}
    for name in wanted:
        if name not in there:
            place = f" in namespace {where}" if where else ""
            raise CommandError(f"there is no throttle {name!r}, and no pool{place}", ExitCode.BAD_INPUT)
    return seen.only(wanted)


def _print(seen: Seen, where: str | None, wanted: Wanted, now: datetime, *, can_see_pools: bool = True) -> None:
    match wanted.look.output:
        case "json":
            click.echo(json.dumps(document(seen), indent=2))
        case "yaml":
            click.echo(yaml.safe_dump(document(seen), sort_keys=False), nl=False)
        case "name":
            click.echo("".join(f"{name}\n" for name in names(seen)), nl=False)
        case _:
            text = tables(seen, where, wanted.look, now)
            click.echo("".join(f"{line}\n" for line in text), nl=False)
            if can_see_pools and not seen.pools and not wanted.names:
                click.echo(f"No balloon pools found{f' in namespace {where}' if where else ''}.", err=True)
