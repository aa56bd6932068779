"""Our ceilings held against the user's own limits: never above them, and theirs left alone where they are lower."""

from collections.abc import Mapping
from typing import Any

from throttler.kube.quantity import BYTES, QuantityError, Resources, format_resources, parse_quantity
from throttler.levers.original import Mark

MEBIBYTE = 1024 * 1024 * 1000
"""In milli-bytes; ceilings in memory are whole ones, or nobody could read them."""


def amount_of(value: Any) -> int:
    """Milli-units of a quantity as the API carries it, text or number; raises QuantityError."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"{value!r} is not a quantity")
    return parse_quantity(str(value))


def clamped(wanted: Resources, kept: Mark, current: Mapping[str, Any]) -> dict[str, Any]:
    """The values to write: the wanted ones within the user's limits, in the API's form.

    `kept` is the mark, `current` what stands on the object. A limit of the user's that is not higher stays his and is
    left out; where ours stands it is written with his value, because dropping a field that we own would remove it.
    Raises QuantityError where a limit of the user's cannot be compared.
    """
    originals = {**current, **{name: kept.original[name] for name in kept.ceiling}}
    held = {name: kept.original[name] for name in kept.ceiling if kept.original[name] is not None}
    texts = format_resources({name: _rounded(name, milli) for name, milli in wanted.items()})
    lower = {name for name, milli in wanted.items() if _is_at_most(originals.get(name), milli)}
    return {**held, **{name: text for name, text in texts.items() if name not in lower}}


def unraised(wanted: Resources, standing: Resources, usage: Resources) -> Resources:
    """The ceilings that stand where all that is wanted is more room, else the wanted ones.

    More room can wait for a moment; less room, the first ceiling of all, and room for what exists already cannot.
    """
    can_wait = wanted.keys() <= standing.keys() and all(
        usage.get(name, 0) <= standing[name] <= milli for name, milli in wanted.items()
    )
    return {name: standing[name] for name in wanted} if can_wait else wanted


def _is_at_most(theirs: Any, milli: int) -> bool:
    return theirs is not None and amount_of(theirs) <= milli


def _rounded(name: str, milli: int) -> int:
    return -(-milli // MEBIBYTE) * MEBIBYTE if name in BYTES else milli


def shown(limits: Mapping[str, Any]) -> str:
    """Limits as a short text: `cpu 24, memory 96Gi`; one that does not exist is `none`."""
    return ", ".join(f"{name} {'none' if limits[name] is None else limits[name]}" for name in sorted(limits))
