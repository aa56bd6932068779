"""The chart's values.schema.json: what its values.yaml has, and nothing else."""

from collections.abc import Sequence
from typing import Any

from lab.manifests.values import Value

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


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
