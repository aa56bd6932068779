"""The kinds that the commands read. Secrets are not among them, and nothing asks for them."""

from dataclasses import dataclass

from balloons.api.pool import GROUP as OWN_GROUP
from balloons.api.pool import POOL_KIND, POOL_PLURAL
from balloons.api.pool import VERSION as OWN_VERSION
from throttler.api.throttle import THROTTLE_KIND, THROTTLE_PLURAL
from throttler.kube import cluster_autoscaler
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_GROUP, CAPACITY_QUOTA_KIND

OWN_LEASE = "kube-balloons-throttle"
"""The Lease of the service, in whichever namespace it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of object and which of its objects are read.

    `versions` are tried in this order until one is served. `namespace` and `fields` (server syntax) narrow the list;
    an empty namespace means all. `is_cached`: the API server answers lists of it from its watch cache.
    """

    group: str
    versions: tuple[str, ...]
    plural: str
    kind: str
    is_namespaced: bool = False
    namespace: str = ""
    fields: str = ""
    labels: str = ""
    is_cached: bool = True

    @property
    def name(self) -> str:
        """The plural with its group, as kubectl takes it: `pods`, `nodepools.karpenter.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


NODES = Kind(group="", versions=("v1",), plural="nodes", kind="Node")
PODS = Kind(group="", versions=("v1",), plural="pods", kind="Pod", is_namespaced=True)
NAMESPACES = Kind(group="", versions=("v1",), plural="namespaces", kind="Namespace")
EVENTS = Kind(
    group="events.k8s.io", versions=("v1",), plural="events", kind="Event", is_namespaced=True, is_cached=False
)
AUTOSCALER_STATUS = Kind(
    group="",
    versions=("v1",),
    plural="configmaps",
    kind="ConfigMap",
    is_namespaced=True,
    namespace=cluster_autoscaler.NAMESPACE,
    fields=f"metadata.name={cluster_autoscaler.NAME}",
)
API_SERVERS = Kind(
    group="discovery.k8s.io",
    versions=("v1",),
    plural="endpointslices",
    kind="EndpointSlice",
    is_namespaced=True,
    namespace="default",
    labels="kubernetes.io/service-name=kubernetes",
)
LEASES = Kind(
    group="coordination.k8s.io",
    versions=("v1",),
    plural="leases",
    kind="Lease",
    is_namespaced=True,
    fields=f"metadata.name={OWN_LEASE}",
)
DEPLOYMENTS = Kind(group="apps", versions=("v1",), plural="deployments", kind="Deployment", is_namespaced=True)
DAEMON_SETS = Kind(group="apps", versions=("v1",), plural="daemonsets", kind="DaemonSet", is_namespaced=True)
PRIORITY_CLASSES = Kind(group="scheduling.k8s.io", versions=("v1",), plural="priorityclasses", kind="PriorityClass")
DISRUPTION_BUDGETS = Kind(
    group="policy", versions=("v1",), plural="poddisruptionbudgets", kind="PodDisruptionBudget", is_namespaced=True
)
POD_AUTOSCALERS = Kind(
    group="autoscaling",
    versions=("v2",),
    plural="horizontalpodautoscalers",
    kind="HorizontalPodAutoscaler",
    is_namespaced=True,
)
_FLOW_VERSIONS = ("v1", "v1beta3")
FLOW_SCHEMAS = Kind(
    group="flowcontrol.apiserver.k8s.io", versions=_FLOW_VERSIONS, plural="flowschemas", kind="FlowSchema"
)
PRIORITY_LEVELS = Kind(
    group="flowcontrol.apiserver.k8s.io",
    versions=_FLOW_VERSIONS,
    plural="prioritylevelconfigurations",
    kind="PriorityLevelConfiguration",
)
NODE_POOLS = Kind(group="karpenter.sh", versions=("v1",), plural="nodepools", kind="NodePool")
NODE_CLAIMS = Kind(group="karpenter.sh", versions=("v1",), plural="nodeclaims", kind="NodeClaim")
QUOTAS = Kind(
    group=CAPACITY_QUOTA_GROUP,
    versions=("v1beta1", "v1alpha1"),
    plural="capacityquotas",
    kind=CAPACITY_QUOTA_KIND,
)
BALLOON_POOLS = Kind(group=OWN_GROUP, versions=(OWN_VERSION,), plural=POOL_PLURAL, kind=POOL_KIND, is_namespaced=True)
THROTTLES = Kind(group=OWN_GROUP, versions=(OWN_VERSION,), plural=THROTTLE_PLURAL, kind=THROTTLE_KIND)
_MONITORING = "monitoring.coreos.com"
SERVICE_MONITORS = Kind(
    group=_MONITORING, versions=("v1",), plural="servicemonitors", kind="ServiceMonitor", is_namespaced=True
)
POD_MONITORS = Kind(group=_MONITORING, versions=("v1",), plural="podmonitors", kind="PodMonitor", is_namespaced=True)
PROMETHEUSES = Kind(group=_MONITORING, versions=("v1",), plural="prometheuses", kind="Prometheus", is_namespaced=True)

ALL_KINDS = (
    NODES,
    PODS,
    NAMESPACES,
    EVENTS,
    AUTOSCALER_STATUS,
    API_SERVERS,
    LEASES,
    DEPLOYMENTS,
    DAEMON_SETS,
    PRIORITY_CLASSES,
    DISRUPTION_BUDGETS,
    POD_AUTOSCALERS,
    FLOW_SCHEMAS,
    PRIORITY_LEVELS,
    NODE_POOLS,
    NODE_CLAIMS,
    QUOTAS,
    BALLOON_POOLS,
    THROTTLES,
    SERVICE_MONITORS,
    POD_MONITORS,
    PROMETHEUSES,
)
"""Everything that a dump holds."""

KIND_BY_NAME = {kind.name: kind for kind in ALL_KINDS}
