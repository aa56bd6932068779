"""Why something is done or not done: reasons with their sentences, and the conditions and Events that tell them. Pure.

Reasons are closed lists, each with its sentence. Of Events there is at most one per minute for each object and reason,
and `EVENTS_PER_MIN` over all. Of a condition the lastTransitionTime moves only when its status does.
"""

import enum
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from string import Formatter
from typing import Any

import msgspec

from throttler.kube.metadata import Condition, Metadata
from throttler.kube.quantities_and_durations import plural, rfc3339


class Sentence(enum.Enum):
    """Reason name -> sentence template; the braces name the detail's keys. Subclasses list the reasons.

    `{nodes:node is|nodes are}` gives `1 node is` and `2 nodes are`; `{nodes:|it|them}` gives the word alone.
    What is no number is many: `some nodes are`.
    """

    @property
    def code(self) -> str:
        """The name in CamelCase, as Events and conditions carry it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class _Figures(Formatter):
    """Fills in figures, and the words that go with their number."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """As `str.format`, but for a singular and a plural behind the colon."""
        if "|" not in format_spec:
            return str(super().format_field(value, format_spec))
        *is_word_alone, one, many = format_spec.split("|")
        is_counted = isinstance(value, int | float)
        word = plural(value, one, many) if is_counted else many
        number = f"{value:.0f}" if is_counted else value
        return word if is_word_alone else f"{number} {word}"


_FIGURES = _Figures()


@dataclass(frozen=True, slots=True)
class Because:
    """A reason with the figures of this case."""

    reason: Sentence
    detail: Mapping[str, object] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The reason's CamelCase name."""
        return self.reason.code

    @property
    def sentence(self) -> str:
        """The reason in words, with its figures filled in."""
        return _FIGURES.vformat(self.reason.value, (), self.detail)


def because(reason: Sentence, **detail: object) -> Because:
    """Shorthand that reads as a sentence: `because(Reason.STEADY, warm=3, target=3)`."""
    return Because(reason, detail)


MESSAGE_LIMIT = 1024
"""Of a condition and of a status, as in the CRDs: one field too long would cost the whole status."""
MOST_ERROR_TEXT = 200
"""Characters of an unexpected error that a status shows."""


def conditions_since(
    stored: Iterable[Condition], told: Iterable[Condition], wall: datetime, generation: int
) -> tuple[Condition, ...]:
    """What is told now, with the time since when it is so, and cut to what the API takes."""
    since = {(condition.type, condition.status): condition.last_transition_time for condition in stored}
    return tuple(
        msgspec.structs.replace(
            condition,
            message=condition.message[:MESSAGE_LIMIT],
            last_transition_time=since.get((condition.type, condition.status)) or rfc3339(wall),
            observed_generation=generation,
        )
        for condition in told
    )


EVENT_PERIOD_S = 60.0
EVENTS_PER_MIN = 30
NOTE_LIMIT = 1000
"""Bytes: the API refuses notes from 1 kB on, and a server's own words may be of any script."""
INSTANCE_LIMIT = 128
EVENT_NAMESPACE = "default"
"""Where Events about cluster-scoped objects go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAuthor:
    """Who tells, and about objects of which kind; `action` is what is done with them."""

    controller: str
    instance: str
    action: str
    api_version: str
    kind: str

    def event(
        self, about: Metadata, why: Because, wall: datetime, *, is_warning: bool, names: str = ""
    ) -> dict[str, Any]:
        """The Event to create; `names` are of those that the sentence is about, where that is not the object itself."""
        note = f"{names}: {why.sentence}" if names else why.sentence
        namespace = {"namespace": about.namespace} if about.namespace else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{about.name[:200].rstrip('-.')}-",
                "namespace": about.namespace or EVENT_NAMESPACE,
            },
            "eventTime": wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": self.controller,
            "reportingInstance": self.instance[:INSTANCE_LIMIT],
            "action": self.action,
            "reason": why.code,
            "type": "Warning" if is_warning else "Normal",
            "note": note.encode()[:NOTE_LIMIT].decode(errors="ignore"),
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
        self._told = {key: at_s for key, at_s in self._told.items() if now_s - at_s < EVENT_PERIOD_S}
        if what in self._told or len(self._told) >= EVENTS_PER_MIN:
            return False
        self._told[what] = now_s
        return True
