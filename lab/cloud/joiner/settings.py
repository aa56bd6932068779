"""What a joiner's machine looks like, and when its join counts as done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.errors import LabError

KUBELET_QPS, KUBELET_BURST = 50.0, 100
"""The defaults of KubeletConfiguration (kubeAPIQPS, kubeAPIBurst)."""


@dataclass(frozen=True, kw_only=True)
class JoinerSettings:
    """One joiner; its defaults are the machine that a hollow node claims to be.

    `taints` are written as kubelet does (`key=value:Effect`); `cpu`, `memory` and `extended_resources` are
    quantities, all of them allocatable. The join ends when the node is Ready and `daemon_pods` DaemonSet pods run
    on it, both as seen through the API; it fails after `deadline_s`. `image_pull_s` passes between a pod's sandbox
    and its containers. `reports_events` adds the Events that a real kubelet writes and a hollow node does not.
    With `bootstrap_token` (`id.secret`) the join begins with a certificate request of its own.
    """

    name: str
    daemon_pods: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    cpu: str = "1"
    memory: str = "3840Mi"
    extended_resources: Mapping[str, int | str] = field(default_factory=dict)
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
