"""What can hold a scale-up back: one name for each, the same in every output."""

import enum


class Limit(enum.Enum):
    """What binds, and what it means for whoever reads the plan."""

    REACTION = "autoscaler"
    CEILING = "ceiling"
    LAUNCH_RATE = "cloud quota"
    OWN_WINDOW = "pacing"
    BOOT = "boot time"
    API_SERVERS = "API servers"
    CONTROLLER_MANAGER = "controller manager"
    SCHEDULER = "scheduler"
    JOIN = "join time"

    __hash__ = object.__hash__

    @property
    def because(self) -> str:
        """The code that stands in JSON."""
        return _BECAUSE[self]

    @property
    def meaning(self) -> str:
        """One sentence."""
        return _MEANING[self]


_BECAUSE = {
    Limit.REACTION: "AutoscalerReaction",
    Limit.CEILING: "NodeCeiling",
    Limit.LAUNCH_RATE: "LaunchRate",
    Limit.OWN_WINDOW: "OwnWindow",
    Limit.BOOT: "BootTime",
    Limit.API_SERVERS: "ApiServers",
    Limit.CONTROLLER_MANAGER: "ControllerManagerLimit",
    Limit.SCHEDULER: "SchedulerLimit",
    Limit.JOIN: "JoinTime",
}

_MEANING = {
    Limit.REACTION: "the autoscaler has not asked for machines yet",
    Limit.CEILING: "a limit on the number of nodes is reached",
    Limit.LAUNCH_RATE: "the cloud starts machines no faster",
    Limit.OWN_WINDOW: "the JoinThrottle lets no more in before it has seen that the API servers bear it",
    Limit.BOOT: "machines have been asked for and boot",
    Limit.API_SERVERS: "the API servers can bear no more joins",
    Limit.CONTROLLER_MANAGER: "the controller manager makes DaemonSet pods no faster (--kube-api-qps)",
    Limit.SCHEDULER: "the scheduler binds DaemonSet pods no faster (its --kube-api-qps)",
    Limit.JOIN: "nodes are registered and start: no limit, just the time that a join takes",
}
