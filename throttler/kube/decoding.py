"""From what the API server sends to an object of ours, or to the reason why not: never an exception.

One object that nobody could foresee must not stop the others, so everything that can be wrong with one ends as an
`Invalid` value that the decision carries to the object's status.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from throttler.kube.metadata import Metadata, ObjectKey, key_of
from throttler.kube.problem import Problem
from throttler.kube.structure import structural_problems, without_nulls

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T", bound=msgspec.Struct)
O = TypeVar("O")  # noqa: E741 (an object, as S is its spec and T its status)


class Invalid(msgspec.Struct, frozen=True):
    """An object that breaks a rule. `message` names each field with its value and what is accepted."""

    key: ObjectKey
    message: str
    generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Form(Generic[S, T, O]):
    """What an object of one kind consists of."""

    kind: str
    spec: type[S]
    status: type[T]
    """Without required fields: a status that cannot be read counts as not written."""
    make: Callable[[Metadata, S, T], O]
    rules: Callable[[O], tuple[Problem, ...]]
    """Every rule that a well-formed object breaks."""
    prepared: Callable[[Any], Any]
    """The spec as users write it (plain data) -> as the types have it."""
    without_spec: Mapping[str, Any] | Problem
    """What an absent spec stands for."""


def decode_object(raw: bytes | msgspec.Raw | Mapping[str, Any], form: Form[S, T, O]) -> O | Invalid:
    """The object as the API server sends it (JSON, or the same as plain data)."""
    data = _plain(raw, form.kind)
    if isinstance(data, Problem):
        return Invalid(ObjectKey("", ""), str(data))
    metadata = _metadata(data.get("metadata"))
    if isinstance(metadata, Invalid):
        return metadata
    spec = _spec(data.get("spec"), form)
    if isinstance(spec, tuple):
        return _invalid(metadata, spec)
    made = form.make(metadata, spec, status_of(data.get("status"), form.status))
    found = form.rules(made)
    return _invalid(metadata, found) if found else made


def status_of(data: Any, expected: type[T]) -> T:
    """Our own words of earlier; what another version wrote and this one cannot read counts as not written."""
    try:
        plain = msgspec.json.decode(data) if isinstance(data, bytes | msgspec.Raw) else data
        return msgspec.convert(without_nulls(plain or {}), expected)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return expected()


def texts(amounts: Any) -> Any:
    """A mapping with its whole numbers as text: users write `cpu: 4` as well as `cpu: "4"`."""
    if not isinstance(amounts, dict):
        return amounts
    return {name: str(amount) if type(amount) is int else amount for name, amount in amounts.items()}


def _plain(raw: bytes | msgspec.Raw | Mapping[str, Any], kind: str) -> Mapping[str, Any] | Problem:
    try:
        data = raw if isinstance(raw, Mapping) else msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Problem("object", f"the text is no JSON ({error}); accepted: a {kind} object")
    if not isinstance(data, Mapping):
        return Problem("object", f"the text is no object but {type(data).__name__}; accepted: a {kind}")
    return data


def _metadata(data: Any) -> Metadata | Invalid:
    try:
        return msgspec.convert(without_nulls(data), Metadata)
    except (msgspec.ValidationError, RecursionError) as error:
        names = data if isinstance(data, Mapping) else {}
        key = ObjectKey(str(names.get("namespace") or ""), str(names.get("name") or ""))
        return Invalid(key, f"metadata: {error}; accepted: the metadata of a stored object")


def _spec(data: Any, form: Form[S, T, O]) -> S | tuple[Problem, ...]:
    given = form.without_spec if data is None else data
    if isinstance(given, Problem):
        return (given,)
    try:
        plain = form.prepared(without_nulls(given))
        found = tuple(structural_problems(plain, form.spec, "spec"))
        return found or msgspec.convert(plain, form.spec)
    except (msgspec.ValidationError, RecursionError) as error:
        return (Problem("spec", f"{error}; accepted: the spec of a {form.kind}"),)


def _invalid(metadata: Metadata, found: tuple[Problem, ...]) -> Invalid:
    return Invalid(key_of(metadata), "; ".join(map(str, found)), metadata.generation)
