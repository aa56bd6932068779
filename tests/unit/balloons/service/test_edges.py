"""The edges of the service: objects as they come, logs, metrics, and how soon a change matters."""

import io
import json
import logging
from pathlib import Path

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, PoolStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.service import watched_kinds
from balloons.service.logs import hide_secrets, set_up_logs
from balloons.service.metrics import Metrics
from balloons.service.pool_status_and_events import Standing
from balloons.service.preemptions_and_warm_hits import GaveWay, Leaving, Taken
from balloons.service.watched_kinds import PoolWire, failed_balloon, pod_or_presence, pool_from_wire
from balloons.view.index_and_snapshot import FailedBalloon, RefusedPool
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import Node, Shared
from throttler.kube.pod import MANAGED_BY, Pod, PodKind, PodWire, Scheduling
from throttler.kube.reasons_and_events import because
from throttler.kube.taints import Taint
from tools.metrics_page import metrics_page

DOCS = Path(__file__).parents[4] / "docs"
POOL = ObjectKey("ns", "gpu")


# --- objects as they come ---


def pool_wire(spec: object, status: object = None) -> PoolWire:
    body = {"metadata": {"name": "gpu", "namespace": "ns", "uid": "u", "generation": 4}, "spec": spec, "status": status}
    return msgspec.json.decode(msgspec.json.encode(body), type=PoolWire)


GOOD = {"mode": "Hold", "nodes": {"selector": {"matchLabels": {"a": "b"}}}}


def test_good_pool_is_read_with_what_the_service_wrote() -> None:
    found = pool_from_wire(pool_wire(GOOD, {"warm": 3, "because": "Steady"}))
    assert isinstance(found, BalloonPool)
    assert (found.status.warm, found.metadata.generation) == (3, 4)


@pytest.mark.parametrize("spec", [None, [], "x", {"mode": "Grow"}, {**GOOD, "size": -1}, {**GOOD, "size": 1e300}])
def test_bad_pool_is_refused_and_keeps_its_name_and_figures(spec: object) -> None:
    found = pool_from_wire(pool_wire(spec, {"warm": 3}))
    assert isinstance(found, RefusedPool)
    assert (found.key, found.status.warm) == (POOL, 3)
    assert found.problem


@pytest.mark.parametrize("status", [None, [], {"warm": "many"}, {"conditions": [{}]}])
def test_status_that_cannot_be_read_counts_as_not_written(status: object) -> None:
    assert pool_from_wire(pool_wire(GOOD, status)).status == PoolStatus()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda v: st.lists(v) | st.dictionaries(st.text(), v),
)


@pytest.mark.whole
@given(json_values, json_values)
def test_no_pool_whatsoever_crashes(spec: object, status: object) -> None:
    assert pool_from_wire(pool_wire(spec, status)).key == POOL


def test_pod_with_unreadable_requests_still_makes_its_node_busy() -> None:
    body = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": "n1", "containers": [{"resources": {"requests": {"cpu": "many"}}}]},
    }
    found = pod_or_presence(msgspec.convert(body, PodWire), Shared())
    assert (found.node, found.kind, found.requests["pods"]) == ("n1", PodKind.WORK, 1000)


# --- how soon ---

WORK = Pod(POOL, "u", "1", "", 0, {}, scheduling=Scheduling())
REFUSED = msgspec.structs.replace(WORK, scheduling=Scheduling(is_tried=True))
NODE = Node("n", "u", "1", {}, {})


@pytest.mark.parametrize(
    ("owner", "priority", "mark", "is_ours"),
    [
        ("ReplicaSet/gpu-a-5f7d", -10, MANAGED_BY, True),
        ("ReplicaSet/gpu-a-5f7d", 0, MANAGED_BY, False),
        ("ReplicaSet/gpu-a-copy-5f7d", -10, MANAGED_BY, False),
        ("Job/gpu-a-5f7d", -10, MANAGED_BY, False),
        ("ReplicaSet/gpu-a-5f7d", -10, {}, False),
    ],
)
def test_only_what_is_left_of_a_balloon_is_ever_taken_for_it(
    owner: str, priority: int, mark: dict[str, str], is_ours: bool
) -> None:
    """What is read here may be deleted."""
    labels = {"kube-balloons.github.io/pool": "gpu", "kube-balloons.github.io/shape": "a", **mark}
    kind, _, name = owner.partition("/")
    owners = [{"kind": kind, "name": name, "uid": "r", "controller": True}]
    metadata = {"name": "b1", "namespace": "ns", "uid": "u1", "labels": labels, "ownerReferences": owners}
    spec = {"nodeName": "n1", "priority": priority}
    body = {"metadata": metadata, "spec": spec, "status": {"phase": "Failed", "reason": "OutOfcpu"}}
    left = failed_balloon(msgspec.convert(body, PodWire), Shared())
    ours = FailedBalloon(ObjectKey("ns", "b1"), "u1", "n1", "gpu", reason="OutOfcpu")
    assert left == (ours if is_ours else None)


def test_waiting_work_is_urgent_once() -> None:
    assert watched_kinds.pod_within_s(WORK, REFUSED) == watched_kinds.URGENT_S
    assert watched_kinds.pod_within_s(None, REFUSED) == watched_kinds.URGENT_S
    assert watched_kinds.pod_within_s(REFUSED, msgspec.structs.replace(REFUSED, resource_version="2")) is None


def test_work_that_the_scheduler_has_not_looked_at_wakes_nobody() -> None:
    assert watched_kinds.pod_within_s(None, WORK) is None


def test_bound_work_matters_soon() -> None:
    bound = msgspec.structs.replace(WORK, node="n1", scheduling=None)
    assert watched_kinds.pod_within_s(WORK, bound) == watched_kinds.SOON_S
    assert watched_kinds.pod_within_s(bound, None) == watched_kinds.SOON_S


def test_a_balloon_that_fails_is_looked_at_soon_and_once() -> None:
    failure = FailedBalloon(ObjectKey("ns", "b1"), "u1", "n1", "gpu")
    assert watched_kinds.failure_within_s(None, failure) == watched_kinds.NODE_S
    assert watched_kinds.failure_within_s(failure, failure) is None
    assert watched_kinds.failure_within_s(failure, None) is None


def test_heartbeat_of_a_node_wakes_nobody() -> None:
    assert watched_kinds.node_within_s(NODE, msgspec.structs.replace(NODE, resource_version="2")) is None
    assert watched_kinds.node_within_s(NODE, msgspec.structs.replace(NODE, is_ready=False)) == watched_kinds.NODE_S
    assert watched_kinds.node_within_s(None, NODE) == watched_kinds.NODE_S
    going = msgspec.structs.replace(NODE, taints=(Taint("karpenter.sh/disrupted", effect="NoSchedule"),))
    assert watched_kinds.node_within_s(NODE, going) == watched_kinds.URGENT_S
    assert watched_kinds.node_within_s(going, msgspec.structs.replace(going, is_ready=False)) == watched_kinds.NODE_S


def test_wish_of_a_user_is_urgent_and_our_own_status_is_not() -> None:
    before, after = Metadata("gpu", "ns", generation=1), Metadata("gpu", "ns", generation=2)
    assert watched_kinds.pool_within_s(before, after) == watched_kinds.URGENT_S
    assert watched_kinds.pool_within_s(None, after) == watched_kinds.URGENT_S
    assert watched_kinds.pool_within_s(before, Metadata("gpu", "ns", generation=1, resource_version="9")) is None


# --- logs ---


def test_log_is_one_json_line_without_credentials() -> None:
    stream = io.StringIO()
    set_up_logs("auto", is_debug=False, stream=stream)
    structlog.get_logger().info("asked", token="abc", header="Authorization: Bearer abc.def", deep=["Basic Zm9v"])
    structlog.get_logger().debug("not shown")
    structlog.reset_defaults()
    (line,) = stream.getvalue().splitlines()
    told = json.loads(line)
    assert (told["event"], told["level"], told["token"]) == ("asked", "info", "(hidden)")
    assert "abc" not in line
    assert "Zm9v" not in line


def test_service_account_token_is_hidden_wherever_it_turns_up() -> None:
    told = hide_secrets(None, "info", {"problem": "refused eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMifQ.c2ln here"})
    assert told["problem"] == "refused (hidden) here"


@pytest.mark.parametrize(
    "value",
    [
        ValueError("Bearer abc.def"),
        b"Bearer abc.def",
        {"answer": ["Bearer abc.def"]},
        {"token": "abc.def"},
        [{"header": {"authorization": "abc.def"}}, ("Bearer abc.def",)],
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_text_hides_no_credential(value: object) -> None:
    stream = io.StringIO()
    set_up_logs("json", is_debug=False, stream=stream)
    structlog.get_logger().warning("odd", problem=value, count=3, is_so=True, none=None)
    structlog.reset_defaults()
    told = json.loads(stream.getvalue())
    assert "abc" not in stream.getvalue()
    assert (told["count"], told["is_so"], told["none"]) == (3, True, None)


def test_readable_log_neutralises_escapes() -> None:
    stream = io.StringIO()
    set_up_logs("pretty", is_debug=False, stream=stream)
    structlog.get_logger().info("saw", name="a\x1b[2Jb", many=["\x1b]0;x\x07"])
    structlog.reset_defaults()
    assert "\x1b" not in stream.getvalue()
    assert "a\\x1b[2Jb" in stream.getvalue()


# --- metrics ---


def test_page_is_written_from_the_registry() -> None:
    """If this fails: python -m tools.metrics_page > docs/metrics.md"""
    assert (DOCS / "metrics.md").read_text() == metrics_page()


STANDINGS = tuple(state.name.lower() for state in Standing)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"kube_balloons_{name}", labels)


def test_known_labels_start_at_zero() -> None:
    metrics = Metrics("1.2.3")
    assert sample(metrics, "holds_total", reason="Paused") == 0
    assert sample(metrics, "preemptions_total", how="preempted") == 0
    assert sample(metrics, "ticks_total", outcome="failed") == 0
    assert sample(metrics, "preempt_to_bind_seconds_count") == 0
    assert sample(metrics, "writes_total", action="release", outcome="unknown") == 0
    assert not [s for family in metrics.registry.collect() for s in family.samples if s.name.endswith("_created")]


def test_series_of_a_pool_end_with_the_pool() -> None:
    metrics = Metrics("1.2.3")
    metrics.show([PoolDecision(POOL, because(Reason.PAUSED), PoolStatus(warm=4))])
    assert sample(metrics, "pool_warm_nodes", namespace="ns", pool="gpu") == 4
    metrics.show([])
    assert sample(metrics, "pool_warm_nodes", namespace="ns", pool="gpu") is None


def test_no_pool_is_on_its_way_while_the_whole_service_writes_nothing() -> None:
    """KubeBalloonsPoolCold would fire for each: it waits for what nobody will do."""
    metrics = Metrics("1.2.3", is_dry_run=True)
    warming = because(Reason.WARMING, warm=0, target=4, pending=4)
    metrics.show([PoolDecision(POOL, warming, PoolStatus(target=4))])
    shown = {name: sample(metrics, "pool_standing", namespace="ns", pool="gpu", standing=name) for name in STANDINGS}
    assert shown == {"settled": 1, "moving": 0, "blind": 0, "stuck": 0}


def test_hold_is_counted_when_it_begins() -> None:
    metrics = Metrics("1.2.3")
    for reason in (Reason.PAUSED, Reason.PAUSED, Reason.NO_NODES, Reason.PAUSED):
        metrics.show([PoolDecision(POOL, because(reason), PoolStatus())])
    assert sample(metrics, "holds_total", reason="Paused") == 2


def test_preemptions_and_their_times_are_counted_apart() -> None:
    metrics = Metrics("1.2.3")
    metrics.gave_way(GaveWay(Leaving.RELEASED))
    metrics.gave_way(Taken(0.2))
    assert sample(metrics, "preemptions_total", how="released") == 1
    assert sample(metrics, "preempt_to_bind_seconds_sum") == 0.2


@pytest.mark.parametrize(
    "line",
    [
        "exec: process returned 1. b'Authorization: Bearer abc.def'",
        'exec: {"status": {"token": "abc.def"}}',
        "https://user:abc.def@host.example/",
        "token: k8s-aws-v1.abc.def",
        "{'token': b'abc.def'}",
        '{"clientKeyData": "-----BEGIN EC PRIVATE KEY-----\\nabc.def\\n-----END EC PRIVATE KEY-----"}',
        "-----BEGIN PRIVATE KEY-----\nabc\ndef",
    ],
)
def test_lines_of_libraries_and_of_our_client_pass_the_same_redaction(line: str) -> None:
    stream = io.StringIO()
    set_up_logs("json", is_debug=False, stream=stream)
    logging.getLogger("somebody.else").warning("it said: %s", line)
    structlog.get_logger().warning("credentials could not be read again", problem=line)
    assert len(stream.getvalue().splitlines()) == 2
    assert "abc" not in stream.getvalue()
