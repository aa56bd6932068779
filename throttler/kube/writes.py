"""How the service writes, for pools and throttles alike: the status of our own objects, and Events about them.

A status is written through /status when it changes. Mere figures may change many times a second while nodes join:
those wait; a new reason or condition goes out at once. A status that the cache does not show yet is not written again,
nor for a while after one that failed.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import structlog

from throttler.kube.because import EVENT_NAMESPACE
from throttler.kube.errors import ApiError, FencedError, NotFoundError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import Metadata, ObjectKey, key_of
from throttler.kube.requests import EVENTS, Resource

FIELD_MANAGER = "kube-balloons"
"""Of everything that we write for pools, and of every status. Levers have one of their own."""
log = structlog.get_logger()


class _VersionMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _VersionMeta = _VersionMeta()


def version_in(answer: bytes) -> str:
    """The resourceVersion of an answered object; empty where the answer is a mere Status."""
    return decode(answer, _Versioned).metadata.resource_version


def number_of(version: str) -> int:
    """A resourceVersion as a number; 0 where it is none."""
    return int(version) if version.isdecimal() else 0


Told = Literal["status", "event"]
OnTold = Callable[[Told, ApiError | None], None]
"""Called after each attempt to tell something, with what went wrong, if anything did."""


def _nobody_counts(what: Told, error: ApiError | None) -> None:
    """For whoever keeps no count."""


@dataclass(slots=True)
class _LastStatus:
    """When mere figures may be written again, as which version the status was last, until when nothing is tried."""

    figures_at_s: float = float("-inf")
    version: int = 0
    rest_until_s: float = 0.0


class StatusWriter:
    """Writes status and Events of one kind; what cannot be written is logged, and never stops other writes.

    `figures_period_s` gives the time between two writes that differ in figures only, `rest_s` how long an object's
    status rests after a write that failed.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: Resource,
        clock: Callable[[], float],
        *,
        figures_period_s: Callable[[], float],
        rest_s: Callable[[ApiError], float],
        on_told: OnTold = _nobody_counts,
    ) -> None:
        self._client = client
        self._resource = resource
        self._clock = clock
        self._figures_period_s = figures_period_s
        self._rest_s = rest_s
        self._on_told = on_told
        self._last: dict[ObjectKey, _LastStatus] = {}

    def may_write(self, stored: Metadata, *, is_news: bool) -> bool:
        """Whether another status than the stored one may be written now; `is_news`: more of it than figures differs."""
        last, now_s = self._last.get(key_of(stored)), self._clock()
        if last is None:
            return True
        version = stored.resource_version
        is_shown = not version.isdecimal() or int(version) >= last.version
        return is_shown and (is_news or now_s >= last.figures_at_s) and now_s >= last.rest_until_s

    async def write(self, stored: Metadata, status: msgspec.Struct) -> bool:
        """Write it; returns whether it was taken."""
        key = key_of(stored)
        last = self._last.setdefault(key, _LastStatus())
        last.figures_at_s = self._clock() + self._figures_period_s()
        try:
            answer = await self._client.apply(
                self._resource,
                status_manifest(self._resource, stored, status),
                key.name,
                key.namespace or None,
                field_manager=FIELD_MANAGER,
                force=True,
                subresource="status",
            )
        except ApiError as error:
            last.rest_until_s = self._clock() + self._rest_s(error)
            self._failed("status", key, error)
            return False
        last.version = number_of(version_in(answer))
        self._on_told("status", None)
        return True

    async def announce(self, about: Metadata, events: Iterable[dict[str, Any]]) -> None:
        """Create the Events."""
        for event in events:
            try:
                await self._client.create(EVENTS, event, about.namespace or EVENT_NAMESPACE)
            except ApiError as error:
                self._failed("event", key_of(about), error)
            else:
                self._on_told("event", None)

    def forget(self, known: Collection[ObjectKey]) -> None:
        """Drop what is about objects that are gone."""
        self._last = {key: last for key, last in self._last.items() if key in known}

    def _failed(self, what: Told, key: ObjectKey, error: ApiError) -> None:
        self._on_told(what, error)
        if not isinstance(error, NotFoundError | FencedError):
            log.warning(f"{what} not written", kind=self._resource.kind, object=str(key), problem=error.message)


def status_manifest(resource: Resource, stored: Metadata, status: msgspec.Struct) -> dict[str, Any]:
    """The body for server-side apply on /status; the uid makes sure that it is still the same object."""
    names = {"name": stored.name, "namespace": stored.namespace} if stored.namespace else {"name": stored.name}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {**names, "uid": stored.uid},
        "status": msgspec.to_builtins(status),
    }
