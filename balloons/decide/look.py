"""What a decision sees of one pool before it aims at anything."""

from collections.abc import Mapping
from dataclasses import dataclass

from balloons.api.pool import BalloonPool, PoolStatus, Schedule, ShapeType
from balloons.decide.census import Census, NodeState, Rules, take_census
from balloons.decide.schedule import active_schedule
from balloons.view.claim import Claim
from balloons.view.load import NodeLoad
from balloons.view.remembered import remembered_shapes
from balloons.view.shape import Shapes, explicit_shape, shapes_of
from balloons.view.snapshot import Deployment, Now, Snapshot
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import POOL_LABEL, SHAPE_LABEL, Pod


@dataclass(frozen=True, slots=True)
class PoolView:
    """A pool with its nodes sorted and measured.

    `deployments` are the pool's own, by shape name; in `loads` its nodes carry no balloons but its own.
    """

    pool: BalloonPool
    claim: Claim
    census: Census
    shapes: Shapes
    schedule: Schedule | None
    unbound: tuple[Pod, ...]
    deployments: Mapping[str, Deployment]
    loads: Mapping[str, NodeLoad]

    @property
    def holdable(self) -> list[Node]:
        """Nodes that a balloon could hold now; those that still lack their devices are left out."""
        unfinished = self.shapes.unfinished
        nodes = self.census.holdable
        return [node for node in nodes if node.name not in unfinished] if unfinished else nodes


def look(pool: BalloonPool, claim: Claim, snapshot: Snapshot, now: Now, unready_s: Mapping[str, float]) -> PoolView:
    """Sort and measure one pool's nodes; `unready_s` says how long nodes have not been Ready."""
    census = take_census(claim.seen, Rules.of(pool, now.wall.timestamp(), unready_s))
    is_explicit = pool.spec.shape.type is ShapeType.EXPLICIT
    shapes = explicit_shape(census.measured) if is_explicit else shapes_of(census.measured)
    deployments = _own(pool.key, snapshot.deployments)
    return PoolView(
        pool=pool,
        claim=claim,
        census=census,
        shapes=shapes.and_also(remembered_shapes(deployments, shapes.by_name)),
        schedule=active_schedule(pool.spec.schedules, now.wall),
        unbound=tuple(pod for pod in snapshot.unbound.get(pool.key, ()) if not pod.is_terminating),
        deployments=deployments,
        loads={**snapshot.loads, **claim.own_loads} if claim.own_loads else snapshot.loads,
    )


def _own(key: ObjectKey, deployments: Mapping[ObjectKey, Deployment]) -> dict[str, Deployment]:
    return {
        found.metadata.labels.get(SHAPE_LABEL, ""): found
        for found in deployments.values()
        if pool_of(found.metadata) == key and found.metadata.deletion_timestamp is None
    }


def pool_of(metadata: Metadata) -> ObjectKey:
    """The pool an object of ours belongs to, by its label and namespace; the name is empty without the label."""
    return ObjectKey(metadata.namespace, metadata.labels.get(POOL_LABEL, ""))


def status_of(view: PoolView, target: int) -> PoolStatus:
    """The counts of the view; reason, message and conditions are filled in by whoever knows them."""
    census = view.census
    return PoolStatus(
        observed_generation=view.pool.metadata.generation,
        nodes=census.total,
        busy=census.count(NodeState.BUSY),
        warm=census.count(NodeState.WARM),
        idle=census.count(NodeState.IDLE),
        sick=census.count(NodeState.SICK),
        pending=len(view.unbound),
        target=target,
        selector=f"{POOL_LABEL}={view.pool.metadata.name}",
        active_schedule=view.schedule.cron if view.schedule else "",
        zones=census.zones(),
    )
