"""Why a lever stands as it does. Sentence, Event reason, metric label and runbook entry derive from here."""

from throttler.kube.because import Sentence


class LeverReason(Sentence):
    """Reason name -> sentence; the braces name the figures of the case."""

    NOTHING_WAITS = "nothing waits for a node, so the user's own value applies"
    STOPPING = "the throttle stops or is paused: everything is given back"
    PACING = "at most {ceiling}: {usage} exist or were asked for, and {share} more nodes may be asked for now"
    PACING_IN_CAPACITY = (
        "at most {ceiling}: this pool has machines of {smallest} to {largest} cores, so the room for {share} of the "
        "largest may be used by more of the smaller ones"
    )
    WIDE_POOL = (
        "at most {ceiling}, room for {share} more nodes: the machine types of this pool differ so much that Karpenter "
        "reserves {charge} times what it orders; give types of similar size a pool of their own"
    )
    PROBING_SIZE = "at most {ceiling}: this pool never had a machine, so the room is an estimate"
    NOTHING_STARTS = "at most {ceiling}: pods wait and no node was ordered for {waited} s, so the room grows"
    HEAVIER_FIRST = (
        "at most {ceiling}, which is what it has: Karpenter prefers NodePool {heavier} for the pods that wait, and "
        "would buy here as soon as that one is at its ceiling"
    )
    RAN_DRY = (
        "at most {ceiling}: nothing was ordered here for {waited} s although there was room, so NodePool {lighter} "
        "serves the pods that wait until machines come here again"
    )
    ROOM_FOR_ALL = (
        "at most {ceiling}: smaller room was not used, perhaps because a request takes all of its nodes or none; so "
        "there is room for {share} nodes, the largest demand that waits"
    )
    USER_LIMIT_IS_LOWER = "the user's own limit {limit} is lower than what the throttle would allow"
    VIEW_INCOMPLETE = "the view is incomplete or stale: nothing is raised or lowered"
    NOT_TAKEN_UP_YET = "written as {ceiling}; the autoscaler has not confirmed it yet"
    LEVER_UNCONFIRMED = (
        "written as {ceiling}; the autoscaler has not confirmed it within {waited} s: growth is not paced here"
    )
    QUOTA_INVALID = "cluster-autoscaler ignores the quota: {message}"
    QUOTA_LOST = "somebody deleted the quota, so growth was not paced; it is made again"
    QUOTA_CHANGED = "somebody changed the selector of our quota; it is put back"
    QUOTA_NOT_SERVED = (
        "the cluster does not serve CapacityQuota: install its CRD and a cluster-autoscaler that honours it"
    )
    QUOTA_SELECTOR_DIFFERS = "the user's own CapacityQuota of this name selects other nodes than the throttle"
    LIMIT_UNREADABLE = "the user's own limit is not a quantity that can be compared: {value}"
    ORIGINAL_UNREADABLE = (
        "the annotation kube-balloons.github.io/original cannot be read, so the user's own limit is not known: nothing "
        "is changed until the annotation is mended or removed"
    )
    STATIC_POOL = "the pool has a fixed number of replicas, so its size is the user's decision"
    OVERRUN = "{usage} cores exist or were asked for and {ceiling} were allowed: Karpenter does not honour the ceiling"
    CONTESTED = (
        "somebody else writes the same limit: that counts as the user's new value, and we write at most once in "
        "{period} s"
    )
    OTHER_THROTTLE = "JoinThrottle {throttle} already moves this object"
    NEWER_HOLDER = "a newer leader (epoch {epoch}) has written this object: this replica changes nothing"
