"""Who sends requests, one after the other: the lanes of a joining node, and visitors with a single request."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from throttler.simulator.plant import JOIN, LIST, SMALL, STEADY_LIST, RequestKind, RequestLane

if TYPE_CHECKING:
    from throttler.simulator.request_server import RequestServer

KINDS: tuple[tuple[RequestKind, bool], ...] = (
    (SMALL, True),
    (LIST, True),
    (SMALL, False),
    (STEADY_LIST, False),
    (LIST, False),
)
"""Every kind of request, and whether the scenario's join weight makes it heavier."""
JOIN_SMALL, JOIN_LIST, VISITOR_SMALL, VISITOR_LIST, FOREIGN_LIST = range(5)

Sending = tuple[float, int]
"""Mean think time before the request, and its index in `KINDS`."""


def _sendings(lane: RequestLane) -> tuple[Sending, ...]:
    return tuple((step.think_s, JOIN_LIST if step.kind is LIST else JOIN_SMALL) for step in lane.steps)


LANES: tuple[tuple[float, tuple[Sending, ...]], ...] = tuple((lane.timeout_s, _sendings(lane)) for lane in JOIN.lanes)
"""Timeout and requests of each lane of a join."""
SINGLE: tuple[tuple[Sending, ...], ...] = tuple(((0.0, kind),) for kind in range(len(KINDS)))
"""The one request of a visitor, by kind."""


@dataclass(slots=True, eq=False)
class JoiningNode:
    """A node from being let in until its last lane ends."""

    since_s: float
    lanes_left: int = len(LANES)


class Client:
    """One connection and the request that is open on it. `attempt` numbers the open attempt; 0 when none is open."""

    __slots__ = ("at", "attempt", "failures", "node", "sendings", "sent_s", "server", "since_s", "timeout_s", "tries")

    def __init__(
        self, node: JoiningNode | None, sendings: tuple[Sending, ...], timeout_s: float, server: "RequestServer"
    ) -> None:
        self.node = node
        self.sendings = sendings
        self.timeout_s = timeout_s
        self.server = server
        self.at = 0
        self.attempt = 0
        self.tries = 0
        """429s in a row since the caller last saw an error or an answer."""
        self.failures = 0
        """Timeouts in a row."""
        self.since_s = 0.0
        """When a visitor first sent its request."""
        self.sent_s = 0.0

    @property
    def is_bystander(self) -> bool:
        """Whether this is one of the other people whose latency counts."""
        return self.node is None and self.sendings[0][1] != FOREIGN_LIST
