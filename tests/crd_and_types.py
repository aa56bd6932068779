"""A CRD's schema beside the msgspec types that mirror it: every place that both know, and what each says of it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

MANIFESTS = Path(__file__).parents[1] / "manifests"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")

Place = tuple[str, dict[str, Any], dict[str, Any]]
"""Path, schema of the CRD, schema of the types."""


def crd_of(plural: str) -> dict[str, Any]:
    """The manifest as it is applied."""
    found: dict[str, Any] = yaml.load((MANIFESTS / f"crds/{plural}.yaml").read_text(encoding="utf-8"), Loader=_LOADER)
    return found


def without_validations(schema: Any) -> Any:
    """A schema, or a whole manifest, as a server would have it that knows no validations."""
    if isinstance(schema, dict):
        return {name: without_validations(part) for name, part in schema.items() if name != "x-kubernetes-validations"}
    return [without_validations(part) for part in schema] if isinstance(schema, list) else schema


def older_crd(plural: str, group: str) -> dict[str, Any]:
    """The manifest without its validations, under a group of its own: it may be served beside the real one."""
    crd: dict[str, Any] = without_validations(crd_of(plural))
    crd["metadata"]["name"] = f"{plural}.{group}"
    # The short names belong to the real one.
    names = {key: value for key, value in crd["spec"]["names"].items() if key not in ("shortNames", "categories")}
    return {**crd, "spec": {**crd["spec"], "group": group, "names": names}}


def served(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The only version."""
    (version,) = crd["spec"]["versions"]
    return dict(version)


def schema_of(crd: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the whole object."""
    return dict(served(crd)["schema"]["openAPIV3Schema"])


def places(crd: Mapping[str, Any], form: type[msgspec.Struct]) -> list[Place]:
    """Every field of spec and status; a field that only one side has makes a KeyError."""
    types = msgspec.json.schema(form)
    root, properties = _resolved(types, types)["properties"], schema_of(crd)["properties"]
    return [place for part in ("spec", "status") for place in _pairs(properties[part], root[part], part, types)]


def _resolved(schema: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    """A msgspec schema without references and without the null of optional fields."""
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        return {**_resolved(types["$defs"][schema["$ref"].rpartition("/")[2]], types), **rest}
    if "anyOf" in schema:
        return {**_resolved(next(part for part in schema["anyOf"] if part.get("type") != "null"), types), **rest}
    return rest


def _pairs(crd: Mapping[str, Any], schema: Mapping[str, Any], path: str, types: Mapping[str, Any]) -> Iterator[Place]:
    schema = _resolved(schema, types)
    yield path, dict(crd), schema
    for name in sorted({*crd.get("properties", {}), *schema.get("properties", {})}):
        yield from _pairs(crd["properties"][name], schema["properties"][name], f"{path}.{name}", types)
    for inner in ("items", "additionalProperties"):
        if inner in crd or isinstance(schema.get(inner), dict):
            yield from _pairs(crd[inner], schema[inner], f"{path}[]", types)


def type_of_crd(schema: Mapping[str, Any]) -> str:
    """Quantities are text in the types."""
    return "string" if schema.get("x-kubernetes-int-or-string") else str(schema["type"])


def default_of_crd(schema: Mapping[str, Any]) -> Any:
    """What the API server fills in; an empty mapping takes the defaults of its fields."""
    if schema.get("default") != {}:
        return schema.get("default")
    filled = {name: default_of_crd(part) for name, part in schema.get("properties", {}).items()}
    return _without_nothing(filled)


def default_of_type(schema: Mapping[str, Any]) -> Any:
    """What the struct fills in; empty texts, lists and mappings are what an absent field means."""
    return _without_nothing(schema.get("default"))


def _without_nothing(default: Any) -> Any:
    if isinstance(default, dict):
        kept = {name: _without_nothing(value) for name, value in default.items()}
        return {name: value for name, value in kept.items() if value not in (None, False)} or None
    return None if default in ("", [], ()) else default


def every_schema(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each part of a CRD's schema with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from every_schema(part, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            yield from every_schema(schema[inner], f"{path}[]")


def validations(schema: Any) -> list[dict[str, str]]:
    """All rules of a schema."""
    return [rule for _, part in every_schema(schema) for rule in part.get("x-kubernetes-validations", ())]


def patterns(schema: Any, field: str) -> set[str]:
    """The regular expressions in the validations of every field whose path ends so."""
    found = [
        re.findall(r"matches\('(?:\(\?i\))?\^(.*?)\$?'\)", rule["rule"])
        for path, part in every_schema(schema)
        for rule in part.get("x-kubernetes-validations", ())
        if path.endswith(field)
    ]
    return {pattern.replace("\\\\", "\\") for matched in found for pattern in matched}


class Agreement:
    """Tests that hold for each CRD of ours and the types that mirror it; a class of tests says which these are."""

    CRD: Mapping[str, Any]
    TYPES: type[msgspec.Struct]
    RULED: tuple[str, ...]
    """Places whose types other objects use too: their bounds are rules, and not in the types."""

    @property
    def places(self) -> list[Place]:
        return places(self.CRD, self.TYPES)

    @property
    def schemas(self) -> list[tuple[str, dict[str, Any]]]:
        return list(every_schema(schema_of(self.CRD)))

    def test_types_agree(self) -> None:
        assert {path: type_of_crd(crd) for path, crd, _ in self.places} == {
            path: types.get("type", "string") for path, _, types in self.places
        }

    def test_required_fields_agree(self) -> None:
        assert {path: sorted(crd.get("required", ())) for path, crd, _ in self.places} == {
            path: sorted(types.get("required", ())) for path, _, types in self.places
        }

    def test_bounds_agree(self) -> None:
        own = [place for place in self.places if place[0].startswith("spec") and not place[0].startswith(self.RULED)]
        assert {path: [crd.get(name) for name in BOUNDS] for path, crd, _ in own} == {
            path: [types.get(name) for name in BOUNDS] for path, _, types in own
        }

    def test_defaults_agree(self) -> None:
        below = [place for place in self.places if place[0].startswith("spec.")]
        assert {path: default_of_crd(crd) for path, crd, _ in below} == {
            path: default_of_type(types) for path, _, types in below
        }

    def test_every_field_is_described_and_bounded(self) -> None:
        for path, schema in self.schemas:
            assert schema.get("description") or path == ".metadata", path
            if schema.get("type") == "string" and path not in (".apiVersion", ".kind"):
                assert "maxLength" in schema or "enum" in schema, path
            if schema.get("type") == "array":
                assert "maxItems" in schema, path
                assert "x-kubernetes-list-type" in schema, path

    def test_every_validation_says_what_is_accepted(self) -> None:
        rules = validations(schema_of(self.CRD))
        assert len(rules) >= 30
        assert all("; accepted: " in rule["messageExpression"] for rule in rules)
