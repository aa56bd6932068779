"""One BalloonPool over the nodes of team a, and what the tests ask of it."""

from typing import Any

from lab.cloud.json_api import Json, JsonApi
from tests.lab.cluster_view import until, until_it_stays

POOL_PATH = "/apis/kube-balloons.github.io/v1alpha1/namespaces/kube-balloons/balloonpools"
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-balloons/deployments"
BALLOONS = "/api/v1/namespaces/kube-balloons/pods"


def pool_object(**spec: Any) -> dict[str, Any]:
    nodes = {"selector": {"matchLabels": {"team": "a"}}}
    metadata = {"name": "gpu", "namespace": "kube-balloons"}
    kind = {"apiVersion": "kube-balloons.github.io/v1alpha1", "kind": "BalloonPool"}
    return {**kind, "metadata": metadata, "spec": {"nodes": nodes, "mode": "Hold", **spec}}


class PoolView:
    """The pool's status and its balloons."""

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    async def wait(self, **wanted: Any) -> None:
        async def is_so() -> bool:
            found = await self._api.get(f"{POOL_PATH}/gpu") or {}
            return wanted.items() <= found.get("status", {}).items()

        await until(f"the pool says {wanted}", is_so)

    async def settle(self, for_s: float = 5) -> None:
        """Wait until every balloon has its Deployment's template: a pool that is steady may still replace them."""

        async def is_rolled_out() -> bool:
            return all(_is_rolled_out(each) for each in await self._api.items(DEPLOYMENTS))

        await until_it_stays("no balloon is replaced", is_rolled_out, for_s)

    async def nodes_held(self) -> set[str]:
        found = await self._api.items(BALLOONS)
        return {pod["spec"]["nodeName"] for pod in found if pod["spec"].get("nodeName")}

    async def unbound(self) -> int:
        return len([pod for pod in await self._api.items(BALLOONS) if not pod["spec"].get("nodeName")])


def _is_rolled_out(deployment: Json) -> bool:
    spec, status = deployment["spec"], deployment.get("status", {})
    is_seen = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return is_seen and spec["replicas"] == status.get("replicas", 0) == status.get("updatedReplicas", 0)
