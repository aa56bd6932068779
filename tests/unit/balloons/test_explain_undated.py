"""Timelines of what has no time, or no name: it comes last, and neither says nor hides anything else."""

from balloons.explain import Timeline, explain_node, explain_pool
from tests.unit.balloons.things_to_explain import at, event, node, seen


def story(found: Timeline | None) -> list[tuple[str, float | None]]:
    assert found is not None
    return [(step.what, step.wait_s) for step in found.steps]


def test_an_event_without_a_time_is_told_beside_the_condition_that_says_the_same() -> None:
    said = {"type": "Ready", "status": "False", "reason": "Why", "message": "words", "lastTransitionTime": at(1)}
    pool = {"metadata": {"name": "gpu", "namespace": "ml"}, "status": {"conditions": [said]}}
    told = {**event("BalloonPool", "gpu", "Why", at(1), "words"), "deprecatedLastTimestamp": None}
    del told["metadata"]["creationTimestamp"]
    assert [what for what, _ in story(explain_pool(seen(pools=[pool], events=[told]), "ml", "gpu"))] == [
        "Ready became False",
        "created",
        "Event from karpenter",
    ]


def test_a_condition_without_a_time_says_nothing_about_an_event() -> None:
    said = {"type": "Ready", "status": "False", "reason": "Why", "message": "words"}
    pool = {"metadata": {"name": "gpu", "namespace": "ml"}, "status": {"conditions": [said]}}
    told = event("BalloonPool", "gpu", "Why", at(1), "words")
    assert story(explain_pool(seen(pools=[pool], events=[told]), "ml", "gpu")) == [
        ("Event from karpenter", None),
        ("created", None),
        ("Ready became False", None),
    ]


def test_a_node_without_a_claim_tells_nothing_of_nameless_claims() -> None:
    whole = seen(nodes=[node()], events=[event("NodeClaim", "", "Disrupted", at(3))])
    assert [what for what, _ in story(explain_node(whole, "n1"))] == ["joined", "ready"]
