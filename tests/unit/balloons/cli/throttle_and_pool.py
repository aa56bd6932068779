"""A throttle and a pool to show."""

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from throttler.api.throttle import JoinThrottle, ThrottleStatus
from throttler.kube.metadata import Metadata
from throttler.kube.selectors import LabelSelector


def throttle(window: int = 16) -> JoinThrottle:
    return JoinThrottle(Metadata("default"), status=ThrottleStatus(window=window))


def pool(warm: int = 3) -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD)
    return BalloonPool(Metadata("gpu", "ml"), spec, PoolStatus(warm=warm))
