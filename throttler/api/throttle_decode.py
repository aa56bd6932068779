"""From what the API server sends to a JoinThrottle, or to the reason why it is refused: never an exception. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from throttler.api.throttle import THROTTLE_KIND, JoinThrottle, ThrottleSpec, ThrottleStatus
from throttler.api.throttle_rules import problems
from throttler.kube.decoding import Form, Invalid, Refused, decode_object, status_of, texts
from throttler.kube.metadata import Metadata


def decode_throttle(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> JoinThrottle | Invalid:
    """The throttle of an object as the API server sends it (JSON, or the same as plain data)."""
    return decode_object(raw, _FORM)


def _with_textual_thresholds(spec: Any) -> Any:
    """The same spec with whole-number thresholds as text: users write `threshold: 5` as well as `threshold: "5"`."""
    signals = spec.get("signals") if isinstance(spec, dict) else None
    alarms = signals.get("alarms") if isinstance(signals, dict) else None
    if not isinstance(signals, dict) or not isinstance(alarms, list):
        return spec
    readable = [_with_textual_threshold(alarm) for alarm in alarms]
    return {**spec, "signals": {**signals, "alarms": readable}}


def _with_textual_threshold(alarm: Any) -> Any:
    if not isinstance(alarm, dict) or "threshold" not in alarm:
        return alarm
    return {**alarm, **texts({"threshold": alarm["threshold"]})}


_FORM = Form(
    kind=THROTTLE_KIND,
    spec=ThrottleSpec,
    status=ThrottleStatus,
    make=JoinThrottle,
    rules=problems,
    prepared=_with_textual_thresholds,
    without_spec={},
)


class ThrottleWire(msgspec.Struct, frozen=True):
    """A JoinThrottle with spec and status left as they came: whatever is in them, the object itself is seen."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class RefusedThrottle(Refused[ThrottleStatus]):
    """A throttle that breaks a rule."""

    status: ThrottleStatus = field(default_factory=ThrottleStatus)


StoredThrottle = JoinThrottle | RefusedThrottle


def throttle_from_wire(wire: ThrottleWire) -> StoredThrottle:
    """The throttle, or who it is and which rule it breaks."""
    found = decode_throttle(msgspec.json.encode(wire))
    if isinstance(found, Invalid):
        return RefusedThrottle(wire.metadata, found.message, status_of(wire.status, ThrottleStatus))
    return found
