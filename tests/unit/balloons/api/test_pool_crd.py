"""The CRD and the types say the same: fields, what is required, enums, bounds, defaults; and it is a manual."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloons.api import pool_rules
from balloons.api.pool import GROUP, POOL_KIND, POOL_PLURAL, VERSION, BalloonPool
from balloons.cli import status_text
from tests import crd_and_types
from tests.crd_and_types import Agreement
from throttler.kube import quantities_and_durations, selectors

CRD = crd_and_types.crd_of("balloonpools")
SERVED = crd_and_types.served(CRD)
SCHEMA: dict[str, Any] = crd_and_types.schema_of(CRD)
ALL = crd_and_types.places(CRD, BalloonPool)


class TestBalloonPool(Agreement):
    CRD = CRD
    TYPES = BalloonPool
    RULED = ("spec.nodes.selector.", "spec.nodes.tolerations[].")
    """Every pod uses these types too: their bounds are rules of selectors.py and pool_rules.py."""


def test_enums_agree() -> None:
    found = {path: (set(crd["enum"]), set(types["enum"])) for path, crd, types in ALL if "enum" in types}
    assert len(found) == 4
    assert all(of_crd == of_types for of_crd, of_types in found.values())


def test_bounds_of_shared_types_are_rules() -> None:
    nodes = SCHEMA["properties"]["spec"]["properties"]["nodes"]["properties"]
    selector, toleration = nodes["selector"]["properties"], nodes["tolerations"]["items"]["properties"]
    requirement = selector["matchExpressions"]["items"]["properties"]
    assert selector["matchLabels"]["maxProperties"] == selectors.MOST_ENTRIES
    assert selector["matchExpressions"]["maxItems"] == selectors.MOST_ENTRIES
    assert requirement["values"]["maxItems"] == selectors.MOST_VALUES
    assert requirement["key"]["maxLength"] == selectors.LONGEST_KEY
    assert tuple(requirement["operator"]["enum"]) == selectors.OPERATORS
    assert tuple(toleration["effect"]["enum"]) == pool_rules.EFFECTS
    assert toleration["tolerationSeconds"]["maximum"] == pool_rules.LONGEST_TOLERATION_S


def test_the_page_names_every_field() -> None:
    page = (Path(__file__).parents[4] / "docs" / "balloonpool.md").read_text(encoding="utf-8")
    words = set(re.findall(r"[A-Za-z]+", page))
    fields = {path.rstrip("[]").rpartition(".")[2] for path, _, _ in ALL if path.startswith("spec.")}
    assert len(fields) >= 35
    assert not {field for field in fields if field.isalpha()} - words


@pytest.mark.parametrize(
    ("field", "pattern"),
    [
        (".cron", pool_rules.CRON_PATTERN),
        (".timeZone", pool_rules.ZONE_PATTERN),
        (".duration", quantities_and_durations.DURATION_PATTERN),
        (".matchLabels", selectors.KEY_PATTERN),
        (".matchLabels[]", selectors.VALUE_PATTERN),
        (".matchExpressions[].key", selectors.KEY_PATTERN),
        (".values[]", selectors.VALUE_PATTERN),
        (".shape.resources", pool_rules.RESOURCE_PATTERN),
        (".shape.slack", pool_rules.RESOURCE_PATTERN),
        (".image", f"({pool_rules.IMAGE_PATTERN})?"),
        (".prePull[]", pool_rules.IMAGE_PATTERN),
    ],
)
def test_patterns_are_the_same(field: str, pattern: str) -> None:
    assert crd_and_types.patterns(SCHEMA, field) == {pattern}


def test_names_are_those_of_the_code() -> None:
    names = CRD["spec"]["names"]
    assert (CRD["spec"]["group"], SERVED["name"]) == (GROUP, VERSION)
    assert (names["kind"], names["plural"]) == (POOL_KIND, POOL_PLURAL)
    assert CRD["metadata"]["name"] == f"{POOL_PLURAL}.{GROUP}"


def test_kubectl_get_tells_the_story() -> None:
    """The columns of `balloons status`, in their order."""
    columns = [column["name"].upper() for column in SERVED["additionalPrinterColumns"] if not column.get("priority")]
    assert ("NAME", *columns) == status_text.POOL_COLUMNS


def test_the_priority_class_is_inside_the_range_that_holds_nodes() -> None:
    manifest = yaml.safe_load((crd_and_types.MANIFESTS / "base/priorityclass.yaml").read_text(encoding="utf-8"))
    assert manifest["metadata"]["name"] == "kube-balloons"
    assert -10 <= manifest["value"] <= -1
    assert manifest["preemptionPolicy"] == "Never"
    assert manifest["globalDefault"] is False
