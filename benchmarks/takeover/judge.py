"""Who wrote when, by the API server's audit log and by its one clock. Pure.

A replica's tenure begins when its first write of the Lease after another's has been done. From then on no write of the
other may reach the server: one that does is a second writer, whatever the server does with it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

WRITES = ("create", "update", "patch", "delete", "deletecollection")
LEASES = "leases"


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One request that changes something; times are seconds since the epoch, of the server's clock."""

    who: str
    what: str
    """Resource with subresource."""
    received_s: float
    done_s: float
    is_done: bool
    """Whether the server did it."""

    @property
    def is_lease(self) -> bool:
        """Whether it is about leadership, and not about anything that is led."""
        return self.what == LEASES


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """From when `who` leads, and when it first wrote anything but the Lease; None: it never did."""

    who: str
    since_s: float
    first_write_s: float | None


def write_in(event: Mapping[str, Any], users: Iterable[str]) -> Write | None:
    """An audit event as a write of one of these users; None for any other event."""
    if event["verb"] not in WRITES or event["user"]["username"] not in users or event["stage"] != "ResponseComplete":
        return None
    about = event.get("objectRef", {})
    what = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
    return Write(
        who=event["user"]["username"],
        what=what,
        received_s=_seconds(event["requestReceivedTimestamp"]),
        done_s=_seconds(event["stageTimestamp"]),
        is_done=200 <= event.get("responseStatus", {}).get("code", 0) < 300,
    )


def tenures(writes: Iterable[Write]) -> list[Tenure]:
    """Who led, in order of time."""
    reigns: list[Tenure] = []
    for write in sorted(writes, key=lambda write: write.done_s):
        if write.is_lease and write.is_done and (not reigns or reigns[-1].who != write.who):
            reigns.append(Tenure(who=write.who, since_s=write.done_s, first_write_s=None))
        elif reigns and not write.is_lease and write.is_done and reigns[-1].who == write.who:
            last = reigns[-1]
            first_s = write.done_s if last.first_write_s is None else last.first_write_s
            reigns[-1] = Tenure(who=last.who, since_s=last.since_s, first_write_s=first_s)
    return reigns


def second_writers(writes: Iterable[Write]) -> list[Write]:
    """Writes that reached the server while another led."""
    writes = list(writes)
    reigns = tenures(writes)
    ends = [*(reign.since_s for reign in reigns[1:]), float("inf")]
    wrong = []
    for write in writes:
        if write.is_lease:
            continue
        led = [reign.who for reign, end_s in zip(reigns, ends, strict=True) if reign.since_s < write.received_s < end_s]
        wrong += [write] if led and led[0] != write.who else []
    return wrong


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class AuditTail:
    """The users' writes so far, in the log's order; each reading goes on where the last one ended."""

    def __init__(self, log: Path, users: Sequence[str]) -> None:
        self._log = log
        self._users = tuple(users)
        # Most lines are about others: they are told apart before they are decoded.
        self._marks = tuple(b'"%b"' % user.encode() for user in users)
        self._at = 0
        self.writes: list[Write] = []

    def read(self) -> list[Write]:
        """All of them, the newest included; a line that is still being written waits for the next reading."""
        with self._log.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        whole, _, _ = text.rpartition(b"\n")
        self._at += len(whole) + 1 if whole else 0
        lines = (line for line in whole.splitlines() if any(mark in line for mark in self._marks))
        writes = (write_in(json.loads(line), self._users) for line in lines)
        self.writes += [write for write in writes if write is not None]
        return self.writes
