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

from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION
from throttler.api.throttle_rules import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import AutoscalerStatus, ConfigMapWire, read_status
from throttler.kube.errors import ApiError, ForbiddenError, NotFoundError
from throttler.kube.karpenter import NodeClaim
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import KindNames, LimitedObject
from throttler.kube.pod import DaemonSet, DaemonSetWire, daemon_set_from_wire
from throttler.kube.reflector import CacheObserver, Reflector
from throttler.kube.requests import CONFIG_MAPS, DAEMON_SETS, EVERYTHING, Resource, Selection
from throttler.service.lever_plans import CEILINGS

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


class _Name(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Name] = []


async def discover_kinds(client: KubeClient) -> ThrottleKinds:
    """Ask the server, a handful of small requests; raises ApiError."""
    has_throttles = await _is_served(client, THROTTLES)
    if not has_throttles:
        return ThrottleKinds()
    limited: dict[str, Resource] = {}
    for names in (lever.WRITES_ON for lever in CEILINGS):
        served = [resource for resource in resources_of(names) if await _is_served(client, resource)]
        if served:
            limited[names.kind] = served[0]
    return ThrottleKinds(has_throttles=True, has_claims=await _is_served(client, NODE_CLAIMS), limited=limited)


async def _is_served(client: KubeClient, resource: Resource) -> bool:
    try:
        found = decode(await client.get_raw(f"/apis/{resource.api_version}"), _Resources)
    except NotFoundError:
        return False
    return any(each.name == resource.plural for each in found.resources)


REDISCOVER_S = 60.0
"""CRDs may be installed at any time; a few cheap requests a minute notice."""
RETRY_S = 5.0
"""... and so much later after a failure at the start."""
URGENT_S, SOON_S = 0.05, 1.0
"""How soon a change of a throttle, and of any other object, calls for a decision."""
FORBIDDEN_S = 60.0
"""JoinThrottles that we may not read for this long are not meant for us; before, our rights may be on their way."""
USUAL_SILENCE_S = 62.0
"""Bookmarks come once a minute: silence up to here is no sign of age."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Followed:
    """How a kind is read."""

    resource: Resource
    wire: Any
    shape: Callable[[Any], Any]
    selection: Selection = EVERYTHING
    within_s: float = SOON_S


_THROTTLES = _Followed(THROTTLES, ThrottleWire, throttle_from_wire, within_s=URGENT_S)
_DAEMON_SETS = _Followed(DAEMON_SETS, DaemonSetWire, daemon_set_from_wire)
_AUTOSCALER = _Followed(
    CONFIG_MAPS,
    ConfigMapWire,
    lambda wire: read_status(wire.data.get(cluster_autoscaler.KEY, "")),
    Selection(namespace=cluster_autoscaler.NAMESPACE, fields=f"metadata.name={cluster_autoscaler.NAME}"),
)
_CLAIMS = _Followed(NODE_CLAIMS, NodeClaim, lambda wire: wire)


class ThrottleWatches:
    """All of these caches. `poke` is called with the seconds within which a change wants a decision."""

    def __init__(self, client: KubeClient, poke: Callable[[float], None], observer: CacheObserver) -> None:
        self._client = client
        self._poke = poke
        self._observer = observer
        self._kinds = ThrottleKinds()
        self._is_discovered = False
        self._was_listed = False
        self._forbidden_at: float | None = None
        self._told_forbidden = False
        self._running: dict[Resource, tuple[Reflector[Any, Any], asyncio.Task[None]]] = {}
        self._turn = asyncio.Event()

    async def run(self) -> None:
        """Follow what is served and needed; ends only by cancellation."""
        try:
            while True:
                await self._discover()
                while not await self._is_rediscovery_due():
                    self._follow(self._needed())
        finally:
            self._follow(())

    # --- what there is ---

    @property
    def throttles(self) -> tuple[StoredThrottle, ...]:
        """Every JoinThrottle, oldest first."""
        found = cast("Iterable[StoredThrottle]", self._items(THROTTLES).values())
        return tuple(sorted(found, key=lambda each: (each.metadata.created_s, each.metadata.name)))

    @property
    def unreadable(self) -> Mapping[str, str]:
        """JoinThrottles that could not even be told apart, with the reason."""
        reflector = self._reflector(THROTTLES)
        return {key[1]: why for key, why in reflector.store.skipped.items()} if reflector else {}

    @property
    def is_known(self) -> bool:
        """Whether it has been known which JoinThrottles there are; where the kind is not served, there are none.

        A watch that broke since makes the view incomplete (`missing`), not the throttles unknown. Where we may not read
        them (`is_forbidden`) there are none for us: growth must not stand still for ever for want of a right.
        """
        reflector = self._reflector(THROTTLES)
        has_none = self._is_discovered and not self._kinds.has_throttles
        self._was_listed = has_none or self._was_listed or (reflector is not None and reflector.store.is_complete)
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
        needed = {each.resource for each in self._needed()}
        found = [self._in_words(each) for each in sorted(needed, key=lambda r: r.plural) if not self._is_complete(each)]
        return tuple(found)

    @property
    def age_s(self) -> float:
        """How old the oldest of these views is, beyond what is usual on a quiet resource."""
        ages = (reflector.age_s for reflector, _ in self._running.values())
        return max(0.0, max(ages, default=0.0) - USUAL_SILENCE_S)

    @property
    def daemon_sets(self) -> tuple[DaemonSet, ...]:
        """All DaemonSets."""
        return tuple(self._items(DAEMON_SETS).values())

    @property
    def claims(self) -> tuple[NodeClaim, ...]:
        """Karpenter's machines."""
        return tuple(self._items(NODE_CLAIMS).values())

    @property
    def limited(self) -> tuple[LimitedObject, ...]:
        """Everything that may bear a ceiling, kind by kind, by name."""
        caches = (self._items(resource) for resource in self._kinds.limited.values())
        return tuple(thing for items in caches for _, thing in sorted(items.items()))

    @property
    def versions(self) -> Mapping[str, str]:
        """Kind -> the apiVersion under which it is served, of those."""
        return {kind: resource.api_version for kind, resource in self._kinds.limited.items()}

    @property
    def autoscaler(self) -> AutoscalerStatus | None:
        """What cluster-autoscaler says; None where there is none."""
        return next(iter(self._items(CONFIG_MAPS).values()), None)

    # --- what is followed ---

    def _needed(self) -> tuple[_Followed, ...]:
        if not self._kinds.has_throttles:
            return ()
        if not self.throttles:
            return (_THROTTLES,)
        found = [_THROTTLES, _DAEMON_SETS, _AUTOSCALER]
        found += [_CLAIMS] if self._kinds.has_claims else []
        served = [(lever, self._kinds.limited.get(lever.WRITES_ON.kind)) for lever in CEILINGS]
        found += [_limited(lever.OBJECTS, resource) for lever, resource in served if resource is not None]
        return tuple(found)

    def _follow(self, needed: Iterable[_Followed]) -> None:
        """Begin what is needed and is not followed, end what is followed and not needed."""
        wanted = {each.resource: each for each in needed}
        for resource in [each for each in self._running if each not in wanted]:
            self._running.pop(resource)[1].cancel()
        for resource, how in wanted.items():
            if resource not in self._running:
                self._running[resource] = self._begin(how)

    def _begin(self, how: _Followed) -> tuple[Reflector[Any, Any], asyncio.Task[None]]:
        reflector: Reflector[Any, Any] = Reflector(
            self._client,
            how.resource,
            how.wire,
            how.shape,
            how.selection,
            on_change=lambda: self._changed(how),
            observer=self._observer,
        )
        return reflector, asyncio.create_task(reflector.run(), name=f"reflect {how.resource.plural}")

    def _changed(self, how: _Followed) -> None:
        self._poke(how.within_s)
        if how.resource == THROTTLES:
            self._turn.set()

    async def _is_rediscovery_due(self) -> bool:
        """Waits until other throttles may need other caches (False), or until it is time to ask the server again."""
        self._follow(self._needed())
        self._turn.clear()
        try:
            async with asyncio.timeout(REDISCOVER_S if self._is_discovered else RETRY_S):
                await self._turn.wait()
        except TimeoutError:
            return True
        return False

    async def _discover(self) -> None:
        try:
            self._kinds = await discover_kinds(self._client)
            self._is_discovered = True
        except ApiError as error:
            log.warning("discovery of the throttle's kinds failed", problem=error.message)
        self._poke(SOON_S)

    def _refusal(self) -> ForbiddenError | None:
        """The 403 that is all we know of JoinThrottles."""
        reflector = self._reflector(THROTTLES)
        error = reflector.last_error if reflector is not None else None
        return error if isinstance(error, ForbiddenError) and not self._was_listed else None

    # --- one cache ---

    def _reflector(self, resource: Resource | None) -> Reflector[Any, Any] | None:
        found = self._running.get(resource) if resource is not None else None
        return found[0] if found else None

    def _items(self, resource: Resource | None) -> Mapping[tuple[str, str], Any]:
        reflector = self._reflector(resource)
        return reflector.store.items if reflector is not None else {}

    def _is_complete(self, resource: Resource) -> bool:
        reflector = self._reflector(resource)
        return reflector is not None and reflector.store.is_complete

    def _in_words(self, resource: Resource) -> str:
        reflector = self._reflector(resource)
        return reflector.in_words if reflector is not None else resource.plural


def _limited(wire: Any, resource: Resource) -> _Followed:
    """Items of a list do not say which version they are of."""
    return _Followed(resource, wire, lambda thing: msgspec.structs.replace(thing, api_version=resource.api_version))
