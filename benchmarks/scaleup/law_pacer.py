"""The product's own law at the gate: real scrapes of the real servers, `govern`, and nothing else."""

import asyncio
import contextlib
import statistics
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from lab.cloud.json_api import Json, JsonApi
from lab.cloud.kubelet_joiner import JoinRecord
from lab.controlplane import ApiAccess, ControlPlane
from lab.scaleup.cluster import DAEMON_SETS
from throttler.joins.count_joins import is_controller_bound
from throttler.joins.joins import Joins
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.law.govern import govern
from throttler.law.law_memory import LawMemory, Learned, learned_of
from throttler.law.settings import LawSettings
from throttler.law.verdict import Verdict
from throttler.scraping.settings_and_allowed_hosts import SourceSettings
from throttler.scraping.signal_watch import SignalWatch

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/kube-system/pods"
SCRAPE_EVERY_S = 5.0
LOOK_EVERY_S = 1.0
"""The service looks at every change of its caches and at every scrape; here, so often."""
IDLE_S = 12.0
"""How long the servers are watched before the machines come: two scrapes and more, as the service always has."""
RECENT = 20
"""The mean duration of a join is that of so many latest ones, as in throttler/joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One decision, for the table behind the figures."""

    at_s: float
    joining: int
    window: float
    index: float | None
    phase: str
    because: str


class LawPacer:
    """Machines are let in as the law admits them; `learned` is what an earlier scale-up left, None a cold start.

    Nodes and pods are only followed where the controller manager may be what binds (`has_slow_manager`): to decode
    thousands of pods keeps the loop busy that the machines share, which a service of its own would not do.
    """

    def __init__(self, plane: ControlPlane, learned: Learned | None = None, *, has_slow_manager: bool = False) -> None:
        self.name = "ours cold" if learned is None else "ours warm"
        self.looks: list[Look] = []
        self._plane = plane
        self._memory = LawMemory.start(learned)
        self._held: deque[asyncio.Event] = deque()
        self._held_since_s = asyncio.get_running_loop().time()
        self._joining = 0
        self._joined = 0
        self._index: float | None = None
        self._bare = BareNodes(asyncio.get_running_loop().time) if has_slow_manager else None
        self._recent_s: deque[float] = deque(maxlen=RECENT)

    @property
    def learned(self) -> Learned:
        """What would stand on the JoinThrottle's status now."""
        return learned_of(self._memory, asyncio.get_running_loop().time())

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Scrape and decide until left."""
        return self._work()

    async def enter(self, name: str) -> None:
        """When the law admits it; machines stand in line."""
        place = asyncio.Event()
        self._held.append(place)
        await place.wait()

    def leave(self, record: JoinRecord) -> None:
        """Its join is over."""
        self._joining -= 1
        self._joined += 1
        if record.joining_s is not None:
            self._recent_s.append(record.joining_s)

    @contextlib.asynccontextmanager
    async def _work(self) -> AsyncIterator[None]:
        kubeconfig = await asyncio.to_thread(self._plane.kubeconfig)
        connection = await load_connection(ConnectionOptions(kubeconfig=str(kubeconfig)))
        watch = SignalWatch(
            connection, SourceSettings(servers=tuple(self._plane.server_urls), interval_s=SCRAPE_EVERY_S)
        )
        tasks = [asyncio.create_task(job) for job in (watch.run(), self._look_for_ever(watch))]
        if self._bare is not None:
            tasks.append(asyncio.create_task(self._bare.follow(self._plane.access())))
        await asyncio.sleep(IDLE_S)
        self._held_since_s = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_for_ever(self, watch: SignalWatch) -> None:
        clock = asyncio.get_running_loop().time
        settings = LawSettings(has_gate=True)
        while True:
            now_s = clock()
            verdict, self._memory = govern(watch.signals(now_s), self._joins(now_s), self._memory, settings, now_s)
            self._index = verdict.index
            self._admit(verdict.admit)
            self._note(verdict, now_s)
            await asyncio.sleep(LOOK_EVERY_S)

    def _joins(self, now_s: float) -> Joins:
        return Joins(
            held=len(self._held),
            joining=self._joining,
            joined=self._joined,
            join_s=statistics.fmean(self._recent_s) if self._recent_s else None,
            oldest_held_s=now_s - self._held_since_s if self._held else 0.0,
            is_controller_bound=self._is_controller_bound(),
        )

    def _is_controller_bound(self) -> bool:
        return self._bare is not None and is_controller_bound(self._bare.waiting_s(), self._joining, self._index)

    def _admit(self, count: int) -> None:
        for _ in range(min(count, len(self._held))):
            self._held.popleft().set()
            self._joining += 1

    def _note(self, verdict: Verdict, now_s: float) -> None:
        self.looks.append(
            Look(
                at_s=round(now_s - self._held_since_s, 1),
                joining=self._joining,
                window=round(verdict.window, 1),
                index=None if verdict.index is None else round(verdict.index, 2),
                phase=verdict.phase.value,
                because=verdict.because.sentence,
            )
        )


class BareNodes:
    """Which nodes are Ready without their DaemonSet pods: what the service sees in its caches, by two watches.

    `clock` is monotonic; `wanted` is how many DaemonSet pods a node is to have.
    """

    def __init__(self, clock: Callable[[], float], wanted: int = DAEMON_SETS) -> None:
        self._clock = clock
        self._wanted = wanted
        self._ready_s: dict[str, float] = {}
        self._pods: dict[str, str] = {}

    def waiting_s(self) -> list[float]:
        """For how long each has been Ready without all of its pods."""
        there = Counter(self._pods.values())
        now_s = self._clock()
        return [now_s - since_s for name, since_s in self._ready_s.items() if there[name] < self._wanted]

    def saw_node(self, name: str, node: Json) -> None:
        """As it is now."""
        conditions = node.get("status", {}).get("conditions", ())
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            self._ready_s.setdefault(name, self._clock())

    def saw_pod(self, name: str, pod: Json) -> None:
        """One that has a node exists there."""
        if node := pod["spec"].get("nodeName"):
            self._pods[name] = node

    async def follow(self, access: ApiAccess) -> None:
        """Until cancelled."""
        async with JsonApi(access) as api, asyncio.TaskGroup() as group:
            for path, saw in ((NODES, self.saw_node), (PODS, self.saw_pod)):
                group.create_task(_follow(api, path, saw))


async def _follow(api: JsonApi, path: str, saw: Callable[[str, Json], None]) -> None:
    async for name, node in api.follow(path):
        if node is not None:
            saw(name, node)
