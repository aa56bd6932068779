"""The network namespaces of real nodes: loopback with the node's addresses, and a cable to every other node.

Nothing leads out of them. Pods reach pods of other nodes by routes, without a change of address, as a cloud's own
network does it.
"""

from __future__ import annotations

from collections.abc import Iterable

from lab.cloud.machines.on_host import must_run, run
from lab.cloud.machines.real_files import NodeFiles


def make_namespace(files: NodeFiles, *further: str) -> None:
    """A namespace in which the node's address, and further ones, are on loopback."""
    must_run("ip", "netns", "add", files.namespace)
    _inside(files, "link", "set", "lo", "up")
    for address in (files.address, *further):
        _inside(files, "address", "add", f"{address}/32", "dev", "lo")


def delete_namespace(files: NodeFiles) -> None:
    """It goes with every interface in it once no process is left inside."""
    run("ip", "netns", "delete", files.namespace)


def join(files: NodeFiles, others: Iterable[NodeFiles]) -> None:
    """A cable from a node to each of the others, and routes to their addresses and their pods, both ways."""
    for other in others:
        ends = ("name", _port(other), "type", "veth", "peer", "name", _port(files), "netns", other.namespace)
        _inside(files, "link", "add", *ends)
        _lead(files, other)
        _lead(other, files)


def _lead(files: NodeFiles, other: NodeFiles) -> None:
    port = ("dev", _port(other))
    _inside(files, "link", "set", *port, "up")
    # The source is named, because the first address on loopback need not be the node's own.
    _inside(files, "route", "add", f"{other.address}/32", *port, "src", files.address)
    _inside(files, "route", "add", other.pods, "via", other.address, *port, "onlink", "src", files.address)


def _port(other: NodeFiles) -> str:
    return f"to-{other.number}"


def _inside(files: NodeFiles, *arguments: str) -> None:
    must_run("ip", "-netns", files.namespace, *arguments)
