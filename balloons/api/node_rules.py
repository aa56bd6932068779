"""The rules of `spec.nodes`: a selector that selects, tolerations a pod may carry, conditions that can clear."""

import re
from collections.abc import Iterator, Sequence

from balloons.api.pool import NotWarm, PoolNodes
from balloons.api.problem import Problem
from throttler.kube.selectors import LabelSelector, Requirement, Toleration

KEY_PATTERN = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""A label's key: an optional DNS domain and a name of at most 63 characters."""
VALUE_PATTERN = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
LONGEST_KEY = 317
LONGEST_VALUE = 63
MOST_ENTRIES = 32
MOST_VALUES = 256
LONGEST_TOLERATION_S = 31_536_000
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STATUSES = ("True", "False", "Unknown")

_KEY = re.compile(KEY_PATTERN, re.ASCII)
_VALUE = re.compile(VALUE_PATTERN, re.ASCII)


def node_problems(nodes: PoolNodes) -> Iterator[Problem]:
    """What is wrong with the pool's selector, tolerations and `notWarm`."""
    yield from _selector_problems(nodes.selector)
    for index, toleration in enumerate(nodes.tolerations):
        yield from _toleration_problems(toleration, f"spec.nodes.tolerations[{index}]")
    yield from _not_warm_problems(nodes.not_warm)


def _selector_problems(selector: LabelSelector) -> Iterator[Problem]:
    path = "spec.nodes.selector"
    if not selector.match_labels and not selector.match_expressions:
        yield Problem(
            path,
            "selector {} matches every node; accepted: at least one entry in matchLabels or matchExpressions",
        )
    yield from _too_many(f"{path}.matchLabels", len(selector.match_labels), MOST_ENTRIES)
    for key, value in selector.match_labels.items():
        yield from _key_problems(key, f"{path}.matchLabels")
        yield from _value_problems(value, f"{path}.matchLabels[{key}]")
    yield from _too_many(f"{path}.matchExpressions", len(selector.match_expressions), MOST_ENTRIES)
    for index, requirement in enumerate(selector.match_expressions):
        yield from _requirement_problems(requirement, f"{path}.matchExpressions[{index}]")


def _requirement_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    operator, values = requirement.operator, requirement.values
    yield from _key_problems(requirement.key, f"{path}.key")
    yield from _not_one_of(operator, OPERATORS, f"{path}.operator")
    if operator in ("In", "NotIn") and not values:
        yield Problem(path, f"operator {operator} has no values; accepted: at least one value, such as gpu-a")
    if operator in ("Exists", "DoesNotExist") and values:
        yield Problem(path, f'operator {operator} has the value "{values[0]}"; accepted: no values')
    yield from _too_many(f"{path}.values", len(values), MOST_VALUES)
    for index, value in enumerate(values):
        yield from _value_problems(value, f"{path}.values[{index}]")


def _toleration_problems(toleration: Toleration, path: str) -> Iterator[Problem]:
    operator, effect, seconds = toleration.operator, toleration.effect, toleration.toleration_seconds
    yield from _not_one_of(operator, ("Equal", "Exists"), f"{path}.operator")
    if effect:
        yield from _not_one_of(effect, EFFECTS, f"{path}.effect")
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
            yield from _not_one_of(taint.effect, EFFECTS, f"{path}.taints[{index}].effect")
    for index, condition in enumerate(not_warm.conditions):
        yield from _not_one_of(condition.status, STATUSES, f"{path}.conditions[{index}].status")
        if (condition.type, condition.status) == ("Ready", "True"):
            yield Problem(
                f"{path}.conditions[{index}]",
                'condition Ready with status "True" would mean that no node is ever warm; '
                "accepted: the condition of a sick node",
            )


def _key_problems(key: str, path: str) -> Iterator[Problem]:
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        yield Problem(
            path,
            f'label "{key}" cannot be on a node; '
            "accepted: a label key such as node-pool or topology.kubernetes.io/zone",
        )


def _value_problems(value: str, path: str) -> Iterator[Problem]:
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        yield Problem(
            path,
            f'label value "{value}" cannot be on a node; accepted: at most 63 letters, digits, -, _ and .',
        )


def _not_one_of(value: str, accepted: Sequence[str], path: str) -> Iterator[Problem]:
    if value not in accepted:
        name = path.rpartition(".")[2]
        yield Problem(path, f'{name} "{value}" is not accepted; accepted: {", ".join(accepted)}')


def _too_many(path: str, count: int, most: int) -> Iterator[Problem]:
    if count > most:
        name = path.rpartition(".")[2]
        yield Problem(path, f"{name} has {count} entries; accepted: at most {most}")
