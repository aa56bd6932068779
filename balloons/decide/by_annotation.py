"""The Annotate strategy: idle nodes are kept by the autoscalers' own "do not remove" annotations, without pods.

Only annotations that we set ourselves are ever removed: `held-by` beside them says so. A node that carries
the user's own annotation counts as held and is left alone.
"""

from collections.abc import Mapping, Sequence

from balloons.decide.census import NodeState
from balloons.decide.choose import choose_nodes
from balloons.decide.plan import AnnotateNode
from balloons.decide.pool_reasons import Because, Reason, because
from balloons.decide.pool_view import PoolView
from balloons.decide.target import Target
from throttler.kube.node import CA_KEEP_ANNOTATION, HELD_BY_ANNOTATION, KARPENTER_KEEP_ANNOTATION, Node, is_kept

KEEP: Mapping[str, str] = {CA_KEEP_ANNOTATION: "true", KARPENTER_KEEP_ANNOTATION: "true"}


def annotate(view: PoolView, aim: Target, limit: int) -> tuple[AnnotateNode, ...]:
    """Nodes to annotate and nodes to let go, at most `limit` of the latter."""
    owner = str(view.pool.key)
    chosen = _choose(view, aim.hold)
    kept = {node.name for node in chosen}
    ours = held_by_us(view)
    surplus = sorted((node for node in ours if node.name not in kept), key=lambda node: node.name)
    held = because(Reason.WARMING, warm=len(ours), target=aim.warm, pending=len(kept) - len(ours))
    new = [_keep(node, owner, held) for node in chosen if not _is_done(node, owner)]
    return (*new, *(let_go(node, because(Reason.SHRINKING, surplus=len(surplus))) for node in surplus[:limit]))


def held_by_us(view: PoolView) -> list[Node]:
    """The settled nodes that carry our annotations for this pool."""
    owner = str(view.pool.key)
    return [node for node in _settled(view) if node.annotations.get(HELD_BY_ANNOTATION) == owner]


def _is_done(node: Node, owner: str) -> bool:
    """The user's own annotation is enough; ours must be whole."""
    if node.annotations.get(HELD_BY_ANNOTATION) == owner:
        return all(node.annotations.get(key) == value for key, value in KEEP.items())
    return is_kept(node)


def _choose(view: PoolView, wanted: int) -> Sequence[Node]:
    """Annotated nodes first, then as the zones need."""
    warm, idle = view.census.by_state[NodeState.WARM], view.census.by_state[NodeState.IDLE]
    if wanted <= len(warm):
        return choose_nodes(warm, {}, wanted)
    return [*warm, *choose_nodes(idle, {}, wanted - len(warm))]


def _settled(view: PoolView) -> list[Node]:
    """Nodes that may be let go; sick and joining ones keep their annotation, or the autoscaler would remove them."""
    states = (NodeState.WARM, NodeState.IDLE, NodeState.BUSY)
    return [node for state in states for node in view.census.by_state[state]]


def _keep(node: Node, owner: str, why: Because) -> AnnotateNode:
    return AnnotateNode(node.name, node.resource_version, {**KEEP, HELD_BY_ANNOTATION: owner}, why)


def let_go(node: Node, why: Because) -> AnnotateNode:
    """Remove what we set; also used when a pool is gone."""
    gone: dict[str, str | None] = dict.fromkeys((*KEEP, HELD_BY_ANNOTATION))
    return AnnotateNode(node.name, node.resource_version, gone, why)
