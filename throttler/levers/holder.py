"""Who keeps a lever in force: written on every object that a throttle changes, and read by the guard.

No time is written: it would cost a write per tick, and clocks of two machines cannot be compared. The guard watches
the named Lease by its own clock.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

THROTTLE_LABEL = "kube-balloons.github.io/throttle"
"""On every object that a throttle changed or made: the JoinThrottle's name. A list by it finds them all."""
HOLDER_ANNOTATION = "kube-balloons.github.io/holder"
"""`namespace/name` of the Lease whose renewal keeps the change in force."""
EPOCH_ANNOTATION = "kube-balloons.github.io/epoch"
"""The Lease's transitions when it was written; never goes down."""
LONGEST_LABEL = 63
_HASH_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The throttle in whose name is written, and the leadership under which."""

    throttle: str
    lease: str = ""
    """`namespace/name`; empty without leader election."""
    epoch: int = 0

    @property
    def label(self) -> str:
        """The throttle's name as a label's value, which is shorter than a name may be."""
        if len(self.throttle) <= LONGEST_LABEL:
            return self.throttle
        digest = hashlib.sha256(self.throttle.encode()).hexdigest()[:_HASH_DIGITS]
        return f"{self.throttle[: LONGEST_LABEL - _HASH_DIGITS - 1]}-{digest}"

    @property
    def annotations(self) -> dict[str, str]:
        """What goes with every change."""
        return {HOLDER_ANNOTATION: self.lease, EPOCH_ANNOTATION: str(self.epoch)}


def epoch_of(annotations: Mapping[str, str]) -> int:
    """The epoch under which an object was last written; 0 where none can be read."""
    text = annotations.get(EPOCH_ANNOTATION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
