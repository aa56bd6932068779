"""Whose machines the node groups of cluster-autoscaler boot.

It names groups as the cloud does and says nothing of their nodes' labels, so the nodes that are there already decide:
all nodes of a group are labelled alike. Where they do not tell, the machines count for one throttle, which says so.
Counted for several, they would fill the window with joins that never come; counted for none, they would be asked for
again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from throttler.api.throttle import JoinThrottle
from throttler.kube.cluster_autoscaler import AutoscalerStatus, NodeGroup
from throttler.kube.node import GROUP_LABELS, KARPENTER_POOL_LABEL, Node
from throttler.kube.selectors import Labels, LabelSelector, matches

_GROUP_LABELS = frozenset(GROUP_LABELS)
SAMPLE = 5
"""So many nodes are asked of which throttle they are; more would say the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOf:
    """The groups that boot machines for one throttle; `guessed` are the names of those that may be another's."""

    status: AutoscalerStatus
    guessed: tuple[str, ...] = ()

    def and_also(self, group: NodeGroup, *, is_guessed: bool) -> "GroupsOf":
        """With this group."""
        status = replace(self.status, groups=(*self.status.groups, group))
        return GroupsOf(status=status, guessed=(*self.guessed, group.name) if is_guessed else self.guessed)


def share_groups(
    status: AutoscalerStatus, nodes: Iterable[Node], throttles: Sequence[JoinThrottle]
) -> Mapping[str, GroupsOf]:
    """Throttle -> its groups, each group once; `throttles` are the oldest first.

    A group whose nodes no throttle selects is nobody's. One of which no node tells is the oldest throttle's that has a
    CapacityQuota, else the oldest one's.
    """
    found = {each.metadata.name: GroupsOf(status=replace(status, groups=())) for each in throttles}
    booting = [group for group in status.groups if group.booting]
    if not booting or not throttles:
        return found
    if throttles[0].spec.nodes == LabelSelector():
        return {**found, throttles[0].metadata.name: GroupsOf(status=status)}
    shown = _shown(frozenset(group.name for group in booting), nodes, throttles)
    for group in booting:
        owners = _owners(group.name, shown, throttles)
        owner = owners[0] if len(owners) == 1 else _guess(throttles)
        if owner is not None:
            found[owner] = found[owner].and_also(group, is_guessed=len(owners) != 1)
    return found


def _owners(name: str, shown: Mapping[str, Sequence[Labels]], throttles: Sequence[JoinThrottle]) -> list[str | None]:
    """The throttles whose nodes those of the group can be; None among them: nobody's."""
    parts = [text for text in shown if _is_part(text, name)]
    nodes = shown[max(sorted(parts), key=len)] if parts else ()
    return [*{_owner(labels, throttles) for labels in nodes}]


def _owner(labels: Labels, throttles: Iterable[JoinThrottle]) -> str | None:
    return next((each.metadata.name for each in throttles if matches(each.spec.nodes, labels)), None)


def _guess(throttles: Sequence[JoinThrottle]) -> str:
    quota = (each for each in throttles if each.spec.levers.capacity_quota is not None)
    return next(quota, throttles[0]).metadata.name


def _shown(
    names: frozenset[str], nodes: Iterable[Node], throttles: Iterable[JoinThrottle]
) -> Mapping[str, Sequence[Labels]]:
    """What nodes say to be a group's name, or a part of it -> the labels of some of them.

    A selector that asks for such a label says the same of nodes that are not there yet.
    """
    asked = (each.spec.nodes.match_labels for each in throttles if not each.spec.nodes.match_expressions)
    there = (node.labels for node in nodes if KARPENTER_POOL_LABEL not in node.labels)
    found: dict[str, list[Labels]] = {}
    for labels in chain(asked, there):
        for text in _said(names, labels):
            sample = found.setdefault(text, [])
            if len(sample) < SAMPLE:
                sample.append(labels)
    return found


def _said(names: frozenset[str], labels: Labels) -> list[str]:
    said = [] if names.isdisjoint(labels.values()) else [*names.intersection(labels.values())]
    return said if _GROUP_LABELS.isdisjoint(labels) else said + [labels[key] for key in GROUP_LABELS if key in labels]


def _is_part(text: str, name: str) -> bool:
    """Whether the words of `text` stand in `name` one after the other."""
    return bool(text) and f"-{_words(text)}-" in f"-{_words(name)}-"


def _words(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())
