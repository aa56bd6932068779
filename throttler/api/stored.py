"""A JoinThrottle as it is stored: readable, or refused with the reason. Pure."""

from dataclasses import dataclass, field

import msgspec

from throttler.api.decode import decode_throttle
from throttler.api.throttle import JoinThrottle, ThrottleStatus
from throttler.kube.decoding import Invalid, Refused, status_of
from throttler.kube.metadata import Metadata


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
