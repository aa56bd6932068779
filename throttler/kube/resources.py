"""Arithmetic on resource lists: mappings from resource name to milli-units."""

from collections.abc import Iterable, Mapping

from throttler.kube.quantity import format_bytes, format_milli, parse_quantity

Resources = Mapping[str, int]
"""Resource name -> amount in milli-units (cpu, memory, nvidia.com/gpu, pods, ...)."""

BYTES = frozenset({"memory", "ephemeral-storage"})


def parse_resources(texts: Mapping[str, str]) -> dict[str, int]:
    """Every quantity of a resource list; raises QuantityError at the first bad one."""
    return {name: parse_quantity(text) for name, text in texts.items()}


def format_resources(amounts: Resources) -> dict[str, str]:
    """The texts the API server would echo: canonical, sorted by name."""
    return {name: _format(name, amounts[name]) for name in sorted(amounts)}


def _format(name: str, milli: int) -> str:
    is_bytes = name in BYTES or name.startswith("hugepages-")
    return format_bytes(milli) if is_bytes else format_milli(milli)


def total(lists: Iterable[Resources]) -> dict[str, int]:
    """The sum of several lists, name by name."""
    result: dict[str, int] = {}
    for amounts in lists:
        for name, milli in amounts.items():
            result[name] = result.get(name, 0) + milli
    return result


def minus(left: Resources, right: Resources) -> dict[str, int]:
    """What is left of `left`; never below zero, and names that only `right` has are dropped."""
    return {name: max(0, milli - right.get(name, 0)) for name, milli in left.items()}


def larger(left: Resources, right: Resources) -> dict[str, int]:
    """The larger amount of each name: what sequential init containers cost."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def largest(lists: Iterable[Resources]) -> Resources:
    """The one with the most cpu, and of these the most memory; empty where there is none."""
    return max(lists, key=lambda one: (one.get("cpu", 0), one.get("memory", 0)), default={})


def fits(request: Resources, room: Resources) -> bool:
    """Whether each requested amount is there; a resource that `room` does not name is zero."""
    return all(milli <= room.get(name, 0) for name, milli in request.items() if milli > 0)
