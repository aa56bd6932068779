"""`balloons pause` and `balloons resume`: the only commands that write, and only one field and its reason."""

from typing import TYPE_CHECKING, Any

import click

from balloons.cli.cluster_source import open_cluster
from balloons.cli.options_and_values import Subject, named, namespace_option, option, request_options, subjects
from balloons.cli.terminal import CommandError, ExitCode, warn

if TYPE_CHECKING:
    from throttler.kube.requests import Resource

LONGEST_REASON = 500
FIELD_MANAGER = "kube-balloons-cli"
SUBJECTS = ("pool", "throttle")
OF_POOL = "Namespace of the pool. Default: the context's."


@click.command(short_help="Stop a pool or throttle from changing anything.")
@click.argument("subject", type=Subject(SUBJECTS))
@click.argument("name", required=False, shell_complete=subjects)
@request_options
@namespace_option("-n", "--namespace", help=OF_POOL)
@option("--reason", metavar="TEXT", required=True, help="Why. `status -o wide` and `explain` show it.")
@option("--dry-run", is_flag=True, help="Let the server check the change, and write nothing.")
def pause(subject: str, name: str | None, **options: Any) -> None:
    """Stop a pool or throttle from changing anything.

    \b
    Examples:
      balloons pause pool/ml/gpu --reason "maintenance until 18:00"
      balloons pause throttle default --reason INC-1234

    A paused pool keeps the balloons that it has. A paused throttle gives back all that it holds.
    """
    if not 0 < len(options["reason"].strip()) <= LONGEST_REASON:
        raise click.BadParameter(f"accepted: 1 to {LONGEST_REASON} characters", param_hint="--reason")
    _set(subject, name, options, is_paused=True)


@click.command(short_help="Let a paused pool or throttle work again.")
@click.argument("subject", type=Subject(SUBJECTS))
@click.argument("name", required=False, shell_complete=subjects)
@request_options
@namespace_option("-n", "--namespace", help=OF_POOL)
@option("--dry-run", is_flag=True, help="Let the server check the change, and write nothing.")
def resume(subject: str, name: str | None, **options: Any) -> None:
    """Let a paused pool or throttle work again.

    \b
    Examples:
      balloons resume pool gpu -n ml
      balloons resume throttle default
    """
    _set(subject, name, {**options, "reason": None}, is_paused=False)


def _set(subject: str, name: str | None, options: dict[str, Any], *, is_paused: bool) -> None:
    import asyncio

    from balloons.service.watched_kinds import POOLS
    from throttler.service.throttle_watches import THROTTLES

    subject, name, namespace = named(subject, name, options["namespace"])
    options = {**options, "namespace": namespace}
    resource = POOLS if subject == "pool" else THROTTLES
    asyncio.run(_patch(resource, name, options, is_paused=is_paused))
    done = "paused" if is_paused else "resumed"
    warn(f"{resource.kind.lower()}/{name} {done}{' (dry run: nothing was written)' if options['dry_run'] else ''}")


async def _patch(resource: "Resource", name: str, options: dict[str, Any], *, is_paused: bool) -> None:
    from balloons.cluster.kinds import PAUSE_REASON
    from throttler.kube.errors import NotFoundError

    body = {"metadata": {"annotations": {PAUSE_REASON: options["reason"]}}, "spec": {"paused": is_paused}}
    command = "pause" if is_paused else "resume"
    async with open_cluster(options, command, is_dry_run=options["dry_run"]) as (client, connection):
        namespace = (options["namespace"] or connection.namespace) if resource.is_namespaced else None
        try:
            await client.patch(resource, body, name, namespace, field_manager=FIELD_MANAGER)
        except NotFoundError as error:
            # Of an object that is not there the server says so with a reason, of a kind that it does not serve without.
            said = error.message if error.reason else f"this cluster does not serve {resource.plural}"
            hint = "see what there is with balloons status -A" if error.reason else "kubectl apply -k manifests/crds"
            raise CommandError(f"{said}; {hint}", ExitCode.BAD_INPUT) from error
