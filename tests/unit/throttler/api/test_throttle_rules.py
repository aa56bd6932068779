"""The service refuses what the API server refuses, in the same words."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.jointhrottle_table import Case, accepted, refused
from tests.odd_json import JSON_VALUES, with_value_at
from throttler.api.throttle import JoinThrottle, ThrottleSpec, ThrottleStatus
from throttler.api.throttle_rules import RefusedThrottle, ThrottleWire, decode_throttle, throttle_from_wire
from throttler.kube.custom_objects import Invalid

GOOD = accepted()[1].manifest


@pytest.mark.parametrize("case", refused(), ids=lambda case: case.name)
def test_refuses_with_field_value_and_what_is_accepted(case: Case) -> None:
    found = decode_throttle(json.dumps(case.manifest).encode())
    assert isinstance(found, Invalid)
    assert found.key.name == case.manifest["metadata"]["name"]
    assert case.at in found.message
    assert case.says in found.message
    assert "accepted: " in case.says


@pytest.mark.parametrize("case", accepted(), ids=lambda case: case.name)
def test_takes(case: Case) -> None:
    found = decode_throttle(json.dumps(case.manifest).encode())
    assert isinstance(found, JoinThrottle), found
    assert found.spec.kill_timer_s > found.spec.max_wait_s > 0


def test_no_spec_is_all_defaults() -> None:
    found = decode_throttle({"metadata": {"name": "throttle"}})
    assert isinstance(found, JoinThrottle)
    assert found.spec == ThrottleSpec()
    assert (found.spec.max_wait_s, found.spec.kill_timer_s) == (600, 900)


def test_thresholds_are_numbers_however_small() -> None:
    found = decode_throttle(GOOD)
    assert isinstance(found, JoinThrottle)
    assert [alarm.threshold_value for alarm in found.spec.signals.alarms] == [1e-4, 5]


def test_tells_every_problem_at_once() -> None:
    found = decode_throttle({**GOOD, "spec": {"window": {"min": 9, "max": 3}, "maxWait": "1d"}})
    assert isinstance(found, Invalid)
    assert [part.partition(":")[0] for part in found.message.split("; spec.")] == ["spec.window.min", "maxWait"]


def test_refused_throttle_keeps_its_status() -> None:
    wire = {**GOOD, "spec": {"maxWait": "1d"}, "status": {"window": 40, "learned": {"window": 33}}}
    found = throttle_from_wire(msgspec.json.decode(json.dumps(wire).encode(), type=ThrottleWire))
    assert isinstance(found, RefusedThrottle)
    assert (found.key.name, found.status.window, found.status.learned.window) == ("throttle", 40, 33)
    assert 'maxWait "1d" is not accepted' in found.problem


@pytest.mark.parametrize("status", [{"window": "three"}, 5, {"servers": [{"name": 1}]}, {"learned": {"window": 1e99}}])
def test_a_status_of_another_version_does_not_spoil_the_throttle(status: Any) -> None:
    found = decode_throttle({**GOOD, "status": status})
    assert isinstance(found, JoinThrottle)
    assert found.status == ThrottleStatus()


PATHS = [
    ("spec",), ("metadata",), ("metadata", "name"), ("status",), ("spec", "nodes"), ("spec", "window"),
    ("spec", "pace"), ("spec", "maxWait"), ("spec", "killTimer"), ("spec", "reserved"), ("spec", "signals"),
    ("spec", "signals", "scrape"), ("spec", "signals", "scrape", "servers"), ("spec", "signals", "prometheus"),
    ("spec", "signals", "alarms"), ("spec", "levers"), ("spec", "levers", "startupTaint"),
    ("spec", "levers", "nodePoolLimits"), ("spec", "levers", "daemonSetLabel"), ("spec", "nodes", "matchLabels"),
]  # fmt: skip


@given(st.sampled_from(PATHS), JSON_VALUES)
def test_no_value_anywhere_raises(path: tuple[str, ...], value: Any) -> None:
    assert isinstance(decode_throttle(with_value_at(GOOD, path, value)), JoinThrottle | Invalid)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_no_text_in_a_field_raises(wait: str, url: str, threshold: str, key: str) -> None:
    alarms = [{"name": "a", "query": "up", "threshold": threshold}]
    signals = {"prometheus": {"url": url}, "alarms": alarms, "scrape": {"servers": [url]}}
    spec = {"maxWait": wait, "signals": signals, "levers": {"startupTaint": {"key": key}}}
    assert isinstance(decode_throttle({**GOOD, "spec": spec}), JoinThrottle | Invalid)
