"""The claims of a snapshot are what asking all nodes anew would give, however much of it was kept from the last."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from balloons.api.pool import Mode, PoolNodes
from balloons.view.claim import Claim, claim_nodes
from balloons.view.index import Circumstances, Index
from tests.world import CLASS, a_node, a_pool
from throttler.kube.metadata import ObjectKey, OwnerReference
from throttler.kube.pod import Pod, PodKind
from throttler.kube.selectors import LabelSelector, Requirement

POOLS = [
    a_pool("old", created_s=1.0),
    a_pool("young", created_s=2.0),
    a_pool("any", created_s=3.0, nodes=PoolNodes(LabelSelector({}, (Requirement("pool", "Exists"),)))),
    a_pool("cpu", created_s=4.0, nodes=PoolNodes(LabelSelector({"pool": "cpu"}))),
]
NAMES = [f"n{i}" for i in range(4)]


def balloon(name: str, node: str, pool: str) -> Pod:
    key = ObjectKey("team-a", name)
    owner = OwnerReference("ReplicaSet", "rs", controller=True)
    return Pod(key, f"uid-{name}", "1", node, -10, {}, kind=PodKind.BALLOON, owner=owner, pool=pool)


EVENT = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from(["gpu", "gpu sick", "cpu", "none", "gone"])),
    st.tuples(st.just("pod"), st.sampled_from(NAMES), st.sampled_from(["old", "young", "cpu", "gone"])),
    st.tuples(st.just("pool"), st.sampled_from(range(len(POOLS))), st.sampled_from(["there", "resized", "gone"])),
)


def seen_by_name(claim: Claim) -> dict[str, Any]:
    return {node.name: (node, load) for node, load in claim.seen}


@given(st.lists(st.lists(EVENT, min_size=1, max_size=6), max_size=8))
@example([[("node", "n0", "gpu"), ("pod", "n0", "old"), ("pool", 1, "there")], [("node", "n0", "gone")]])
def test_claims_of_a_snapshot_are_those_worked_out_anew(rounds: list[list[tuple[str, Any, str]]]) -> None:
    index = Index(CLASS.metadata.name)
    nodes: dict[str, Any] = {}
    pods: dict[str, Any] = {}
    pools: dict[int, Any] = {}
    before, as_it_was = index.snapshot(Circumstances()).claims, repr({})
    for events in rounds:
        for kind, which, how in events:
            if kind == "node":
                after = (
                    None
                    if how == "gone"
                    else a_node(
                        which,
                        labels={"pool": how.split()[0]},
                        conditions=frozenset({("Ready", str("sick" not in how))}),
                    )
                )
                index.change_node(nodes.get(which), after)
                nodes[which] = after
            elif kind == "pod":
                after_pod = None if how == "gone" else balloon(f"b-{which}", which, how)
                index.change_pod(pods.get(which), after_pod)
                pods[which] = after_pod
            else:
                pool = None if how == "gone" else _sized(which, how)
                index.change_pool(pools.get(which), pool)
                pools[which] = pool
        snapshot = index.snapshot(Circumstances())
        anew = claim_nodes(snapshot.pools.values(), snapshot.nodes, snapshot.loads)
        assert repr(before) == as_it_was, "an earlier snapshot keeps its claims"
        before, as_it_was = snapshot.claims, repr(snapshot.claims)
        assert snapshot.claims is not None
        assert snapshot.claims.keys() == anew.keys()
        for key, claim in anew.items():
            kept = snapshot.claims[key]
            assert seen_by_name(kept) == seen_by_name(claim)
            assert (kept.lost, kept.strays, kept.own_loads) == (claim.lost, claim.strays, claim.own_loads)


def _sized(which: int, how: str) -> Any:
    spec = POOLS[which].spec
    changed = msgspec.structs.replace(spec, size=7, mode=Mode.HOLD) if how == "resized" else spec
    return msgspec.structs.replace(POOLS[which], spec=changed)
