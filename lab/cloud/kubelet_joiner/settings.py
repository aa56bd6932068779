"""What a simulated kubelet claims its machine to be, when its join is done, and what is known of it afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import LabError

KUBELET_QPS, KUBELET_BURST = 50.0, 100
LEASE_DURATION_S = 40
RENEW_EVERY_S = LEASE_DURATION_S / 4
"""The defaults of KubeletConfiguration (kubeAPIQPS, kubeAPIBurst, nodeLeaseDurationSeconds); a kubelet renews after a
quarter of the duration."""


@dataclass(frozen=True, kw_only=True)
class JoinerSettings:
    """One joiner; its defaults are the machine that a hollow node claims to be.

    `taints` are written as kubelet does (`key=value:Effect`); `cpu`, `memory` and `extended_resources` are
    quantities, all of them allocatable. The join ends when the node is Ready and `daemon_pods` DaemonSet pods run
    on it, both as seen through the API; it fails after `deadline_s`. `image_pull_s` passes between a pod's sandbox
    and its containers. `reports_events` adds the Events that a real kubelet writes and a hollow node does not.
    With `bootstrap_token` (`id.secret`) the join begins with a certificate request of its own. With `device_plugin`
    (the name of a DaemonSet) the extended resources are those of its pod: the node has none before that pod runs.
    """

    name: str
    daemon_pods: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    cpu: str = "1"
    memory: str = "3840Mi"
    extended_resources: Mapping[str, int | str] = field(default_factory=dict)
    device_plugin: str = ""
    max_pods: int = 110
    image_pull_s: float = 0.0
    reports_events: bool = False
    bootstrap_token: str | None = None
    qps: float = KUBELET_QPS
    burst: int = KUBELET_BURST
    deadline_s: float = 600.0

    def __post_init__(self) -> None:
        if self.daemon_pods < 0 or self.image_pull_s < 0:
            raise LabError(f"joiner {self.name}: daemon_pods and image_pull_s must not be negative")
        if self.qps <= 0 or self.burst < 1:
            raise LabError(f"joiner {self.name}: qps must be above 0 and burst at least 1")
        for taint in self.taints:
            split_taint(taint)


def split_taint(text: str) -> dict[str, str]:
    """Return the API form of `key=value:Effect` (or `key:Effect`); raises LabError for anything else."""
    what, _, effect = text.rpartition(":")
    key, _, value = what.partition("=")
    if not key or not effect:
        raise LabError(f"taint {text!r} must look like key=value:Effect")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def joiners(count: int, prefix: str = "joiner", daemon_pods: int = 0) -> list[JoinerSettings]:
    """Describe `count` equal joiners called `prefix-0`, `prefix-1` and so on."""
    return [JoinerSettings(name=f"{prefix}-{number}", daemon_pods=daemon_pods) for number in range(count)]


@dataclass(frozen=True, kw_only=True)
class JoinRecord:
    """A join, step by step; a step that was never reached is None.

    `requested_s` is when it was asked for, `admitted_s` when the gate let it begin, `registered_s` when its Node
    existed, `ready_s` when the API said that it is Ready, `daemons_ready_s` when the API said that all awaited
    DaemonSet pods run. `attempts` counts HTTP requests by status code up to the end of the join (0 is a broken
    connection or a timeout, watches count when they are answered), `retries` those that repeated another.
    """

    name: str
    requested_s: float
    admitted_s: float | None = None
    registered_s: float | None = None
    ready_s: float | None = None
    daemons_ready_s: float | None = None
    attempts: Mapping[int, int] = field(default_factory=dict)
    retries: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the node is Ready with its DaemonSet pods."""
        return self.ready_s is not None and self.daemons_ready_s is not None

    @property
    def ended_s(self) -> float | None:
        """When the join was done."""
        if self.ready_s is None or self.daemons_ready_s is None:
            return None
        return max(self.ready_s, self.daemons_ready_s)

    @property
    def joining_s(self) -> float | None:
        """How long it was in flight: from admission to its end."""
        if self.ended_s is None or self.admitted_s is None:
            return None
        return self.ended_s - self.admitted_s

    @property
    def to_usable_s(self) -> float | None:
        """How long it took from being asked for, waiting at the gate included."""
        return None if self.ended_s is None else self.ended_s - self.requested_s
