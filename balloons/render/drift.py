"""Whether a stored object already says what we would apply."""

from collections.abc import Mapping
from typing import Any

from throttler.kube.quantity import QuantityError, parse_quantity

AMOUNTS = frozenset({"requests", "limits"})
"""Fields whose values are quantities by the name of a resource."""


def says(stored: Any, wanted: Any) -> bool:
    """Whether `stored` holds everything that `wanted` says; what the server or others added does not matter.

    Mappings are compared key by key. Lists must have equal lengths and items that say the same, in order: the lists
    we apply are all ours. Empty mappings and lists that the server drops count as said. Requests and limits are
    compared as the amounts they stand for: the server stores 1000 as 1k.
    """
    if isinstance(wanted, Mapping):
        return isinstance(stored, Mapping) and all(
            _part_says(key, stored[key], value) if key in stored else _is_nothing(value)
            for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(stored, list | tuple)
            and len(stored) == len(wanted)
            and all(says(a, b) for a, b in zip(stored, wanted, strict=True))
        )
    return bool(stored == wanted)


def _part_says(key: Any, stored: Any, wanted: Any) -> bool:
    if key in AMOUNTS and isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        return all(name in stored and _is_same_amount(stored[name], amount) for name, amount in wanted.items())
    return says(stored, wanted)


def _is_same_amount(stored: Any, wanted: Any) -> bool:
    try:
        return parse_quantity(str(stored)) == parse_quantity(str(wanted))
    except QuantityError:
        return bool(stored == wanted)


def _is_nothing(value: Any) -> bool:
    """What a server may leave out; a zero is something (a grace period of 0 s is not the default)."""
    return value is False or (isinstance(value, Mapping | list | tuple | str) and not value)
