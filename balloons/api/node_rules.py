"""The rules of `spec.nodes`: a selector that selects, tolerations a pod may carry, conditions that can clear."""

from collections.abc import Iterator

from balloons.api.pool import NotWarm, PoolNodes
from throttler.kube.decoding import Problem, not_one_of
from throttler.kube.quantity import DurationError, parse_duration
from throttler.kube.selectors import LabelSelector, Toleration, selector_problems

LONGEST_TOLERATION_S = 31_536_000
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STATUSES = ("True", "False", "Unknown")


def node_problems(nodes: PoolNodes) -> Iterator[Problem]:
    """What is wrong with the pool's selector, tolerations and `notWarm`."""
    yield from _selector_problems(nodes.selector)
    for index, toleration in enumerate(nodes.tolerations):
        yield from _toleration_problems(toleration, f"spec.nodes.tolerations[{index}]")
    yield from _not_warm_problems(nodes.not_warm)
    try:
        parse_duration(nodes.not_ready_grace)
    except DurationError as error:
        yield Problem("spec.nodes.notReadyGrace", str(error))


def _selector_problems(selector: LabelSelector) -> Iterator[Problem]:
    path = "spec.nodes.selector"
    if not selector.match_labels and not selector.match_expressions:
        yield Problem(
            path,
            "selector {} matches every node; accepted: at least one entry in matchLabels or matchExpressions",
        )
    yield from selector_problems(selector, path)


def _toleration_problems(toleration: Toleration, path: str) -> Iterator[Problem]:
    operator, effect, seconds = toleration.operator, toleration.effect, toleration.toleration_seconds
    yield from not_one_of(operator, ("Equal", "Exists"), f"{path}.operator")
    if effect:
        yield from not_one_of(effect, EFFECTS, f"{path}.effect")
    if not toleration.key and operator != "Exists":
        yield Problem(
            path,
            f"operator {operator} has no key; accepted: a key, or operator Exists to tolerate every taint",
        )
    if operator == "Exists" and toleration.value:
        yield Problem(path, f'operator Exists has the value "{toleration.value}"; accepted: no value')
    if seconds is not None and effect != "NoExecute":
        yield Problem(
            path,
            f'tolerationSeconds {seconds} with effect "{effect}"; accepted: only with effect NoExecute',
        )
    if seconds is not None and not 0 <= seconds <= LONGEST_TOLERATION_S:
        yield Problem(
            f"{path}.tolerationSeconds",
            f"tolerationSeconds {seconds} is not accepted; accepted: a whole number from 0 to {LONGEST_TOLERATION_S}",
        )


def _not_warm_problems(not_warm: NotWarm) -> Iterator[Problem]:
    path = "spec.nodes.notWarm"
    for index, taint in enumerate(not_warm.taints):
        if taint.effect:
            yield from not_one_of(taint.effect, EFFECTS, f"{path}.taints[{index}].effect")
    for index, condition in enumerate(not_warm.conditions):
        yield from not_one_of(condition.status, STATUSES, f"{path}.conditions[{index}].status")
        if (condition.type, condition.status) == ("Ready", "True"):
            yield Problem(
                f"{path}.conditions[{index}]",
                'condition Ready with status "True" would mean that no node is ever warm; '
                "accepted: the condition of a sick node",
            )
