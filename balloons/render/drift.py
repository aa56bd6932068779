"""Whether a stored object already says what we would apply."""

from collections.abc import Mapping
from typing import Any


def says(stored: Any, wanted: Any) -> bool:
    """Whether `stored` holds everything that `wanted` says; what the server or others added does not matter.

    Mappings are compared key by key. Lists must have equal lengths and items that say the same, in order: the lists
    we apply are all ours. Empty mappings and lists that the server drops count as said.
    """
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            says(stored[key], value) if key in stored else _is_nothing(value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(stored, list | tuple)
            and len(stored) == len(wanted)
            and all(says(a, b) for a, b in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)


def _is_nothing(value: Any) -> bool:
    """What a server may leave out; a zero is something (a grace period of 0 s is not the default)."""
    return value is False or (isinstance(value, Mapping | list | tuple | str) and not value)
