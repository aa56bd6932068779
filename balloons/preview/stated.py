"""What the user states about a cluster, over what was learned or assumed."""

from dataclasses import dataclass, fields, replace
from typing import Any

from balloons.preview.assumed import join_cpu_s, requests_per_join
from balloons.preview.inputs import Ceiling, PlanInputs, PoolFacts
from balloons.preview.known import Known, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """None is not stated. Each field is the option or the key of a file by the same name, with dashes."""

    nodes: float | None = None
    boot: float | None = None
    boot_spread: float | None = None
    join: float | None = None
    reaction: float | None = None
    servers: float | None = None
    server_cores: float | None = None
    background: float | None = None
    join_cost: float | None = None
    daemonsets: float | None = None
    controller_qps: float | None = None
    scheduler_qps: float | None = None
    launch_rate: float | None = None
    launch_burst: float | None = None
    kill_timer: float | None = None
    max_nodes: float | None = None


NAMES = tuple(each.name.replace("_", "-") for each in fields(Stated))

BOUNDS: dict[str, tuple[float, float]] = {
    "nodes": (0, 1_000_000),
    "boot": (0.1, 86_400),
    "boot_spread": (0, 0.3),
    "join": (0.1, 3600),
    "reaction": (0, 3600),
    "servers": (1, 100),
    "server_cores": (0.1, 1000),
    "background": (0, 0.9),
    "join_cost": (0.001, 100),
    "daemonsets": (0, 200),
    "controller_qps": (0.1, 100_000),
    "scheduler_qps": (0.1, 100_000),
    "launch_rate": (0.001, 100_000),
    "launch_burst": (0, 100_000),
    "kill_timer": (1, 86_400),
    "max_nodes": (0, 1_000_000),
}
"""Accepted, both ends included; times in seconds, rates per second."""


class StatedError(ValueError):
    """A figure is out of bounds; the message names it, its value and what is accepted."""


def check(stated: Stated) -> Stated:
    """The same; raises StatedError."""
    for name, (low, high) in BOUNDS.items():
        value = getattr(stated, name)
        if value is not None and not low <= value <= high:
            raise StatedError(f"{name.replace('_', '-')} {value:g}: accepted are {low:g} to {high:,g}")
    return stated


def with_stated(inputs: PlanInputs, stated: Stated, by: str = "--") -> PlanInputs:
    """The inputs with what was stated in place of what was known; `by` stands before the names.

    What stands in place of an assumption corrects it; what stands in place of a fact asks what if.
    """
    given = _Given(stated, by)
    servers, controllers = inputs.servers, inputs.controllers
    daemons = given.over("daemonsets", controllers.daemon_sets)
    cost, requests = servers.join_cpu_s, servers.requests_per_join
    if daemons is not controllers.daemon_sets and cost.source is Source.ASSUMED:
        cost, requests = join_cpu_s(daemons.value), requests_per_join(daemons.value)
    count, cores = given.over("servers", servers.count), given.over("server_cores", servers.cores)
    if cost.source is Source.LEARNED:
        # It was learned as a share of servers whose size was a guess.
        for known, now in ((servers.count, count), (servers.cores, cores)):
            if known.source is Source.ASSUMED:
                cost = cost.but(cost.value * now.value / known.value)
    nodes = inputs.nodes if stated.nodes is None else int(stated.nodes)
    return replace(
        inputs,
        nodes=nodes,
        pools=tuple(_pool(pool, given, nodes, is_only=len(inputs.pools) == 1) for pool in inputs.pools),
        join_s=given.over("join", inputs.join_s),
        servers=replace(
            servers,
            count=count,
            cores=cores,
            background=given.over("background", servers.background),
            join_cpu_s=given.over("join_cost", cost),
            requests_per_join=requests,
        ),
        controllers=replace(
            controllers,
            daemon_sets=daemons,
            pods_per_s=given.over("controller_qps", controllers.pods_per_s),
            burst=_burst(stated, controllers.burst),
            binds_per_s=given.over("scheduler_qps", controllers.binds_per_s),
            reaction_s=given.over("reaction", controllers.reaction_s),
            launches_per_s=_launches(given, controllers.launches_per_s),
            launch_burst=controllers.launch_burst if stated.launch_burst is None else int(stated.launch_burst),
            kill_timer_s=given.over("kill_timer", controllers.kill_timer_s),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Given:
    stated: Stated
    by: str

    def over(self, name: str, known: Known) -> Known:
        value: Any = getattr(self.stated, name)
        return known if value is None else Known.stated(float(value), f"{self.by}{name.replace('_', '-')}")


def _burst(stated: Stated, known: Known) -> Known:
    """A raised rate is raised with its burst, as operators do: one and a half seconds' worth."""
    return known if stated.controller_qps is None else known.but(1.5 * stated.controller_qps)


def _launches(given: _Given, known: Known | None) -> Known | None:
    return known if given.stated.launch_rate is None else given.over("launch_rate", Known.stated(0.0, ""))


def _pool(pool: PoolFacts, given: _Given, nodes: int, *, is_only: bool) -> PoolFacts:
    stated = given.stated
    own_nodes = nodes if is_only and stated.nodes is not None else pool.nodes
    ceilings = pool.ceilings
    if stated.max_nodes is not None:
        name = f"{given.by}max-nodes"
        ceilings = (*ceilings, Ceiling(name=name, nodes=max(0, int(stated.max_nodes) - own_nodes)))
    return replace(
        pool,
        nodes=own_nodes,
        ceilings=ceilings,
        boot_s=given.over("boot", pool.boot_s),
        boot_jitter=given.over("boot_spread", pool.boot_jitter),
    )
