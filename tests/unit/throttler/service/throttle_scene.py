"""A throttle's tick on made-up clusters: builders and fakes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from tests.unit.throttler.joins.cluster import WALL_S, a_world
from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import RefusedThrottle, StoredThrottle, decode_throttle
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import LimitedObject, Metadata, ObjectKey
from throttler.kube.watch_set import CacheState
from throttler.levers.lever_and_reasons import Clocks, LeverScene, LeverWrite
from throttler.service.decide_throttles import TickView, Turn
from throttler.service.throttle_write_queue import Place
from throttler.signals.reading import Reading, Signals

QUOTAS_SERVED = {"CapacityQuota": "autoscaling.x-k8s.io/v1alpha1"}


def a_throttle(name: str = "default", *, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> JoinThrottle:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": created}
    found = decode_throttle(msgspec.json.encode({"metadata": metadata, "spec": spec}))
    assert isinstance(found, JoinThrottle), found
    return found


def refused(name: str = "bad") -> RefusedThrottle:
    return RefusedThrottle(Metadata(name, uid=f"uid-{name}"), "window.min 9 is above window.max 2")


def a_pool(name: str = "pool-a", **limits: Any) -> NodePool:
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    template = {"metadata": {"labels": {"pool": "a"}}, "spec": {"requirements": []}}
    spec = {"template": template, **({"limits": limits} if limits else {})}
    return msgspec.convert({"metadata": metadata, "spec": spec}, NodePool)


def calm(now_s: float, server: str = "api-0") -> Signals:
    figures: dict[str, Any] = {
        "requests": 500.0,
        "errors": 0.0,
        "latency_s": 0.004,
        "queue_wait_s": 0.0,
        "cpu_share": 0.1,
    }
    return Signals(readings=(Reading(server=server, ended_s=now_s, span_s=5.0, **figures),))


def a_view(now_s: float, world: JoinWorld | None = None, **more: Any) -> TickView:
    """The view of a tick `now_s` seconds after the world's own moment."""
    world = world if world is not None else a_world()
    scene = more.pop("scene", {})
    moment = Clocks(now_s, WALL_S + now_s)
    signals = more.pop("signals", None)
    names = more.pop("names", ("default",))
    return TickView(
        world=replace(world, wall_s=WALL_S + now_s),
        scene=LeverScene(
            moment=moment, nodes=world.nodes, pods=world.pods, unplaced=world.unplaced, claims=world.claims, **scene
        ),
        signals=signals if signals is not None else dict.fromkeys(names, calm(now_s)),
        **more,
    )


@dataclass
class FakeWatches:
    """What the caches show."""

    throttles: tuple[StoredThrottle, ...] = ()
    is_known: bool = True
    is_forbidden: bool = False
    missing: tuple[str, ...] = ()
    states: Mapping[str, CacheState] = field(default_factory=dict)
    age_s: float = 0.0
    daemon_sets: tuple[Any, ...] = ()
    claims: tuple[Any, ...] = ()
    limited: tuple[LimitedObject, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    autoscaler: Any = None

    async def run(self) -> None:
        """Nothing to follow."""

    def end_unneeded(self) -> None:
        """Without a throttle, and with nothing to give back, only throttles are followed."""
        self.limited = self.limited if self.throttles else ()


@dataclass
class FakeSources:
    """Every server is calm."""

    now: Any
    followed: tuple[str, ...] = ()

    def follow(self, throttles: Iterable[JoinThrottle]) -> None:
        self.followed = tuple(throttle.metadata.name for throttle in throttles)

    def by_throttle(self, now_s: float) -> dict[str, Signals]:
        return dict.fromkeys(self.followed, calm(now_s))

    def distinct(self, now_s: float) -> list[Signals]:
        return [calm(now_s)] if self.followed else []


@dataclass
class FakeWrites:
    """Remembers what was to be written; `busy` are objects of which an earlier write is under way, `refused` those that
    rest because the API server refused one."""

    turns: list[Turn] = field(default_factory=list)
    others: dict[str, list[LeverWrite]] = field(default_factory=dict)
    busy: frozenset[Place] = frozenset()
    refused: frozenset[Place] = frozenset()

    def start(self, name: str, wanted: Sequence[LeverWrite], turn: Turn | None = None) -> frozenset[Place]:
        if turn is not None:
            self.turns.append(turn)
            return self.busy & {(write.kind, write.key) for write in wanted}
        if wanted:
            self.others.setdefault(name, []).extend(wanted)
        return frozenset()

    def take_back(self) -> dict[str, list[ObjectKey]]:
        """All are begun."""
        return {}

    def forget(self, known: Any) -> None:
        """Nothing is kept."""

    async def drain(self, timeout_s: float) -> None:
        """Nothing is under way."""


@dataclass
class FakeHolding:
    """Whether the Lease was to be renewed, and whether everything was given back."""

    is_needed: bool = False
    is_stopped: bool = False
    may_hand_over: bool = False
    gone: Sequence[JoinThrottle] = ()
    lease: str = "kube-balloons/throttle"
    epoch: int = 0

    def saw(self, things: Iterable[Any]) -> None:
        """Any epoch will do."""

    def follow(self, *, is_needed: bool) -> None:
        self.is_needed = is_needed

    async def stop(self, drain: Any, *, may_hand_over: bool = False, gone: Sequence[JoinThrottle] = ()) -> None:
        self.is_stopped, self.may_hand_over, self.gone = True, may_hand_over, gone
