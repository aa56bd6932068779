"""The watch caches that only a throttle needs, followed only while a JoinThrottle exists.

Which of their kinds this API server serves is asked again now and then. Nodes and pods are not among them: the service
follows those anyway, and hands them in.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import structlog

from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION, JoinThrottle
from throttler.api.throttle_rules import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import AutoscalerStatus, ConfigMapWire, read_status
from throttler.kube.daemon_set import DaemonSet, DaemonSetWire, daemon_set_from_wire
from throttler.kube.errors import ForbiddenError
from throttler.kube.karpenter import NodeClaim, compact_claim
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import KindNames, LimitedObject
from throttler.kube.node import Shared
from throttler.kube.reflector import CacheObserver
from throttler.kube.requests import CONFIG_MAPS, DAEMON_SETS, Resource, Selection
from throttler.kube.watch_set import RETRY_S, CacheState, Followed, WatchSet, is_served, keep_discovering
from throttler.service.all_levers import CEILINGS

THROTTLES = Resource(GROUP, VERSION, THROTTLE_PLURAL, THROTTLE_KIND, is_namespaced=False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", is_namespaced=False)


def resources_of(names: KindNames) -> tuple[Resource, ...]:
    """A kind in the versions known, newest first."""
    return tuple(
        Resource(names.group, version, names.plural, names.kind, names.is_namespaced) for version in names.versions
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleKinds:
    """The optional kinds that are served; a kind that is not is no error."""

    has_throttles: bool = False
    has_claims: bool = False
    limited: Mapping[str, Resource] = field(default_factory=dict)
    """Kind -> how it is served, in the newest version known: those that may bear a ceiling."""


URGENT_S, SOON_S = 0.05, 1.0
"""How soon a change of a throttle, and of any other object, calls for a decision."""
FORBIDDEN_S = 60.0
"""JoinThrottles that we may not read for this long are not meant for us; before, our rights may be on their way."""
log = structlog.get_logger()


_THROTTLES = Followed(THROTTLES, ThrottleWire, throttle_from_wire)
_DAEMON_SETS = Followed(DAEMON_SETS, DaemonSetWire, daemon_set_from_wire)
_AUTOSCALER = Followed(
    CONFIG_MAPS,
    ConfigMapWire,
    lambda wire: read_status(wire.data.get(cluster_autoscaler.KEY, "")),
    Selection(namespace=cluster_autoscaler.NAMESPACE, fields=f"metadata.name={cluster_autoscaler.NAME}"),
)


class ThrottleWatches:
    """All of these caches. `poke` is called with the seconds within which a change wants a decision."""

    def __init__(self, client: KubeClient, poke: Callable[[float], None], observer: CacheObserver) -> None:
        self._client = client
        self._poke = poke
        self._set = WatchSet(client, self._heard, observer)
        shared = Shared()
        self._claims_followed = Followed(NODE_CLAIMS, NodeClaim, lambda claim: compact_claim(claim, shared))
        self._kinds = ThrottleKinds()
        self._is_discovered = False
        self._is_used = False
        """Whether a throttle exists, or one that existed may still have something to give back."""
        self._was_listed = False
        self._forbidden_at: float | None = None
        self._told_forbidden = False

    async def run(self) -> None:
        """Follow what is served and needed; ends only by cancellation."""
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._set.run(), name="watches of the throttle")
                    group.create_task(keep_discovering("the throttle's kinds", self._discover), name="discovery")
            except Exception as error:
                # What nobody could foresee here must not end the pools' half of the service.
                log.error("watches of the throttle failed", exc_info=error)
                await asyncio.sleep(RETRY_S)

    # --- what there is ---

    @property
    def throttles(self) -> tuple[StoredThrottle, ...]:
        """Every JoinThrottle, oldest first."""
        throttles = cast("Iterable[StoredThrottle]", self._set.items(THROTTLES.plural).values())
        return tuple(sorted(throttles, key=lambda throttle: (throttle.metadata.created_s, throttle.metadata.name)))

    @property
    def is_known(self) -> bool:
        """Whether it has been known which JoinThrottles there are; where the kind is not served, there are none.

        A watch that broke since makes the view incomplete (`missing`), not the throttles unknown. Where we may not read
        them (`is_forbidden`) there are none for us: growth must not stand still for ever for want of a right.
        """
        if self._is_discovered and not self._kinds.has_throttles:
            # Of those that come with the kind nothing is known yet.
            self._was_listed = False
            return True
        reflector = self._set.caches.get(THROTTLES.plural)
        self._was_listed = self._was_listed or (reflector is not None and reflector.store.is_complete)
        return self._was_listed or self.is_forbidden

    @property
    def is_forbidden(self) -> bool:
        """Whether the server has refused us the JoinThrottles from the start, for `FORBIDDEN_S`; nothing is paced then.

        A right that is taken away later leaves us with the throttles as they were.
        """
        error, now_s = self._refusal(), asyncio.get_running_loop().time()
        if error is None:
            self._forbidden_at = None
            return False
        self._forbidden_at = now_s if self._forbidden_at is None else self._forbidden_at
        is_forbidden = now_s - self._forbidden_at >= FORBIDDEN_S
        if is_forbidden and not self._told_forbidden:
            log.error("JoinThrottles may not be read: nothing is paced", problem=error.message)
        self._told_forbidden = is_forbidden
        return is_forbidden

    @property
    def missing(self) -> tuple[str, ...]:
        """The caches that are not complete, with the server's reason where it gave one."""
        return tuple(sorted(self._set.missing_without(self._spare)))

    @property
    def states(self) -> Mapping[str, CacheState]:
        """How each cache stands that a decision waits for, by name."""
        unneeded = {THROTTLES.plural} if self.is_forbidden else set()
        return self._set.states_without(self._spare | unneeded)

    @property
    def age_s(self) -> float:
        """How old the oldest of these views is, beyond what is usual on a quiet resource."""
        return self._set.age_without(self._spare)

    @property
    def _spare(self) -> frozenset[str]:
        """Caches of kinds on which no throttle has a ceiling: only what was left there is looked for in them.

        Others serve these kinds. One whose conversion webhook is away must not stop the levers on all the rest.
        """
        stated = [throttle.spec.levers for throttle in self.throttles if isinstance(throttle, JoinThrottle)]
        used = {lever.WRITES_ON.kind for lever in CEILINGS for levers in stated if lever.settings(levers) is not None}
        return frozenset(resource.plural for kind, resource in self._kinds.limited.items() if kind not in used)

    @property
    def daemon_sets(self) -> tuple[DaemonSet, ...]:
        """All DaemonSets."""
        return tuple(self._set.items(DAEMON_SETS.plural).values())

    @property
    def claims(self) -> tuple[NodeClaim, ...]:
        """Karpenter's machines."""
        return tuple(self._set.items(NODE_CLAIMS.plural).values())

    @property
    def limited(self) -> tuple[LimitedObject, ...]:
        """Everything that may bear a ceiling, kind by kind, by name."""
        caches = (self._set.items(resource.plural) for resource in self._kinds.limited.values())
        return tuple(thing for items in caches for _, thing in sorted(items.items()))

    @property
    def versions(self) -> Mapping[str, str]:
        """Kind -> the apiVersion under which it is served, of those."""
        return {kind: resource.api_version for kind, resource in self._kinds.limited.items()}

    @property
    def autoscaler(self) -> AutoscalerStatus | None:
        """What cluster-autoscaler says; None where there is none."""
        return next(iter(self._set.items(CONFIG_MAPS.plural).values()), None)

    # --- what is followed ---

    def end_unneeded(self) -> None:
        """Told while no throttle that is gone has anything to give back: what the others need is followed, no more.

        Not at once when the last one is deleted: what it holds stands on objects that these caches show.
        """
        self._is_used = False
        self._set.follow(self._needed())

    def _needed(self) -> tuple[Followed, ...]:
        if not self._kinds.has_throttles:
            return ()
        self._is_used |= bool(self._set.items(THROTTLES.plural))
        if not self._is_used:
            return (_THROTTLES,)
        needed = [_THROTTLES, _DAEMON_SETS, _AUTOSCALER]
        needed += [self._claims_followed] if self._kinds.has_claims else []
        served = [(lever, self._kinds.limited.get(lever.WRITES_ON.kind)) for lever in CEILINGS]
        needed += [_limited(lever.OBJECTS, resource) for lever, resource in served if resource is not None]
        return tuple(needed)

    def _heard(self, name: str) -> None:
        """Other throttles may need other caches."""
        if name == THROTTLES.plural:
            self._set.follow(self._needed())
        self._poke(URGENT_S if name == THROTTLES.plural else SOON_S)

    async def _discover(self) -> None:
        """Ask the server, a handful of small requests; raises ApiError."""
        self._kinds = await self._served_kinds()
        self._is_discovered = True
        self._set.follow(self._needed())
        self._poke(SOON_S)

    async def _served_kinds(self) -> ThrottleKinds:
        if not await self._serves(THROTTLES):
            return ThrottleKinds()
        limited: dict[str, Resource] = {}
        for names in (lever.WRITES_ON for lever in CEILINGS):
            served = [resource for resource in resources_of(names) if await self._serves(resource)]
            if served:
                limited[names.kind] = served[0]
        return ThrottleKinds(has_throttles=True, has_claims=await self._serves(NODE_CLAIMS), limited=limited)

    async def _serves(self, resource: Resource) -> bool:
        return await is_served(self._client, resource.api_version, resource.plural) or self._set.still_shows(resource)

    def _refusal(self) -> ForbiddenError | None:
        """The 403 that is all we know of JoinThrottles."""
        reflector = self._set.caches.get(THROTTLES.plural)
        error = reflector.last_error if reflector is not None else None
        return error if isinstance(error, ForbiddenError) and not self._was_listed else None


def _limited(wire: Any, resource: Resource) -> Followed:
    """Items of a list do not say which version they are of."""
    return Followed(resource, wire, lambda thing: msgspec.structs.replace(thing, api_version=resource.api_version))
