"""Nodes that wait for pods which nobody has made: the sign of the controller manager's own limit."""

from benchmarks.scaleup.law_pacer import BareNodes
from lab.cloud.json_api import Json


def node(ready: str) -> Json:
    return {"status": {"conditions": [{"type": "Ready", "status": ready}]}}


def pod(node: str | None) -> Json:
    return {"spec": {"nodeName": node} if node else {}}


def test_a_node_waits_from_ready_until_all_of_its_pods_exist() -> None:
    now = [0.0]
    seen = BareNodes(lambda: now[0], wanted=2)
    seen.saw_node("a", node("False"))
    now[0] = 10.0
    seen.saw_node("a", node("True"))
    seen.saw_node("b", node("True"))
    now[0] = 16.0
    seen.saw_node("a", node("True"))  # a heartbeat is no new beginning
    for name, where in (("x", "a"), ("y", "b"), ("z", "b"), ("waiting", None)):
        seen.saw_pod(name, pod(where))
    assert seen.waiting_s() == [6.0]
    seen.saw_pod("waiting", pod("a"))
    assert seen.waiting_s() == []
