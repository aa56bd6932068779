"""The Lease by which a service says that it leads, and who takes it, renews it and lets it go.

Only its holder writes, and the guard watches it. The decisions are in election.py.

On connections of its own, past every gate, each attempt shorter than the time to the next, and only while decisions are
being made: a service that hangs must lose the Lease, and one under load must not.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec
import structlog

from throttler.kube.connection import Connection
from throttler.kube.election import (
    ATTEMPT_S,
    HAND_OVER_S,
    LEASE_S,
    NO_RECORD,
    RETRY_S,
    Election,
    ElectionStep,
    LeaseSpec,
    Record,
    next_step,
)
from throttler.kube.errors import ApiError, ConflictError, NotFoundError, UndecodableError
from throttler.kube.kube_client import AttemptObserver, KubeClient, decode, ignore_attempt, open_client
from throttler.kube.metadata import VersionMetadata
from throttler.kube.requests import LEASES

LEASE_NAME = "kube-balloons-throttle"
"""In the namespace of the service."""
RELEASED_S = 1
"""The duration in a Lease that was given up in order, as client-go writes it: one that somebody merely emptied keeps
another, and its leader may still be writing."""


class Lease(msgspec.Struct, frozen=True):
    """What is read of the object."""

    spec: LeaseSpec = LeaseSpec()
    metadata: VersionMetadata = VersionMetadata()


ABSENT = LeaseSpec()
"""No Lease: nobody renews it."""


@asynccontextmanager
async def open_lease_client(
    connection: Connection, *, observer: AttemptObserver = ignore_attempt
) -> AsyncIterator[KubeClient]:
    """A client for Lease traffic alone: own TCP connections, no gate, short attempts."""
    async with open_client(connection, "lease", observer=observer, timeout_s=ATTEMPT_S) as client:
        yield client


def record_in(body: bytes) -> Record:
    """A Lease as the server answered it; raises UndecodableError."""
    lease = decode(body, Lease)
    holder, spec = lease.spec.holder_identity or "", lease.spec
    return Record(
        version=lease.metadata.resource_version,
        holder=holder,
        transitions=max(0, spec.lease_transitions or 0),
        is_released=not holder and spec.lease_duration_seconds == RELEASED_S,
        stamp=spec.renew_time or "",
    )


def spec_of(holder: str, transitions: int, duration_s: float, *, is_acquired: bool = False) -> dict[str, Any]:
    """What is written of a Lease; the times are for people, and by the second one its writer knows it again."""
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    acquired = {"acquireTime": now} if is_acquired else {}
    spec: dict[str, Any] = {"holderIdentity": holder, "leaseDurationSeconds": int(duration_s), "renewTime": now}
    return {**spec, **acquired, "leaseTransitions": transitions}


RELEASES = 2
"""Attempts to let the Lease go, or to take it back: the first may meet a write of our own whose answer never came, or
have none itself."""
SUCCESSOR_LOOK_S = 0.4
"""How often a leader that hands over looks whether another has taken the Lease."""
STUNNED_SHARE = 0.1
"""The least rest between two looks, as a share of the usual time."""

log = structlog.get_logger()


def own_identity() -> str:
    """Who this process is among all replicas, restarts of its container included: a pid is 1 in every one of them."""
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


def boot_clock() -> float:
    """Seconds on a clock that goes on while the machine sleeps, where there is one: the Lease of a sleeper ends too."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectorSettings:
    """Where the Lease is, and in whose name it is held."""

    namespace: str
    identity: str = field(default_factory=own_identity)
    is_alone: bool = False
    """There is no other replica: take the Lease whatever it says. The guard needs it all the same."""


class Elector:
    """One candidate. `may_write` is the fence: to be asked right before every request that changes anything."""

    def __init__(
        self,
        client: KubeClient,
        settings: ElectorSettings,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._client = client
        self._settings = settings
        self._clock = clock
        self._random = Random()
        self._election = Election(identity=settings.identity)
        self._least_epoch = 0
        self._turn = asyncio.Lock()
        self._is_over = False
        self._is_retiring = False
        self._did_lead = False
        self._problem = ""

    @property
    def lease(self) -> str:
        """`namespace/name`, as objects that we change name it."""
        return f"{self._settings.namespace}/{LEASE_NAME}"

    @property
    def is_alone(self) -> bool:
        """Whether there are no other candidates."""
        return self._settings.is_alone

    @property
    def epoch(self) -> int:
        """The Lease's transitions under which we lead, or led last; 0 before the first time."""
        return self._election.epoch

    def may_write(self) -> bool:
        """Whether we lead for sure: nobody else can have taken the Lease by now."""
        return self._election.may_write(self._clock())

    def outgrow(self, epoch: int) -> None:
        """Objects say a higher epoch than ours, as after the Lease was removed: the next renewal goes beyond it."""
        self._least_epoch = max(self._least_epoch, epoch + 1)

    async def run(self, is_deciding: Callable[[], bool], on_change: Callable[[], None]) -> None:
        """Campaign for ever while `is_deciding`; `on_change` is called after each change of who leads."""
        while True:
            begun_at = self._clock()
            async with self._turn:
                await self._look(is_deciding)
            if self.may_write() != self._did_lead:
                self._did_lead = not self._did_lead
                on_change()
            rest_s = self._election.rest_s(begun_at, self._random.random())
            await asyncio.sleep(max(STUNNED_SHARE * RETRY_S, begun_at + rest_s - self._clock()))

    async def retire(self) -> None:
        """The first act of an orderly stop: who leads goes on, who does not will not begin to.

        Nobody could give back what is held in the name of a replica that takes the Lease on its way out.
        """
        async with self._turn:
            self._is_retiring = True
            if self._election.record is None or self._election.is_sure:
                return
            # A write of ours has an end that we do not know: if it took the Lease, we lead.
            with suppress(ApiError, TimeoutError):
                async with asyncio.timeout(ATTEMPT_S):
                    await self._read()
                    if self._holder == self._settings.identity:
                        await self._hold()

    async def hand_over(self) -> bool:
        """Let the Lease go and watch that another takes it; after `HAND_OVER_S` without one, take it back.

        True: another leads. False: nobody does, or we do again, as `may_write` says.
        """
        until_s = self._clock() + HAND_OVER_S
        async with self._turn:
            self._election = self._election.let_go()
            if await self._try_release():
                while self._clock() < until_s:
                    if await self._has_successor():
                        return True
                    await asyncio.sleep(SUCCESSOR_LOOK_S)
            return await self._take_back()

    async def release(self) -> None:
        """Let the Lease go, the last act of an orderly stop: from here on nothing of ours may be written."""
        async with self._turn:
            self._is_over = True
            self._election = self._election.let_go()
            await self._try_release()

    # --- one turn ---

    async def _look(self, is_deciding: Callable[[], bool]) -> None:
        """One turn; whatever goes wrong is logged when it changes, and tried again at the next."""
        was_leader = self._election.renewed_at_s is not None
        try:
            async with asyncio.timeout(ATTEMPT_S):
                await self._act(is_deciding)
            self._say("")
        except (ApiError, TimeoutError) as error:
            self._say(_words(error))
        self._step(is_deciding)
        self._tell(was_leader)

    async def _act(self, is_deciding: Callable[[], bool]) -> None:
        may_begin = is_deciding() and not self._is_retiring
        if self._is_over or (self._election.renewed_at_s is None and not may_begin):
            return
        if self._step(is_deciding) is not ElectionStep.RENEW or not self._election.is_sure:
            await self._read()
        step = self._step(is_deciding)
        if step in (ElectionStep.ACQUIRE, ElectionStep.RENEW):
            await self._hold()
        elif step is ElectionStep.PLACE:
            await self._write("", self._election.highest)

    def _step(self, is_deciding: Callable[[], bool]) -> ElectionStep:
        may_begin = self._election.renewed_at_s is not None or not self._is_retiring
        step = next_step(
            self._election,
            self._clock(),
            is_deciding=is_deciding() and may_begin,
            is_alone=self._settings.is_alone,
        )
        if step is ElectionStep.STEP_DOWN:
            self._election = self._election.stepped_down()
            return self._step(is_deciding)
        return step

    async def _read(self) -> None:
        try:
            record = record_in(await self._client.get(LEASES, LEASE_NAME, self._settings.namespace))
        except NotFoundError:
            record = NO_RECORD
        self._election = self._election.saw(record, self._clock())

    async def _hold(self) -> None:
        """Write ourselves in, or on. What counts is when the request was begun, not when it was answered."""
        begun_at = self._clock()
        body = await self._write(self._settings.identity, self._election.next_epoch(self._least_epoch))
        record = record_in(body)
        if record.holder != self._settings.identity:
            raise UndecodableError("the answer to our write of the Lease does not name us")
        self._election = self._election.wrote(record, begun_at)

    @property
    def _holder(self) -> str:
        return (self._election.record or NO_RECORD).holder

    async def _has_successor(self) -> bool:
        """Whether the Lease names somebody else now; an answer that does not come says nothing."""
        try:
            async with asyncio.timeout(ATTEMPT_S):
                await self._read()
        except (ApiError, TimeoutError):
            return False
        return self._holder not in ("", self._settings.identity)

    async def _take_back(self) -> bool:
        """Lead again, unless another does: True then. What is written names the version that was read."""
        for _ in range(RELEASES):
            if await self._has_successor():
                return True
            with suppress(ApiError, TimeoutError):
                async with asyncio.timeout(ATTEMPT_S):
                    await self._hold()
                return False
        return await self._has_successor()

    async def _try_release(self) -> bool:
        problem: ApiError | TimeoutError | None = None
        for _ in range(RELEASES):
            try:
                async with asyncio.timeout(ATTEMPT_S):
                    if await self._let_go():
                        return True
            except (ApiError, TimeoutError) as error:
                problem = error
        if problem is not None:
            log.warning("lease not released", lease=self.lease, problem=_words(problem))
        return False

    async def _let_go(self) -> bool:
        """Whether the Lease is nobody's, or somebody else's, now."""
        await self._read()
        if self._holder != self._settings.identity:
            return True
        try:
            await self._write("", self._election.highest, RELEASED_S)
        except ConflictError:
            return False
        return True

    async def _write(self, holder: str, transitions: int, duration_s: float | None = None) -> bytes:
        """The Lease, provided that it is still as it was read; raises ConflictError, and any other ApiError."""
        settings, record = self._settings, self._election.record or NO_RECORD
        is_acquired = bool(holder) and record.holder != holder
        spec = spec_of(holder, transitions, duration_s or LEASE_S, is_acquired=is_acquired)
        self._election = self._election.writing(spec["renewTime"] if holder else "", self._clock())
        if record.version:
            body = {"metadata": {"resourceVersion": record.version}, "spec": spec}
            return await self._client.patch(LEASES, body, LEASE_NAME, settings.namespace)
        metadata = {"name": LEASE_NAME, "namespace": settings.namespace}
        lease = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        return await self._client.create(LEASES, lease, settings.namespace)

    # --- what is told ---

    def _say(self, problem: str) -> None:
        """One line when it begins to fail, and one when it no longer does."""
        if problem and problem != self._problem:
            log.warning("lease trouble", lease=self.lease, problem=problem)
        if self._problem and not problem:
            log.info("lease trouble is over", lease=self.lease)
        self._problem = problem

    def _tell(self, was_leader: bool) -> None:
        is_leader = self._election.renewed_at_s is not None
        if is_leader and not was_leader:
            log.info("leading", lease=self.lease, identity=self._settings.identity, epoch=self.epoch)
        if was_leader and not is_leader:
            log.warning("no longer leading", lease=self.lease, identity=self._settings.identity)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, ApiError) else "no answer in time"
