"""Which nodes a DaemonSet puts a pod on, as its controller decides it."""

import msgspec

from throttler.kube.daemon_set import DaemonSetWire, daemon_set_from_wire, wants_daemon
from throttler.kube.node import Node
from throttler.kube.taints import Taint


def test_a_daemon_set_is_read_from_the_wire_with_the_controllers_own_tolerations() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    spec = {"template": {"spec": {"nodeSelector": {"a": "b"}, "affinity": affinity}}}
    wire = msgspec.convert({"metadata": {"name": "cni", "namespace": "x", "uid": "u"}, "spec": spec}, DaemonSetWire)
    daemons = daemon_set_from_wire(wire)
    assert daemons.label_keys == {"a", "os"}
    node = Node("n", "uid-n", "1", {"a": "b", "os": "linux"}, {})
    cordoned, mine = Taint("node.kubernetes.io/unschedulable", "NoSchedule"), Taint("mine", "NoSchedule")
    assert [wants_daemon(daemons, node, taints) for taints in ((cordoned,), (mine,))] == [True, False]
