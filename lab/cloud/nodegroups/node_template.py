"""The Node that cluster-autoscaler imagines when it thinks about one more machine of a group."""

from __future__ import annotations

from lab.cloud.nodegroups import node_template_pb2 as wire
from lab.cloud.nodegroups.settings import NodeGroup


def node_template(group: NodeGroup) -> bytes:
    """Return the serialised template: needed for a group without nodes, whose shape nobody has seen yet."""
    name = f"template-of-{group.name}"
    resources = {resource: wire.Quantity(text=amount) for resource, amount in group.allocatable.items()}
    taints = [
        wire.Taint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"]) for taint in group.taints
    ]
    template = wire.NodeTemplate(
        metadata=wire.Metadata(name=name, labels={"kubernetes.io/hostname": name, **group.node_labels}),
        spec=wire.Spec(providerID=f"template://{name}", taints=taints),
        status=wire.Status(
            capacity=resources,
            allocatable=resources,
            conditions=[wire.Condition(type="Ready", status="True")],
        ),
    )
    return template.SerializeToString()
