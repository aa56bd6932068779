"""What this API server serves: its minor version, and CapacityBuffer if somebody installed it."""

import re
from dataclasses import dataclass

import msgspec

from balloons.render import BUFFER_GROUP
from throttler.kube.errors import NotFoundError
from throttler.kube.kube_client import KubeClient, decode


@dataclass(frozen=True, slots=True)
class Served:
    """`minor` is 0 when unknown, `buffer_version` (group/version) empty when CapacityBuffer is not served."""

    minor: int = 0
    buffer_version: str = ""


class _Version(msgspec.Struct):
    minor: str = ""


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str = ""


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: _GroupVersion = msgspec.field(default_factory=_GroupVersion)


class _ResourceName(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_ResourceName] = []


async def discover(client: KubeClient) -> Served:
    """Ask the server; raises ApiError."""
    minor = decode(await client.get_raw("/version"), _Version).minor
    digits = re.match(r"\d{1,4}", minor)
    return Served(int(digits.group()) if digits else 0, await _buffer_version(client))


async def _buffer_version(client: KubeClient) -> str:
    try:
        found = decode(await client.get_raw(f"/apis/{BUFFER_GROUP}"), _Group).preferred_version.group_version
        served = decode(await client.get_raw(f"/apis/{found}"), _Resources).resources
    except NotFoundError:
        return ""
    return found if any(each.name == "capacitybuffers" for each in served) else ""
