"""What the planner of the CapacityQuota is told, and what it remembers."""

from dataclasses import dataclass, field

from throttler.kube.cluster_autoscaler import NODES, CapacityQuota
from throttler.kube.metadata import ManagedFields
from throttler.kube.quantity import QuantityError
from throttler.kube.selectors import LabelSelector
from throttler.levers.ceiling_need import CeilingNeed, RoomSearch
from throttler.levers.clamp import amount_of
from throttler.levers.contest import Contest
from throttler.levers.original import Mark
from throttler.levers.taken_up import Uptake

MILLI = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSeen:
    """The lever as the throttle's spec names it, and what stands there."""

    name: str
    selector: LabelSelector
    """The throttle's own: the nodes that it counts."""
    api_version: str | None
    """`group/version` as discovery says; None where the cluster does not serve the kind."""
    quota: CapacityQuota | None
    """None: there is no object of this name."""

    @property
    def selects_others(self) -> bool:
        """Whether the object counts other nodes than the throttle."""
        return self.quota is not None and (self.quota.spec.selector or LabelSelector()) != self.selector

    @property
    def limits(self) -> dict[str, object]:
        """The limits that stand on the object."""
        return self.quota.spec.limits.resources if self.quota else {}

    @property
    def fields(self) -> ManagedFields:
        """Who owns the object's fields."""
        return self.quota.metadata.managed_fields if self.quota else ()

    @property
    def used(self) -> int:
        """Registered nodes by cluster-autoscaler's count; 0 where it has not said."""
        used = self.quota.status.used if self.quota else None
        try:
            return amount_of(used.resources.get(NODES, 0)) // MILLI if used else 0
        except QuantityError:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaMemory:
    """What is remembered between looks; a fresh one costs time and never a user's value."""

    demand: CeilingNeed = field(default_factory=CeilingNeed)
    search: RoomSearch = field(default_factory=RoomSearch)
    contest: Contest = field(default_factory=Contest)
    uptake: Uptake = field(default_factory=Uptake)
    floor: int = 0
    """Nodes that existed or were asked for at the last look: a ceiling is not below it either."""
    mark: Mark | None = None
    """As we wrote it last; None while nothing of ours is in force."""
