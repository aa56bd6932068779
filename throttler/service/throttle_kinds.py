"""The kinds that a throttle reads, and which of them this API server serves."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION
from throttler.kube.errors import NotFoundError
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.metadata import KindNames
from throttler.kube.requests import Resource
from throttler.service.lever_plans import CEILINGS

THROTTLES = Resource(GROUP, VERSION, THROTTLE_PLURAL, THROTTLE_KIND, is_namespaced=False)


DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
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
