"""Which API servers there are, and what is known of each: addresses, identity Leases and scrapes reconciled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from throttler.signals.address import Address
from throttler.signals.reading import Reading, SilentServer

OWN_REQUESTS = "own requests"
"""The name under which our own clients' attempts are reported."""
LEASE_ALIVE_S = 60.0
"""API servers renew their identity Lease every 10 s; it stays for up to an hour after they are gone."""


def is_server(reading: Reading) -> bool:
    """Whether the reading is of an API server, and not of what our own requests met."""
    return reading.server != OWN_REQUESTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """All API servers. `expected` is how many the identity Leases speak of, 0 when they could not be read."""

    addresses: Mapping[str, Address] = field(default_factory=dict)
    expected: int = 0
    unseen_since_s: float | None = None

    def found(self, names: Iterable[str], expected: int, now_s: float) -> "Servers":
        """The servers that exist as of now: new ones are added, those that are gone forgotten."""
        addresses = {name: self.addresses.get(name) or Address(name=name, known_since_s=now_s) for name in names}
        return replace(self, addresses=addresses, expected=expected)._counted(now_s)

    def with_address(self, address: Address, now_s: float) -> "Servers":
        """One address has news; one that is no longer among the servers is left alone."""
        if address.name not in self.addresses:
            return self
        return replace(self, addresses={**self.addresses, address.name: address})._counted(now_s)

    @property
    def unseen(self) -> int:
        """How many servers the Leases speak of beyond those that have an address or showed behind one."""
        return max(0, self.expected - sum(address.count for address in self.addresses.values()))

    def readings(self) -> tuple[Reading, ...]:
        """The newest complete window of every process, however old."""
        return tuple(reading for address in self.addresses.values() for reading in address.readings())

    def silent(self, now_s: float) -> tuple[SilentServer, ...]:
        """Every server without a usable answer; it may still have an older reading."""
        quiet = (address.silent(now_s) for address in self.addresses.values())
        return (*(server for server in quiet if server is not None), *self._unseen(now_s))

    def frozen(self, now_s: float) -> tuple[str, ...]:
        """In words, whose metrics stand still."""
        return tuple(
            f"{address.server_of(process)}: its metrics have not moved for {now_s - process.frozen_since_s:.0f} s"
            for address in self.addresses.values()
            for process in address.processes
            if process.frozen_since_s is not None
        )

    def _counted(self, now_s: float) -> "Servers":
        since_s = self.unseen_since_s if self.unseen_since_s is not None else now_s
        return replace(self, unseen_since_s=since_s if self.unseen else None)

    def _unseen(self, now_s: float) -> tuple[SilentServer, ...]:
        since_s = now_s if self.unseen_since_s is None else self.unseen_since_s
        problem = f"{self.expected} identity Leases, {self.expected - self.unseen} servers found"
        return tuple(
            SilentServer(server=f"unseen-{number}", problem=problem, since_s=since_s, was_seen=False)
            for number in range(1, self.unseen + 1)
        )


def alive_leases(renewals: Iterable[datetime | None]) -> int:
    """How many identity Leases are being renewed, by the newest renewal among them and not by our clock."""
    known = [renewal for renewal in renewals if renewal is not None]
    return sum(1 for renewal in known if (max(known) - renewal).total_seconds() <= LEASE_ALIVE_S)
