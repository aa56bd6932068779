"""The kinds that a throttle reads, and which of them this API server serves."""

from dataclasses import dataclass, field

import msgspec

from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_GROUP, CAPACITY_QUOTA_KIND, CAPACITY_QUOTA_VERSIONS
from throttler.kube.errors import NotFoundError
from throttler.kube.karpenter import NODE_POOL_KIND
from throttler.kube.kube_client import KubeClient, decode
from throttler.kube.requests import Resource

THROTTLES = Resource(GROUP, VERSION, THROTTLE_PLURAL, THROTTLE_KIND, is_namespaced=False)


DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", NODE_POOL_KIND, is_namespaced=False)
NODE_CLAIMS = Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", is_namespaced=False)
QUOTAS = tuple(
    Resource(CAPACITY_QUOTA_GROUP, version, "capacityquotas", CAPACITY_QUOTA_KIND, is_namespaced=False)
    for version in CAPACITY_QUOTA_VERSIONS
)
"""In the versions known, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleKinds:
    """The optional kinds that are served; a kind that is not is no error."""

    has_throttles: bool = False
    karpenter: frozenset[Resource] = field(default_factory=frozenset)
    """NodePools and NodeClaims, or neither."""
    quotas: Resource | None = None
    """CapacityQuotas in the newest version served."""


class _Name(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Name] = []


async def discover_kinds(client: KubeClient) -> ThrottleKinds:
    """Ask the server, a handful of small requests; raises ApiError."""
    has_throttles = await _is_served(client, THROTTLES)
    if not has_throttles:
        return ThrottleKinds()
    karpenter = [each for each in (NODE_POOLS, NODE_CLAIMS) if await _is_served(client, each)]
    quotas = [each for each in QUOTAS if await _is_served(client, each)]
    return ThrottleKinds(
        has_throttles=True,
        karpenter=frozenset(karpenter),
        quotas=quotas[0] if quotas else None,
    )


async def _is_served(client: KubeClient, resource: Resource) -> bool:
    try:
        found = decode(await client.get_raw(f"/apis/{resource.api_version}"), _Resources)
    except NotFoundError:
        return False
    return any(each.name == resource.plural for each in found.resources)
