"""What a whole view takes, in a fresh process: `python -m benchmarks.decide.held_memory NODES PENDING`."""

import gc
import resource
import sys

import msgspec

from balloons.view.index_and_snapshot import Circumstances, Index
from benchmarks.decide import population
from benchmarks.decide.population import Reader
from benchmarks.fresh_process import resident_bytes
from throttler.kube.decoding import Key
from throttler.kube.node import Node
from throttler.kube.pod import Pod
from throttler.kube.store import Store


def main(count: int, pending: int) -> dict[str, float]:
    """Resident bytes of the process with `count` nodes and balloons and `pending` waiting pods in caches and index."""
    index, reader = Index(), Reader()
    started = resident_bytes()
    nodes: Store[Node] = Store(lambda key, before, after: index.change_node(before, after))
    pods: Store[Pod] = Store(lambda key, before, after: index.change_pod(before, after))
    for key, node in _nodes(count, reader).items():
        nodes.put(key, node)
    for key, pod in _pods(count, pending, reader).items():
        pods.put(key, pod)
    snapshot = index.snapshot(Circumstances())
    assert (len(snapshot.nodes), len(snapshot.loads), len(snapshot.waiting)) == (count, count, pending)
    gc.collect()
    return {
        "resident_bytes": resident_bytes(),
        "resident_bytes_before": started,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "bytes_per_object": (resident_bytes() - started) / (2 * count + pending),
    }


def _nodes(count: int, reader: Reader) -> dict[Key, Node]:
    return {("", node.name): node for node in population.nodes(count, reader)}


def _pods(count: int, pending: int, reader: Reader) -> dict[Key, Pod]:
    pods = {(pod.key.namespace, pod.key.name): pod for pod in population.balloons(count, reader)}
    pods.update({(pod.key.namespace, pod.key.name): pod for pod in population.waiting(pending, reader)})
    return pods


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(main(int(sys.argv[1]), int(sys.argv[2]))))
