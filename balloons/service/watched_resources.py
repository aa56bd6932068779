"""The resources the service watches and writes."""

from balloons.api.pool import GROUP, POOL_KIND, POOL_PLURAL, VERSION
from balloons.render import BUFFER_GROUP
from throttler.kube.requests import Resource

NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
POOLS = Resource(GROUP, VERSION, POOL_PLURAL, POOL_KIND)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")

_WRITTEN = {each.kind: each for each in (DEPLOYMENTS, POD_TEMPLATES)}


def buffers(api_version: str) -> Resource:
    """CapacityBuffers in the version that the server serves."""
    return Resource(BUFFER_GROUP, api_version.rpartition("/")[2], "capacitybuffers", "CapacityBuffer")


def written(api_version: str, kind: str) -> Resource:
    """The resource of an object that a plan names by apiVersion and kind; raises KeyError for any other."""
    return buffers(api_version) if kind == "CapacityBuffer" else _WRITTEN[kind]
