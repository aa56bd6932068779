"""What cluster-autoscaler says about its node groups, in the ConfigMap kube-system/cluster-autoscaler-status.

Since 1.30 the text is YAML with sorted keys, as Go's encoder writes it: block style, one scalar to a line. It is read
line by line, because a YAML parser takes seconds for the megabyte that a thousand node groups fill. The plain text of
older versions has no `nodeGroups` and reads as "unknown".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from throttler.kube.metadata import Metadata

NAMESPACE, NAME, KEY = "kube-system", "cluster-autoscaler-status", "status"

_TARGET = ("nodeGroups", "health", "cloudProviderTarget")
_REGISTERED = ("nodeGroups", "health", "nodeCounts", "registered", "total")
_LONG_UNREGISTERED = ("nodeGroups", "health", "nodeCounts", "longUnregistered")


class ConfigMapWire(msgspec.Struct, frozen=True):
    """What is decoded of a ConfigMap."""

    metadata: Metadata
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class AutoscalerStatus:
    """All node groups together, as cluster-autoscaler saw them at `at_s` (seconds since the epoch; 0: not said)."""

    target: int
    """Nodes that the groups are to have."""
    registered: int
    long_unregistered: int = 0
    """Machines that have not registered for longer than its limit (15 min): given up."""
    at_s: float = 0.0

    @property
    def booting(self) -> int:
        """Asked for, and not yet registered when it looked."""
        return max(0, self.target - self.registered - self.long_unregistered)


def read_status(text: str) -> AutoscalerStatus | None:
    """The groups' counts; None where the text names no groups."""
    totals = dict.fromkeys((_TARGET, _REGISTERED, _LONG_UNREGISTERED), 0)
    at_s, has_groups = 0.0, False
    for path, value in _scalars(text):
        has_groups = has_groups or path[0] == "nodeGroups"
        if path in totals and value.isdecimal() and value.isascii() and len(value) < 10:
            totals[path] += int(value)
        elif path == ("time",):
            at_s = _epoch_s(value)
    target, registered, lost = totals.values()
    return AutoscalerStatus(target, registered, lost, at_s) if has_groups else None


def _scalars(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every `key: value` line with the keys that lead to it; items of a list share their list's path."""
    stack: list[tuple[int, str]] = []
    for line in text.splitlines():
        key, colon, value = line.lstrip(" -").partition(":")
        indent = len(line) - len(line.lstrip(" -"))
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if colon and key:
            stack.append((indent, key))
            yield tuple(name for _, name in stack), value.strip()


def _epoch_s(text: str) -> float:
    """`2026-11-21 07:16:26.33 +0000 UTC`, as Go prints it; to the second. 0 when it cannot be read."""
    try:
        return datetime.strptime(text.strip("'\"")[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
