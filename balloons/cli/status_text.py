"""Throttles and pools as `balloons status` prints them, and what it can wait for.

Both as rows of a table and as machine-readable output; why one is paused is told as `balloons pause` wrote it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from balloons.api.pool import GROUP, BalloonPool
from balloons.cli.json_and_yaml_output import PoolItem, ThrottleAndPoolStatusDocument, ThrottleItem
from balloons.cli.terminal import GLYPHS, NONE, Look, table_as_asked
from balloons.cluster.kinds import PAUSE_REASON
from balloons.view.index_and_snapshot import RefusedPool, StoredPool
from throttler.api.throttle import GROUP as THROTTLE_GROUP
from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import RefusedThrottle, StoredThrottle
from throttler.kube.metadata import Metadata
from throttler.kube.quantities_and_durations import count, rfc3339
from throttler.law.verdict import Phase

POOL_COLUMNS = ("NAME", "WARM", "WANT", "BUSY", "PENDING", "MAX", "MODE", "READY", "BECAUSE", "AGE")
WIDE_POOL_COLUMNS = (*POOL_COLUMNS, "NODES", "IDLE", "SICK", "SCHEDULE", "MESSAGE")
FIRST_POOL_COLUMNS_TO_GO = ("AGE", "MODE", "MAX", "PENDING", "BUSY", "READY", "WANT", "WARM")
"""Where there is no room: the reason stays to the last."""
_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 31_536_000
_AGES = (
    (2 * _MINUTE_S, ("s", 1), ("", 1)),
    (10 * _MINUTE_S, ("m", _MINUTE_S), ("s", 1)),
    (3 * _HOUR_S, ("m", _MINUTE_S), ("", 1)),
    (8 * _HOUR_S, ("h", _HOUR_S), ("m", _MINUTE_S)),
    (2 * _DAY_S, ("h", _HOUR_S), ("", 1)),
    (8 * _DAY_S, ("d", _DAY_S), ("h", _HOUR_S)),
    (2 * _YEAR_S, ("d", _DAY_S), ("", 1)),
    (8 * _YEAR_S, ("y", _YEAR_S), ("d", _DAY_S)),
)
"""Below which age which unit is shown, and which smaller one beside it: k8s.io/apimachinery HumanDuration."""
THROTTLE_COLUMNS = ("NAME", "PACE", "WINDOW", "INFLIGHT", "WAITING", "PHASE", "READY", "BECAUSE", "AGE")
WIDE_THROTTLE_COLUMNS = (*THROTTLE_COLUMNS, "ALLOWANCE", "INDEX", "LEARNED", "SERVERS", "LEVERS", "MESSAGE")
FIRST_THROTTLE_COLUMNS_TO_GO = ("AGE", "PHASE", "PACE", "READY", "WINDOW", "WAITING", "INFLIGHT")
"""Where there is no room: the reason stays to the last."""
ABNORMAL = ("Reconciling", "Stalled")
"""Written only while they are true (kstatus)."""
OF_ALL = ("Ready", *ABNORMAL)
OF_THROTTLES = ("SignalsFresh", "LeversConfirmed")
STATUSES = ("True", "False", "Unknown")
MOST_DIGITS = 7
"""Of a number of nodes."""


def pause_reason(metadata: Metadata, *, is_paused: bool) -> str | None:
    """None while it goes on, whatever was left on it, and where nobody said why."""
    return metadata.annotations.get(PAUSE_REASON) or None if is_paused else None


def pool_row(pool: StoredPool, now: datetime, glyphs: Mapping[str, str]) -> dict[str, str]:
    """One pool's cells; `glyphs` are put before what Ready says."""
    status, spec = pool.status, pool.spec if isinstance(pool, BalloonPool) else None
    ready = _status(pool, "Ready")
    return {
        "NAMESPACE": pool.metadata.namespace,
        "NAME": pool.metadata.name,
        "WARM": str(status.warm),
        "WANT": str(status.target),
        "BUSY": str(status.busy),
        "PENDING": str(status.pending),
        "MAX": str(spec.max_size) if spec and spec.max_size is not None else NONE,
        "MODE": spec.mode.value if spec else NONE,
        "READY": f"{glyphs[ready]} {ready}" if ready in glyphs else ready,
        "BECAUSE": because_of(pool) or NONE,
        "AGE": age(pool.metadata, now),
        "NODES": str(status.nodes),
        "IDLE": str(status.idle),
        "SICK": str(status.sick),
        "SCHEDULE": status.active_schedule or NONE,
        "MESSAGE": _pool_message(pool) or NONE,
    }


def _pool_message(pool: StoredPool) -> str:
    """With the notes beside the reason, which only conditions have."""
    status, problem = pool.status, pool.problem if isinstance(pool, RefusedPool) else ""
    ready = next((c.message for c in status.conditions if c.type == "Ready"), "")
    return _pool_paused(pool) or ready or status.message or problem


def _pool_paused(pool: StoredPool) -> str | None:
    return pause_reason(pool.metadata, is_paused=isinstance(pool, BalloonPool) and pool.spec.paused)


def because_of(pool: StoredPool) -> str:
    """The reason last written; a pool that breaks a rule says so even before the service does."""
    return pool.status.because or ("Invalid" if isinstance(pool, RefusedPool) else "")


def age(metadata: Metadata, now: datetime) -> str:
    """Time since creation in kubectl's short form."""
    if metadata.creation_timestamp is None:
        return "<unknown>"
    total_s = max(0, int((now - metadata.creation_timestamp.astimezone(UTC)).total_seconds()))
    for below_s, (unit, unit_s), (small, small_s) in _AGES:
        if total_s < below_s:
            whole, rest = divmod(total_s, unit_s)
            return f"{whole}{unit}{rest // small_s}{small}" if small and rest // small_s else f"{whole}{unit}"
    return f"{total_s // _YEAR_S}y"


def pool_names(pools: Sequence[StoredPool]) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [f"balloonpool.{GROUP}/{pool.metadata.name}" for pool in pools]


def pool_item(pool: StoredPool) -> PoolItem:
    """For machines."""
    created = pool.metadata.creation_timestamp
    spec = pool.spec if isinstance(pool, BalloonPool) else None
    return PoolItem(
        namespace=pool.metadata.namespace,
        name=pool.metadata.name,
        created_at=rfc3339(created) if created else None,
        mode=spec.mode if spec else None,
        max_size=spec.max_size if spec else None,
        ready=_status(pool, "Ready"),
        problem=pool.problem if isinstance(pool, RefusedPool) else None,
        pause_reason=_pool_paused(pool),
        status=pool.status,
    )


def throttle_row(throttle: StoredThrottle, now: datetime, glyphs: Mapping[str, str]) -> dict[str, str]:
    """One throttle's cells; `glyphs` are put before what Ready says. Counts are nodes, PACE is joins per minute."""
    status, ready = throttle.status, _status(throttle, "Ready")
    return {
        "NAME": throttle.metadata.name,
        "PACE": str(status.pace_per_minute),
        "WINDOW": str(status.window),
        "INFLIGHT": str(status.in_flight),
        "WAITING": str(status.waiting),
        "PHASE": _throttle_phase(throttle) or NONE,
        "READY": f"{glyphs[ready]} {ready}" if ready in glyphs else ready,
        "BECAUSE": status.because or _throttle_phase(throttle) or NONE,
        "AGE": age(throttle.metadata, now),
        "ALLOWANCE": str(status.allowance),
        "INDEX": status.index or NONE,
        "LEARNED": str(status.learned.window) if status.learned.window else NONE,
        "SERVERS": _share(sum(server.state == "Fresh" for server in status.servers), len(status.servers)),
        "LEVERS": " ".join(f"{lever.name}={lever.state}" for lever in status.levers) or NONE,
        "MESSAGE": _message(throttle) or NONE,
    }


def _message(throttle: StoredThrottle) -> str:
    problem = throttle.problem if isinstance(throttle, RefusedThrottle) else ""
    return _throttle_paused(throttle) or throttle.status.message or problem


def _throttle_paused(throttle: StoredThrottle) -> str | None:
    return pause_reason(throttle.metadata, is_paused=isinstance(throttle, JoinThrottle) and throttle.spec.paused)


def throttle_names(throttles: Sequence[StoredThrottle]) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [f"jointhrottle.{THROTTLE_GROUP}/{throttle.metadata.name}" for throttle in throttles]


def throttle_item(throttle: StoredThrottle) -> ThrottleItem:
    """For machines."""
    created = throttle.metadata.creation_timestamp
    return ThrottleItem(
        name=throttle.metadata.name,
        created_at=rfc3339(created) if created else None,
        ready=_status(throttle, "Ready"),
        problem=throttle.problem if isinstance(throttle, RefusedThrottle) else None,
        pause_reason=_throttle_paused(throttle),
        status=throttle.status,
    )


def _throttle_phase(throttle: StoredThrottle) -> str:
    """A throttle that breaks a rule says so even before the service does."""
    return throttle.status.phase or ("Invalid" if isinstance(throttle, RefusedThrottle) else "")


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" if whole else NONE


@dataclass(frozen=True, slots=True)
class Listing:
    """What there is to show; both in the order in which they are printed."""

    throttles: Sequence[StoredThrottle] = ()
    pools: Sequence[StoredPool] = ()
    outage: str = ""
    """How old this is, and what the server says, where it is no longer followed."""

    def only(self, names: Sequence[str]) -> "Listing":
        """Those of these names; all where none is given."""
        if not names:
            return self
        return Listing(
            [throttle for throttle in self.throttles if throttle.metadata.name in names],
            [pool for pool in self.pools if pool.metadata.name in names],
            self.outage,
        )


def tables(listing: Listing, where: str | None, look: Look, now: datetime) -> list[str]:
    """The lines of the tables, an empty line between them; a kind of which there is none has no table."""
    drawn = [
        *([throttle_table(listing.throttles, look, now)] if listing.throttles else []),
        *([table(listing.pools, where, look, now)] if listing.pools else []),
    ]
    between = [""] if look.has_headers else []
    return [line for index, lines in enumerate(drawn) for line in ([*between, *lines] if index else lines)]


def table(pools: Sequence[StoredPool], where: str | None, look: Look, now: datetime) -> list[str]:
    """The lines of the pools' table; `where` is the only namespace, None means all."""
    columns = WIDE_POOL_COLUMNS if look.output == "wide" else POOL_COLUMNS
    headers = columns if where else ("NAMESPACE", *columns)
    rows = [pool_row(pool, now, _glyphs(look)) for pool in pools]
    return table_as_asked(look, headers, rows, kept=1 if where else 2, first_to_go=FIRST_POOL_COLUMNS_TO_GO)


def throttle_table(throttles: Sequence[StoredThrottle], look: Look, now: datetime) -> list[str]:
    """The lines of the throttles' table."""
    headers = WIDE_THROTTLE_COLUMNS if look.output == "wide" else THROTTLE_COLUMNS
    rows = [throttle_row(throttle, now, _glyphs(look)) for throttle in throttles]
    return table_as_asked(look, headers, rows, first_to_go=FIRST_THROTTLE_COLUMNS_TO_GO)


def names(listing: Listing) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [*throttle_names(listing.throttles), *pool_names(listing.pools)]


def document(listing: Listing) -> ThrottleAndPoolStatusDocument:
    """For machines; both lists are there even when they are empty."""
    return ThrottleAndPoolStatusDocument(
        throttles=[throttle_item(throttle) for throttle in listing.throttles],
        pools=[pool_item(pool) for pool in listing.pools],
    )


def _glyphs(look: Look) -> dict[str, str]:
    return GLYPHS if look.is_coloured and look.is_unicode else {}


PHASES = (*(phase.value for phase in Phase), "Paused", "Invalid")


ACCEPTED = f"condition={'|'.join((*OF_ALL, *OF_THROTTLES))}[=STATUS], warm=N, idle, phase={'|'.join(PHASES)}"


Missing = Callable[[Listing], list[str]]
"""What is not as awaited, one sentence each; none when all is."""


class AwaitedError(ValueError):
    """Nothing that can be waited for; the message says what can."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """One `--for`. `needs_throttles`: nobody who cannot see them can tell."""

    text: str
    missing: Missing
    needs_throttles: bool = False


def awaited(text: str) -> Awaited:
    """Reads one `--for`; raises AwaitedError."""
    kind, _, rest = text.partition("=")
    name, _, status = rest.partition("=")
    if kind == "condition" and name in (*OF_ALL, *OF_THROTTLES) and (status or "True") in STATUSES:
        return Awaited(text, _condition(name, status or "True"), needs_throttles=name in OF_THROTTLES)
    if kind == "warm" and rest.isascii() and rest.isdecimal() and len(rest) <= MOST_DIGITS:
        return Awaited(text, _warm(int(rest)))
    if text == "idle":
        return Awaited(text, _idle, needs_throttles=True)
    if kind == "phase" and rest in PHASES:
        return Awaited(text, _phase(rest), needs_throttles=True)
    raise AwaitedError(f"{text[:80]!r} cannot be waited for; accepted: {ACCEPTED}")


def missing(wanted: Sequence[Awaited], listing: Listing, names: Sequence[str]) -> list[str]:
    """All that is missing; an object that is not there, or whose status is of an older spec, cannot tell."""
    there = {thing.metadata.name for thing in (*listing.throttles, *listing.pools)}
    gone = [f"{name} is not there" for name in names if name not in there]
    old = [
        f"{_called(thing)}: its change has not been seen yet"
        for thing in (*listing.throttles, *listing.pools)
        if thing.status.observed_generation < thing.metadata.generation
    ]
    return gone + (old or [text for awaited in wanted for text in awaited.missing(listing)])


def _condition(name: str, status: str) -> Missing:
    def look(listing: Listing) -> list[str]:
        pools: Sequence[StoredPool | StoredThrottle] = listing.pools if name in OF_ALL else ()
        objects = [*listing.throttles, *pools]
        states = [(thing, _status(thing, name)) for thing in objects]
        unlike = [f"{_called(thing)}: {name} is {is_now}" for thing, is_now in states if is_now != status]
        return unlike if objects else ["nothing is there that could have it"]

    return look


def _status(of: StoredPool | StoredThrottle, name: str) -> str:
    """What the condition says; one that nobody has written is Unknown, or not the case."""
    absent = "False" if name in ABNORMAL else "Unknown"
    return next((condition.status for condition in of.status.conditions if condition.type == name), absent)


def _warm(nodes: int) -> Missing:
    def look(listing: Listing) -> list[str]:
        warm = sum(pool.status.warm for pool in listing.pools)
        return [] if warm >= nodes else [f"{warm:,} of {count(nodes, 'node is', 'nodes are')} warm"]

    return look


def _idle(listing: Listing) -> list[str]:
    return [
        f"{_called(throttle)}: {count(throttle.status.in_flight, 'node')} in flight, "
        f"{throttle.status.waiting:,} waiting"
        for throttle in listing.throttles
        if throttle.status.in_flight or throttle.status.waiting
    ] + ([] if listing.throttles else ["there is no throttle"])


def _phase(name: str) -> Missing:
    def look(listing: Listing) -> list[str]:
        wrong = [
            f"{_called(throttle)}: {throttle.status.phase or 'no phase yet'}"
            for throttle in listing.throttles
            if throttle.status.phase != name
        ]
        return wrong if listing.throttles else ["there is no throttle"]

    return look


def _called(of: StoredPool | StoredThrottle) -> str:
    space = of.metadata.namespace
    return f"{space}/{of.metadata.name}" if space else of.metadata.name
