"""NodePools and NodeClaims for the tests of ceilings; one machine has 8 cores and 32 GiB unless told otherwise."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from throttler.kube.karpenter import NodeClaim, NodePool
from throttler.levers.lever_and_reasons import LeverBudget

START = datetime(2026, 1, 1, tzinfo=UTC)
CAPACITY = {"cpu": "8", "memory": "32Gi"}
STAGES = ("Launched", "Registered", "Initialized")


def pool_body(limits: dict[str, Any] | None = None, name: str = "default", **spec: Any) -> dict[str, Any]:
    more = {} if limits is None else {"limits": limits}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": []}}, **more, **spec},
    }


def a_pool(name: str = "gpu", weight: int | None = None, **template: Any) -> NodePool:
    spec = {"requirements": template.pop("requirements", []), "taints": template.pop("taints", [])}
    body = pool_body(name=name, template={"metadata": {"labels": template.pop("labels", {})}, "spec": spec})
    body["spec"] |= {} if weight is None else {"weight": weight}
    return msgspec.convert({**body, **template}, NodePool)


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def claim(
    name: str, stage: int = 3, *, capacity: dict[str, Any] | None = None, ordered_s: float = 0.0, **more: Any
) -> NodeClaim:
    """`stage`: 0 ordered, 1 launched, 2 registered, 3 initialized.

    `more`: `is_drifted`, `is_replaced`, `is_deleting`, `labels` and `pool`.
    """
    conditions = [{"type": kind, "status": "True"} for kind in STAGES[:stage]]
    conditions += [{"type": "Drifted", "status": "True"}] if more.get("is_drifted") else []
    conditions += [{"type": "DisruptionReason", "status": "True"}] if more.get("is_replaced") else []
    labels = {"karpenter.sh/nodepool": more.get("pool", "default"), **more.get("labels", {})}
    metadata: dict[str, Any] = {"name": name, "labels": labels}
    metadata["creationTimestamp"] = (START + timedelta(seconds=ordered_s)).isoformat()
    if more.get("is_deleting"):
        metadata["deletionTimestamp"] = START.isoformat()
    sizes = (CAPACITY if capacity is None else capacity) if stage else {}
    return msgspec.convert({"metadata": metadata, "status": {"capacity": sizes, "conditions": conditions}}, NodeClaim)


_plain_claim = cache(claim)


def claims(count: int, stage: int = 3, **more: Any) -> tuple[NodeClaim, ...]:
    make = claim if more else _plain_claim
    return tuple(make(f"c{stage}-{index}", stage, **more) for index in range(count))


def room(allowance: int = 4, waiting: int = 10, **more: Any) -> LeverBudget:
    return LeverBudget(
        existing=more.get("existing", 0),
        booting=more.get("booting", 0),
        allowance=allowance,
        admit=0,
        waiting=waiting,
        may_move=more.get("may_move", True),
        is_stopping=more.get("is_stopping", False),
    )
