"""Two ways from the pages of a list to objects that are held: our watch cache's, and the official typed client's."""

from collections.abc import Callable, Sequence
from typing import Any

from kubernetes.client import ApiClient
from kubernetes.client.models.v1_node import V1Node

from throttler.kube.decoding import PageDecoder
from throttler.kube.node import Node, NodeWire, Shared, node_from_wire
from throttler.kube.store import CacheEvent, Intake, Store

Side = Callable[[Sequence[bytes]], Any]


def ours(pages: Sequence[bytes]) -> Store[Node]:
    """What a Reflector does with the pages of a list, from bytes to a complete store."""
    store: Store[Node] = Store()
    decoder, shared = PageDecoder(NodeWire), Shared()
    intake: Intake[NodeWire, Node] = Intake(store, NodeWire, lambda wire: node_from_wire(wire, shared), _ignore)
    intake.begin_list()
    for body in pages:
        intake.add_page(decoder.decode(body))
    intake.end_list()
    return store


def official(pages: Sequence[bytes]) -> dict[str, V1Node]:
    """What `CoreV1Api().list_node()` does with the body of each answer, and a dict by name as an informer keeps."""
    client = ApiClient()
    nodes: dict[str, V1Node] = {}
    for body in pages:
        page = client.deserialize(body.decode("utf-8"), "V1NodeList", "application/json")
        nodes.update({node.metadata.name: node for node in page.items})
    return nodes


def check_same(store: Store[Node], nodes: dict[str, V1Node]) -> None:
    """Both must have read the same: a fast decoder that loses something would be worth nothing."""
    assert not store.skipped
    assert {name for _, name in store.items} == set(nodes)
    for (_, name), node in store.items.items():
        peer = nodes[name]
        assert (node.uid, node.resource_version) == (peer.metadata.uid, peer.metadata.resource_version)
        assert node.labels == peer.metadata.labels
        assert node.allocatable.keys() == peer.status.allocatable.keys()
        assert node.conditions == {(c.type, c.status) for c in peer.status.conditions}
        assert len(node.taints) == len(peer.spec.taints or ())
        assert node.created_s == peer.metadata.creation_timestamp.timestamp()


def _ignore(event: CacheEvent) -> None:
    """The reflector counts; here nobody does."""
