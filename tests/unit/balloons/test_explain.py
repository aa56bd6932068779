"""Timelines: the steps in order, each with its wait, and one sentence on how it stands."""

import json
from typing import Any

import pytest

from balloons.cli.explain_command import timeline_document, timeline_text
from balloons.cli.json_and_yaml_output import printed
from balloons.cli.terminal import Look
from balloons.explain import Timeline, explain_node, explain_pod, explain_pool, explain_throttle
from tests.unit.balloons.things_to_explain import (
    at,
    claim,
    condition,
    event,
    node,
    node_pool,
    pod,
    seen,
)


def story(found: Timeline | None) -> list[tuple[str, float | None]]:
    assert found is not None
    return [(step.what, step.wait_s) for step in found.steps]


def test_a_pod_that_waited_for_its_node() -> None:
    whole = seen(
        pods=[pod("n1", [condition("PodScheduled", at(3, 10)), condition("Ready", at(3, 40))])],
        nodes=[node()],
        claims=[claim("Launched", "Registered", "Initialized")],
        events=[event("Pod", "train-0", "Nominated", at(0, 10), "should schedule on nodeclaim/general-x")],
    )
    found = explain_pod(whole, "ml", "train-0")
    assert story(found) == [
        ("created", None),
        ("Event from karpenter", 10),
        ("node n1 asked for", 50),
        ("node n1 launched", 5),
        ("node n1 joined", 55),
        ("node n1 registered", 1),
        ("node n1 ready", 29),
        ("node n1 initialized", 30),
        ("bound", 10),
        ("ready", 30),
    ]
    assert found is not None
    assert (found.steps[1].because, found.now) == ("Nominated", "running on n1")


def test_a_pod_on_an_older_node_did_not_wait_for_it() -> None:
    older = node()
    older["metadata"]["creationTimestamp"] = "2026-11-20T00:00:00Z"
    found = explain_pod(seen(pods=[pod("n1", [condition("PodScheduled", at(0, 1))])], nodes=[older]), "ml", "train-0")
    assert story(found) == [("created", None), ("bound", 1)]


def test_a_waiting_pod_says_who_holds_it() -> None:
    why = condition("PodScheduled", at(0), "False", reason="Unschedulable", message="0/3 nodes are available")
    throttle = {
        "metadata": {"name": "joins"},
        "status": {"phase": "Pacing", "because": "AtWindow", "message": "8 of 8"},
    }
    quota = {
        "metadata": {"name": "cap"},
        "spec": {"limits": {"resources": {"nodes": 8}}},
        "status": {"used": {"resources": {"nodes": 8}}},
    }
    limit = {"metadata": {"name": "general"}, "spec": {"limits": {"cpu": "64"}}, "status": {"resources": {"cpu": "64"}}}
    found = explain_pod(
        seen(pods=[pod(conditions=[why])], throttles=[throttle], quotas=[quota], node_pools=[limit]), "ml", "train-0"
    )
    assert found is not None
    assert found.now == "waiting for a node: 0/3 nodes are available"
    assert [(step.what, step.because) for step in found.steps[1:]] == [
        ("throttle joins Pacing", "AtWindow"),
        ("capacityquota cap is used up", ""),
        ("nodepool general is at its limits", ""),
    ]


@pytest.mark.parametrize(("used", "is_full"), [({"cpu": "64"}, True), ({"memory": "1Ti"}, True), ({}, False)])
def test_a_pool_is_at_its_limits_where_one_of_them_is_reached(used: dict[str, str], is_full: bool) -> None:
    general = {
        "metadata": {"name": "general"},
        "spec": {"limits": {"cpu": "64", "memory": "1Ti"}},
        "status": {"resources": {"cpu": "8", "memory": "64Gi", **used}},
    }
    found = explain_pod(seen(pods=[pod()], node_pools=[general]), "ml", "train-0")
    assert found is not None
    assert ("nodepool general is at its limits" in [step.what for step in found.steps]) is is_full


def node_of(pool: str, **amounts: str) -> dict[str, Any]:
    labels = {"karpenter.sh/nodepool": pool}
    return {"metadata": {"name": f"{pool}-0", "labels": labels}, "status": {"allocatable": {"cpu": "16", **amounts}}}


ASKS_FOR_GPUS = [{"resources": {"requests": {"nvidia.com/gpu": "8"}}}]
TAINTED = {"taints": [{"key": "example.com/team", "value": "research", "effect": "NoSchedule"}]}
ARM_ONLY = {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]}
AMD = {"kubernetes.io/arch": "amd64"}


def explained(asked: dict[str, Any], **objects: Any) -> list[tuple[str, str]]:
    found = explain_pod(seen(pods=[asked], **objects), "ml", "train-0")
    assert found is not None
    return [(step.what, step.message) for step in found.steps[1:]]


def test_a_full_node_pool_that_the_pod_cannot_use_is_not_named_beside_one_that_it_can() -> None:
    nodes = [node_of("gpu", **{"nvidia.com/gpu": "8"}), node_of("notebooks")]
    told = explained(
        pod(containers=ASKS_FOR_GPUS, nodeSelector=AMD),
        nodes=nodes,
        node_pools=[
            node_pool("gpu"),
            node_pool("notebooks"),
            node_pool("tainted", TAINTED),
            node_pool("arm", ARM_ONLY),
        ],
    )
    assert told == [("nodepool gpu is at its limits", "nodes 9")]


def test_where_no_node_pool_can_serve_a_pod_each_says_why() -> None:
    told = explained(
        pod(containers=ASKS_FOR_GPUS, nodeSelector=AMD),
        nodes=[node_of("notebooks")],
        node_pools=[
            node_pool("notebooks"),
            node_pool("tainted", TAINTED),
            node_pool("arm", ARM_ONLY),
            node_pool("fixed", replicas=9),
        ],
    )
    assert told == [
        ("nodepool notebooks cannot serve it", "its nodes have no nvidia.com/gpu"),
        ("nodepool tainted cannot serve it", "the pod does not tolerate example.com/team=research:NoSchedule"),
        ("nodepool arm cannot serve it", "the pod's node selector or affinity asks for other nodes"),
        ("nodepool fixed cannot serve it", "its number of nodes is fixed at 9"),
    ]


def test_of_several_accelerators_those_are_missing_that_no_node_has() -> None:
    asked = {"nvidia.com/gpu": "8", "habana.ai/gaudi": "1", "amd.com/gpu": "0"}
    both = pod(containers=[{"resources": {"requests": asked}}])
    told = explained(both, nodes=[node_of("gpu", **{"nvidia.com/gpu": "8"})], node_pools=[node_pool("gpu")])
    assert told == [("nodepool gpu cannot serve it", "its nodes have no habana.ai/gaudi")]


def test_of_a_pod_whose_requests_nobody_understands_pools_are_told_that_are_full() -> None:
    odd = pod(containers=[{"resources": {"requests": {"cpu": "many"}}}])
    assert explained(odd, node_pools=[node_pool("gpu")]) == [("nodepool gpu is at its limits", "nodes 9")]


def test_a_node_pool_that_karpenter_cannot_use_says_so() -> None:
    broken = node_pool("gpu")
    broken["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "NodeClass not found"}]}
    assert explained(pod(), node_pools=[broken]) == [("nodepool gpu is not Ready", "NodeClass not found")]


def test_a_pod_that_has_ended_waits_for_nobody() -> None:
    evicted = pod() | {"status": {"phase": "Failed"}}
    assert explained(evicted, node_pools=[node_pool("gpu")]) == []


def test_a_gated_pod_says_so() -> None:
    gate = [{"name": "kube-balloons.github.io/paced"}]
    found = explain_pod(seen(pods=[pod(schedulingGates=gate)]), "ml", "train-0")
    assert found is not None
    assert found.now.startswith("gated by kube-balloons.github.io/paced: a throttle opens it")


def test_a_pool_tells_its_conditions_its_zones_and_its_reason() -> None:
    pool = {
        "metadata": {"name": "gpu", "namespace": "ml", "creationTimestamp": at(0)},
        "status": {
            "because": "AtMaximum",
            "message": "4 of 4 nodes",
            "zones": [{"zone": "a", "nodes": 4, "warm": 2, "busy": 1}],
            "conditions": [condition("Ready", at(5), reason="Steady", message="2 warm")],
        },
    }
    told = event("BalloonPool", "gpu", "AtMaximum", at(6), "4 of 4 nodes")
    found = explain_pool(seen(pools=[pool], events=[told]), "ml", "gpu")
    assert story(found) == [
        ("created", None),
        ("Ready became True", 300),
        ("Event from karpenter", 60),
        ("zone a", None),
    ]
    assert found is not None
    assert found.now == "AtMaximum: 4 of 4 nodes"
    assert explain_pool(seen(pools=[pool]), "other", "gpu") is None


def test_what_a_condition_says_is_not_told_again_by_the_event_of_the_same_change() -> None:
    pool = {
        "metadata": {"name": "gpu", "namespace": "ml"},
        "status": {"conditions": [condition("Ready", at(5), reason="Steady", message="2 warm")]},
    }
    minutes = {5: "2 warm", 6: "2 warm", 9: "2 warm", 4: "1 warm"}
    events = [event("BalloonPool", "gpu", "Steady", at(minute), note) for minute, note in minutes.items()]
    found = explain_pool(seen(pools=[pool], events=events), "ml", "gpu")
    assert found is not None
    told = [(step.what, step.at) for step in found.steps if step.because == "Steady"]
    assert [what for what, _ in told] == ["Event from karpenter", "Ready became True", "Event from karpenter"]


def test_a_condition_whose_reason_changed_later_tells_the_reason_of_its_time() -> None:
    """Ready stays True while a pool is paused: its reason is of today and its time of the day when it became True."""
    pool = {
        "metadata": {"name": "gpu", "namespace": "ml"},
        "status": {"conditions": [condition("Ready", at(5), reason="Paused", message="the pool is paused")]},
    }
    events = [
        event("BalloonPool", "gpu", "Steady", at(5), "2 warm"),
        event("BalloonPool", "gpu", "Paused", at(5, 30), "the pool is paused"),
    ]
    found = explain_pool(seen(pools=[pool], events=events), "ml", "gpu")
    assert found is not None
    assert [(step.what, step.because) for step in found.steps if step.because] == [
        ("Ready became True", "Steady"),
        ("Event from karpenter", "Paused"),
    ]


def test_a_condition_keeps_its_words_where_one_event_of_its_time_has_its_reason() -> None:
    pool = {
        "metadata": {"name": "gpu", "namespace": "ml"},
        "status": {"conditions": [condition("Ready", at(5), reason="Steady", message="3 warm")]},
    }
    events = [
        event("BalloonPool", "gpu", "Steady", at(5), "2 warm"),
        event("BalloonPool", "gpu", "Growing", at(5), "1 more"),
    ]
    found = explain_pool(seen(pools=[pool], events=events), "ml", "gpu")
    assert found is not None
    assert [step.message for step in found.steps if step.what == "Ready became True"] == ["3 warm"]


def test_a_paused_pool_says_who_wants_it_so() -> None:
    pool = {
        "metadata": {
            "name": "gpu",
            "namespace": "ml",
            "annotations": {"kube-balloons.github.io/pause-reason": "INC-1"},
        },
        "spec": {"paused": True},
    }
    found = explain_pool(seen(pools=[pool]), "ml", "gpu")
    assert found is not None
    assert [(step.what, step.message) for step in found.steps if step.what == "paused"] == [("paused", "INC-1")]
    del pool["spec"]
    assert explain_pool(seen(pools=[pool]), "ml", "gpu") != found


def test_a_karpenter_pool_tells_its_limits() -> None:
    pool = {"metadata": {"name": "general"}, "spec": {"limits": {"cpu": "64"}}, "status": {"resources": {"cpu": "56"}}}
    found = explain_pool(seen(pools=[], node_pools=[pool]), "", "general")
    assert found is not None
    assert found.steps[-1].message == "56 of 64 used"
    assert found.now == "Karpenter has not looked at it yet"


def test_a_throttle_tells_its_levers_and_servers() -> None:
    throttle = {
        "metadata": {"name": "joins", "creationTimestamp": at(0)},
        "status": {
            "levers": [{"name": "CapacityQuota/cap", "state": "Held", "because": "AtWindow", "ceiling": "12"}],
            "servers": [{"name": "10.0.0.1", "state": "Stale", "message": "no answer"}],
        },
    }
    found = explain_throttle(seen(throttles=[throttle]), "joins")
    assert story(found)[1:] == [("lever CapacityQuota/cap Held", None), ("API server 10.0.0.1 Stale", None)]
    assert found is not None
    assert found.steps[1].message == "ceiling 12"


def test_what_is_not_there_is_none() -> None:
    empty = seen(pods=[], nodes=[], claims=[], pools=[], throttles=[])
    assert explain_pod(empty, "ml", "x") is None
    assert explain_node(empty, "x") is None
    assert explain_throttle(empty, "x") is None


def test_printed_and_machine_readable() -> None:
    found = explain_pod(seen(pods=[pod("n1", [condition("PodScheduled", at(0, 7))])]), "ml", "train-0")
    assert found is not None
    assert timeline_text(found, Look())[1:] == [
        "2026-11-21T11:00:00Z        created",
        "2026-11-21T11:00:07Z  +7s   bound",
        "now: running on n1",
    ]
    steps = json.loads(printed(timeline_document(found), "json"))["steps"]
    assert steps[1] == {"at": "2026-11-21T11:00:07Z", "waitSeconds": 7.0, "step": "bound", "because": "", "message": ""}


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    nominated = event("Pod", "train-0", "Nominated", at(1), "should schedule on nodeclaim/general-x")
    whole = seen(pods=[pod()], events=[nominated], node_pools=[node_pool("notebooks-of-research")])
    found = explain_pod(whole, "ml", "train-0")
    assert found is not None
    lines = timeline_text(found, Look(is_terminal=True, width=width))
    assert max(map(len, lines)) <= width
    told = "".join("".join(lines).split())
    assert all(word in told for word in ("notebooks-of-research", "nodes9", "Nominated", "+1m"))


def test_steps_that_are_too_long_for_a_row_stand_below_their_time() -> None:
    nominated = event("Pod", "train-0", "Nominated", at(1), "should schedule on nodeclaim/general-x")
    whole = seen(pods=[pod()], events=[nominated], node_pools=[node_pool("notebooks-of-research")])
    found = explain_pod(whole, "ml", "train-0")
    assert found is not None
    assert timeline_text(found, Look(is_terminal=True, width=50))[:8] == [
        "2026-11-21T11:00:00Z",
        "  created",
        "2026-11-21T11:01:00Z +1m",
        "  Event from karpenter: Nominated",
        "    should schedule on nodeclaim/general-x",
        "now",
        "  nodepool notebooks-of-research is at its limits",
        "    nodes 9",
    ]


def test_escapes_in_messages_are_spelled_out() -> None:
    told = event("Pod", "train-0", "\x1b]8;;http://x\x07", at(1), "a\x1b[2Jb\u202e")
    found = explain_pod(seen(pods=[pod()], events=[told]), "ml", "train-0")
    assert found is not None
    shown = "\n".join(timeline_text(found, Look(is_terminal=True, width=80)))
    assert "\x1b" not in shown
    assert "a\\x1b[2Jb\\u202e" in shown


@pytest.mark.parametrize("odd", [1, "x", [], [1], {"x": 1}])
def test_odd_objects_raise_nothing(odd: Any) -> None:
    thing = {"metadata": {"name": "x", "namespace": "ml"}, "spec": odd, "status": odd, "regarding": odd}
    other = {
        "metadata": {"name": "x"},
        "spec": {"limits": odd, "taints": odd},
        "status": {"conditions": odd, "zones": odd},
    }
    whole = seen(
        **{key: [thing, other] for key in ("pods", "nodes", "claims", "events", "pools", "node_pools", "throttles")}
    )
    assert explain_pod(whole, "ml", "x")
    assert explain_node(whole, "x")
    assert explain_pool(whole, "", "x")
    assert explain_throttle(whole, "x")


READY_WORDS = {"type": "Ready", "status": "False", "reason": "NoNode", "message": "no node fits"}


@pytest.mark.parametrize(
    ("status", "now"),
    [
        ({"because": "Steady", "message": "all is well"}, "Steady: all is well"),
        ({"because": "Steady"}, "Steady"),
        ({"message": "all is well", "conditions": [READY_WORDS]}, "all is well"),
        ({"conditions": [READY_WORDS]}, "Ready is False: no node fits"),
        ({"conditions": [{**READY_WORDS, "message": ""}]}, "Ready is False: NoNode"),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, "Ready is True"),
        ({"conditions": [{"type": "Other", "status": "True"}]}, "nobody has acted on it yet; is the service running?"),
        ({}, "nobody has acted on it yet; is the service running?"),
    ],
)
def test_how_a_pool_stands(status: dict[str, Any], now: str) -> None:
    pool = {"metadata": {"name": "warm", "namespace": "ml"}, "spec": {}, "status": status}
    found = explain_pool(seen(pools=[pool]), "ml", "warm")
    assert found is not None
    assert found.now.removesuffix(" (balloons doctor)") == now


@pytest.mark.parametrize(
    ("minute", "second", "change", "is_told"),
    [
        (1, 0, {}, False),
        (2, 0, {}, False),
        (2, 1, {}, True),
        (0, 0, {}, False),
        # The condition's reason is a later one: it is told with the Event's.
        (1, 0, {"reason": "Other"}, False),
        (1, 6, {"reason": "Other"}, True),
        (1, 0, {"note": "other words"}, True),
    ],
)
def test_an_event_that_says_what_a_condition_does_at_that_moment_is_left_out(
    minute: int, second: int, change: dict[str, Any], *, is_told: bool
) -> None:
    said = {"type": "Ready", "status": "False", "reason": "Why", "message": "words", "lastTransitionTime": at(1)}
    pool = {"metadata": {"name": "warm", "namespace": "ml"}, "status": {"conditions": [said]}}
    told = {**event("BalloonPool", "warm", "Why", at(minute, second), "words"), **change}
    found = explain_pool(seen(pools=[pool], events=[told]), "ml", "warm")
    assert found is not None
    assert any(step.what.startswith("Event from") for step in found.steps) is is_told


def test_a_pause_is_told_with_its_reason() -> None:
    paused = {"metadata": {"name": "warm", "namespace": "ml"}, "spec": {"paused": True}}
    found = explain_pool(seen(pools=[paused]), "ml", "warm")
    assert found is not None
    assert [step.message for step in found.steps if step.what == "paused"] == ["nobody said why"]
    running = explain_pool(seen(pools=[{**paused, "spec": {"paused": False}}]), "ml", "warm")
    assert running is not None
    assert "paused" not in [step.what for step in running.steps]


def test_the_event_of_another_condition_is_no_reason_of_this_one() -> None:
    """Both changed in one write; the Event of the first was not sent, as only thirty a minute are."""
    ready = {"type": "Ready", "status": "False", "reason": "Why", "message": "words", "lastTransitionTime": at(1)}
    other = {**ready, "type": "Paced", "reason": "Other", "message": "others"}
    pool = {"metadata": {"name": "warm", "namespace": "ml"}, "status": {"conditions": [ready, other]}}
    found = explain_pool(
        seen(pools=[pool], events=[event("BalloonPool", "warm", "Other", at(1), "others")]), "ml", "warm"
    )
    assert found is not None
    assert {step.what: step.because for step in found.steps if " became " in step.what} == {
        "Ready became False": "Why",
        "Paced became False": "Other",
    }


def test_a_pool_tells_its_zones() -> None:
    zones = [{"zone": "a", "warm": 2, "busy": 1, "nodes": 4}, {}]
    pool = {"metadata": {"name": "warm", "namespace": "ml"}, "status": {"zones": zones}}
    found = explain_pool(seen(pools=[pool]), "ml", "warm")
    assert found is not None
    assert [(step.what, step.message) for step in found.steps if "zone" in step.what] == [
        ("zone a", "2 warm, 1 busy of 4"),
        ("nodes without a zone", "0 warm, 0 busy of 0"),
    ]
    assert explain_pool(seen(pools=[pool]), "other", "warm") is None


@pytest.mark.parametrize(
    ("change", "minute"),
    [
        ({}, 4),
        ({"deprecatedLastTimestamp": None}, 5),
        ({"deprecatedLastTimestamp": None, "eventTime": None}, 2),
        ({"series": {"lastObservedTime": at(6)}}, 6),
    ],
)
def test_an_event_is_of_when_it_was_seen_last(change: dict[str, Any], minute: int) -> None:
    told = {**event("Pod", "train-0", "Why", at(2)), "deprecatedLastTimestamp": at(4), "eventTime": at(5), **change}
    found = explain_pod(seen(pods=[pod()], events=[told]), "ml", "train-0")
    assert story(found) == [("created", None), ("Event from karpenter", 60.0 * minute)]


@pytest.mark.parametrize(
    ("change", "reporter"),
    [
        ({"reportingController": "kube-balloons.github.io/balloons"}, "balloons"),
        ({"reportingController": "", "deprecatedSource": {"component": "kubelet"}}, "kubelet"),
        ({"reportingController": ""}, "somebody"),
    ],
)
def test_an_event_says_who_reported_it(change: dict[str, Any], reporter: str) -> None:
    told = {**event("Pod", "train-0", "Why", at(2)), **change}
    found = explain_pod(seen(pods=[pod()], events=[told]), "ml", "train-0")
    assert [what for what, _ in story(found)] == ["created", f"Event from {reporter}"]


def test_events_of_others_and_repeats_are_left_out() -> None:
    mine = event("Pod", "train-0", "Why", at(1))
    others = [event("Pod", "train-1", "Why", at(2)), event("Job", "train-0", "Why", at(3))]
    elsewhere = event("Pod", "train-0", "Why", at(4))
    elsewhere["metadata"]["namespace"] = "other"
    found = explain_pod(seen(pods=[pod()], events=[mine, *others, elsewhere, mine]), "ml", "train-0")
    assert story(found) == [("created", None), ("Event from karpenter", 60)]


def test_events_of_a_node_are_told_whatever_their_namespace_is() -> None:
    """Of one that regards no namespaced object it is `default`."""
    events = [event("Node", "n1", "Why", at(4)), event("NodeClaim", "general-x", "Because", at(5))]
    for told in events:
        told["metadata"]["namespace"] = "default"
    found = explain_node(seen(nodes=[node()], claims=[claim("Launched")], events=events), "n1")
    assert found is not None
    assert [step.because for step in found.steps if step.because] == ["Why", "Because"]


def test_a_node_that_has_not_come_is_found_by_the_name_of_its_claim() -> None:
    ordered = claim("Launched", "Registered", "Initialized")
    del ordered["status"]["nodeName"]
    found = explain_node(seen(claims=[ordered], pods=[pod("general-x")]), "general-x")
    assert [what for what, _ in story(found)] == ["asked for", "launched", "registered", "initialized"]
    assert found is not None
    assert found.now == "it has not joined: its NodeClaim is not matched with its node yet"
    assert explain_node(seen(claims=[ordered]), "n1") is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"message": "no network", "reason": "KubeletNotReady"}, "no network"),
        ({"message": "", "reason": "KubeletNotReady"}, "KubeletNotReady"),
        ({"message": ""}, "its kubelet has not said why"),
    ],
)
def test_a_node_that_is_not_ready_says_why_as_far_as_it_is_known(said: dict[str, str], words: str) -> None:
    sick = node("False")
    sick["status"]["conditions"] = [condition("MemoryPressure", at(2), "False"), condition("Ready", at(3), "False")]
    sick["status"]["conditions"][1] |= said
    found = explain_node(seen(nodes=[sick]), "n1")
    assert found is not None
    assert found.now == f"joined and not ready: {words}"


def test_work_on_a_node_is_told_by_its_name() -> None:
    bound = pod("n1", [condition("PodScheduled", at(4))])
    found = explain_node(seen(nodes=[node()], pods=[bound, pod("n2", [condition("PodScheduled", at(5))])]), "n1")
    assert [what for what, _ in story(found)] == ["joined", "ready", "bound: ml/train-0"]


@pytest.mark.parametrize(
    ("asked", "now"),
    [
        (pod(), "waiting for a node: the scheduler has not looked at it"),
        (pod() | {"status": {"phase": "Succeeded"}}, "it has ended (Succeeded)"),
        (pod("n1") | {"status": {"phase": "Failed"}}, "it has ended (Failed)"),
        (pod("n1") | {"status": {}}, "pending on n1"),
        (
            pod() | {"status": {"nominatedNodeName": "n1"}},
            "waiting for a node: the scheduler has not looked at it; it is to get n1 when its victims have left",
        ),
        (
            pod(schedulingGates=[{"name": "example.com/quota"}, {"name": "x"}]),
            "gated by example.com/quota, x: whoever set it must open it",
        ),
    ],
)
def test_how_a_pod_stands(asked: dict[str, Any], now: str) -> None:
    found = explain_pod(seen(pods=[asked]), "ml", "train-0")
    assert found is not None
    assert found.now == now


def test_what_holds_pods_back_is_told_of_those_that_wait_only() -> None:
    holding: dict[str, Any] = {"throttles": [{"metadata": {"name": "joins"}}], "node_pools": [node_pool("gpu")]}
    waiting = [("throttle joins has not spoken", ""), ("nodepool gpu is at its limits", "nodes 9")]
    assert explained(pod(), **holding) == waiting
    assert explained(pod("n1"), **holding) == []


@pytest.mark.parametrize(
    ("used", "is_told"),
    [
        ({"nodes": 8, "cpu": 1}, True),
        ({"nodes": 7, "cpu": 64}, True),
        ({"nodes": 7}, False),
        ({"nodes": 9}, True),
        ({"cpu": "64000m"}, True),
    ],
)
def test_a_quota_is_used_up_by_any_of_its_resources(used: dict[str, Any], *, is_told: bool) -> None:
    limits = {"nodes": 8, "cpu": "64"}
    quota = {
        "metadata": {"name": "cap"},
        "spec": {"limits": {"resources": limits}},
        "status": {"used": {"resources": used}},
    }
    told = [("capacityquota cap is used up", "cpu 64, nodes 8")] if is_told else []
    assert explained(pod(), quotas=[quota]) == told
    assert explained(pod(), quotas=[{**quota, "status": {}}]) == []


def test_of_several_events_of_the_time_the_nearest_has_the_reason_that_a_condition_had() -> None:
    pool = {
        "metadata": {"name": "gpu", "namespace": "ml"},
        "status": {"conditions": [condition("Ready", at(5, 10), reason="Paused", message="the pool is paused")]},
    }
    seconds = {6: "Early", 13: "Near", 16: "Late"}
    events = [event("BalloonPool", "gpu", reason, at(5, second), "words") for second, reason in seconds.items()]
    found = explain_pool(seen(pools=[pool], events=events), "ml", "gpu")
    assert found is not None
    assert [(step.what, step.because) for step in found.steps if step.because] == [
        ("Event from karpenter", "Early"),
        ("Ready became True", "Near"),
        ("Event from karpenter", "Late"),
    ]


def test_a_pool_of_balloons_is_told_before_a_node_pool_of_that_name() -> None:
    own = {"metadata": {"name": "gpu", "namespace": "ml"}, "spec": {}, "status": {}}
    both = seen(pools=[own], node_pools=[node_pool("gpu")])
    subjects = [found.subject for space in ("ml", "") if (found := explain_pool(both, space, "gpu")) is not None]
    assert subjects == ["balloonpool/gpu -n ml", "nodepool/gpu"]


def test_a_lever_tells_its_message_before_its_ceiling() -> None:
    levers = [
        {"name": "a", "state": "Held", "message": "words", "ceiling": "12"},
        {"name": "b", "state": "Held", "because": "AtWindow"},
    ]
    throttle = {"metadata": {"name": "joins"}, "status": {"levers": levers}}
    found = explain_throttle(seen(throttles=[throttle]), "joins")
    assert found is not None
    assert [(step.what, step.because, step.message) for step in found.steps[1:]] == [
        ("lever a Held", "", "words"),
        ("lever b Held", "AtWindow", ""),
    ]
    assert found.now.startswith("nobody has acted on it yet")
