"""Why something is done or not done: one closed list of reasons.

The reason's name is the Event reason and the metric label, its template the sentence in status, log and
CLI. Adding a reason means adding it to the runbook; a test compares the two.
"""

from throttler.kube.because import Because, Sentence, because

__all__ = ["Because", "Reason", "because"]


class Reason(Sentence):
    """Every reason of a pool's decision, and its sentence."""

    STEADY = "{warm} of {target} wanted nodes are warm"
    WARMING = "{warm} of {target} wanted nodes are warm, {pending} balloons wait for a node"
    GROWING = "headroom grows by {growth} nodes towards {target}"
    FALLBACK = "no node of shape {main} came within {after}: the pool asks for shape {shape}"
    ALLOWANCE = "{target} warm nodes wanted, but only {allowance} more may start now"
    MAX_SIZE = "the pool has reached maxSize {max_size}: {busy} nodes busy, {others} not available"
    TOO_FEW_NODES = "{size} warm nodes wanted, but only {eligible} can be held, and Hold never grows"
    SHRINKING = "{surplus} more nodes are held than wanted"
    SHRINK_LIMITED = "{surplus} more nodes are held than wanted; at most {limit} balloons are removed at once"
    LEAVING = "{nodes} held nodes are being replaced or removed by the autoscaler: {names}"
    MOVED = "the balloon on node {node} holds nothing there and is needed elsewhere"
    SPARED = "the balloon on node {node} is wanted again"
    GAVE_WAY = "{busy} nodes run real work, and no idle node is left to hold"
    BURST_RELEASE = "{released} balloons give way to {waiting} waiting pods"
    RESERVED = "{reserved} nodes stay free for pods that will take them"
    SCHEDULE = "schedule {schedule} wants {target} warm nodes"
    PAUSED = "the pool is paused"
    INVALID = "{message}"
    NOT_SERVED = "not served, by bound {bound}: {message}"
    BOUND = "bound {bound}: {message}"
    INCOMPLETE_VIEW = "the view of the cluster is incomplete: {missing}"
    STALE_VIEW = "the view of the cluster is {age:.0f} s old"
    SHRUNKEN_VIEW = "{gone} of {before} nodes vanished at once; frozen until they return or {wait:.0f} s pass"
    CONFLICT = "{nodes} nodes also match {other}, which keeps them"
    NO_PRIORITY_CLASS = "PriorityClass {name} {problem}; balloons are neither made nor removed"
    REFUSED = "the API server refuses balloons: {message}"
    NO_NODES = "no node matches the selector"
    NO_SHAPE = "no node shows how large a balloon must be: set shape.type Explicit, or wait for a node"
    TOO_SMALL = "DaemonSets and slack leave no room for a balloon on nodes of shape {shape}"
    SHORT_OF_DEVICES = "{nodes} nodes are short of devices: fewer {device} than others of shape {shape}: {names}"
    SHORT_OF_ROOM = (
        "{nodes} nodes have less cpu or memory left than others of shape {shape}, so no balloon fits: {names}"
    )
    NODES_REFUSE = "{nodes} nodes refuse balloons ({why}) and are left alone for a while: {names}"
    SHAPES_ALIKE = "shapes {shapes} cannot be told apart by a label; set node.kubernetes.io/instance-type"
    IMAGE_NOT_ALLOWED = "image {image} is not on the service's allow-list; accepted: {accepted}"
    NO_IMAGE_VOLUMES = "prePull needs image volumes (Kubernetes 1.35 or later), the server is 1.{minor}"
    NO_BUFFERS = "the API server does not serve CapacityBuffer (autoscaling.x-k8s.io)"
    OTHER_STRATEGY = "the pool has used strategy {strategy} for {gone:.0f} s: what the former strategy left is removed"
    FAILED = "deciding for this pool failed, nothing is changed: {error}"
    POOL_GONE = "the pool has been gone for {gone:.0f} s"
