"""JoinThrottles as the API serves them."""

from throttler.api.throttle import GROUP, THROTTLE_KIND, THROTTLE_PLURAL, VERSION
from throttler.kube.requests import Resource

THROTTLES = Resource(GROUP, VERSION, THROTTLE_PLURAL, THROTTLE_KIND, is_namespaced=False)
