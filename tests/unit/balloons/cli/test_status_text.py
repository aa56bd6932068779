"""Throttles and pools in one answer: what stands where, what a pipe gets, and what machines get."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.cli.json_and_yaml_output import ThrottleAndPoolStatusDocument, printed
from balloons.cli.status_text import (
    POOL_COLUMNS,
    THROTTLE_COLUMNS,
    WIDE_THROTTLE_COLUMNS,
    Listing,
    document,
    names,
    pool_row,
    table,
    tables,
    throttle_row,
    throttle_table,
)
from balloons.cli.terminal import NONE, Look
from balloons.cluster.kinds import PAUSE_REASON
from balloons.view.index_and_snapshot import RefusedPool
from throttler.api.throttle import (
    JoinThrottle,
    LearnedStatus,
    LeverStatus,
    ServerStatus,
    ThrottleSpec,
    ThrottleStatus,
)
from throttler.api.throttle_rules import RefusedThrottle
from throttler.kube.metadata import Condition, Metadata
from throttler.kube.selectors import LabelSelector

NOW = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
CREATED = NOW - timedelta(minutes=5)
STATUS = ThrottleStatus(
    phase="SlowStart",
    window=5000,
    pace_per_minute=3750,
    in_flight=4012,
    waiting=12_000,
    allowance=900,
    index="4.2",
    because="ControllerManager",
    message="joins wait for the controller manager",
    learned=LearnedStatus(window=48),
    servers=(ServerStatus("a", "Fresh"), ServerStatus("b", "Silent")),
    levers=(LeverStatus("NodePool/gpu", "Confirmed"), LeverStatus("CapacityQuota/q", "Pending")),
    conditions=(Condition("Ready", "True", "ControllerManager", ""),),
)


def throttle(name: str = "default", status: ThrottleStatus = STATUS) -> JoinThrottle:
    return JoinThrottle(Metadata(name, creation_timestamp=CREATED), status=status)


def pool() -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD, max_size=9)
    status = PoolStatus(warm=3, target=4, because="Warming", conditions=(Condition("Ready", "False", "", ""),))
    return BalloonPool(Metadata("gpu", "ml", creation_timestamp=CREATED), spec, status)


BOTH = Listing([throttle()], [pool()])
TABLES = Path(__file__).with_name("status_tables")


def shown(seen: Listing = BOTH, look: Look | None = None) -> str:
    return "\n".join(tables(seen, None, look or Look(), NOW))


@pytest.mark.parametrize(
    ("file", "look"),
    [("plain.txt", Look()), ("wide.txt", Look("wide")), ("terminal.txt", Look(width=80))],
)
def test_both_tables(file: str, look: Look) -> None:
    assert shown(look=look) + "\n" == (TABLES / file).read_text()


def test_without_headers_there_is_one_row_per_object_and_nothing_else() -> None:
    assert len(tables(BOTH, None, Look(has_headers=False), NOW)) == 2


def test_kind_of_which_there_is_none_has_no_table() -> None:
    assert shown(Listing(pools=[pool()])).startswith("NAMESPACE")
    assert shown(Listing([throttle()])).splitlines()[0].split() == list(THROTTLE_COLUMNS)
    assert shown(Listing()) == ""


def test_a_large_scale_up_fits_80_columns_up_to_its_reason() -> None:
    header, line, *missing = throttle_table([throttle()], Look(width=80), NOW)
    assert "BECAUSE" in header
    assert len(line) <= 80
    assert missing in ([], ["(no room for AGE)"])


@given(st.integers(1, 300))
def test_the_reason_stays_to_the_last_on_a_narrow_terminal(width: int) -> None:
    """A name alone is left where there is no room for both."""
    pools, throttles = (
        table([pool()], None, Look(width=width), NOW),
        throttle_table([throttle()], Look(width=width), NOW),
    )
    for header, alone in ((pools[0].split(), ["NAMESPACE", "NAME"]), (throttles[0].split(), ["NAME"])):
        assert "BECAUSE" in header or header == alone


@given(st.integers(1, 300))
def test_no_line_is_longer_than_the_terminal_while_a_column_can_be_dropped(width: int) -> None:
    text = throttle_table([throttle()], Look(width=width), NOW)
    assert len(text[0].split()) == 1 or max(map(len, text)) <= width


@given(st.integers(1, 300))
def test_wide_leaves_nothing_out_however_narrow_the_terminal_is(width: int) -> None:
    """Except columns without a value, where each row is a paragraph; only a word may be longer than a line."""
    text = throttle_table([throttle()], Look("wide", width=width), NOW)
    assert all(len(line) <= width or len(line.split()) == 1 for line in text)
    row = {name: cell for name, cell in throttle_row(throttle(), NOW, {}).items() if cell != NONE}
    whole = " ".join(" ".join(text).split())
    assert [name for name, cell in row.items() if name not in whole or cell not in whole] == []


def test_new_throttle_says_that_nothing_is_known() -> None:
    cells = throttle_row(throttle(status=ThrottleStatus()), NOW, {})
    assert [cells[name] for name in ("PHASE", "READY", "BECAUSE", "SERVERS", "LEVERS")] == [
        "<none>", "Unknown", "<none>", "<none>", "<none>",
    ]  # fmt: skip


def test_refused_throttle_says_so_before_the_service_does() -> None:
    refused = RefusedThrottle(Metadata("bad"), "window 0; accepted: 1 or more")
    cells = throttle_row(refused, NOW, {})
    assert [cells[name] for name in ("PHASE", "BECAUSE", "MESSAGE")] == [
        "Invalid", "Invalid", "window 0; accepted: 1 or more",
    ]  # fmt: skip


@pytest.mark.parametrize(("is_paused", "reason"), [(True, "until 18:00"), (False, None)], ids=["paused", "resumed"])
def test_why_it_is_paused_is_said_while_it_is(is_paused: bool, reason: str | None) -> None:
    noted = {PAUSE_REASON: "until 18:00"}
    held = BalloonPool(Metadata("gpu", "ml", annotations=noted), msgspec.structs.replace(pool().spec, paused=is_paused))
    slow = JoinThrottle(Metadata("default", annotations=noted), ThrottleSpec(paused=is_paused))
    assert pool_row(held, NOW, {})["MESSAGE"] == throttle_row(slow, NOW, {})["MESSAGE"] == (reason or "<none>")
    found = document(Listing([slow], [held]))
    assert found.pools[0].pause_reason == found.throttles[0].pause_reason == reason


def test_notes_are_shown_which_only_the_conditions_have() -> None:
    said = "3 of 3 wanted nodes are warm; 1 warm node runs other pods beside its balloon: n1"
    ready = Condition(type="Ready", status="True", reason="Steady", message=said)
    noted = msgspec.structs.replace(
        pool(), status=PoolStatus(message="3 of 3 wanted nodes are warm", conditions=(ready,))
    )
    assert pool_row(noted, NOW, {})["MESSAGE"] == said


def test_nobody_said_why() -> None:
    silent = JoinThrottle(Metadata("default"), ThrottleSpec(paused=True), ThrottleStatus(message="it is paused"))
    assert throttle_row(silent, NOW, {})["MESSAGE"] == "it is paused"


def test_glyphs_are_for_terminals() -> None:
    assert "✓" not in shown()
    assert "\x1b[32m✓ True" in shown(look=Look(is_coloured=True))


def for_machines(seen: Listing) -> dict[str, Any]:
    return json.loads(printed(document(seen), "json"))


def test_machines_get_both_lists_even_when_they_are_empty() -> None:
    assert for_machines(Listing()) == {
        "apiVersion": "balloons.kube-balloons.github.io/v1",
        "kind": "ThrottleAndPoolStatus",
        "throttles": [],
        "pools": [],
    }
    found = for_machines(BOTH)
    (item,) = found["throttles"]
    assert (item["name"], item["createdAt"], item["ready"]) == ("default", "2026-11-21T06:55:00Z", "True")
    assert (item["status"]["pacePerMinute"], item["status"]["learned"]["window"]) == (3750, 48)
    (item,) = found["pools"]
    assert (item["namespace"], item["name"], item["createdAt"]) == ("ml", "gpu", "2026-11-21T06:55:00Z")
    assert (item["mode"], item["status"]["warm"]) == ("Hold", 3)


def test_machines_are_told_of_objects_that_break_a_rule() -> None:
    """By the schema: what the spec would say is null."""
    broken = Listing(
        [RefusedThrottle(Metadata("bad"), "window 0; accepted: 1 or more")],
        [RefusedPool(Metadata("bad", "ml"), "size -1; accepted: 0 or more")],
    )
    found = msgspec.json.decode(printed(document(broken), "json"), type=ThrottleAndPoolStatusDocument)
    assert (found.throttles[0].problem, found.pools[0].problem) == (
        "window 0; accepted: 1 or more", "size -1; accepted: 0 or more",
    )  # fmt: skip
    assert (found.pools[0].mode, found.pools[0].max_size, found.pools[0].created_at) == (None, None, None)


def test_names_are_what_kubectl_takes() -> None:
    assert names(BOTH) == [
        "jointhrottle.kube-balloons.github.io/default",
        "balloonpool.kube-balloons.github.io/gpu",
    ]


@pytest.mark.parametrize("column", WIDE_THROTTLE_COLUMNS)
def test_every_column_has_a_cell(column: str) -> None:
    assert throttle_row(throttle(), NOW, {})[column]


@pytest.mark.parametrize(("page", "columns"), [("balloonpool", POOL_COLUMNS), ("jointhrottle", THROTTLE_COLUMNS)])
def test_pages_show_the_columns_that_status_and_kubectl_show(page: str, columns: tuple[str, ...]) -> None:
    text = (Path(__file__).parents[4] / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (header,) = re.findall(r"^\$ kubectl get \w+\n(.*)$", text, re.MULTILINE)
    assert tuple(header.split()) == columns


@pytest.mark.parametrize(("kind", "columns"), [("balloonpools", POOL_COLUMNS), ("jointhrottles", THROTTLE_COLUMNS)])
def test_kubectl_shows_the_columns_of_status_in_its_order(kind: str, columns: tuple[str, ...]) -> None:
    crd = yaml.safe_load((Path(__file__).parents[4] / "manifests" / "crds" / f"{kind}.yaml").read_text("utf-8"))
    shown = [each for each in crd["spec"]["versions"][0]["additionalPrinterColumns"] if not each.get("priority")]
    assert ("NAME", *(each["name"].upper() for each in shown)) == columns
