"""Label selectors and node affinity: the scheduler's matching rules, and what may be written.

Pure. The rules of labels and of a label selector are in the words of the CRDs' validations.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import ge, gt, le, lt

import msgspec

from throttler.kube.custom_objects import Problem, not_one_of

Labels = Mapping[str, str]
COMPARISONS = {"Gt": gt, "Lt": lt, "Gte": ge, "Lte": le}
"""The last two are in Karpenter's NodePools only (1.15)."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,63}")
"""No label value, the only place where numbers are compared, has more digits."""


class Requirement(msgspec.Struct, frozen=True, rename="camel"):
    """One `matchExpressions` entry; node affinity and Karpenter's NodePools also compare numbers."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """`matchLabels` and `matchExpressions`, all of which must hold; empty matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


def matches(selector: LabelSelector, labels: Labels) -> bool:
    """Whether the labels satisfy every part of the selector."""
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(meets(requirement, labels) for requirement in selector.match_expressions)


def can_match(selector: LabelSelector, fixed: Labels) -> bool:
    """Whether nodes can match that carry the labels `fixed`, and others that are not known."""
    for key, value in selector.match_labels.items():
        if fixed.get(key, value) != value:
            return False
    return all(meets(part, fixed) for part in selector.match_expressions if part.key in fixed)


def meets(requirement: Requirement, labels: Labels) -> bool:
    """Whether labels meet one requirement, by the rules of node affinity (a superset of selectors) and of NodePools."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return _compares(requirement.operator, value, requirement.values)


def is_selected(
    labels: Labels, node_selector: Iterable[tuple[str, str]], node_terms: Sequence[Sequence[Requirement]]
) -> bool:
    """Whether a pod's node selector (labels and values) and one of the alternatives of its node affinity, if any, hold
    for a node."""
    if any(labels.get(key) != value for key, value in node_selector):
        return False
    return not node_terms or any(all(meets(part, labels) for part in term) for term in node_terms)


def requirements(selector: LabelSelector) -> list[Requirement]:
    """Everything that the selector asks for, one by one; labels come in order."""
    labels = (Requirement(key, "In", (value,)) for key, value in sorted(selector.match_labels.items()))
    return [*labels, *selector.match_expressions]


def opposite(requirement: Requirement) -> Requirement:
    """What exactly those nodes meet that do not meet this one; selectors know no other operators than these four."""
    operator = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}[requirement.operator]
    return Requirement(requirement.key, operator, requirement.values)


def are_contrary(one: Requirement, other: Requirement) -> bool:
    """Whether no node can meet both; of two comparisons of numbers it is not told."""
    if one.key != other.key:
        return False
    for listed, part in ((one, other), (other, one)):
        if listed.operator == "In":
            return not any(meets(part, {listed.key: value}) for value in listed.values)
    return {one.operator, other.operator} == {"DoesNotExist", "Exists"}


def are_disjoint(one: LabelSelector, other: LabelSelector) -> bool:
    """Whether it can be told that no node has both; labels of which only one of them speaks tell nothing."""
    if not (can_match(one, other.match_labels) and can_match(other, one.match_labels)):
        return True
    return any(are_contrary(own, part) for own in one.match_expressions for part in other.match_expressions)


def _compares(how: str, value: str | None, bounds: Sequence[str]) -> bool:
    left, right = _whole(value or ""), _whole(bounds[0]) if len(bounds) == 1 else None
    if how not in COMPARISONS or left is None or right is None:
        return False
    return bool(COMPARISONS[how](left, right))


def _whole(text: str) -> int | None:
    """The number as the scheduler's parser reads it: 64 bits, ASCII digits, no blanks or underscores."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


KEY_PATTERN = r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
"""A label's key: an optional DNS domain and a name of at most 63 characters. Taints have the same keys."""
VALUE_PATTERN = r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
LONGEST_KEY = 317
LONGEST_VALUE = 63
MOST_ENTRIES = 32
MOST_VALUES = 256
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

_KEY = re.compile(KEY_PATTERN, re.ASCII)
_VALUE = re.compile(VALUE_PATTERN, re.ASCII)


def selector_problems(selector: LabelSelector, path: str) -> Iterator[Problem]:
    """What is wrong with a selector; an empty one is for its owner to judge."""
    yield from _too_many(f"{path}.matchLabels", len(selector.match_labels), MOST_ENTRIES)
    for key, value in selector.match_labels.items():
        yield from key_problems(key, f"{path}.matchLabels")
        yield from value_problems(value, f"{path}.matchLabels[{key}]")
    yield from _too_many(f"{path}.matchExpressions", len(selector.match_expressions), MOST_ENTRIES)
    for index, requirement in enumerate(selector.match_expressions):
        yield from _requirement_problems(requirement, f"{path}.matchExpressions[{index}]")


def key_problems(key: str, path: str) -> Iterator[Problem]:
    """What is wrong with a label's key."""
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        yield Problem(
            path,
            f'label "{key}" cannot be on a node; '
            "accepted: a label key such as node-pool or topology.kubernetes.io/zone",
        )


def value_problems(value: str, path: str) -> Iterator[Problem]:
    """What is wrong with a label's value."""
    if len(value) > LONGEST_VALUE or not _VALUE.fullmatch(value):
        yield Problem(
            path,
            f'label value "{value}" cannot be on a node; accepted: at most 63 letters, digits, -, _ and .',
        )


def _requirement_problems(requirement: Requirement, path: str) -> Iterator[Problem]:
    operator, values = requirement.operator, requirement.values
    yield from key_problems(requirement.key, f"{path}.key")
    yield from not_one_of(operator, OPERATORS, f"{path}.operator")
    if operator in ("In", "NotIn") and not values:
        yield Problem(path, f"operator {operator} has no values; accepted: at least one value, such as gpu-a")
    if operator in ("Exists", "DoesNotExist") and values:
        yield Problem(path, f'operator {operator} has the value "{values[0]}"; accepted: no values')
    yield from _too_many(f"{path}.values", len(values), MOST_VALUES)
    for index, value in enumerate(values):
        yield from value_problems(value, f"{path}.values[{index}]")


def _too_many(path: str, count: int, most: int) -> Iterator[Problem]:
    if count > most:
        name = path.rpartition(".")[2]
        yield Problem(path, f"{name} has {count} entries; accepted: at most {most}")
