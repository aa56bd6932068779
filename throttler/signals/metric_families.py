"""The dozen families of /metrics that the throttle reads, and their rows out of a text of megabytes.

Names and labels are those of Kubernetes 1.31 to 1.37. A family that a server does not have is normal: the figures made
from it are None and its name is in `Reading.missing`.

First the few wanted lines are taken as bytes, then only those are parsed. A body can have 50 MB, of which we want some
kilobytes: parsing all of it would take a minute of CPU with a general parser; looking for `newline + name` takes less
than 2 ms per MB. The parser knows the text format 0.0.4 as API servers write it, refuses whatever it does not
understand, and is fuzzed against prometheus_client's.
"""

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from throttler.signals.counted_requests import JOIN_RESOURCES


class Part(enum.Enum):
    """Which series of a family are wanted; histogram buckets never are."""

    VALUE = ("",)
    MEAN = ("_sum", "_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family, and whether every healthy server exports it from its first minute."""

    name: str
    part: Part = Part.VALUE
    is_always_there: bool = True
    is_of_joins: bool = False
    """Whether only requests for `JOIN_RESOURCES` are wanted, and those for none, which are always there."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names that its wanted series have."""
        return tuple(self.name + suffix for suffix in self.part.value)


REQUESTS = Family(name="apiserver_request_total")
"""Requests, 429 and 5xx among them."""
LATENCY = Family(name="apiserver_request_duration_seconds", part=Part.MEAN, is_of_joins=True)
"""Latency as clients see it."""
SERVICE = Family(name="apiserver_request_sli_duration_seconds", part=Part.MEAN, is_of_joins=True)
"""Latency without queues and webhooks: what the server itself takes."""
QUEUE_WAIT = Family(name="apiserver_flowcontrol_request_wait_duration_seconds", part=Part.MEAN, is_always_there=False)
"""Time in the queues of each priority level."""
SEATS = Family(name="apiserver_flowcontrol_current_executing_seats", is_always_there=False)
"""Seats in use now."""
SEAT_LIMIT = Family(name="apiserver_flowcontrol_current_limit_seats")
"""Seats that a level may use now."""
NOMINAL_LIMIT = Family(name="apiserver_flowcontrol_nominal_limit_seats", is_always_there=False)
"""Its seats without borrowing."""
DISPATCHED = Family(name="apiserver_flowcontrol_dispatched_requests_total")
"""Requests that flow control let through: our own scrape is always one of them."""
REJECTED = Family(name="apiserver_flowcontrol_rejected_requests_total", is_always_there=False)
"""Requests that flow control refused, by priority level: 429s that joins met, and others."""
WEBHOOK_REFUSALS = Family(name="apiserver_admission_webhook_rejection_count", is_always_there=False)
"""5xx answers that a webhook caused and not the server."""
CPU = Family(name="process_cpu_seconds_total")
"""The server's own CPU."""
CPU_LIMIT = Family(name="go_sched_gomaxprocs_threads")
"""How many CPUs its runtime may use."""
STARTED = Family(name="process_start_time_seconds")
"""Tells one server process from another."""

FAMILIES = (
    REQUESTS,
    LATENCY,
    SERVICE,
    QUEUE_WAIT,
    SEATS,
    SEAT_LIMIT,
    NOMINAL_LIMIT,
    DISPATCHED,
    REJECTED,
    WEBHOOK_REFUSALS,
    CPU,
    CPU_LIMIT,
    STARTED,
)


MAX_LINE_BYTES = 64 * 1024
MAX_ROWS = 100_000
"""About a second of parsing; 500 custom resources make some 4,000."""
MAX_VALUE = 2.0**53
"""Up to here counters are exact; no counter of a living server comes near."""

_NEEDLES = tuple((b"\n" + name.encode(), family.is_of_joins) for family in FAMILIES for name in family.series)
_OF_JOINS = re.compile(b'[{,]resource="(%s|)"' % "|".join(sorted({name for _, name in JOIN_RESOURCES})).encode())
_AFTER_NAME = b"{ \t"
# Possessive (`*+`): what was matched is never given back, so that no line costs more than its length.
_LINE = re.compile(
    rb"([a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+(?:\{(.*)\}[ \t]*+)?([^ \t\r{}]++)(?:[ \t]++-?[0-9]++)?[ \t\r]*+"
)
_LABEL = re.compile(rb'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"([^"\\]*(?:\\.[^"\\]*)*)"[ \t]*(?:,[ \t]*|$)')
_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n"}


class BadTextError(ValueError):
    """The text is not what an API server exports, or more than we read; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One series: its name, its labels, and a finite value in [0, 2^53]."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class WantedLines:
    """Collects the wanted lines of a text that comes in pieces; holds no more than them and one open line."""

    lines: list[bytes] = field(default_factory=list)
    _rest: bytes = b"\n"

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes; raises BadTextError when a limit is passed."""
        text = self._rest + piece
        end = text.rfind(b"\n")
        self._rest = text[end:]
        if len(self._rest) > MAX_LINE_BYTES:
            raise BadTextError(f"a line of more than {MAX_LINE_BYTES} bytes")
        self._keep(text)

    def finish(self) -> list[bytes]:
        """The wanted lines; the last one counts only when its newline came."""
        return self.lines

    def _keep(self, text: bytes) -> None:
        for needle, is_of_joins in _NEEDLES:
            lines = _found(text, needle)
            # Of a cluster with many kinds these are four in five.
            self.lines.extend(filter(_OF_JOINS.search, lines) if is_of_joins else lines)
        if len(self.lines) > MAX_ROWS:
            raise BadTextError(f"more than {MAX_ROWS} series of the families that are read")


def parse_rows(lines: list[bytes]) -> list[Row]:
    """The lines as rows; raises BadTextError at the first that is malformed, out of range or there twice."""
    rows, keys = [], set()
    for line in lines:
        match = _LINE.fullmatch(line) if len(line) <= MAX_LINE_BYTES else None
        if match is None:
            raise BadTextError(f"{_shown(line)} is no series")
        name, labels, number = match.groups()
        # NaN, infinities, signs (-0 among them) and digits that only Python knows are refused.
        value = float(number) if _NUMBER.fullmatch(number) else -1.0
        if not 0 <= value <= MAX_VALUE:
            raise BadTextError(f"{_shown(line)} has the value {number[:32].decode('ascii', 'replace')}")
        row = Row(name.decode(), _labels(labels or b"", line), value)
        key = (row.name, *sorted(row.labels.items()))
        if key in keys:
            raise BadTextError(f"{_shown(line)} is there twice")
        keys.add(key)
        rows.append(row)
    return rows


def _found(text: bytes, needle: bytes) -> Iterator[bytes]:
    """The whole lines of `text` that start with the name and nothing longer."""
    at = text.find(needle)
    while at >= 0:
        after = at + len(needle)
        end = text.find(b"\n", after)
        if end < 0:
            return
        if text[after] in _AFTER_NAME:
            yield text[at + 1 : end]
        at = text.find(needle, end)


def _labels(text: bytes, line: bytes) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        name = match[1].decode() if match else ""
        if match is None or name in labels:
            raise BadTextError(f"{_shown(line)} has malformed labels")
        labels[name] = _unescaped(match[2], line)
        at = match.end()
    return labels


def _unescaped(value: bytes, line: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise BadTextError(f"{_shown(line)} is not UTF-8") from error
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text


def _shown(line: bytes) -> str:
    """The series' name only: what follows it was written by others and may be long."""
    return line[:128].split(b"{")[0].split(b" ")[0][:80].decode("ascii", "replace")
