"""Reads a chart's values.yaml with the comments above its keys, and writes its values.schema.json."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

SCHEMA_MARK = "@schema "
"""A comment line that starts so holds JSON Schema, which narrows what its key accepts."""

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


@dataclass(frozen=True, kw_only=True)
class Value:
    """One key: its path, its documentation, its default, and the keys below it."""

    path: tuple[str, ...]
    text: str
    default: Any
    narrowing: dict[str, Any] = field(default_factory=dict)
    below: tuple["Value", ...] = ()

    @property
    def key(self) -> str:
        """The last part of the path."""
        return self.path[-1]

    @property
    def dotted(self) -> str:
        """The path as `helm --set` takes it."""
        return ".".join(self.path)


def read_values(text: str) -> tuple[Value, ...]:
    """The keys of a values.yaml, in its order."""
    document = yaml.compose(text)
    assert isinstance(document, yaml.MappingNode)
    return tuple(_values(document, (), text.splitlines()))


def _values(mapping: yaml.MappingNode, path: tuple[str, ...], lines: Sequence[str]) -> Iterator[Value]:
    for key, node in mapping.value:
        here = (*path, str(key.value))
        documentation, narrowing = _comment(lines, key.start_mark.line)
        # A map that says what it accepts is the user's own; any other is ours, key by key.
        is_ours = isinstance(node, yaml.MappingNode) and bool(node.value) and not narrowing
        below = tuple(_values(node, here, lines)) if is_ours else ()
        yield Value(path=here, text=documentation, default=_default(node), narrowing=narrowing, below=below)


def _comment(lines: Sequence[str], number: int) -> tuple[str, dict[str, Any]]:
    """The comment block right above a line: its words, and its JSON Schema."""
    block: list[str] = []
    while number > 0 and lines[number - 1].lstrip().startswith("#"):
        number -= 1
        block.insert(0, lines[number].lstrip().removeprefix("#").strip())
    words = [line for line in block if not line.startswith(SCHEMA_MARK)]
    schemas = [json.loads(line.removeprefix(SCHEMA_MARK)) for line in block if line.startswith(SCHEMA_MARK)]
    return " ".join(words), {name: part for schema in schemas for name, part in schema.items()}


def _default(node: yaml.Node) -> Any:
    return yaml.safe_load(yaml.serialize(node))


def values_schema(values: Sequence[Value]) -> dict[str, Any]:
    """The whole schema. The root accepts what parent charts hand down: `enabled`, `tags`, and anything in `global`."""
    schema = _object(values)
    schema["properties"]["global"]["additionalProperties"] = True
    schema["properties"] |= {"enabled": {"type": "boolean"}, "tags": {"type": "object"}}
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def _object(values: Sequence[Value]) -> dict[str, Any]:
    properties = {value.key: _described(value) for value in values}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _described(value: Value) -> dict[str, Any]:
    return {"description": value.text, **_accepted(value)}


def _accepted(value: Value) -> dict[str, Any]:
    if value.below:
        return _object(value.below)
    schema: dict[str, Any] = {"type": _TYPES[type(value.default)], **value.narrowing}
    if schema["type"] == "object" and "propertyNames" not in schema:
        schema.setdefault("additionalProperties", False)
    return schema
