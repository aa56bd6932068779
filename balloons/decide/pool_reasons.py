"""Why a pool's decision is what it is: one closed list of reasons, each with its sentence.

A reason's name is the condition's and the Event's reason and the metric's label, its template the sentence in status,
log and CLI. A new one also goes into docs/pool-reasons.md and the runbook; a test compares them.
"""

from throttler.kube.reasons_and_events import Sentence


class Reason(Sentence):
    """Every reason of a pool's decision, and its sentence."""

    STEADY = "{warm} of {target:wanted node is|wanted nodes are} warm"
    WARMING = (
        "{warm} of {target:wanted node is|wanted nodes are} warm, {pending:balloon waits|balloons wait} for a node"
    )
    GROWING = "headroom grows by {growth:node|nodes} towards {target}"
    FALLBACK = "no node of shape {main} came within {after}: the pool asks for shape {shape}"
    ALLOWANCE = "{target:warm node|warm nodes} wanted, but only {allowance} more may start now"
    MAX_SIZE = "the pool has reached maxSize {max_size}: {busy:node is|nodes are} busy, {others} not available"
    TOO_FEW_NODES = "{size:warm node|warm nodes} wanted, but only {eligible} can be held, and Hold never grows"
    SHRINKING = "{surplus:more node is|more nodes are} held than wanted"
    SHRINK_LIMITED = (
        "{surplus:more node is|more nodes are} held than wanted; "
        "at most {limit:balloon is|balloons are} removed at once"
    )
    LEAVING = "{nodes:held node is|held nodes are} being replaced or removed by the autoscaler: {names}"
    MOVED = "the balloon on node {node} holds nothing there and is needed elsewhere"
    SPARED = "the balloon on node {node} is wanted again"
    GAVE_WAY = "{busy:node runs|nodes run} real work, and no idle node is left to hold"
    BURST_RELEASE = "{released:balloon gives|balloons give} way to {waiting:waiting pod|waiting pods}"
    RESERVED = "{reserved:node stays|nodes stay} free for pods that will take {reserved:|it|them}"
    SCHEDULE = "schedule {schedule} wants {target:warm node|warm nodes}"
    PAUSED = "the pool is paused"
    INVALID = "{message}"
    NOT_SERVED = "not served, by bound {bound}: {message}"
    BOUND = "bound {bound}: {message}"
    INCOMPLETE_VIEW = "the view of the cluster is incomplete: {missing}"
    STALE_VIEW = "the view of the cluster is {age:.0f} s old"
    SHRUNKEN_VIEW = (
        "{gone} of {before:node|nodes} vanished at once; "
        "frozen until {gone:|it returns|they return} or {wait:.0f} s pass"
    )
    CONFLICT = "{nodes:node also matches|nodes also match} {other}, which keeps {nodes:|it|them}"
    NO_PRIORITY_CLASS = "PriorityClass {name} {problem}; balloons are neither made nor removed"
    REFUSED = "the API server refuses balloons: {message}"
    NO_NODES = "no node matches the selector"
    NO_SHAPE = "no node shows how large a balloon must be: set shape.type Explicit, or wait for a node"
    TOO_SMALL = "DaemonSets and slack leave no room for a balloon on nodes of shape {shape}"
    SHORT_OF_DEVICES = (
        "{nodes:node is|nodes are} short of devices: fewer {device} than others of shape {shape}: {names}"
    )
    SHORT_OF_ROOM = (
        "{nodes:node has|nodes have} less cpu or memory left than others of shape {shape}, so no balloon fits: {names}"
    )
    SHARED_NODES = "{nodes:warm node runs|warm nodes run} other pods beside {nodes:|its|their} balloon: {names}"
    NODES_REFUSE = (
        "{nodes:node refuses|nodes refuse} balloons ({why}) and {nodes:|is|are} left alone for a while: {names}"
    )
    COPIED = (
        "{deployments:Deployment wears|Deployments wear} the labels of this pool's balloons and {deployments:|is|are} "
        "none of its own, so {deployments:|its|their} pods hold nothing for it: {names}"
    )
    SHAPES_ALIKE = "shapes {shapes} cannot be told apart by a label; set node.kubernetes.io/instance-type"
    IMAGE_NOT_ALLOWED = "image {image} is not on the service's allow-list; accepted: {accepted}"
    NO_IMAGE_VOLUMES = "prePull needs image volumes (Kubernetes 1.35 or later), the server is 1.{minor}"
    NO_BUFFERS = "the API server does not serve CapacityBuffer (autoscaling.x-k8s.io)"
    OTHER_STRATEGY = "the pool has used strategy {strategy} for {gone:.0f} s: what the former strategy left is removed"
    FAILED = "deciding for this pool failed, nothing is changed: {error}"
    POOL_GONE = "the pool has been gone for {gone:.0f} s"
