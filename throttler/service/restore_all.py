"""Giving everything back at once: by the service when it stops for good, by the guard when nobody renews.

Everything of ours that holds nodes back is read from the API server itself. Nothing is remembered: what was left behind
is recognised by what is on the objects, and by what the JoinThrottles call theirs. Lists come page by page and are
written page by page: what is decided on is then no older than a page takes. Some objects are written at the same time,
so that one that gets no answer keeps none of the others waiting.

While decisions are made, ceilings stay in force by a Lease that is renewed (`InForce`). A leader that is only replaced
hands them over with the Lease.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog
from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_random_exponential

from throttler.api.throttle import JoinThrottle, Levers
from throttler.kube.connection import Connection
from throttler.kube.decoding import Skipped, W
from throttler.kube.errors import ApiError, NotFoundError, UndecodableError
from throttler.kube.kube_client import CeilingGate, KubeClient, open_client
from throttler.kube.lease import Elector
from throttler.kube.metadata import LimitedObject, Metadata, ObjectKey
from throttler.kube.node import HELD_BY_ANNOTATION, KEPT_ANNOTATIONS, Node, NodeWire, Shared, node_from_wire
from throttler.kube.pod import PodWire, pod_from_wire, without_requests
from throttler.kube.reasons_and_events import because
from throttler.kube.requests import DEPLOYMENTS, EVERYTHING, NODES, PODS, Resource, Selection
from throttler.kube.selectors import LabelSelector, matches
from throttler.levers.ceiling import CeilingLever
from throttler.levers.lever_and_reasons import (
    HOLDER_ANNOTATION,
    THROTTLE_LABEL,
    How,
    LeverReason,
    LeverWrite,
    epoch_of,
    is_held_by,
)
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION, is_unreadable, restore
from throttler.levers.scheduling_gate import SCHEDULING_GATES
from throttler.service.all_levers import ADMISSIONS, CEILINGS
from throttler.service.lever_calls import LeverWriteOutcome, LeverWriter
from throttler.service.throttle_watches import THROTTLES, resources_of

AT_ONCE = 16
"""Objects that are given back at the same time."""
PASSES = 8
"""An object that changed meanwhile (409) is read again so many times in all; after that the next call does it.

In a ramp Karpenter writes the status of its NodePool with every machine, in bursts that outlast three passes."""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
"""Between two passes, drawn between nothing and twice as much each time: 8 s in all at most, and a stop has twelve."""

MayGoOn = Callable[[], Awaitable[bool]]


NAMED = 5
"""How many unreadable objects are named."""
WITHOUT_NODE = Selection(fields="spec.nodeName=,status.phase=Pending")
_AT_THE_JOIN = tuple(lever for lever in ADMISSIONS if lever.WRITES_ON.kind == NODES.kind)

log = structlog.get_logger()

Writes = AsyncIterator[tuple[LeverWrite, ...]]
"""The writes of one object at a time, in their order."""


class _Spec(msgspec.Struct, frozen=True):
    nodes: LabelSelector = LabelSelector()
    levers: Levers = Levers()


class ThrottleLevers(msgspec.Struct, frozen=True):
    """What a JoinThrottle calls its own; nothing else in it matters here, however wrong it is."""

    metadata: Metadata
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class Throttles:
    """All JoinThrottles, and those whose levers cannot be read."""

    readable: tuple[ThrottleLevers, ...] = ()
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True, slots=True)
class GivenBack:
    """How it went."""

    done: int = 0
    """Objects that were given back; in a dry run, that would have been."""
    problems: tuple[str, ...] = ()
    """What still holds, or could not be looked at, and why."""
    is_stopped: bool = False
    """Whether `may_go_on` said no: somebody renews again, and what is in force is theirs."""

    @property
    def is_all(self) -> bool:
        """Whether nothing of ours holds anything back any more."""
        return not self.problems and not self.is_stopped


async def _always() -> bool:
    return True


async def restore_all(
    client: KubeClient,
    *,
    may_go_on: MayGoOn | None = None,
    lease: str | None = "",
    lets_nodes_go: bool = False,
    is_dry_run: bool = False,
    gone: Iterable[JoinThrottle] = (),
) -> GivenBack:
    """Give back ceilings, taints and labels, gates, in this order: by how much they hurt.

    `may_go_on` is asked before every write. `lease` (`namespace/name`) leaves alone what another Lease keeps in force;
    None leaves nothing alone.
    `lets_nodes_go` takes off what keeps nodes warm as well, at the end. `gone` are throttles that the API server does
    not know any more: their keys find the taints and labels that they left.
    Never raises ApiError: what fails is in `problems`, and the rest goes on.
    """
    may_go_on = may_go_on or _always
    giving = _Giving(client, may_go_on, lease, gone, lets_nodes_go=lets_nodes_go, is_dry_run=is_dry_run)
    passes = AsyncRetrying(
        retry=retry_if_result(bool),
        stop=stop_after_attempt(PASSES),
        wait=wait_random_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S),
        retry_error_callback=lambda _: True,
    )
    await passes(giving.run)
    return GivenBack(giving.done, tuple(giving.problems), giving.is_stopped)


class _Giving:
    """One call of `restore_all`; problems are those of the last pass."""

    def __init__(
        self,
        client: KubeClient,
        may_go_on: MayGoOn,
        lease: str | None,
        gone: Iterable[JoinThrottle],
        *,
        lets_nodes_go: bool,
        is_dry_run: bool,
    ) -> None:
        self._client = client
        self._writer = LeverWriter(client)
        self._may_go_on = may_go_on
        self._lease = lease
        self._gone = tuple(
            ThrottleLevers(throttle.metadata, _Spec(throttle.spec.nodes, throttle.spec.levers)) for throttle in gone
        )
        self._lets_nodes_go = lets_nodes_go
        self._is_dry_run = is_dry_run
        self._room = asyncio.Semaphore(AT_ONCE)
        self.done = 0
        self.problems: list[str] = []
        self.is_stopped = False
        self._must_repeat = False

    async def run(self) -> bool:
        """One pass over everything; True if another may do more."""
        self.problems, self._must_repeat = [], False
        async with asyncio.TaskGroup() as giving:
            for lever in CEILINGS:
                await self._each(f"{lever.WRITES_ON.kind}s", ceilings(self._client, lever, self._lease), giving)
            throttles = await self._throttles()
            await self._each("node taints and labels", node_marks(self._client, throttles), giving)
            await self._each("scheduling gates", gates(self._client), giving)
            if self._lets_nodes_go:
                await self._each("nodes that are kept", kept_nodes(self._client), giving)
        return self._must_repeat and not self.is_stopped

    async def _throttles(self) -> Throttles:
        if self.is_stopped:
            return Throttles()
        try:
            throttles = await read_throttles(self._client)
        except ApiError as error:
            self.problems.append(f"JoinThrottles could not be read: {error.message}")
            return Throttles(self._gone)
        self.problems += [f"JoinThrottle {unread.key[1]} cannot be read: {unread.why}" for unread in throttles.skipped]
        return Throttles((*throttles.readable, *self._gone), throttles.skipped)

    async def _each(self, what: str, pages: Writes, giving: asyncio.TaskGroup) -> None:
        """Begin to give all of them back, as far as there is room; nothing once somebody renews again."""
        if self.is_stopped:
            return
        try:
            async for writes in pages:
                if writes and not await self._begin(writes, giving):
                    return
        except ApiError as error:
            self.problems.append(f"{what} could not be read: {error.message}")

    async def _begin(self, writes: tuple[LeverWrite, ...], giving: asyncio.TaskGroup) -> bool:
        """Begin with one object as soon as there is room; False once somebody renews again."""
        await self._room.acquire()
        giving.create_task(self._give(writes))
        return not self.is_stopped

    async def _give(self, writes: tuple[LeverWrite, ...]) -> None:
        """Give one object back, and make room for the next."""
        try:
            if self.is_stopped or not await self._may_go_on():
                self.is_stopped = True
            else:
                await self._write(writes)
        finally:
            self._room.release()

    async def _write(self, writes: tuple[LeverWrite, ...]) -> None:
        name = f"{writes[0].kind} {writes[0].key}"
        if self._is_dry_run:
            log.info("would give back", object=name, because=writes[0].because.code)
            self.done += 1
            return
        results = await self._writer.carry_out(writes)
        last = results[-1]
        if last.outcome in (LeverWriteOutcome.DONE, LeverWriteOutcome.GONE):
            log.info("gave back", object=name, because=writes[0].because.code)
            self.done += 1
        else:
            self._must_repeat |= last.outcome is LeverWriteOutcome.CONFLICT
            self.problems.append(f"{name}: {last.message or last.outcome.value}")


async def read_throttles(client: KubeClient) -> Throttles:
    """What there is; none where the kind is not served. Raises ApiError."""
    readable: list[ThrottleLevers] = []
    skipped: list[Skipped] = []
    try:
        async for page in client.pages(THROTTLES, ThrottleLevers):
            readable += page.items
            skipped += page.skipped
    except NotFoundError:
        return Throttles()
    return Throttles(tuple(readable), tuple(skipped))


async def ceilings(client: KubeClient, lever: CeilingLever[Any, Any, Any], lease: str | None) -> Writes:
    """Objects whose ceiling is in force by this Lease, or by none; where `lease` is None, by whichever.

    Raises UndecodableError in the end where the user's values cannot be read off one of them.
    """
    broken: list[str] = []
    async for thing in _marked(client, lever):
        if lease is None or is_held_by(lease, thing.metadata.annotations):
            broken += [thing.metadata.name] if is_unreadable(thing.metadata) else []
            yield restore(thing)
    if broken:
        names = ", ".join(sorted({*broken})[:NAMED])
        raise UndecodableError(f"the annotation {ORIGINAL_ANNOTATION} says nothing on {names}; its ceiling stays")


async def _marked(client: KubeClient, lever: CeilingLever[Any, Any, Any]) -> AsyncIterator[Any]:
    """Objects that a throttle changed or made, in the newest version that is served; none where there is none.

    Each version shows all of them: one that is being deleted would be deleted again.
    """
    for resource in resources_of(lever.WRITES_ON):
        try:
            async for items in _pages(client, resource, lever.OBJECTS, Selection(labels=THROTTLE_LABEL)):
                for item in items:
                    # Items of a list do not say which version they are of.
                    yield msgspec.structs.replace(item, api_version=resource.api_version)
        except NotFoundError:
            continue
        return


async def _pages(
    client: KubeClient, resource: Resource, wire: type[W], selection: Selection = EVERYTHING
) -> AsyncIterator[list[W]]:
    """The readable items, page by page; in the end UndecodableError names those that are not."""
    skipped: list[Skipped] = []
    async for page in client.pages(resource, wire, selection):
        yield page.items
        skipped += page.skipped
    if skipped:
        names = ", ".join(f"{unreadable.key[1]} ({unreadable.why})" for unreadable in skipped[:NAMED])
        raise UndecodableError(f"{len(skipped)} {resource.plural} cannot be read: {names}")


async def node_marks(client: KubeClient, throttles: Throttles) -> Writes:
    """Nodes that bear a startup taint of ours, or lack our label."""
    stated = [lever.settings(throttle.spec.levers) for throttle in throttles.readable for lever in _AT_THE_JOIN]
    if not any(stated):
        return
    async for nodes in _nodes(client):
        for throttle in throttles.readable:
            for write in _of_nodes(throttle, nodes):
                yield (write,)


async def kept_nodes(client: KubeClient) -> Writes:
    """Nodes that a pool of strategy Annotate keeps, whichever: no autoscaler would ever remove them again."""
    async for nodes in _nodes(client):
        for node in nodes:
            if HELD_BY_ANNOTATION in node.annotations:
                yield (_let_go(node),)


def _let_go(node: Node) -> LeverWrite:
    annotations = dict.fromkeys(KEPT_ANNOTATIONS)
    return LeverWrite(
        api_version="v1",
        kind="Node",
        key=ObjectKey("", node.name),
        how=How.MERGE,
        body={"metadata": {"resourceVersion": node.resource_version, "annotations": annotations}},
        because=because(LeverReason.STOPPING),
    )


async def gates(client: KubeClient) -> Writes:
    """Pods with our gate, whether any throttle looks after them or not: nobody else takes it off."""
    shared = Shared()
    async for items in _pages(client, PODS, PodWire, WITHOUT_NODE):
        for write in SCHEDULING_GATES.let_all_in([pod_from_wire(without_requests(wire), shared) for wire in items]):
            yield (write,)


def _of_nodes(throttle: ThrottleLevers, nodes: Iterable[Node]) -> Iterable[LeverWrite]:
    own = [node for node in nodes if matches(throttle.spec.nodes, node.labels)]
    for lever in _AT_THE_JOIN:
        settings = lever.settings(throttle.spec.levers)
        yield from () if settings is None else lever.let_all_in(own, settings)


async def _nodes(client: KubeClient) -> AsyncIterator[list[Node]]:
    shared = Shared()
    async for items in _pages(client, NODES, NodeWire):
        yield [_bare_node(wire, shared) for wire in items]


def _bare_node(wire: NodeWire, shared: Shared) -> Node:
    """Without its size, which nobody asks for here and which may be unreadable."""
    status = msgspec.structs.replace(wire.status, allocatable=msgspec.Raw(b"{}"))
    return node_from_wire(msgspec.structs.replace(wire, status=status), shared)


DRAIN_S = 1.0
"""How long writes under way may take to finish on a stop: a write takes milliseconds, and a successor waits."""
LOOK_S = 1.5
"""The longest that the look at our own Deployment may take on a stop."""
GIVE_BACK_S = 12.0
"""The longest that giving everything back may take on a stop: what is left is the guard's. With all that comes before
and after it stays below the 30 s after which a kubelet kills."""
GIVE_BACK_PER_S, GIVE_BACK_BURST = 50.0, 100
"""Calls of its own: thousands of nodes may be held, and nobody paces us then."""

LOOK_AGAIN_S = 60.0
"""Until leftovers that could not be given back are tried again."""

Drain = Callable[[float], Awaitable[None]]


class _Wanted(msgspec.Struct, frozen=True):
    replicas: int = 1


class _OwnDeployment(msgspec.Struct, frozen=True):
    """Whether replicas of ours are wanted, which is all that matters here."""

    metadata: Metadata
    spec: _Wanted = _Wanted()


class InForce:
    """What is held in the name of the Lease. `elector` is None in a dry run, which holds nothing.

    `deployment` is our own, in the namespace of the Lease; empty where the service is run in another way.
    """

    def __init__(self, connection: Connection, elector: Elector | None, deployment: str = "") -> None:
        self._connection = connection
        self._elector = elector
        self._deployment = deployment
        self._is_needed = False
        self._has_held = False
        self._swept = 0
        """The epoch under which leftovers were looked for since there is no throttle."""
        self._sweep: asyncio.Task[None] | None = None

    @property
    def lease(self) -> str:
        """`namespace/name`; empty where nothing is held."""
        return self._elector.lease if self._elector is not None else ""

    @property
    def epoch(self) -> int:
        """The leadership under which is held; 0 where nothing is."""
        return self._elector.epoch if self._elector is not None else 0

    def follow(self, *, is_needed: bool) -> None:
        """Told at each tick whether a throttle exists, or has something left to give back: only then is anything held.

        What is left of the last one after that, nobody gives back by itself: its caches have ended, and the guard sees
        a Lease that is renewed. So a leader that finds no throttle looks for it once, on the server, and gives back
        what another installation has left, too: there is no throttle in whose name anything could be in force.
        """
        self._is_needed = is_needed
        self._has_held |= is_needed
        elector = self._elector
        if is_needed:
            self._swept = 0
        if elector is None or is_needed or self._swept == elector.epoch or not elector.may_write():
            return
        self._swept = elector.epoch
        self._end_sweep()
        self._sweep = asyncio.create_task(self._give_back_leftovers(elector), name="leftovers of deleted throttles")

    def _end_sweep(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()

    def saw(self, things: Iterable[LimitedObject]) -> None:
        """Objects that levers move. Where one names our Lease and a higher epoch, the Lease was removed since; epochs
        never go down, so ours is raised above it with the next renewal."""
        notes = [thing.metadata.annotations for thing in things]
        newest = max((epoch_of(note) for note in notes if note.get(HOLDER_ANNOTATION) == self.lease), default=0)
        if self._elector is not None and newest > self._elector.epoch:
            self._elector.outgrow(newest)

    async def stop(self, drain: Drain, *, may_hand_over: bool = False, gone: Collection[JoinThrottle] = ()) -> None:
        """Let writes finish; then hand over what is in force, or give it back while the Lease is still ours.

        With throttles that are `gone` it is given back: only we know what they left.

        It is handed over only when our Deployment stays and another replica was seen to take the Lease. That one is
        answerable from then on, also when it is told to stop a moment later. So the last one gives back.

        A replica that stands by holds nothing, and what a leader that lost its Lease held is its successor's.
        """
        elector = self._elector
        self._end_sweep()
        if elector is not None:
            await elector.retire()
        await drain(DRAIN_S)
        if elector is None or not self._has_held or not elector.may_write():
            return
        if may_hand_over and not gone and await self._is_wanted(elector) and await elector.hand_over():
            log.info("handed over", lease=elector.lease)
            return
        if not elector.may_write():
            log.warning("nothing given back, for the Lease could not be taken back", rest="the guard's")
            return

        async def is_leader() -> bool:
            return elector.may_write()

        try:
            async with asyncio.timeout(GIVE_BACK_S):
                await self._give_back(elector, elector.lease, is_leader, gone)
        except TimeoutError:
            log.warning("giving back took too long", limit_s=GIVE_BACK_S, rest="the guard's")

    async def _is_wanted(self, elector: Elector) -> bool:
        """Whether our Deployment stays and wants replicas; False when that cannot be found out in time.

        It is listed by its name: the right to list Deployments is there anyway.
        """
        if not self._deployment or elector.is_alone:
            return False
        namespace = elector.lease.partition("/")[0]
        selection = Selection(namespace=namespace, fields=f"metadata.name={self._deployment}")
        try:
            async with asyncio.timeout(LOOK_S), open_client(self._connection, "hand-over") as client:
                deployments = [
                    deployment
                    async for page in client.pages(DEPLOYMENTS, _OwnDeployment, selection)
                    for deployment in page.items
                ]
        except (ApiError, TimeoutError) as error:
            log.warning("own Deployment not seen", name=self._deployment, problem=str(error) or "no answer in time")
            return False
        return any(
            deployment.metadata.deletion_timestamp is None and deployment.spec.replicas > 0
            for deployment in deployments
        )

    async def _give_back_leftovers(self, elector: Elector) -> None:
        """Until all is given back, a throttle appears, or another replica leads."""

        async def may_go_on() -> bool:
            return elector.may_write() and not self._is_needed

        while await may_go_on():
            try:
                if (await self._give_back(elector, None, may_go_on)).is_all:
                    return
            except Exception:
                # Nobody awaits this task, and nobody else gives these back.
                log.exception("leftovers not given back", again_in_s=LOOK_AGAIN_S)
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _give_back(
        self, elector: Elector, lease: str | None, may_go_on: MayGoOn, gone: Iterable[JoinThrottle] = ()
    ) -> GivenBack:
        gate = CeilingGate(GIVE_BACK_PER_S, burst=GIVE_BACK_BURST)
        async with open_client(self._connection, "give-back", gate=gate, may_send=elector.may_write) as client:
            restored = await restore_all(client, lease=lease, may_go_on=may_go_on, gone=gone)
        log.info("gave everything back", objects=restored.done, problems=list(restored.problems))
        return restored
