"""The machines behind Karpenter's NodeClaims.

Real: Karpenter itself, its NodeClaims, the Nodes. Simulated: the provider's machines (`lab/cloud/fleet.py`).
A launched NodeClaim is an order. After its boot time the machine creates its own Node, called like the NodeClaim,
with the NodeClaim's labels and taints and the taint `karpenter.sh/unregistered`, as a real kubelet does. Karpenter
then registers the Node and, once the kubelet reports Ready, initialises it. A machine ends when its NodeClaim is
gone, so it still runs while Karpenter drains it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.cloud.fleet import Fleet
from lab.cloud.json_api import JsonApi
from lab.cloud.karpenter.claim import instance_type_name, is_launched, is_leaving, order_of
from lab.cloud.karpenter.objects import NODE_CLAIMS_PATH
from lab.cloud.karpenter.settings import KarpenterSettings


class KarpenterCloud:
    """Follows the NodeClaims and keeps one machine for each of them."""

    def __init__(self, api: JsonApi, fleet: Fleet, settings: KarpenterSettings) -> None:
        self._api = api
        self._fleet = fleet
        self._types = {kind.name: kind for kind in settings.instance_types}

    @property
    def ordered(self) -> tuple[str, ...]:
        """The Node names of all machines: waiting for capacity, booting, failed for good, running or dead."""
        return self._fleet.ordered

    @property
    def running(self) -> tuple[str, ...]:
        """The Node names of the machines that have joined and run."""
        return self._fleet.running

    async def kill(self, name: str) -> None:
        """Let the machine of Node `name` die: its kubelet falls silent, its Node and NodeClaim stay."""
        await self._fleet.kill(name)

    async def run(self) -> None:
        """Follow the NodeClaims until cancelled, then switch every machine off."""
        try:
            async for name, claim in self._api.follow(NODE_CLAIMS_PATH):
                await self._heed(name, claim)
        finally:
            await self._fleet.close()

    async def _heed(self, name: str, claim: Mapping[str, Any] | None) -> None:
        if claim is not None and is_launched(claim) and name not in self._fleet:
            instance_type = self._types[instance_type_name(claim)]
            self._fleet.order(order_of(claim, instance_type), instance_type.sort)
        elif claim is None or (is_leaving(claim) and name not in self.running):
            # A machine whose Node exists is drained first, and its kubelet has to take part in that.
            await self._fleet.end(name)
