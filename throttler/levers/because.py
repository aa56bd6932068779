"""Why a lever stands as it does. Sentence, Event reason, metric label and runbook entry derive from here."""

from throttler.kube.because import Sentence


class LeverReason(Sentence):
    """Reason name -> sentence; the braces name the figures of the case."""

    NOTHING_WAITS = "no node is waited for, so the user's own value stands"
    STOPPING = "the throttle stops or is paused: everything is given back"
    PACING = "at most {ceiling}: {usage} exist or were asked for, and {share} more nodes may be asked for now"
    PACING_IN_CAPACITY = (
        "at most {ceiling}: this pool has machines of {smallest} to {largest} cores, so the room for {share} of the "
        "largest may be used by more of the smaller ones"
    )
    WIDE_POOL = (
        "at most {ceiling}, room for {share} more nodes: this pool admits types so different that Karpenter sets aside "
        "{charge} times the size of the machines that it orders; types that are alike in a pool of their own are paced "
        "exactly"
    )
    PROBING_SIZE = "at most {ceiling}: no machine of this pool was seen yet, so the first ones are let in by their size"
    NOTHING_STARTS = (
        "at most {ceiling}: nodes are waited for and none was ordered for {waited} s, so more room is tried"
    )
    HEAVIER_FIRST = (
        "at most {ceiling}, which is what it has: NodePool {heavier} comes first for what waits, and Karpenter would "
        "buy here as soon as that one is at its ceiling"
    )
    RAN_DRY = (
        "at most {ceiling}: nothing was ordered here for {waited} s although there was room, so NodePool {lighter} "
        "serves what waits until machines come here again"
    )
    ROOM_FOR_ALL = (
        "at most {ceiling}: less room was not used, as by a request that takes all of its nodes or none, so there is "
        "room for {share}, the largest that waits"
    )
    USER_LIMIT_IS_LOWER = "the user's own limit {limit} is lower than what the throttle would allow"
    VIEW_INCOMPLETE = "the view is incomplete or stale: nothing is raised or lowered"
    NOT_TAKEN_UP_YET = "written as {ceiling}; the autoscaler has not said yet that it took it up"
    LEVER_UNCONFIRMED = (
        "written as {ceiling}; the autoscaler has not taken it up within {waited} s: growth is not paced here"
    )
    QUOTA_INVALID = "cluster-autoscaler ignores the quota: {message}"
    QUOTA_LOST = "the quota is gone, so nothing paced cluster-autoscaler; it is made again"
    QUOTA_CHANGED = "the quota that we made was changed by somebody; its selector is put back"
    QUOTA_NOT_SERVED = (
        "the cluster does not serve CapacityQuota: install its CRD and a cluster-autoscaler that honours it"
    )
    QUOTA_SELECTOR_DIFFERS = "the user's own CapacityQuota of this name selects other nodes than the throttle"
    LIMIT_UNREADABLE = "the user's own limit is no quantity that can be compared: {value}"
    ORIGINAL_UNREADABLE = (
        "the annotation kube-balloons.github.io/original cannot be read, so the user's own limit is not known: nothing "
        "is changed until the annotation is mended or removed"
    )
    STATIC_POOL = "the pool has a fixed number of replicas: its size is the user's decision"
    OVERRUN = "{usage} cores exist or were asked for and {ceiling} were allowed: Karpenter does not honour the ceiling"
    CONTESTED = (
        "somebody else writes the same limit; it is taken as the user's new value, and written at most every {period} s"
    )
    OTHER_THROTTLE = "JoinThrottle {throttle} already moves this object"
    NEWER_HOLDER = "a newer leader (epoch {epoch}) has written this object: this one holds still"
