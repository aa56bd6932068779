"""Kubernetes Events about objects of ours: what one says, and how many may be told. Pure.

At most one per minute for each object and reason, and `TOTAL_PER_MIN` over all.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from throttler.kube.because import Because
from throttler.kube.metadata import Metadata

PERIOD_S = 60.0
TOTAL_PER_MIN = 30
NOTE_LIMIT = 1000
"""The API refuses notes from 1 kB on."""
INSTANCE_LIMIT = 128
NAMESPACE = "default"
"""Where Events about cluster-scoped objects go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAuthor:
    """Who tells, and about objects of which kind; `action` is what is done with them."""

    reporter: str
    instance: str
    action: str
    api_version: str
    kind: str

    def event(self, about: Metadata, why: Because, wall: datetime, *, is_warning: bool) -> dict[str, Any]:
        """The Event to create."""
        namespace = {"namespace": about.namespace} if about.namespace else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{about.name[:200].rstrip('-.')}-",
                "namespace": about.namespace or NAMESPACE,
            },
            "eventTime": wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self.reporter,
            "reportingInstance": self.instance[:INSTANCE_LIMIT],
            "action": self.action,
            "reason": why.code,
            "type": "Warning" if is_warning else "Normal",
            "note": why.sentence[:NOTE_LIMIT],
            "regarding": {
                "apiVersion": self.api_version,
                "kind": self.kind,
                "name": about.name,
                **namespace,
                "uid": about.uid,
                "resourceVersion": about.resource_version,
            },
        }


class EventLimit:
    """Knows what was told in the last minute; `now_s` is monotonic."""

    def __init__(self) -> None:
        self._told: dict[Hashable, float] = {}

    def may_tell(self, what: Hashable, now_s: float) -> bool:
        """Whether this may be told now; it counts as told then."""
        self._told = {key: at_s for key, at_s in self._told.items() if now_s - at_s < PERIOD_S}
        if what in self._told or len(self._told) >= TOTAL_PER_MIN:
            return False
        self._told[what] = now_s
        return True
