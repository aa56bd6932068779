"""From what the API server sends to a BalloonPool, or to the reason why not: never an exception.

One object that nobody could foresee must not stop the others, so everything that can be wrong with one ends
as an `Invalid` value that the decision carries to the object's status.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from balloons.api.pool import BalloonPool, PoolSpec, PoolStatus
from balloons.api.problem import Problem
from balloons.api.rules import problems
from balloons.api.structure import structural_problems, without_nulls
from throttler.kube.metadata import Metadata, ObjectKey, key_of

_QUANTITY_FIELDS = ("resources", "slack")


class Invalid(msgspec.Struct, frozen=True):
    """A pool that breaks a rule. `message` names each field with its value and what is accepted."""

    key: ObjectKey
    message: str
    generation: int = 0


def decode_pool(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> BalloonPool | Invalid:
    """The pool of an object as the API server sends it (JSON, or the same as plain data)."""
    data = _plain(raw)
    if isinstance(data, Problem):
        return Invalid(ObjectKey("", ""), str(data))
    metadata = _metadata(data.get("metadata"))
    if isinstance(metadata, Invalid):
        return metadata
    spec = _spec(data.get("spec"))
    if isinstance(spec, PoolSpec):
        pool = BalloonPool(metadata, spec, _status(data.get("status")))
        found = problems(pool)
        return _invalid(metadata, found) if found else pool
    return _invalid(metadata, spec)


def _plain(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> Mapping[str, Any] | Problem:
    try:
        data = raw if isinstance(raw, Mapping) else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Problem("object", f"the text is no JSON ({error}); accepted: a BalloonPool object")
    if not isinstance(data, Mapping):
        return Problem("object", f"the text is no object but {type(data).__name__}; accepted: a BalloonPool")
    return data


def _metadata(data: Any) -> Metadata | Invalid:
    try:
        return msgspec.convert(without_nulls(data), Metadata)
    except (msgspec.ValidationError, RecursionError) as error:
        names = data if isinstance(data, Mapping) else {}
        key = ObjectKey(str(names.get("namespace") or ""), str(names.get("name") or ""))
        return Invalid(key, f"metadata: {error}; accepted: the metadata of a stored object")


def _spec(data: Any) -> PoolSpec | tuple[Problem, ...]:
    if data is None:
        return (Problem("spec", "spec is missing; accepted: a mapping with nodes and mode"),)
    try:
        plain = _with_textual_quantities(without_nulls(data))
        found = tuple(structural_problems(plain, PoolSpec, "spec"))
        return found or msgspec.convert(plain, PoolSpec)
    except (msgspec.ValidationError, RecursionError) as error:
        return (Problem("spec", f"{error}; accepted: the spec of a BalloonPool"),)


def _with_textual_quantities(spec: Any) -> Any:
    """The same spec with whole-number quantities as text: users write `cpu: 4` as well as `cpu: "4"`."""
    shape = spec.get("shape") if isinstance(spec, dict) else None
    if not isinstance(shape, dict):
        return spec
    amounts = {name: _texts(shape[name]) for name in _QUANTITY_FIELDS if name in shape}
    return {**spec, "shape": {**shape, **amounts}}


def _texts(amounts: Any) -> Any:
    if not isinstance(amounts, dict):
        return amounts
    return {name: str(amount) if type(amount) is int else amount for name, amount in amounts.items()}


def _status(data: Any) -> PoolStatus:
    """Our own words of earlier; what another version wrote and this one cannot read counts as not written."""
    try:
        return msgspec.convert(without_nulls(data or {}), PoolStatus)
    except (msgspec.ValidationError, RecursionError):
        return PoolStatus()


def _invalid(metadata: Metadata, found: tuple[Problem, ...]) -> Invalid:
    return Invalid(key_of(metadata), "; ".join(map(str, found)), metadata.generation)
