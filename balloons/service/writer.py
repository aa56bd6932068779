"""Carries out one action of a plan through the client, as exactly as the API allows.

Everything is guarded: server-side apply under our own field manager, deletes with uid and version, node patches with
the version that was decided on. What the server answers is given back as the version our caches have to reach.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from balloons.decide.plan import (
    Action,
    AnnotateNode,
    ApplyObject,
    DeleteObject,
    MarkBalloon,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.service.watched_objects import NODES, PODS, written
from throttler.kube.errors import AlreadyExistsError, ConflictError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import ObjectKey
from throttler.kube.pod import DELETION_COST_ANNOTATION
from throttler.kube.requests import Resource

FIELD_MANAGER = "kube-balloons"
FORCE_PERIOD_S = 30.0
"""A field that somebody else took is taken back at most this often: a quarrel must not load the API server."""


class _VersionMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _Versioned(msgspec.Struct, frozen=True):
    metadata: _VersionMeta = _VersionMeta()


class Writer:
    """The writes of balloons. Every method raises ApiError and never returns a failure.

    Each of the three clients has a ceiling of its own: `client` is for what may wait, `urgent` for what gives nodes
    back to work, `noting` for annotations of nodes and for what failed balloons leave, of which there may be thousands.
    """

    def __init__(self, client: KubeClient, urgent: KubeClient, noting: KubeClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._urgent = urgent
        self._noting = noting
        self._clock = clock
        self._forced_s: dict[ObjectKey, float] = {}

    async def carry_out(self, action: Action, *, is_urgent: bool) -> tuple[Resource, str]:
        """Do it; returns which resource was written and the version the server answered (empty after a delete)."""
        client = self._urgent if is_urgent else self._client
        match action:
            case ApplyObject():
                return await self._apply(client, action)
            case DeleteObject():
                return await _delete(client, action)
            case MarkBalloon():
                return PODS, await _mark(client, action)
            case ReleaseBalloon():
                return PODS, await _release(client, action)
            case AnnotateNode():
                return NODES, await _annotate(self._noting, action)
            case RemoveFailed():
                # By uid alone: whatever still changes in what a pod left, it never runs again.
                await self._noting.delete(PODS, action.key.name, action.key.namespace, uid=action.uid)
                return PODS, ""

    async def _apply(self, client: KubeClient, action: ApplyObject) -> tuple[Resource, str]:
        resource = written(action.api_version, action.kind)
        try:
            return resource, await _apply_once(client, resource, action, force=False)
        except ConflictError as error:
            if isinstance(error, AlreadyExistsError) or not self._may_force(action.key):
                raise
            return resource, await _apply_once(client, resource, action, force=True)

    def _may_force(self, key: ObjectKey) -> bool:
        now_s = self._clock()
        self._forced_s = {k: at_s for k, at_s in self._forced_s.items() if now_s - at_s < FORCE_PERIOD_S}
        return self._forced_s.setdefault(key, now_s) == now_s


async def _apply_once(client: KubeClient, resource: Resource, action: ApplyObject, *, force: bool) -> str:
    answer = await client.apply(
        resource,
        action.manifest,
        action.key.name,
        action.key.namespace,
        field_manager=FIELD_MANAGER,
        force=force,
    )
    return version_in(answer)


async def _delete(client: KubeClient, action: DeleteObject) -> tuple[Resource, str]:
    resource = written(action.api_version, action.kind)
    answer = await client.delete(
        resource,
        action.key.name,
        action.key.namespace,
        uid=action.uid,
        resource_version=action.resource_version,
        propagation="Background",
    )
    return resource, version_in(answer)


async def _mark(client: KubeClient, action: MarkBalloon) -> str:
    # The uid makes sure that a balloon of the same name that came later is not meant.
    metadata = {"uid": action.uid, "annotations": {DELETION_COST_ANNOTATION: str(action.cost)}}
    return await _patch(client, PODS, metadata, action.key)


async def _release(client: KubeClient, action: ReleaseBalloon) -> str:
    await client.delete(
        PODS,
        action.key.name,
        action.key.namespace,
        uid=action.uid,
        resource_version=action.resource_version,
    )
    return ""


async def _annotate(client: KubeClient, action: AnnotateNode) -> str:
    metadata = {"resourceVersion": action.resource_version, "annotations": dict(action.annotations)}
    return await _patch(client, NODES, metadata, ObjectKey("", action.node))


async def _patch(client: KubeClient, resource: Resource, metadata: dict[str, Any], key: ObjectKey) -> str:
    answer = await client.patch(
        resource, {"metadata": metadata}, key.name, key.namespace or None, field_manager=FIELD_MANAGER
    )
    return version_in(answer)


def version_in(answer: bytes) -> str:
    """The resourceVersion of an answered object; empty where the answer is a mere Status."""
    return decode(answer, _Versioned).metadata.resource_version
