"""Giving everything back at once: by the service when it stops, by the guard when nobody renews."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from throttler.kube.errors import ApiError
from throttler.kube.kube_client import KubeClient
from throttler.levers.lever import LeverWrite
from throttler.service.leftovers import (
    Throttles,
    Writes,
    gates,
    kept_nodes,
    node_marks,
    node_pools,
    quotas,
    read_throttles,
)
from throttler.service.lever_writer import LeverWriter, WriteOutcome

PASSES = 3
"""An object that changed meanwhile (409) is read again so many times in all; after that the next call does it."""

MayGoOn = Callable[[], Awaitable[bool]]

log = structlog.get_logger()


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


async def give_back_all(
    client: KubeClient,
    *,
    may_go_on: MayGoOn | None = None,
    lease: str = "",
    lets_nodes_go: bool = False,
    is_dry_run: bool = False,
) -> GivenBack:
    """Give back ceilings, taints and labels, gates, in this order: by how much they hurt.

    `may_go_on` is asked before every write. `lease` (`namespace/name`) leaves alone what another Lease keeps in force.
    `lets_nodes_go` takes off what keeps nodes warm as well, at the end.
    Never raises ApiError: what fails is in `problems`, and the rest goes on.
    """
    giving = _Giving(client, may_go_on or _always, lease, lets_nodes_go=lets_nodes_go, is_dry_run=is_dry_run)
    for _ in range(PASSES):
        await giving.run()
        if giving.is_stopped or not giving.must_repeat or is_dry_run:
            break
    return GivenBack(giving.done, tuple(giving.problems), giving.is_stopped)


class _Giving:
    """One call of `give_back_all`; problems are those of the last pass."""

    def __init__(
        self, client: KubeClient, may_go_on: MayGoOn, lease: str, *, lets_nodes_go: bool, is_dry_run: bool
    ) -> None:
        self._client = client
        self._writer = LeverWriter(client)
        self._may_go_on = may_go_on
        self._lease = lease
        self._lets_nodes_go = lets_nodes_go
        self._is_dry_run = is_dry_run
        self.done = 0
        self.problems: list[str] = []
        self.is_stopped = False
        self.must_repeat = False

    async def run(self) -> None:
        """One pass over everything."""
        self.problems, self.must_repeat = [], False
        await self._each("CapacityQuotas", quotas(self._client, self._lease))
        await self._each("NodePools", node_pools(self._client, self._lease))
        throttles = await self._throttles()
        await self._each("node taints and labels", node_marks(self._client, throttles))
        await self._each("scheduling gates", gates(self._client))
        if self._lets_nodes_go:
            await self._each("nodes that are kept", kept_nodes(self._client))

    async def _throttles(self) -> Throttles:
        if self.is_stopped:
            return Throttles()
        try:
            throttles = await read_throttles(self._client)
        except ApiError as error:
            self.problems.append(f"JoinThrottles could not be read: {error.message}")
            return Throttles()
        self.problems += [f"JoinThrottle {each.key[1]} cannot be read: {each.why}" for each in throttles.skipped]
        return throttles

    async def _each(self, what: str, found: Writes) -> None:
        if self.is_stopped:
            return
        try:
            async for writes in found:
                if writes and not await self._give(writes):
                    return
        except ApiError as error:
            self.problems.append(f"{what} could not be read: {error.message}")

    async def _give(self, writes: tuple[LeverWrite, ...]) -> bool:
        """Give one object back; False once somebody renews again."""
        if not await self._may_go_on():
            self.is_stopped = True
            return False
        name = f"{writes[0].kind} {writes[0].key}"
        if self._is_dry_run:
            log.info("would give back", object=name, because=writes[0].because.code)
            self.done += 1
            return True
        results = await self._writer.carry_out(writes)
        last = results[-1]
        if last.outcome in (WriteOutcome.DONE, WriteOutcome.GONE):
            log.info("gave back", object=name, because=writes[0].because.code)
            self.done += 1
        else:
            self.must_repeat |= last.outcome is WriteOutcome.CONFLICT
            self.problems.append(f"{name}: {last.message or last.outcome.value}")
        return True
