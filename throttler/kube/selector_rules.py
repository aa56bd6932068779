"""The rules of labels and of a `spec`'s label selector, in the words of the CRDs' validations."""

import re
from collections.abc import Iterator

from throttler.kube.problem import Problem, not_one_of
from throttler.kube.selectors import LabelSelector, Requirement

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
