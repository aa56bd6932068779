"""Metrics text to rows: first the few wanted lines as bytes, then only those are parsed.

A body can have 50 MB, of which we want some kilobytes: parsing all of it would take a minute of CPU with a general
parser; looking for `newline + name` takes less than 2 ms per MB. The parser knows the
text format 0.0.4 as API servers write it, refuses whatever it does not understand, and is fuzzed against
prometheus_client's.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from throttler.signals.families import SERIES

MAX_LINE_BYTES = 64 * 1024
MAX_ROWS = 100_000
"""About half a second of parsing; 500 custom resources make some 20,000."""
MAX_VALUE = 2.0**53
"""Up to here counters are exact; no counter of a living server comes near."""

_NEEDLES = tuple(b"\n" + name.encode() for name in SERIES)
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
        self._keep(text[: end + 1])

    def finish(self) -> list[bytes]:
        """The wanted lines; the last one counts only when its newline came."""
        return self.lines

    def _keep(self, text: bytes) -> None:
        for needle in _NEEDLES:
            self.lines.extend(_found(text, needle))
        if len(self.lines) > MAX_ROWS:
            raise BadTextError(f"more than {MAX_ROWS} series of the families that are read")


def parse_rows(lines: list[bytes]) -> list[Row]:
    """The lines as rows; raises BadTextError at the first that is malformed, out of range or there twice."""
    rows, seen = [], set()
    for line in lines:
        row = _parse(line)
        key = (row.name, *sorted(row.labels.items()))
        if key in seen:
            raise BadTextError(f"{_shown(line)} is there twice")
        seen.add(key)
        rows.append(row)
    return rows


def _found(text: bytes, needle: bytes) -> Iterator[bytes]:
    """The lines of `text` that start with the name and nothing longer; `text` ends with a newline."""
    at = text.find(needle)
    while at >= 0:
        end = text.find(b"\n", at + 1)
        if end < 0:
            return
        follows = text[at + len(needle) : at + len(needle) + 1]
        if follows in _AFTER_NAME:
            yield text[at + 1 : end]
        at = text.find(needle, end)


def _parse(line: bytes) -> Row:
    match = _LINE.fullmatch(line) if len(line) <= MAX_LINE_BYTES else None
    if match is None:
        raise BadTextError(f"{_shown(line)} is no series")
    name, labels, number = match.groups()
    return Row(name.decode(), _labels(labels or b"", line), _value(number, line))


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


def _value(number: bytes, line: bytes) -> float:
    """NaN, infinities, signs (-0 among them) and digits that only Python knows are refused."""
    value = float(number) if _NUMBER.fullmatch(number) else -1.0
    if not 0 <= value <= MAX_VALUE:
        raise BadTextError(f"{_shown(line)} has the value {number[:32].decode('ascii', 'replace')}")
    return value


def _shown(line: bytes) -> str:
    """The series' name only: what follows it was written by others and may be long."""
    return line[:128].split(b"{")[0].split(b" ")[0][:80].decode("ascii", "replace")
