"""Checks plain data against the types of our objects: the part that the CRD's schema checks.

msgspec's own errors name neither the place in a list nor the value nor the enum's members, and stop at the
first. Here every problem is told, in sentences that say what the type accepts.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from msgspec import inspect

from throttler.kube.problem import Problem, shown


def structural_problems(value: Any, expected: type, path: str) -> Iterator[Problem]:
    """Every way in which `value` (plain data of JSON) does not fit the type."""
    yield from _problems(value, inspect.type_info(expected), path, path)


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
        case inspect.VarTupleType(max_length=most):
            return isinstance(value, list) and _is_sized(value, None, most)
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
        case inspect.VarTupleType(max_length=most):
            return "a list" if most is None else f"a list of at most {most}"
        case inspect.DictType(max_length=most):
            return "a mapping" if most is None else f"a mapping of at most {most}"
    return "a mapping"


def _names(members: type[Enum]) -> list[str]:
    return [str(member.value) for member in members]
