"""What single checks of the doctor say about a few objects."""

from balloons.cluster import kinds
from balloons.cluster.seen_cluster import SeenCluster
from balloons.doctor.check import Trouble
from balloons.doctor.diagnose import ALL_CHECKS, diagnose
from tests.doctor_cases import Cluster
from tests.seen_clusters import cluster

CHECKS = {check.code: check for check in ALL_CHECKS}


def seen(objects: Cluster) -> SeenCluster:
    """Every kind is served, and of those that are not named there is nothing."""
    nothing = {kind: [] for kind in kinds.ALL_KINDS}
    return cluster(nothing | dict(objects))


def troubles(code: str, objects: Cluster) -> list[Trouble]:
    """All that the check of this code finds."""
    return [finding.trouble for finding in diagnose(seen(objects), [CHECKS[code]]).findings]


def sentences(code: str, objects: Cluster) -> list[str]:
    """The same in words."""
    return [trouble.sentence for trouble in troubles(code, objects)]
