"""Reads a cluster: one list per kind, in turn, from the API servers' watch caches.

Kinds that are not served, not allowed or too slow are told as such; the others are read all the same. The objects are
cut down page by page, so that no more than one page is held whole.
"""

from collections.abc import Iterable
from contextlib import aclosing
from datetime import UTC, datetime

import msgspec

from balloons.cluster.kinds import Kind, kept
from balloons.cluster.seen_cluster import MOST_OBJECTS, Listed, SeenCluster, Unread, minor_of
from throttler.kube.errors import (
    ApiError,
    AttemptTimeoutError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    UndecodableError,
)
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.list_and_watch import READ_ERRORS
from throttler.kube.requests import Resource, Selection

CACHE_PAGES_SINCE = 34
"""The minor version from which pages come from the watch cache (ListFromCacheSnapshot, on by default in 1.34).

Before it a page costs etcd a range read, and the cache answers only whole lists: with resourceVersion 0 it ignores the
limit (computeListLimit in k8s.io/apiserver's cacher). One whole list is then the gentler of the two.
"""
FROM_CACHE = "0"


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def read_cluster(client: KubeClient, wanted: Iterable[Kind], context: str = "") -> SeenCluster:
    """The cluster with these kinds; raises ApiError only when not even the version can be asked for."""
    version = await _version(client)
    taken_at = datetime.now(UTC).replace(microsecond=0)
    lists = {kind.name: await _listed(client, kind, minor_of(version)) for kind in wanted}
    return SeenCluster(taken_at=taken_at, lists=lists, version=version, context=context)


async def _version(client: KubeClient) -> str:
    """Every authenticated user may ask (system:public-info-viewer); where an administrator took that away: unknown."""
    try:
        return decode(await client.get_raw("/version"), _Version).git_version
    except (ForbiddenError, NotFoundError, UndecodableError):
        return ""


async def _listed(client: KubeClient, kind: Kind, minor: int) -> Listed:
    """The kind's list in the first version that is served."""
    for version in kind.versions:
        try:
            return await _in_version(client, kind, version, minor)
        except NotFoundError:
            continue
        except ApiError as error:
            return Listed(unread=_why(error), message=error.message)
    return Listed(unread=Unread.NOT_SERVED)


async def _in_version(client: KubeClient, kind: Kind, version: str, minor: int) -> Listed:
    is_paged = not kind.is_cached or minor >= CACHE_PAGES_SINCE
    try:
        return await _all_pages(client, kind, version, None if is_paged else FROM_CACHE)
    except GoneError:
        # A list that took longer than its snapshot lives (five minutes at most): once more, in one piece.
        return await _all_pages(client, kind, version, FROM_CACHE)


async def _all_pages(client: KubeClient, kind: Kind, version: str, resource_version: str | None) -> Listed:
    objects: list[bytes] = []
    unreadable = left_out = 0
    resource = Resource(kind.group, version, kind.plural, kind.kind, kind.is_namespaced)
    selection = Selection(namespace=kind.namespace or None, labels=kind.labels or None, fields=kind.fields or None)
    async with aclosing(client.raw_pages(resource, selection, resource_version=resource_version)) as pages:
        async for page in pages:
            for raw in page.items:
                try:
                    objects.append(kept(kind, raw))
                except READ_ERRORS:
                    unreadable += 1
            if len(objects) > MOST_OBJECTS:
                left_out = len(objects) - MOST_OBJECTS
                break
    return Listed(tuple(objects[:MOST_OBJECTS]), left_out=left_out, unreadable=unreadable)


def _why(error: ApiError) -> Unread:
    if isinstance(error, ForbiddenError):
        return Unread.FORBIDDEN
    return Unread.TIMED_OUT if isinstance(error, AttemptTimeoutError) else Unread.FAILED
