"""Carries out what levers ask for, one call at a time.

What the server says comes back as a value, never as an error: a lever that could not be written is a state to report,
and the next tick decides afresh.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from throttler.kube.errors import (
    ApiError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnreachableError,
)
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import KindNames
from throttler.kube.requests import PatchKind, Resource
from throttler.kube.write_queue_and_status import version_in
from throttler.levers.lever_and_reasons import How, LeverWrite
from throttler.service.all_levers import LEVERS


class LeverWriteOutcome(enum.Enum):
    """What became of one write: a label of lever_writes_total.

    Finer than a pool's: each object rests by itself, for as long as its cause is likely to last.
    """

    DONE = "done"
    CONFLICT = "conflict"
    """The object is not the one that was decided on."""
    FORBIDDEN = "forbidden"
    """Our identity may not, or is not known."""
    INVALID = "invalid"
    """The schema, a CEL rule or an admission policy refuses it."""
    GONE = "gone"
    """There is no such object, or no such kind."""
    WEBHOOK = "webhook"
    """An admission webhook, and not the API server, failed or refused it."""
    BUSY = "busy"
    """The server asks us to come back later."""
    UNKNOWN = "unknown"
    """No answer, or a failing server: it may have been done."""
    FENCED = "fenced"
    """Not sent: we may not write just now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """One write and its end. `resource_version` is what the server answered, empty after a delete or a failure."""

    write: LeverWrite
    outcome: LeverWriteOutcome
    message: str = ""
    resource_version: str = ""
    retry_after_s: float | None = None


WRITTEN: Mapping[str, KindNames] = MappingProxyType({lever.WRITES_ON.kind: lever.WRITES_ON for lever in LEVERS})
"""Every kind that a lever writes on, by its name."""

STALE_PATCH = "the server rejected our request due to an error in our request"
"""All that an API server says (422) of a JSON patch that does not fit the object: it applies the patch before it
compares versions, so an element that stands elsewhere by now comes before the conflict."""
_BY_ERROR: tuple[tuple[type[ApiError], LeverWriteOutcome], ...] = (
    (FencedError, LeverWriteOutcome.FENCED),
    (ConflictError, LeverWriteOutcome.CONFLICT),
    (ForbiddenError, LeverWriteOutcome.FORBIDDEN),
    (UnauthorizedError, LeverWriteOutcome.FORBIDDEN),
    (InvalidError, LeverWriteOutcome.INVALID),
    (NotFoundError, LeverWriteOutcome.GONE),
    (TooManyRequestsError, LeverWriteOutcome.BUSY),
    (UnreachableError, LeverWriteOutcome.UNKNOWN),
    (ServerError, LeverWriteOutcome.UNKNOWN),
)


class LeverWriter:
    """The writes of all levers, through one client, whose fence is asked right before each request."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def carry_out(self, writes: Iterable[LeverWrite]) -> tuple[WriteResult, ...]:
        """Make the calls in their order; after one that failed, the rest is left for the next tick.

        Writes on one object that name the same version follow each other: the version that the first was answered is
        the precondition of the next.
        """
        results: list[WriteResult] = []
        answered: dict[tuple[object, ...], str] = {}
        for write in writes:
            place = (write.kind, write.key, _metadata(write).get("resourceVersion"))
            result = await self._carry_out_one(_after(write, answered.get(place)))
            results.append(replace(result, write=write))
            if result.outcome is not LeverWriteOutcome.DONE:
                break
            answered[place] = result.resource_version
        return tuple(results)

    async def _carry_out_one(self, write: LeverWrite) -> WriteResult:
        try:
            answer = await self._send(write)
            version = version_in(answer) if write.how is not How.DELETE else ""
        except ApiError as error:
            outcome = outcome_of(error)
            return WriteResult(write=write, outcome=outcome, message=error.message, retry_after_s=error.retry_after_s)
        return WriteResult(write=write, outcome=LeverWriteOutcome.DONE, resource_version=version)

    async def _send(self, write: LeverWrite) -> bytes:
        resource, name = resource_of(write), write.key.name
        namespace = write.key.namespace or None
        match write.how:
            case How.APPLY:
                return await self._client.apply(
                    resource, write.body, name, namespace, field_manager=write.field_manager, force=write.is_forced
                )
            case How.MERGE:
                return await self._client.patch(
                    resource, write.body, name, namespace, field_manager=write.field_manager
                )
            case How.JSON:
                return await self._client.patch(
                    resource, write.body, name, namespace, kind=PatchKind.JSON, field_manager=write.field_manager
                )
            case How.DELETE:
                wanted = _metadata(write)
                return await self._client.delete(
                    resource, name, namespace, uid=wanted.get("uid"), resource_version=wanted.get("resourceVersion")
                )


def resource_of(write: LeverWrite) -> Resource:
    """Which resource a write is about; KeyError for a kind that no lever writes."""
    group, _, version = write.api_version.rpartition("/")
    names = WRITTEN[write.kind]
    return Resource(group, version, names.plural, names.kind, names.is_namespaced)


def outcome_of(error: ApiError) -> LeverWriteOutcome:
    """What an error of the client means for a write."""
    if error.is_of_webhook:
        return LeverWriteOutcome.WEBHOOK
    if isinstance(error, InvalidError) and error.message.startswith(STALE_PATCH):
        return LeverWriteOutcome.CONFLICT
    return next((outcome for kind, outcome in _BY_ERROR if isinstance(error, kind)), LeverWriteOutcome.UNKNOWN)


def _metadata(write: LeverWrite) -> Mapping[str, Any]:
    """The object's metadata in a body; empty for a JSON patch, whose preconditions are among its operations."""
    return write.body.get("metadata", {}) if isinstance(write.body, Mapping) else {}


def _after(write: LeverWrite, version: str | None) -> LeverWrite:
    """The write with the version that an earlier one on the same object was answered."""
    metadata = _metadata(write)
    if not version or "resourceVersion" not in metadata or not isinstance(write.body, Mapping):
        return write
    return replace(write, body={**write.body, "metadata": {**metadata, "resourceVersion": version}})
