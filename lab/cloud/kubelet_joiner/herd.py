"""Many joiners in one event loop: each joins once its gate opens, and lives on until it is stopped."""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from lab.cloud.kubelet_joiner.client import Connection, NodeClient, Turns
from lab.cloud.kubelet_joiner.credentials import CertificateOf, Credentials
from lab.cloud.kubelet_joiner.joiner import Joiner, end
from lab.cloud.kubelet_joiner.settings import JoinerSettings, JoinRecord
from lab.controlplane.credentials import ApiAccess
from lab.errors import LabError

MOST_FILES = 65_536
"""Each watch has a connection of its own, five to seven per node; a shell mostly allows a process 1,024 files."""
Admit = Callable[[str], Awaitable[None]]
"""Returns when the node of that name may begin to join."""


class Herd:
    """The joiners of one control plane; an async context manager that leaves no task and no connection behind.

    `accesses` are administrators' (they impersonate the nodes), one per API server: joiners are dealt to them in
    turn and stay there. With `certificate_of` each node shows a client certificate and has connections of its own,
    to the server that this names. `admit` is awaited before a join begins: pace herds there.
    """

    def __init__(
        self, *accesses: ApiAccess, admit: Admit | None = None, certificate_of: CertificateOf | None = None
    ) -> None:
        if not accesses:
            raise LabError("a herd needs the access of at least one API server")
        self._accesses = accesses
        self._admit = admit
        self._certificate_of = certificate_of
        self._stack = AsyncExitStack()
        self._credentials: list[Credentials] = []
        self._administrator: NodeClient | None = None
        self._dealt = 0
        self._lives: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        _allow_many_files()
        for access in self._accesses:
            shared = await self._stack.enter_async_context(Connection(access))
            self._credentials.append(Credentials(shared, access, self._certificate_of))
            if self._administrator is None:
                now = asyncio.get_running_loop().time()
                self._administrator = NodeClient(shared, {}, Turns(1000.0, 1000, now))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(*self._lives)
        await self._stack.aclose()

    def __len__(self) -> int:
        return len(self._lives)

    async def join(self, settings: JoinerSettings) -> JoinRecord:
        """Join one node and return when its join is done, or given up after its deadline; the node lives on."""
        if settings.name in self._lives:
            raise LabError(f"joiner {settings.name} runs already")
        clock = asyncio.get_running_loop().time
        requested_s = clock()
        if self._admit is not None:
            await self._admit(settings.name)
        life = _Life(settings, self._next_credentials(), admitted_s=clock())
        task = self._lives[settings.name] = asyncio.create_task(life.run(), name=f"joiner-{settings.name}")
        await life.until_done(task)
        return life.record(requested_s)

    async def join_all(self, settings: Iterable[JoinerSettings]) -> Sequence[JoinRecord]:
        """Join all of them, as fast as the gate lets them; the records are in the order of the settings."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.join(one)) for one in settings]
        return [task.result() for task in tasks]

    async def stop(self, *names: str) -> None:
        """Let machines die: no more heartbeats, their Nodes stay and become NotReady after the grace period."""
        await asyncio.gather(*(end(self._lives.pop(name)) for name in names))

    async def remove(self, *names: str) -> None:
        """Remove machines as a cloud does: end them and delete their Nodes."""
        await self.stop(*names)
        await asyncio.gather(*(self._delete_node(name) for name in names))

    def _next_credentials(self) -> Credentials:
        self._dealt += 1
        return self._credentials[(self._dealt - 1) % len(self._credentials)]

    async def _delete_node(self, name: str) -> None:
        if self._administrator is None:
            raise LabError("the herd is used outside its `async with`")
        answer = await self._administrator.send("DELETE", f"/api/v1/nodes/{name}", is_read=True)
        if not answer.is_ok and answer.status != 404:
            raise LabError(f"Node {name} cannot be deleted: {answer.status} {answer.body[:300]!r}")


def _allow_many_files() -> None:
    """As many as this process may allow itself, as Go's programs do; a herd that runs out of them tries for ever."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


class _Life:
    """One joiner from its admission to its end, its connections included."""

    def __init__(self, settings: JoinerSettings, credentials: Credentials, admitted_s: float) -> None:
        self._settings = settings
        self._credentials = credentials
        self._admitted_s = admitted_s
        self._bootstrap_attempts: Counter[int] = Counter()
        self._client: NodeClient | None = None
        self._joiner: Joiner | None = None
        self._has_begun = asyncio.Event()

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            self._client = await self._credentials.client_of(self._settings, stack, self._bootstrap_attempts)
            self._joiner = Joiner(self._settings, self._client)
            self._has_begun.set()
            await self._joiner.run()

    async def until_done(self, task: asyncio.Task[None]) -> None:
        """Wait for the join; raises what ended the joiner's task, if something did."""
        done = asyncio.create_task(self._done())
        try:
            await asyncio.wait([done, task], timeout=self._settings.deadline_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(done)
        if task.done() and not task.cancelled():
            task.result()

    async def _done(self) -> None:
        await self._has_begun.wait()
        if self._joiner is not None:
            await self._joiner.milestones.is_done.wait()

    def record(self, requested_s: float) -> JoinRecord:
        steps = self._joiner.milestones if self._joiner else None
        attempts = self._bootstrap_attempts + (self._client.attempts if self._client else Counter())
        return JoinRecord(
            name=self._settings.name,
            requested_s=requested_s,
            admitted_s=self._admitted_s,
            registered_s=steps.registered_s if steps else None,
            ready_s=steps.ready_s if steps else None,
            daemons_ready_s=steps.daemons_ready_s if steps else None,
            attempts=dict(attempts),
            retries=self._client.retries if self._client else 0,
        )
