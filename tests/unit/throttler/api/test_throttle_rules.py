"""The service refuses what the API server refuses, in the same words."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.jointhrottle_table import Case, accepted, refused
from tests.odd_json import JSON_VALUES, with_value_at
from throttler.api.throttle import JoinThrottle, Levers, TaintLever, ThrottleSpec, ThrottleStatus
from throttler.api.throttle_rules import RefusedThrottle, ThrottleWire, decode_throttle, throttle_from_wire
from throttler.kube.custom_objects import Invalid
from throttler.kube.metadata import Metadata
from throttler.kube.selectors import LabelSelector

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


def complaint(spec: dict[str, Any], name: str = "throttle") -> str:
    """What is said about it; empty where it is taken."""
    found = decode_throttle({"metadata": {"name": name}, "spec": spec})
    return found.message if isinstance(found, Invalid) else ""


TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/"


def labelled(key: str, value: str = "true", **nodes: Any) -> dict[str, Any]:
    return {"nodes": nodes, "levers": {"daemonSetLabel": {"key": key, "value": value}}}


def tainting(key: str = f"{TAINT}paced", **spec: Any) -> dict[str, Any]:
    return {"levers": {"startupTaint": {"key": key}}, **spec}


def alarm(threshold: str) -> dict[str, Any]:
    signals = {"prometheus": {"url": "http://p:9090"}, "alarms": [{"name": "a", "query": "up", "threshold": threshold}]}
    return {"signals": signals}


WITHOUT_SIGNALS = {"scrape": {"enabled": False}}


@pytest.mark.parametrize(
    ("taken", "refused_one", "at"),
    [
        ({"window": {"min": 5, "initial": 5}}, {"window": {"min": 5, "initial": 4}}, "window.initial: initial 4"),
        ({"window": {"initial": 5, "max": 5}}, {"window": {"initial": 6, "max": 5}}, "window.initial: initial 6"),
        ({"window": {"min": 5, "max": 5}}, {"window": {"min": 6, "max": 5}}, "window.min: min 6"),
        ({"maxInFlight": 5, "window": {"min": 5}}, {"maxInFlight": 4, "window": {"min": 5}}, "maxInFlight: "),
        (
            {"pace": {"safePerMinute": 9, "maxPerMinute": 9}},
            {"pace": {"safePerMinute": 10, "maxPerMinute": 9}},
            "pace.safePerMinute: safePerMinute 10",
        ),
        ({"pace": {"safePerMinute": 9}, "signals": WITHOUT_SIGNALS}, {"signals": WITHOUT_SIGNALS}, "signals: "),
        ({"maxWait": "599s", "killTimer": "10m"}, {"maxWait": "10m", "killTimer": "600s"}, 'maxWait: maxWait "10m" is'),
        (tainting(maxWait="10m"), tainting(maxWait="601s"), 'maxWait "601s" with startupTaint'),
        ({"maxWait": "601s"}, {"maxWait": "900s"}, "not below killTimer"),
        ({"maxWait": "1s"}, {"maxWait": "0.9s"}, 'maxWait "0.9s" is not accepted'),
        ({"killTimer": "1h"}, {"killTimer": "3601s"}, 'killTimer "3601s" is not accepted'),
        (alarm("1P"), alarm("1.001P"), "alarms[0].threshold"),
        (alarm("-1P"), alarm("-1.001P"), "alarms[0].threshold"),
        (tainting(), tainting("dedicated"), "not known as a startup taint"),
        (tainting(f"{TAINT}{'x' * 63}"), tainting(f"{TAINT}{'x' * 64}"), "cannot be on a node"),
        (labelled("example.com/let-in"), labelled("kubernetes.io/hostname"), "belongs to Kubernetes or Karpenter"),
        (labelled("let-in"), labelled("topology.k8s.io/zone"), "belongs to Kubernetes or Karpenter"),
        (labelled("kubernetes.io.example.com/a"), labelled("karpenter.sh/nodepool"), "belongs to Kubernetes or"),
        (labelled("node-restriction.kubernetes.io/a"), labelled("other.kubernetes.io/a"), "belongs to Kubernetes or"),
        (labelled("a", "x" * 63), labelled("a", "x" * 64), "daemonSetLabel.value"),
        (labelled("a"), labelled("a b"), "daemonSetLabel.key"),
        (labelled("a", matchLabels={"b": "1"}), labelled("a", matchLabels={"a": "1"}), 'nodes selects by "a"'),
        (
            labelled("a", matchExpressions=[{"key": "b", "operator": "Exists"}]),
            labelled("a", matchExpressions=[{"key": "a", "operator": "Exists"}]),
            'nodes selects by "a"',
        ),
    ],
)
def test_a_bound_itself_is_taken_and_what_lies_beyond_it_is_not(
    taken: dict[str, Any], refused_one: dict[str, Any], at: str
) -> None:
    assert complaint(taken) == ""
    assert at in complaint(refused_one)


def test_a_name_is_as_long_as_a_label_at_most() -> None:
    assert complaint({}, "x" * 63) == ""
    assert "has 64 characters" in complaint({}, "x" * 64)


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


STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"


def what_it_may_hold(spec: object) -> JoinThrottle | None:
    wire = ThrottleWire(Metadata("t", uid="u"), msgspec.Raw(msgspec.json.encode(spec)))
    found = throttle_from_wire(wire)
    assert isinstance(found, RefusedThrottle)
    return found.held


def test_of_a_refused_throttle_is_known_what_it_may_hold() -> None:
    levers = {"startupTaint": {"key": STARTUP_TAINT}, "ofTomorrow": {}, "headroom": None}
    held = what_it_may_hold({"preset": "of-tomorrow", "nodes": {"matchLabels": {"pool": "a"}}, "levers": levers})
    assert held is not None
    assert held.metadata.name == "t"
    assert held.spec == ThrottleSpec(
        nodes=LabelSelector({"pool": "a"}), levers=Levers(startup_taint=TaintLever(STARTUP_TAINT)), paused=True
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"preset": "of-tomorrow", "levers": {"startupTaint": {"key": "dedicated"}}},
        {"preset": "of-tomorrow", "levers": {"startupTaint": "key"}},
        {"preset": "of-tomorrow", "nodes": {"matchLabels": {"no label!": ""}}},
        ["nodes"],
        "nodes",
        7,
    ],
)
def test_what_breaks_a_rule_itself_is_taken_off_no_node(spec: object) -> None:
    assert what_it_may_hold(spec) is None
