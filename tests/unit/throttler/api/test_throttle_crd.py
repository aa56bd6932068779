"""The CRD and the types say the same: fields, what is required, enums, bounds, defaults; and it is a manual."""

from pathlib import Path
from typing import Any

import pytest

from balloons.cli import status_text
from tests import crd_and_types
from tests.crd_and_types import Agreement
from throttler.api import throttle_rules
from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION, JoinThrottle
from throttler.kube import quantities_and_durations, selectors
from throttler.law.settings import PRESETS
from throttler.law.verdict import Phase
from throttler.levers.lever_and_reasons import LeverState
from throttler.service import throttle_status

CRD = crd_and_types.crd_of("jointhrottles")
SERVED = crd_and_types.served(CRD)
SCHEMA: dict[str, Any] = crd_and_types.schema_of(CRD)
ALL = crd_and_types.places(CRD, JoinThrottle)
PAGE = (Path(__file__).parents[4] / "docs" / "jointhrottle.md").read_text(encoding="utf-8")


class TestJoinThrottle(Agreement):
    CRD = CRD
    TYPES = JoinThrottle
    RULED = ("spec.nodes.",)
    """Every selector uses these types too: their bounds are rules of selectors.py."""


def test_enums_agree() -> None:
    found = {path: (set(crd["enum"]), set(types["enum"])) for path, crd, types in ALL if "enum" in types}
    assert list(found) == ["spec.preset"]
    assert all(of_crd == of_types for of_crd, of_types in found.values())


def test_bounds_of_selectors_are_rules() -> None:
    nodes = SCHEMA["properties"]["spec"]["properties"]["nodes"]["properties"]
    requirement = nodes["matchExpressions"]["items"]["properties"]
    assert nodes["matchLabels"]["maxProperties"] == selectors.MOST_ENTRIES
    assert nodes["matchExpressions"]["maxItems"] == selectors.MOST_ENTRIES
    assert requirement["values"]["maxItems"] == selectors.MOST_VALUES
    assert tuple(requirement["operator"]["enum"]) == selectors.OPERATORS


@pytest.mark.parametrize(
    ("field", "accepted"),
    [
        (".maxWait", {quantities_and_durations.DURATION_PATTERN}),
        (".killTimer", {quantities_and_durations.DURATION_PATTERN}),
        (".matchLabels", {selectors.KEY_PATTERN}),
        (".matchLabels[]", {selectors.VALUE_PATTERN}),
        (".matchExpressions[].key", {selectors.KEY_PATTERN}),
        (".values[]", {selectors.VALUE_PATTERN}),
        (".scrape.servers[]", {throttle_rules.SERVER_PATTERN, throttle_rules.FORBIDDEN_PATTERN}),
        (".prometheus.url", {throttle_rules.PROMETHEUS_PATTERN, throttle_rules.FORBIDDEN_PATTERN}),
        (".alarms[].name", {throttle_rules.ALARM_PATTERN}),
        (".capacityQuota.name", {throttle_rules.NAME_PATTERN}),
        (".nodePoolLimits.names[]", {throttle_rules.NAME_PATTERN}),
        (".startupTaint.key", {selectors.KEY_PATTERN}),
        (".daemonSetLabel.key", {selectors.KEY_PATTERN, throttle_rules.FOREIGN_PATTERN}),
        (".daemonSetLabel.value", {selectors.VALUE_PATTERN}),
    ],
)
def test_patterns_are_the_same(field: str, accepted: set[str]) -> None:
    assert crd_and_types.patterns(SCHEMA, field) == accepted


def test_names_are_those_of_the_code() -> None:
    names = CRD["spec"]["names"]
    assert (CRD["spec"]["group"], SERVED["name"], CRD["spec"]["scope"]) == (GROUP, VERSION, "Cluster")
    assert (names["kind"], names["plural"], names["shortNames"]) == (THROTTLE_KIND, THROTTLE_PLURAL, ["jt"])
    assert CRD["metadata"]["name"] == f"{THROTTLE_PLURAL}.{GROUP}"


def test_kubectl_get_tells_the_story() -> None:
    """The columns of `balloons status`, in their order."""
    columns = [column["name"].upper() for column in SERVED["additionalPrinterColumns"] if not column.get("priority")]
    assert ("NAME", *columns) == status_text.THROTTLE_COLUMNS


def described(*path: str) -> str:
    schema = SCHEMA
    for name in path:
        schema = schema["properties"][name] if "properties" in schema else schema["items"]["properties"][name]
    return str(schema["description"])


def test_the_manual_names_what_the_code_knows() -> None:
    assert all(phase.value in described("status", "phase") for phase in Phase)
    assert all(state.value in described("status", "levers", "state") for state in LeverState)
    told = described("spec", "preset")
    assert all(f"{preset.value}" in told and str(bounds.max) in told for preset, bounds in PRESETS.items())


def test_the_page_has_the_presets_of_the_code() -> None:
    rows = [
        f"| `{preset.value}` | {each.initial:g} | {each.min:g} | {each.max:g} |" for preset, each in PRESETS.items()
    ]
    assert [row for row in rows if row not in PAGE] == []


def test_the_status_that_is_written_stays_within_the_schema() -> None:
    properties = SCHEMA["properties"]["status"]["properties"]
    servers, levers = properties["servers"], properties["levers"]
    assert (servers["maxItems"], levers["maxItems"]) == (throttle_status.SERVER_LIMIT, throttle_status.LEVER_LIMIT)
    assert servers["items"]["properties"]["name"]["maxLength"] == throttle_status.NAME_LIMIT
    assert levers["items"]["properties"]["name"]["maxLength"] == throttle_status.LEVER_NAME_LIMIT
    assert levers["items"]["properties"]["ceiling"]["maxLength"] == throttle_status.VALUE_LIMIT
    assert properties["message"]["maxLength"] == throttle_status.MESSAGE_LIMIT


def test_limits_of_time_are_those_of_the_sentences() -> None:
    assert throttle_rules.TAINT_LIMIT_S == 600
    assert (throttle_rules.SHORTEST_TIMER_S, throttle_rules.LONGEST_TIMER_S) == (1, 3600)
