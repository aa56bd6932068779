"""From what the API server sends to an object of ours, or to the reason why not: never an exception.

msgspec's own errors name neither the place in a list nor the value nor the enum's members, and stop at the
first. Here every problem is told, in sentences that say what the type accepts.

One object that nobody could foresee must not stop the others, so everything that can be wrong with one ends as an
`Invalid` value that the decision carries to the object's status.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import inspect

from throttler.kube.metadata import Metadata, ObjectKey, key_of

LONGEST_VALUE = 64
"""Characters of a user's value that a sentence repeats."""
LONGEST_NAME = 63
"""Characters of a label's value: other objects carry the names of ours as labels."""


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` as the API server spells it (spec.schedules[0].cron); `sentence` names value and what is accepted."""

    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}: {self.sentence}"


def shown(value: object) -> str:
    """A value as sentences repeat it: text in quotes, lists and mappings by their kind, long ones cut."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{_cut(value)}"'
        case dict():
            return "a mapping"
        case list() | tuple():
            return f"a list of {len(value)}"
    return _cut(str(value))


def not_one_of(value: str, accepted: Sequence[str], path: str) -> Iterator[Problem]:
    """The problem of a value that is none of those accepted."""
    if value not in accepted:
        name = path.rpartition(".")[2]
        yield Problem(path, f'{name} "{value}" is not accepted; accepted: {", ".join(accepted)}')


def name_problems(name: str, carrier: str) -> Iterator[Problem]:
    """The problem of a name that is too long to be the label that `carrier` carries."""
    if len(name) > LONGEST_NAME:
        yield Problem(
            "metadata.name",
            f'name "{name}" has {len(name)} characters; accepted: at most 63, because {carrier} carries it as a label',
        )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def structural_problems(value: Any, expected: type, path: str) -> Iterator[Problem]:
    """Every way in which `value` (plain data of JSON) does not fit the type."""
    yield from _problems(value, _type_info(expected), path, path)


@cache
def _type_info(expected: type) -> inspect.Type:
    """Worked out once for each type: the annotations of all its parts are read for it."""
    return inspect.type_info(expected)


def without_nulls(value: Any) -> Any:
    """The same data less every null field: null means absent, as it does to the API server."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _problems(value: Any, expected: inspect.Type, path: str, name: str) -> Iterator[Problem]:
    expected = _present(expected)
    if not _fits(value, expected):
        yield Problem(path, f"{name} {shown(value)} is not accepted; accepted: {_accepted(expected)}")
        return
    match expected:
        case inspect.StructType(fields=fields):
            yield from _problems_of_fields(value, fields, path)
        case inspect.VarTupleType(item_type=item):
            for index, part in enumerate(value):
                yield from _problems(part, item, f"{path}[{index}]", f"{name}[{index}]")
        case inspect.DictType(value_type=item):
            for key, part in value.items():
                yield from _problems(part, item, f"{path}[{key}]", f"{name}[{key}]")


def _problems_of_fields(value: Mapping[str, Any], fields: tuple[inspect.Field, ...], path: str) -> Iterator[Problem]:
    for field in fields:
        name = field.encode_name
        if name in value:
            yield from _problems(value[name], field.type, f"{path}.{name}", name)
        elif field.required:
            yield Problem(f"{path}.{name}", f"{name} is missing; accepted: {_accepted(_present(field.type))}")


def _present(expected: inspect.Type) -> inspect.Type:
    """The type without its `None`: optional fields are either absent or of the other type."""
    if isinstance(expected, inspect.UnionType):
        return next(part for part in expected.types if not isinstance(part, inspect.NoneType))
    return expected


def _fits(value: Any, expected: inspect.Type) -> bool:
    match expected:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType(ge=least, le=most):
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return is_whole and (least is None or value >= least) and (most is None or value <= most)
        case inspect.StrType(min_length=least, max_length=most):
            return isinstance(value, str) and _is_sized(value, least, most)
        case inspect.EnumType(cls=members):
            return isinstance(value, str) and value in _names(members)
        case inspect.VarTupleType(min_length=least, max_length=most):
            return isinstance(value, list) and _is_sized(value, least, most)
        case inspect.DictType(max_length=most):
            return isinstance(value, dict) and _is_sized(value, None, most)
        case inspect.StructType():
            return isinstance(value, dict)
    raise TypeError(f"{expected} has no counterpart in the CRD")


def _is_sized(value: str | list[Any] | dict[str, Any], least: int | None, most: int | None) -> bool:
    return (least is None or len(value) >= least) and (most is None or len(value) <= most)


def _accepted(expected: inspect.Type) -> str:
    match expected:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType(ge=least, le=most):
            return "a whole number" if most is None else f"a whole number from {least or 0} to {most}"
        case inspect.StrType(min_length=least, max_length=most):
            return "text" if most is None else f"text of {least or 0} to {most} characters"
        case inspect.EnumType(cls=members):
            return ", ".join(_names(members))
        case inspect.VarTupleType(min_length=least, max_length=most):
            size = f"{least} to {most}" if least else f"at most {most}"
            return "a list" if most is None else f"a list of {size}"
        case inspect.DictType(max_length=most):
            return "a mapping" if most is None else f"a mapping of at most {most}"
    return "a mapping"


def _names(members: type[Enum]) -> list[str]:
    return [str(member.value) for member in members]


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
    problems = form.rules(made)
    return _invalid(metadata, problems) if problems else made


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
    spec = form.without_spec if data is None else data
    if isinstance(spec, Problem):
        return (spec,)
    try:
        plain = form.prepared(without_nulls(spec))
        problems = tuple(structural_problems(plain, form.spec, "spec"))
        return problems or msgspec.convert(plain, form.spec)
    except (msgspec.ValidationError, RecursionError) as error:
        return (Problem("spec", f"{error}; accepted: the spec of a {form.kind}"),)


def _invalid(metadata: Metadata, problems: tuple[Problem, ...]) -> Invalid:
    return Invalid(key_of(metadata), "; ".join(map(str, problems)), metadata.generation)


StatusT = TypeVar("StatusT")


@dataclass(frozen=True, slots=True)
class Refused(Generic[StatusT]):
    """Who it is, the sentence that says why, and the status it carries."""

    metadata: Metadata
    problem: str
    status: StatusT

    @property
    def key(self) -> ObjectKey:
        """Namespace (empty where the kind has none) and name."""
        return key_of(self.metadata)
