"""The watch caches of each half of the service: which are followed, whether they show everything, what is served.

Optional kinds may be installed at any time: a few cheap requests a minute notice.
"""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from throttler.kube.decoding import Key
from throttler.kube.errors import ApiError, ForbiddenError, NotFoundError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.reflector import CacheObserver, Reflector
from throttler.kube.requests import EVERYTHING, Resource, Selection
from throttler.kube.store import Listener

REDISCOVER_S = 60.0
RETRY_S = 5.0
"""... and so much later until the server has answered once."""
USUAL_SILENCE_S = 62.0
"""Bookmarks come once a minute: silence up to here is no sign of age."""
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Followed:
    """How objects are read: which ones, in which shape, and whom a change of one is told.

    `watch_name` is given where it is but one of several watches of a resource.
    """

    resource: Resource
    wire: Any
    shape: Callable[[Any], Any]
    selection: Selection = EVERYTHING
    listener: Listener[Any] | None = None
    watch_name: str = ""

    @property
    def name(self) -> str:
        """What the cache is called."""
        return self.watch_name or self.resource.plural


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """How one cache stands: its age as of `Reflector`, and how many objects it cannot read."""

    age_s: float
    is_complete: bool
    unreadable: int


class WatchSet:
    """Caches by name. `on_news` is called with a cache's name whenever the server spoke of it.

    `follow` says what is wanted; `run` does the watching. What is wanted before it runs counts as missing.
    """

    def __init__(self, client: KubeClient, on_news: Callable[[str], None], observer: CacheObserver) -> None:
        self._client = client
        self._on_news = on_news
        self._observer = observer
        self._followed: dict[str, Followed] = {}
        self._caches: dict[str, Reflector[Any, Any]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch what is wanted; ends only by cancellation, or by an error that no cache could foresee."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for name in self._caches:
                self._begin(name)
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def follow(self, wanted: Iterable[Followed]) -> None:
        """Begin what is wanted and not followed, end what is followed and not wanted."""
        by_name = {how.name: how for how in wanted}
        for name, how in list(self._followed.items()):
            if name not in by_name or by_name[name].resource != how.resource:
                self._end(name)
        for name, how in by_name.items():
            if name not in self._caches:
                self._followed[name] = how
                self._caches[name] = self._cache(how)
                self._begin(name)

    # --- what they show ---

    @property
    def caches(self) -> Mapping[str, Reflector[Any, Any]]:
        """All that are followed."""
        return self._caches

    @property
    def is_complete(self) -> bool:
        """Whether every cache shows everything."""
        return all(cache.store.is_complete for cache in self._caches.values())

    def missing_without(self, spare: Container[str]) -> tuple[str, ...]:
        """The caches that do not, with the server's reason where it gave one; as if those that are `spare` were not
        followed."""
        caches = (cache for name, cache in self._caches.items() if name not in spare)
        return tuple(cache.in_words for cache in caches if not cache.store.is_complete)

    def age_without(self, spare: Container[str]) -> float:
        """How old the oldest of the other views is, beyond what is usual on a quiet resource."""
        ages_s = (cache.age_s for name, cache in self._caches.items() if name not in spare)
        return max(0.0, max(ages_s, default=0.0) - USUAL_SILENCE_S)

    def states_without(self, spare: Container[str] = ()) -> Mapping[str, CacheState]:
        """How each cache stands, by name, but for these."""
        return {
            name: CacheState(
                age_s=cache.age_s, is_complete=cache.store.is_complete, unreadable=len(cache.store.skipped)
            )
            for name, cache in self._caches.items()
            if name not in spare
        }

    def items(self, name: str) -> Mapping[Key, Any]:
        """What a cache holds; nothing where it is not followed."""
        cache = self._caches.get(name)
        return cache.store.items if cache is not None else {}

    def version_of(self, name: str) -> str:
        """The version up to which a cache shows everything; empty where there is none such."""
        cache = self._caches.get(name)
        is_whole = cache is not None and cache.store.is_complete and not cache.is_listing
        return cache.store.resource_version if cache is not None and is_whole else ""

    def still_shows(self, resource: Resource) -> bool:
        """Whether a kind that the server no longer names among those that it serves has been seen, and not refused.

        That it is not named proves nothing: of several servers behind a balancer, one that has just been started may
        not know it yet. Where the kind is gone, its watch has ended, and it can be listed no more.
        """
        how, cache = self._followed.get(resource.plural), self._caches.get(resource.plural)
        if cache is None or how is None or how.resource != resource or math.isinf(cache.age_s):
            return False
        return not isinstance(cache.last_error, NotFoundError | ForbiddenError)

    # --- one cache ---

    def _cache(self, how: Followed) -> Reflector[Any, Any]:
        return Reflector(
            self._client,
            how.resource,
            how.wire,
            how.shape,
            how.selection,
            on_change=lambda: self._on_news(how.name),
            observer=self._observer,
            listener=_never_raising(how.name, how.listener) if how.listener is not None else None,
            name=how.watch_name,
        )

    def _begin(self, name: str) -> None:
        if self._group is not None:
            self._tasks[name] = self._group.create_task(self._caches[name].run(), name=f"watch {name}")

    def _end(self, name: str) -> None:
        if name in self._tasks:
            self._tasks.pop(name).cancel()
        del self._followed[name]
        # Whoever listens to it learns that everything is gone.
        self._caches.pop(name).store.keep_only(set())


def _never_raising(name: str, listener: Listener[Any]) -> Listener[Any]:
    """One object that nobody could foresee must not end the watch of all others, now and after every restart."""

    def listen(key: Key, before: Any, after: Any) -> None:
        try:
            listener(key, before, after)
        except Exception as error:
            log.error("object not understood", resource=name, key="/".join(key), exc_info=error)

    return listen


class _Version(msgspec.Struct):
    minor: str = ""


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []


class _ResourceName(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_ResourceName] = []


async def server_minor(client: KubeClient) -> int:
    """The server's minor version, 0 when unknown; raises ApiError."""
    digits = re.match(r"\d{1,4}", decode(await client.get_raw("/version"), _Version).minor)
    return int(digits.group()) if digits else 0


async def is_served(client: KubeClient, api_version: str, plural: str) -> bool:
    """Whether the server knows the kind in this version; raises ApiError."""
    try:
        served = decode(await client.get_raw(f"/apis/{api_version}"), _Resources)
    except NotFoundError:
        return False
    return any(resource.name == plural for resource in served.resources)


async def served_version(client: KubeClient, group: str, plural: str) -> str:
    """The first of the group's versions (group/version) in which the kind is served, else empty; raises ApiError.

    The server names the stablest first, which may be another kind's: ProvisioningRequest is v1 where CapacityBuffer, in
    the same group, is v1beta1.
    """
    try:
        versions = decode(await client.get_raw(f"/apis/{group}"), _Group).versions
    except NotFoundError:
        return ""
    for version in versions:
        if await is_served(client, version.group_version, plural):
            return version.group_version
    return ""


async def keep_discovering(what: str, discover: Callable[[], Awaitable[None]]) -> None:
    """Ask the server what it serves, again and again; ends only by cancellation."""
    has_answered = False
    while True:
        try:
            await discover()
            has_answered = True
        except ApiError as error:
            log.warning("discovery failed", of=what, problem=error.message)
        await asyncio.sleep(REDISCOVER_S if has_answered else RETRY_S)
