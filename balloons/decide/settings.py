"""What the decision may be told by whoever runs the service."""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_IMAGE = "registry.k8s.io/pause:3.10.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideSettings:
    """Limits and defaults of every decision; durations in seconds.

    Raises ValueError when a limit is out of its range.
    """

    priority_class: str = "kube-balloons"
    """Name of the PriorityClass balloons run at; its value must lie in [-10, -1] (facts: CA's cutoff is -10)."""
    image: str = DEFAULT_IMAGE
    """The pause image, where a pool names none."""
    image_pull_secrets: tuple[str, ...] = ()
    """Secrets of a pool's namespace with which its images are fetched, where the pool's template names none."""
    names_user: bool = True
    """Whether balloons name the user that they run as; else the namespace gives one, or the image has one."""
    allowed_images: tuple[str, ...] = ()
    """Prefixes of images that pools may name for `image` and `prePull`."""
    default_slack: Mapping[str, str] = field(default_factory=lambda: {"cpu": "200m", "memory": "256Mi"})
    """Room left on a node for DaemonSet pods to come, per resource."""
    removed_share: float = 0.2
    """Largest share of a pool's balloons that one removal period may take away."""
    removed_at_least: int = 10
    """... but always up to this many."""
    removal_period_s: float = 10.0
    """How long a removal counts against the limit; the usual interval between decisions."""
    vanished_share: float = 0.2
    """A pool that loses more than this share of its nodes at once is frozen."""
    vanished_at_least: int = 3
    """... if at least this many are gone, so that small pools can lose a node."""
    freeze_s: float = 300.0
    """How long a shrunken view must last before it is believed."""
    stale_after_s: float = 75.0
    """A view older than this moves nothing; a quiet watch is silent for up to a minute (decision 0006)."""
    burst_at_least: int = 2
    """Waiting pods from which balloons are released in bulk; a single pod is faster left to the scheduler."""
    reservation_s: float = 60.0
    """How long a node stays free for a pod that was given it."""
    sweep_after_s: float = 600.0
    """How long a pool must be gone before its balloons are removed."""

    def __post_init__(self) -> None:
        for name in ("removed_share", "vanished_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} {getattr(self, name)}: accepted are shares above 0 and up to 1")
        for name in ("removal_period_s", "freeze_s", "stale_after_s", "reservation_s", "sweep_after_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} {getattr(self, name)}: accepted are seconds, 0 or more")
