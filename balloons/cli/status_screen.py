"""Reads throttles and pools from the cluster and prints them, once or as they change."""

import json
from datetime import UTC, datetime

import click
import yaml

from balloons.cli.failing import CommandError
from balloons.cli.look import Look
from balloons.cli.pool_rows import Pool
from balloons.cli.status_text import Seen, document, names, tables
from balloons.cli.status_watch import follow
from balloons.service.resources import POOLS
from balloons.service.wire import PoolWire, pool_from_wire
from throttler.api.stored import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.client.connection import ConnectionOptions, load_connection
from throttler.client.errors import ForbiddenError, NotFoundError
from throttler.client.kube_client import KubeClient, open_client
from throttler.client.requests import Selection
from throttler.service.throttle_resource import THROTTLES


async def show_status(
    options: ConnectionOptions, namespace: str | None, is_everywhere: bool, is_watching: bool, look: Look
) -> None:
    """Print throttles and pools; raises ConfigError, ApiError and CommandError."""
    connection = await load_connection(options)
    where = None if is_everywhere else namespace or connection.namespace
    async with open_client(connection, "cli") as client:
        try:
            pools = await _pools(client, where)
        except NotFoundError as error:
            raise CommandError(
                "this cluster does not serve BalloonPool (kube-balloons.github.io/v1alpha1): apply the CRD first"
            ) from error
        throttles = await _throttles(client)
        if is_watching:
            await follow(client, where, look, has_throttles=throttles is not None)
        else:
            _print(Seen(throttles or (), pools), where, look)


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


def _print(seen: Seen, where: str | None, look: Look) -> None:
    match look.output:
        case "json":
            click.echo(json.dumps(document(seen), indent=2))
        case "yaml":
            click.echo(yaml.safe_dump(document(seen), sort_keys=False), nl=False)
        case "name":
            click.echo("".join(f"{name}\n" for name in names(seen)), nl=False)
        case _:
            text = tables(seen, where, look, datetime.now(UTC))
            click.echo("".join(f"{line}\n" for line in text), nl=False)
            if not seen.pools:
                click.echo(f"No balloon pools found{f' in namespace {where}' if where else ''}.", err=True)
