"""The CRD and the types say the same: fields, what is required, enums, bounds, defaults; and it is a manual."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from balloons.api import cron, duration, node_rules, shape_rules
from balloons.api.pool import GROUP, POOL_KIND, POOL_PLURAL, VERSION, BalloonPool

MANIFESTS = Path(__file__).parents[4] / "manifests"
CRD = yaml.safe_load((MANIFESTS / "crds/balloonpools.yaml").read_text(encoding="utf-8"))
SERVED = CRD["spec"]["versions"][0]
SCHEMA: dict[str, Any] = SERVED["schema"]["openAPIV3Schema"]
TYPES: dict[str, Any] = msgspec.json.schema(BalloonPool)

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")


def resolved(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A msgspec schema without references and without the null of optional fields."""
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf")}
    if "$ref" in schema:
        return {**resolved(TYPES["$defs"][schema["$ref"].rpartition("/")[2]]), **rest}
    if "anyOf" in schema:
        return {**resolved(next(part for part in schema["anyOf"] if part.get("type") != "null")), **rest}
    return rest


def pairs(crd: Mapping[str, Any], types: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every place that both know, with both schemas; a property only one side has makes a KeyError."""
    types = resolved(types)
    yield path, crd, types
    for name in sorted({*crd.get("properties", {}), *types.get("properties", {})}):
        yield from pairs(crd["properties"][name], types["properties"][name], f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in crd or isinstance(types.get(inner), dict):
            yield from pairs(crd[inner], types[inner], f"{path}[]")


def places() -> list[tuple[str, Any, Any]]:
    root = resolved(TYPES)["properties"]
    properties = SCHEMA["properties"]
    return [place for part in ("spec", "status") for place in pairs(properties[part], root[part], part)]


ALL = places()
RULED = ("spec.nodes.selector.", "spec.nodes.tolerations[].")
"""Places whose types every pod uses too: their bounds are rules of `balloons.api.node_rules`."""


def crd_default(schema: Mapping[str, Any]) -> Any:
    """What the API server fills in; an empty mapping takes the defaults of its fields."""
    if schema.get("default") == {}:
        return {name: part["default"] for name, part in schema["properties"].items() if "default" in part}
    return schema.get("default")


def type_default(schema: Mapping[str, Any]) -> Any:
    """What the struct fills in; empty texts, lists and mappings are what an absent field means."""
    default = schema.get("default")
    if isinstance(default, dict):
        return {name: value for name, value in default.items() if value} or None
    return None if default in ("", [], ()) else default


def test_types_agree() -> None:
    def of_crd(schema: Mapping[str, Any]) -> Any:
        return "string" if schema.get("x-kubernetes-int-or-string") else schema["type"]

    assert {path: of_crd(crd) for path, crd, _ in ALL} == {path: types.get("type", "string") for path, _, types in ALL}


def test_required_fields_agree() -> None:
    assert {path: sorted(crd.get("required", ())) for path, crd, _ in ALL} == {
        path: sorted(types.get("required", ())) for path, _, types in ALL
    }


def test_enums_agree() -> None:
    found = {path: (set(crd["enum"]), set(types["enum"])) for path, crd, types in ALL if "enum" in types}
    assert len(found) == 4
    assert all(of_crd == of_types for of_crd, of_types in found.values())


def test_bounds_agree() -> None:
    places = [place for place in ALL if place[0].startswith("spec") and not place[0].startswith(RULED)]
    assert {path: [crd.get(name) for name in BOUNDS] for path, crd, _ in places} == {
        path: [types.get(name) for name in BOUNDS] for path, _, types in places
    }


def test_defaults_agree() -> None:
    places = [place for place in ALL if place[0].startswith("spec")]
    assert {path: crd_default(crd) for path, crd, _ in places} == {
        path: type_default(types) for path, _, types in places
    }


def test_bounds_of_shared_types_are_rules() -> None:
    nodes = SCHEMA["properties"]["spec"]["properties"]["nodes"]["properties"]
    selector, toleration = nodes["selector"]["properties"], nodes["tolerations"]["items"]["properties"]
    requirement = selector["matchExpressions"]["items"]["properties"]
    assert selector["matchLabels"]["maxProperties"] == node_rules.MOST_ENTRIES
    assert selector["matchExpressions"]["maxItems"] == node_rules.MOST_ENTRIES
    assert requirement["values"]["maxItems"] == node_rules.MOST_VALUES
    assert requirement["key"]["maxLength"] == node_rules.LONGEST_KEY
    assert tuple(requirement["operator"]["enum"]) == node_rules.OPERATORS
    assert tuple(toleration["effect"]["enum"]) == node_rules.EFFECTS
    assert toleration["tolerationSeconds"]["maximum"] == node_rules.LONGEST_TOLERATION_S


def every_schema(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from every_schema(part, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if inner in schema:
            yield from every_schema(schema[inner], f"{path}[]")


def test_every_field_is_described_and_bounded() -> None:
    for path, schema in every_schema(SCHEMA):
        assert schema.get("description") or path == ".metadata", path
        if schema.get("type") == "string" and path not in (".apiVersion", ".kind"):
            assert "maxLength" in schema or "enum" in schema, path
        if schema.get("type") == "array":
            assert "maxItems" in schema, path
            assert "x-kubernetes-list-type" in schema, path


def validations() -> list[dict[str, str]]:
    return [rule for _, schema in every_schema(SCHEMA) for rule in schema.get("x-kubernetes-validations", ())]


def test_every_validation_says_what_is_accepted() -> None:
    assert len(validations()) >= 30
    assert all("; accepted: " in rule["messageExpression"] for rule in validations())


def patterns_of(name: str) -> set[str]:
    """The regular expressions in the CRD's validations of one field."""
    found = [
        re.findall(r"matches\('(?:\(\?i\))?\^(.*?)\$'\)", rule["rule"])
        for path, schema in every_schema(SCHEMA)
        for rule in schema.get("x-kubernetes-validations", ())
        if path.endswith(name)
    ]
    return {pattern.replace("\\\\", "\\") for patterns in found for pattern in patterns}


@pytest.mark.parametrize(
    ("field", "pattern"),
    [
        (".cron", cron.CRON_PATTERN),
        (".timeZone", cron.ZONE_PATTERN),
        (".duration", duration.PATTERN),
        (".matchLabels", node_rules.KEY_PATTERN),
        (".matchLabels[]", node_rules.VALUE_PATTERN),
        (".matchExpressions[].key", node_rules.KEY_PATTERN),
        (".values[]", node_rules.VALUE_PATTERN),
        (".shape.resources", shape_rules.RESOURCE_PATTERN),
        (".shape.slack", shape_rules.RESOURCE_PATTERN),
        (".image", f"({shape_rules.IMAGE_PATTERN})?"),
        (".prePull[]", shape_rules.IMAGE_PATTERN),
    ],
)
def test_patterns_are_the_same(field: str, pattern: str) -> None:
    assert patterns_of(field) == {pattern}


def test_names_are_those_of_the_code() -> None:
    names = CRD["spec"]["names"]
    assert (CRD["spec"]["group"], SERVED["name"]) == (GROUP, VERSION)
    assert (names["kind"], names["plural"]) == (POOL_KIND, POOL_PLURAL)
    assert CRD["metadata"]["name"] == f"{POOL_PLURAL}.{GROUP}"


def test_kubectl_get_tells_the_story() -> None:
    columns = [column["name"].upper() for column in SERVED["additionalPrinterColumns"]]
    assert columns == ["WARM", "WANT", "BUSY", "MAX", "MODE", "READY", "BECAUSE", "AGE"]


def test_the_priority_class_is_inside_the_range_that_holds_nodes() -> None:
    manifest = yaml.safe_load((MANIFESTS / "base/priorityclass.yaml").read_text(encoding="utf-8"))
    assert manifest["metadata"]["name"] == "kube-balloons"
    assert -10 <= manifest["value"] <= -1
    assert manifest["preemptionPolicy"] == "Never"
    assert manifest["globalDefault"] is False
