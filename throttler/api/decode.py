"""From what the API server sends to a JoinThrottle, or to the reason why not: never an exception."""

from collections.abc import Mapping
from typing import Any

import msgspec

from throttler.api.rules import problems
from throttler.api.throttle import THROTTLE_KIND, JoinThrottle, ThrottleSpec, ThrottleStatus
from throttler.kube.decoding import Form, Invalid, decode_object, texts


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
