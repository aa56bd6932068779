"""The throttle's half of the service: runs what it needs only while a JoinThrottle exists, and decides when asked.

The decision loop calls `tick` with the cluster as it sees it and gets the lanes in which Headroom may grow; the levers'
writes go out by themselves. On an orderly stop everything is handed over to another replica, or given back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import structlog

from throttler.api.throttle import JoinThrottle, LabelLever, TaintLever
from throttler.api.throttle_rules import RefusedThrottle, StoredThrottle
from throttler.joins.joins import JoinWorld
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import Clocks, Lane, LeverMemory, LeverScene, PoolGrowth
from throttler.levers.scheduling_gate import SCHEDULING_GATES
from throttler.scraping.signal_watch import SignalWatches
from throttler.service.all_levers import CEILINGS, leftover_writes
from throttler.service.decide_throttles import Memories, ThrottleMemory, TickView, Turn, decide_throttles
from throttler.service.restore_all import InForce
from throttler.service.throttle_metrics import ThrottleMetrics
from throttler.service.throttle_watches import ThrottleWatches
from throttler.service.throttle_write_queue import Place, ThrottleWrites

BUSY_S = 2.0
"""How soon to look again while anything waits or is in flight: readings come every five seconds."""
BLIND_PATIENCE_S = 15.0
"""A view that is incomplete for no longer than this (a watch that reconnects) is not reported to users."""
GIVEN_UP_S = 300.0
"""A view that only the throttle lacks for so long is given up, and what is held is given back. Nodes and pods are seen
meanwhile, so the API servers answer: a right is missing, or a conversion webhook is away, and may be for days."""
LEAVING_S = 60.0
"""A throttle that was deleted, cannot be read any more, or no longer names a taint, a label or the nodes with it, gives
back what it held until nothing has been left for so long."""
LEAVING = " (leaving)"
"""Behind its name, in whose name is written what such a throttle gives back."""
NOBODY = "(nobody)"
"""In whose name leftovers are written; no object can have this name."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What the service sees anyway; `pods` by the name of their node."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    pods: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    unplaced: tuple[Pod, ...] = ()
    growth: tuple[PoolGrowth, ...] = ()
    missing: tuple[str, ...] = ()
    age_s: float = 0.0


class Throttling:
    """Everything of the throttle behind one call per tick."""

    def __init__(
        self,
        watches: ThrottleWatches,
        sources: SignalWatches,
        writes: ThrottleWrites,
        in_force: InForce,
        metrics: ThrottleMetrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        self._watches = watches
        self._sources = sources
        self._writes = writes
        self._in_force = in_force
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._memories: Memories = {}
        self._memories_before: Memories = {}
        """What the last tick began with."""
        self._known: dict[str, JoinThrottle] = {}
        self._leaving: dict[str, tuple[JoinThrottle, float]] = {}
        self._told: dict[str, tuple[str, str]] = {}
        self._complete_at = clock()
        self._usable_at = clock()
        """When the view was complete or needed by nobody, or nobody saw the cluster."""
        self.again_s: float | None = None
        """How soon a tick is wanted although nothing changes; None: whenever it comes."""

    async def run(self) -> None:
        """Follow what is needed; ends only by cancellation."""
        await self._watches.run()

    async def stop(self) -> None:
        """The end of an orderly stop: nothing decides any more, and what is held is handed over or given back."""
        self._sources.follow(())
        stored = self._watches.throttles
        # A leader may be told to stop before its first tick, and holds what it took over all the same.
        self._in_force.follow(is_needed=bool(stored or self._leaving) or not self._watches.is_known)
        may_hand_over = any(isinstance(throttle, JoinThrottle) for throttle in stored)
        # What a refused one says that it may hold, a successor reads as we do.
        held = [throttle.held.spec for throttle in stored if isinstance(throttle, RefusedThrottle) and throttle.held]
        readable = [(spec.nodes, spec.levers) for spec in held]
        leaving = (throttle for throttle, _ in self._leaving.values())
        gone = [throttle for throttle in leaving if (throttle.spec.nodes, throttle.spec.levers) not in readable]
        await self._in_force.stop(self._writes.drain, may_hand_over=may_hand_over, gone=gone)

    def stand_by(self) -> None:
        """Somebody else leads: nothing is asked of the servers, nothing remembered; the caches stay warm."""
        self._metrics.forbidden(self._watches.is_forbidden)
        self._metrics.watches(self._watches.states)
        self._sources.follow(())
        self._writes.take_back()
        self._memories, self._told = {}, {}
        if self._watches.is_known:
            # One that is deleted while nobody leads is to be given back by whoever leads next.
            self._keep_track(self._watches.throttles)
        self._complete_at = self._usable_at = self._clock()
        self.again_s = None
        self._writes.forget(())
        self._metrics.show((), (), self._clock())

    @property
    def is_known(self) -> bool:
        """Whether it is known which throttles there are."""
        return self._watches.is_known

    def tick(self, cluster: ClusterView) -> Sequence[Lane] | None:
        """Decide for all throttles and begin to write; gives the lanes of Headroom, None without a throttle."""
        self._metrics.forbidden(self._watches.is_forbidden)
        self._metrics.watches(self._watches.states)
        self._take_back(cluster.unplaced)
        if not self._watches.is_known:
            # There may be a throttle: what grows now could not be taken back.
            self._complete_at = self._usable_at = self._clock()
            return (Lane(LabelSelector(), 0, is_shut=True),)
        stored = self._watches.throttles
        self._follow(stored)
        if not stored and not self._leaving:
            # One of the same name that is made next week is another.
            self._memories, self._told = {}, {}
            self._complete_at = self._usable_at = self._clock()
            self._metrics.show((), (), self._clock())
            self.again_s = None
            return None
        turns = self._decide(stored, cluster)
        return tuple(turn.lane for turn in turns if turn.lane is not None)

    # --- one tick ---

    def _take_back(self, unplaced: Iterable[Pod]) -> None:
        """Releases that were not begun are decided anew: of these pods is remembered what was before."""
        for owner, keys in self._writes.take_back().items():
            name = owner.removesuffix(LEAVING)
            memory, before = self._memories.get(name), self._memories_before.get(name, ThrottleMemory())
            if memory is not None:
                lever, pods = SCHEDULING_GATES, {*keys}
                uids = [pod.uid for pod in unplaced if pod.key in pods]
                gates = lever.not_begun(uids, lever.remembered(memory.levers), lever.remembered(before.levers))
                levers = LeverMemory({**memory.levers.by_lever, lever.FIELD: gates})
                self._memories = {**self._memories, name: replace(memory, levers=levers)}
        self._memories_before = self._memories

    def _follow(self, stored: Sequence[StoredThrottle]) -> None:
        """Begin and end what the throttles need."""
        self._keep_track(stored)
        self._sources.follow(self._known.values())
        self._in_force.follow(is_needed=bool(stored or self._leaving))

    def _keep_track(self, stored: Sequence[StoredThrottle]) -> None:
        """Throttles that are gone or unreadable begin to leave, and so does what one was whose marks are others now."""
        now_s = self._clock()
        readable = {throttle.metadata.name: throttle for throttle in stored if isinstance(throttle, JoinThrottle)}
        for name, before in self._known.items():
            after, metadata = readable.get(name), before.metadata
            if after is not None and all(mark in _marks(after) for mark in _marks(before)):
                continue
            if after is not None:
                metadata = msgspec.structs.replace(metadata, name=f"{name} of generation {metadata.generation}")
            paused = msgspec.structs.replace(before.spec, paused=True)
            leaving = msgspec.structs.replace(before, metadata=metadata, spec=paused)
            self._leaving[metadata.name] = leaving, now_s + LEAVING_S
        self._leaving = {
            name: (throttle, until_s)
            for name, (throttle, until_s) in self._leaving.items()
            if name not in readable and now_s < until_s
        }
        for throttle in stored:
            # One that was refused before we came holds what another process held for it, and each node that comes.
            if isinstance(throttle, RefusedThrottle) and throttle.held is not None:
                self._leaving.setdefault(throttle.metadata.name, (throttle.held, now_s + LEAVING_S))
        self._known = readable
        if not self._leaving:
            self._watches.end_unneeded()

    def _decide(self, stored: Sequence[StoredThrottle], cluster: ClusterView) -> tuple[Turn, ...]:
        view, before = self._view(cluster), self._memories
        if not view.missing:
            self._complete_at = self._clock()
        leaving = tuple(throttle for throttle, _ in self._leaving.values())
        present = tuple(throttle for throttle in stored if throttle.metadata.name not in self._leaving)
        turns, after = decide_throttles((*present, *leaving), view, before)
        self._keep_on_leaving(turns[len(present) :], is_sure=not view.missing)
        refused = tuple(throttle for throttle in stored if throttle.metadata.name in self._leaving)
        told, _ = decide_throttles(refused, view, {})
        self._memories = after
        self._write((*turns[: len(present)], *told), turns[len(present) :], view, before)
        self._metrics.show((*turns[: len(present)], *told), self._sources.distinct(self._clock()), self._clock())
        self.again_s = BUSY_S if any(turn.is_busy for turn in turns) else None
        return turns

    def _keep_on_leaving(self, turns: Iterable[Turn], *, is_sure: bool) -> None:
        """Taints and labels are found by the keys that their throttle names: with it gone, nobody else takes them off.

        There may be thousands of them, and writes may fail.
        """
        for turn in turns:
            if turn.lever_writes or not is_sure:
                throttle, _ = self._leaving[turn.name]
                self._leaving[turn.name] = throttle, self._clock() + LEAVING_S

    def _write(self, turns: Sequence[Turn], leaving: Sequence[Turn], view: TickView, before: Memories) -> None:
        is_told = not view.missing or self._clock() - self._complete_at > BLIND_PATIENCE_S
        for turn in turns:
            self._log_changes(turn)
            passed_over = self._writes.start(turn.name, turn.lever_writes, turn if is_told else None)
            if passed_over and turn.name in before:
                self._forget_decisions(turn.name, passed_over, before[turn.name].levers)
        for turn in leaving:
            self._writes.start(f"{turn.name}{LEAVING}", turn.lever_writes)
        if not view.missing:
            claiming = [turn.stored for turn in (*turns, *leaving) if isinstance(turn.stored, JoinThrottle)]
            self._writes.start(NOBODY, leftover_writes(view.scene, claiming))
        names = {turn.name for turn in turns}
        self._told = {name: told for name, told in self._told.items() if name in names}
        self._writes.forget(names)

    def _forget_decisions(self, name: str, passed_over: Collection[Place], before: LeverMemory) -> None:
        """Nobody carries out what was decided for these objects: of them is remembered what was before."""
        memory = self._memories[name]
        levers = dict(memory.levers.by_lever)
        for lever in CEILINGS:
            keys = {key for kind, key in passed_over if kind == lever.WRITES_ON.kind}
            if keys:
                levers[lever.FIELD] = lever.undecided(keys, lever.remembered(memory.levers), lever.remembered(before))
        self._memories = {**self._memories, name: replace(memory, levers=LeverMemory(levers))}

    def _view(self, cluster: ClusterView) -> TickView:
        now_s, wall_s, watches = self._clock(), self._wall(), self._watches
        if cluster.missing or not watches.missing:
            self._usable_at = now_s
        self._in_force.saw(watches.limited)
        world = JoinWorld(
            nodes=cluster.nodes,
            pods=cluster.pods,
            daemon_sets=watches.daemon_sets,
            unplaced=cluster.unplaced,
            claims=watches.claims,
            autoscaler=watches.autoscaler,
            wall_s=wall_s,
        )
        scene = LeverScene(
            moment=Clocks(now_s, wall_s),
            lease=self._in_force.lease,
            epoch=self._in_force.epoch,
            nodes=cluster.nodes,
            pods=cluster.pods,
            unplaced=cluster.unplaced,
            limited=watches.limited,
            versions=watches.versions,
            claims=watches.claims,
            autoscaler=watches.autoscaler,
            refused=self._writes.refused,
        )
        return TickView(
            world=world,
            scene=scene,
            signals=self._sources.by_throttle(now_s),
            growth=cluster.growth,
            missing=(*cluster.missing, *watches.missing),
            is_given_up=now_s - self._usable_at > GIVEN_UP_S,
            age_s=max(cluster.age_s, watches.age_s),
        )

    def _log_changes(self, turn: Turn) -> None:
        """One line when the phase or the reason changes; the figures are in status and metrics."""
        verdict = turn.verdict_followed
        if verdict is None:
            return
        told = verdict.phase.value, verdict.because.code
        if self._told.get(turn.name) != told:
            self._told[turn.name] = told
            log.info("paced", throttle=turn.name, phase=told[0], because=told[1], why=verdict.because.sentence)


def _marks(throttle: JoinThrottle) -> list[tuple[LabelSelector, TaintLever | LabelLever]]:
    """What nodes wait by, and which: only the spec names them."""
    levers = throttle.spec.levers
    return [(throttle.spec.nodes, mark) for mark in (levers.startup_taint, levers.daemon_set_label) if mark is not None]
