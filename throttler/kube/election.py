"""An election as one candidate sees it, what it does next, and whether anybody still leads. Pure.

The age of a Lease is how long its resourceVersion has stood still by our own monotonic clock; no time written in it is
ever compared. Every write of the Lease names the version it was decided on, so of two candidates one is refused. What
keeps a leader that lost the Lease from writing anything else is `may_write`, asked right before each request.

Whoever only watches calls a Lease alive while it changes. Time during which it could not be read proves nothing about
its holder, who could not write it either; so after a gap the same patience is asked of a row of good reads before
anything is taken away from a service that is only just coming back.
"""

import enum
from dataclasses import dataclass, replace

import msgspec

LEASE_S, RENEW_DEADLINE_S = 9.0, 6.0
"""Seconds, by the candidate's own monotonic clock, as all that follow.

A leader stops writing RENEW_DEADLINE_S after the start of its last renewal; nobody takes its place before the Lease has
stood still for LEASE_S. Between the two a write on its way may end, and clocks may differ in speed by their ratio (9 to
6: one may run half as fast again as the other). The worst takeover after a sudden death is one look that just missed
the last renewal, the lease, one look that came just too early and the attempt that follows:
2 x (RETRY_S + ATTEMPT_S) + LEASE_S = 13.4 s. How often the leader renews is no part of it: a Lease begins to stand
still when another replica has seen it change for the last time."""
RENEW_S = 2.0
"""From the start of a renewal that succeeded to the next one, as client-go's leaders do."""
RETRY_S = 1.2
"""The longest time between the starts of two looks of who does not lead, or after a renewal that failed."""
ATTEMPT_S = 1.0
"""The longest that one look, or one renewal, may take: several fit into the deadline (kopiur#324)."""
JITTER = 0.2
"""The share of RETRY_S by which a look may come early, so that replicas do not keep in step."""
HAND_OVER_S = 5.0
"""How long a leader that stops waits for another replica: one that stands by leads within two looks, in 2.4 s."""
LARGEST_EPOCH = 2**31 - 1
"""leaseTransitions is an int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The Lease as it was read."""

    version: str = ""
    """Its resourceVersion; empty where there is no Lease."""
    holder: str = ""
    transitions: int = 0
    is_released: bool = False
    """Whether its holder gave it up in order, after its last write."""
    stamp: str = ""
    """By which a holder knows its own write again."""


MOST_SENT = 8
"""Writes of which the end is awaited: those that fit into the deadline, and some."""
NO_RECORD = Record()


class ElectionStep(enum.Enum):
    """What to do now."""

    ACQUIRE = "acquire"
    """Write ourselves in as the holder."""
    RENEW = "renew"
    """Write that we go on."""
    PLACE = "place"
    """Make a Lease that nobody holds: what is not there cannot be seen to stand still."""
    WAIT = "wait"
    STEP_DOWN = "step down"
    """We led, and no longer do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """What one candidate knows; every method returns what it knows next. `identity` is of this process alone."""

    identity: str
    record: Record | None = None
    """As it was last seen; None before the first look."""
    changed_at_s: float = 0.0
    """When `record.version` was first seen."""
    is_sure: bool = False
    """Whether `record` is the Lease for all we know: no write of ours was sent since whose end we do not know."""
    sent: tuple[tuple[str, float], ...] = ()
    """(stamp, when begun) of our latest writes in our own name whose end is not known: the server may be slower than we
    wait, and the Lease shows later which one was done."""
    is_new: bool = True
    """Whether no Lease was ever seen: one that is missing later was removed under somebody's feet."""
    renewed_at_s: float | None = None
    """When the last renewal that succeeded was begun; None: we do not lead."""
    epoch: int = 0
    """The transitions under which we lead, or led last."""
    highest: int = 0
    """The most transitions ever seen, whatever has become of the Lease since."""

    def saw(self, record: Record, now_s: float) -> "Election":
        """After a look that was answered at `now_s`."""
        is_same = self.record is not None and record.version == self.record.version
        # A Lease that was removed or emptied is nobody else's: its leader takes it up again, the others wait.
        is_lost = record.holder not in ("", self.identity)
        election = replace(
            self,
            record=record,
            is_sure=True,
            # One that named an older version is refused.
            sent=self.sent if is_same else (),
            changed_at_s=self.changed_at_s if is_same else now_s,
            is_new=self.is_new and not record.version,
            renewed_at_s=None if is_lost else self.renewed_at_s,
            highest=max(self.highest, record.transitions),
        )
        done_s = dict(self.sent).get(record.stamp) if record.holder == self.identity else None
        return election if done_s is None else election.wrote(record, done_s)

    def wrote(self, record: Record, begun_at_s: float) -> "Election":
        """After a write of the Lease that succeeded and was begun, not answered, at `begun_at_s`."""
        return replace(
            self,
            record=record,
            is_sure=True,
            sent=(),
            changed_at_s=begun_at_s,
            is_new=False,
            renewed_at_s=begun_at_s,
            epoch=record.transitions,
            highest=max(self.highest, record.transitions),
        )

    def writing(self, stamp: str = "", begun_at_s: float = 0.0) -> "Election":
        """While a write of the Lease is on its way; unless it turns out well, a look must come before the next one.

        With a `stamp` it is one in our own name.
        """
        sent = (*self.sent, (stamp, begun_at_s))[-MOST_SENT:] if stamp else self.sent
        return replace(self, is_sure=False, sent=sent)

    def stepped_down(self) -> "Election":
        """After the fence has run out."""
        return replace(self, renewed_at_s=None)

    def let_go(self) -> "Election":
        """As the first act of giving the Lease up: no write of before makes us lead again."""
        return replace(self, renewed_at_s=None, sent=())

    def may_write(self, now_s: float) -> bool:
        """Whether we lead for sure: nobody else can have taken the Lease by now."""
        return self.renewed_at_s is not None and now_s < self.renewed_at_s + RENEW_DEADLINE_S

    def rest_s(self, begun_at_s: float, early: float) -> float:
        """Seconds from the start of a look, which was begun at `begun_at_s` and has ended, to that of the next.

        `early`, 0 to 1, is drawn: how much of the jitter it comes early by.
        """
        if self.renewed_at_s is not None and self.renewed_at_s >= begun_at_s:
            return RENEW_S
        return RETRY_S * (1 - JITTER * early)

    def next_epoch(self, least: int = 0) -> int:
        """The transitions to write as the holder: one more when that changes, never fewer than were seen or `least`."""
        is_ours = self.renewed_at_s is not None or (self.record or NO_RECORD).holder == self.identity
        return min(LARGEST_EPOCH, max(self.highest if is_ours else self.highest + 1, least))


def next_step(election: Election, now_s: float, *, is_deciding: bool, is_alone: bool = False) -> ElectionStep:
    """What to do now. Without decisions (`is_deciding`) nothing is taken and nothing is kept.

    `is_alone`: there are no other candidates, so whatever the Lease says, it is ours.
    """
    if election.may_write(now_s):
        return ElectionStep.RENEW if is_deciding else ElectionStep.WAIT
    if election.renewed_at_s is not None:
        return ElectionStep.STEP_DOWN
    record = election.record
    if record is None or not is_deciding:
        return ElectionStep.WAIT
    if is_alone or _is_free(election, record, now_s):
        return ElectionStep.ACQUIRE
    return ElectionStep.WAIT if record.version else ElectionStep.PLACE


def _is_free(election: Election, record: Record, now_s: float) -> bool:
    if not record.version:
        return election.is_new
    is_open = record.is_released or record.holder == election.identity
    return is_open or now_s - election.changed_at_s >= LEASE_S


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`renew_time` is the holder's wall clock: to be compared with itself, never with ours."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    lease_duration_seconds: int | None = None


SETTLED_PERIODS = 2.5
"""More periods than this between two reads are a gap, whatever the cause: the server was away, the process was stopped,
the machine slept. Reads must have come for as long without one before silence counts."""


@dataclass(frozen=True, slots=True)
class LeaseWatch:
    """Memory of one reader. `period_s` is how often it means to read."""

    period_s: float
    face: LeaseSpec | None = None
    """The Lease as last read; None before the first read."""
    unchanged_since_s: float = 0.0
    read_at_s: float = 0.0
    steady_since_s: float = 0.0
    """Since when reads have come without a gap."""
    is_fresh: bool = False
    """Whether the last try to read it succeeded."""
    is_moving: bool = False
    """Whether the last read showed a change: somebody is alive."""

    def read(self, face: LeaseSpec, now_s: float) -> "LeaseWatch":
        """The memory after a read."""
        is_same = face == self.face
        is_gap = self.face is None or now_s - self.read_at_s > SETTLED_PERIODS * self.period_s
        return replace(
            self,
            face=face,
            unchanged_since_s=self.unchanged_since_s if is_same else now_s,
            read_at_s=now_s,
            steady_since_s=now_s if is_gap else self.steady_since_s,
            is_fresh=True,
            is_moving=not is_same and self.face is not None,
        )

    def failed(self) -> "LeaseWatch":
        """The memory after a read that brought no answer."""
        return replace(self, is_fresh=False, is_moving=False)

    def silent_s(self) -> float:
        """Seconds for which every read has shown the same Lease; 0 before the first."""
        return self.read_at_s - self.unchanged_since_s

    def is_abandoned(self, after_s: float) -> bool:
        """Whether nobody has renewed it for `after_s`, seen by reads without a gap."""
        if not self.is_fresh or self.silent_s() < after_s:
            return False
        return self.read_at_s - self.steady_since_s >= SETTLED_PERIODS * self.period_s
