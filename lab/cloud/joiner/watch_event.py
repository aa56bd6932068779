"""Watch events of Pods and Nodes, decoded in part."""

from __future__ import annotations

import msgspec

from lab.cloud.joiner.pod import Pod, PodCondition


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The conditions of a Node."""

    conditions: tuple[PodCondition, ...] = ()


class Node(msgspec.Struct, frozen=True, gc=False):
    """A Node, in part."""

    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the API says that it is Ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)


class PodEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch of Pods."""

    type: str
    object: Pod


class NodeEvent(msgspec.Struct, frozen=True, gc=False):
    """A line of a watch of Nodes."""

    type: str
    object: Node


_pod_event = msgspec.json.Decoder(PodEvent).decode
_node_event = msgspec.json.Decoder(NodeEvent).decode
CHANGES = (b'{"type":"ADDED"', b'{"type":"MODIFIED"', b'{"type":"DELETED"')


def read_pod_event(line: bytes) -> PodEvent | None:
    """Return the event, or None for a bookmark or an error."""
    return _pod_event(line) if line.startswith(CHANGES) else None


def read_node_event(line: bytes) -> NodeEvent | None:
    """Return the event, or None for a bookmark or an error."""
    return _node_event(line) if line.startswith(CHANGES) else None
