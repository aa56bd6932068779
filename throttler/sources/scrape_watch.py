"""Every API server scraped at its own moments, for as long as it exists."""

import asyncio
from collections.abc import Callable
from random import Random

import structlog

from throttler.kube.connection import Connection
from throttler.kube.kube_client import KubeClient
from throttler.signals.servers import Address, Servers
from throttler.sources.outcome import ReadError, ReadOutcome
from throttler.sources.scraper import Scraper, ScrapeTarget
from throttler.sources.server_finder import ServerFinder
from throttler.sources.settings import SourceSettings

log = structlog.get_logger()

MOST_HIDDEN = 10
"""Bounds how often one address is scraped."""
_UNREACHED = {ReadOutcome.UNREACHABLE, ReadOutcome.TIMEOUT}


class ScrapeWatch:
    """Finds the servers, scrapes each, and remembers; `servers` is what is known."""

    def __init__(self, connection: Connection, settings: SourceSettings, scraper: Scraper, random: Random) -> None:
        self.servers = Servers()
        self._finder = ServerFinder(connection, settings.servers, random)
        self._interval_s = settings.interval_s
        self._scraper = scraper
        self._random = random
        self._outcomes: dict[str, ReadOutcome] = {}
        self._following: set[ScrapeTarget] = set()

    @property
    def is_forbidden(self) -> bool:
        """Whether no server lets us read its metrics: a missing right, not ill health."""
        return bool(self._outcomes) and set(self._outcomes.values()) == {ReadOutcome.FORBIDDEN}

    def problems(self, now_s: float) -> tuple[str, ...]:
        """In words, what keeps this source from seeing all."""
        return (*self._finder.problems.values(), *self.servers.frozen(now_s))

    async def run(self, client: KubeClient) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                wait_s = await self._finder.find(client)
                self._follow_found(group)
                if await self._is_out_of_reach(wait_s):
                    self._finder.give_up_addresses()
                    self._follow_found(group)

    def _follow_found(self, group: asyncio.TaskGroup) -> None:
        """A loop per target; each ends by itself when its target is gone."""
        targets = self._finder.targets
        names = [target.name for target in targets]
        self.servers = self.servers.found(names, self._finder.expected, _now_s())
        self._outcomes = {name: outcome for name, outcome in self._outcomes.items() if name in names}
        for target in set(targets) - self._following:
            self._following.add(target)
            group.create_task(self._follow(target))

    async def _follow(self, target: ScrapeTarget) -> None:
        """The first scrape is at once, the later ones apart from those of other servers."""
        due_s = _now_s() - self._interval_s * self._random.random()
        while target in self._finder.targets:
            await self._scrape(target)
            due_s = max(due_s + self._interval_s / self._hidden_behind(target), _now_s())
            await asyncio.sleep(due_s - _now_s())
        self._following.discard(target)

    def _hidden_behind(self, target: ScrapeTarget) -> int:
        """How many servers share the address: a load balancer shows each of them now and then only."""
        address = self.servers.addresses.get(target.name)
        seen = address.count if address else 1
        may_hide = self.servers.unseen if len(self._finder.targets) == 1 else 0
        return min(MOST_HIDDEN, seen + may_hide)

    async def _scrape(self, target: ScrapeTarget) -> None:
        self._note(target, lambda address: address.asked(_now_s()))
        try:
            sample = await self._scraper.scrape(target)
        except ReadError as error:
            self._failed(target, error.outcome, error.problem)
        except Exception as error:
            log.exception("the scrape of %s failed unexpectedly", target.name)
            self._failed(target, ReadOutcome.UNREADABLE, f"cannot be read ({type(error).__name__})")
        else:
            self._outcomes[target.name] = ReadOutcome.GOOD
            self._note(target, lambda address: address.answered(sample))

    def _failed(self, target: ScrapeTarget, outcome: ReadOutcome, problem: str) -> None:
        self._outcomes[target.name] = outcome
        self._note(target, lambda address: address.failed(problem, _now_s()))

    def _note(self, target: ScrapeTarget, change: Callable[[Address], Address]) -> None:
        address = self.servers.addresses.get(target.name)
        if address is not None:
            self.servers = self.servers.with_address(change(address), _now_s())

    async def _is_out_of_reach(self, wait_s: float) -> bool:
        """Waits until the servers should be looked for again; True at once when none of them was ever reached."""
        due_s = _now_s() + wait_s
        while (left_s := due_s - _now_s()) > 0:
            await asyncio.sleep(min(self._interval_s, left_s))
            if self._finder.has_other_way and self._none_was_reached():
                return True
        return False

    def _none_was_reached(self) -> bool:
        return all(
            self._outcomes.get(name) in _UNREACHED and not address.processes
            for name, address in self.servers.addresses.items()
        )


def _now_s() -> float:
    return asyncio.get_running_loop().time()
