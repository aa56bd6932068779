"""The guard: gives everything back when nobody renews, and does nothing else.

It shares no memory, no connection and no fate with the service. Starting anew costs it the time for which it had been
watching, never more. While the Lease stays silent it looks again and again: nodes go on registering with the startup
taint, and pods go on being made with the gate, after the service has died. Its metrics show that it lives.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from throttler.kube.election import LeaseSpec, LeaseWatch
from throttler.kube.errors import ApiError, NotFoundError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.lease import ABSENT, LEASE_NAME, Lease
from throttler.kube.requests import LEASES
from throttler.service.restore_all import GivenBack, restore_all

AGAIN_PERIODS = 12.0
"""Periods between two looks for leftovers while nobody renews: lists of every node must not load a cluster in need."""
FIRST_AGAIN_PERIODS = 1.0
"""What could not be given back is tried again at the next look, and less and less often while nothing changes."""

STUCK_S = 600.0
"""Without a sign of progress for so long, a restart is worth the time of watching that it costs. Between two signs lies
one read, one write, or the lists of one look, which a busy API server may draw out over minutes."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """Whose Lease is watched, and with how much patience."""

    namespace: str
    name: str = LEASE_NAME
    after_s: float = 100.0
    """Silence after which everything is given back; with the reads and the writes it is done within 120 s."""
    period_s: float = 5.0
    """How often the Lease is read."""
    is_once: bool = False
    """Whether to end as soon as the Lease moves, or everything has been given back."""
    is_dry_run: bool = False
    waits_for_silence: bool = False
    """Whether `is_once` goes on while somebody renews, and while anything is left: the service was told to stop."""
    lets_nodes_go: bool = False
    """Whether nodes that pools keep by annotations are let go as well: warm capacity is to outlive an outage."""
    give_up_s: float | None = None
    """How long `is_once` goes on at the longest; None: three times `after_s`."""

    @property
    def lease(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def once_timeout_s(self) -> float:
        """How long `is_once` goes on while the Lease can be neither read nor trusted."""
        return 3 * self.after_s if self.give_up_s is None else self.give_up_s


class GuardMetrics:
    """What a guard shows of itself; a registry of its own, because it shares nothing with the service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reads = Counter(
            "kube_balloons_guard_lease_reads",
            "Reads of the service's Lease by the guard: read, or failed. An absent Lease counts as read.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("read", "failed"):
            self._reads.labels(outcome)
        self._silent = self._gauge("lease_silent_seconds", "How long every read has shown the same Lease.")
        self._left = self._gauge(
            "left_objects", "Objects that the last round could not give back. They still hold something back."
        )
        self._given = Counter(
            "kube_balloons_guard_given_back_objects",
            "Objects that the guard gave back; in a dry run, that it would have.",
            registry=self.registry,
        )

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"kube_balloons_guard_{name}", text, registry=self.registry)

    def looked(self, watch: LeaseWatch) -> None:
        """The Lease was read, or could not be."""
        self._reads.labels("read" if watch.is_fresh else "failed").inc()
        self._silent.set(watch.silent_s())

    def gave_back(self, outcome: GivenBack) -> None:
        """One round of giving back has ended."""
        self._given.inc(outcome.done)
        self._left.set(len(outcome.problems))

    def renewed(self) -> None:
        """Somebody renews again: what is in force is theirs."""
        self._left.set(0)


class Guard:
    """One guard. `lease_client` has connections of its own; `client` makes the lists and writes, at its own ceiling."""

    def __init__(
        self, lease_client: KubeClient, client: KubeClient, settings: GuardSettings, clock: Callable[[], float]
    ) -> None:
        self._lease_client = lease_client
        self._client = client
        self._settings = settings
        self._clock = clock
        self._watch = LeaseWatch(settings.period_s)
        self._told = ""
        self._given = GivenBack()
        self._gave_at = -math.inf
        self._again_periods = FIRST_AGAIN_PERIODS
        self._progress_at = clock()
        self._unreadable = "not read yet"
        self.metrics = GuardMetrics()

    def not_alive(self) -> str:
        """Why it should be started anew; empty while it makes progress."""
        stuck_s = self._clock() - self._progress_at
        return f"no progress for {stuck_s:.0f} s" if stuck_s > STUCK_S else ""

    def not_ready(self) -> str:
        """Why it would not notice that the service has died; empty while it reads the Lease."""
        return "" if self._watch.is_fresh else f"lease {self._settings.lease}: {self._unreadable}"

    async def run(self, stop: asyncio.Event) -> bool:
        """Watch until `stop`, or once; returns whether it ended well: nothing of ours was knowingly left behind."""
        begun_at = self._clock()
        while not stop.is_set():
            looked_at = self._clock()
            await self._look()
            if self._is_due():
                await self._give_back()
            ended = self._ended(begun_at) if self._settings.is_once else None
            if ended is not None:
                return ended
            await self._rest(stop, looked_at + self._settings.period_s)
        return self._given.is_all

    def _is_due(self) -> bool:
        """Whether to give back now: nobody renews, and the last time is long enough ago."""
        if not self._watch.is_abandoned(self._settings.after_s):
            return False
        return self._clock() - self._gave_at >= self._again_periods * self._settings.period_s

    def _next_again_periods(self, restored: GivenBack) -> float:
        """How long to wait after this round: a minute after all is done, up to a minute while the same is left."""
        if restored.is_all:
            return AGAIN_PERIODS
        is_stuck = not restored.done and not restored.is_stopped and _left(restored) == _left(self._given)
        return min(AGAIN_PERIODS, 2 * self._again_periods) if is_stuck else FIRST_AGAIN_PERIODS

    def _ended(self, begun_at: float) -> bool | None:
        """For `is_once`: how it ended, or None while it goes on."""
        has_tried = self._gave_at > begun_at
        if self._settings.waits_for_silence:
            is_over = has_tried and self._given.is_all
        else:
            is_over = has_tried or self._watch.is_moving
        if is_over:
            return self._given.is_all or self._given.is_stopped
        if self._clock() - begun_at > self._settings.once_timeout_s:
            self._tell_end()
            return False
        return None

    def _tell_end(self) -> None:
        """Why it gave up."""
        told = {"lease": self._settings.lease, "holder": self._watch.face.holder_identity if self._watch.face else None}
        if not self._watch.is_fresh:
            log.error("lease could not be watched", **told)
        elif self._given.problems:
            log.error("not all could be given back", left=list(self._given.problems), **told)
        else:
            log.error("somebody still renews", **told)

    async def _rest(self, stop: asyncio.Event, until: float) -> None:
        try:
            await asyncio.wait_for(stop.wait(), max(0.0, until - self._clock()))
        except TimeoutError:
            return

    async def _look(self) -> None:
        try:
            face = await self._read()
        except ApiError as error:
            self._watch = self._watch.failed()
            self._unreadable = error.message
            self._tell("unreadable", problem=error.message)
        else:
            self._watch = self._watch.read(face, self._clock())
        self._progress_at = self._clock()
        self.metrics.looked(self._watch)
        if self._watch.is_moving:
            self.metrics.renewed()
            self._tell("renewed", holder=(self._watch.face or ABSENT).holder_identity or "")

    async def _read(self) -> LeaseSpec:
        """The Lease as it is on the server; raises ApiError."""
        try:
            body = await self._lease_client.get(LEASES, self._settings.name, self._settings.namespace)
        except NotFoundError:
            return ABSENT
        return decode(body, Lease).spec

    async def _is_still_abandoned(self) -> bool:
        """Read anew before every write: from the moment somebody renews, what is in force is theirs."""
        self._progress_at = self._clock()
        try:
            return await self._read() == self._watch.face
        except ApiError:
            return False

    async def _give_back(self) -> None:
        self._tell("abandoned", silent_s=round(self._watch.silent_s(), 1))
        restored = await restore_all(
            self._client,
            may_go_on=self._is_still_abandoned,
            lease=self._settings.lease,
            lets_nodes_go=self._settings.lets_nodes_go,
            is_dry_run=self._settings.is_dry_run,
        )
        if restored.done or restored.problems or restored.is_stopped:
            left, is_renewed = list(restored.problems), restored.is_stopped
            log.warning("gave back", objects=restored.done, left=left, renewed_meanwhile=is_renewed)
        self._again_periods = self._next_again_periods(restored)
        self._given, self._gave_at = restored, self._clock()
        self.metrics.gave_back(restored)

    def _tell(self, state: str, **detail: object) -> None:
        """One line whenever the state changes."""
        if state != self._told:
            self._told = state
            log.info(f"lease {state}", lease=self._settings.lease, **detail)


def _left(restored: GivenBack) -> frozenset[str]:
    """What still holds, without the server's words about it, which may differ each time."""
    return frozenset(problem.partition(":")[0] for problem in restored.problems)
