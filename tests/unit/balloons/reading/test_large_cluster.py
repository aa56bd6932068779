"""The bounds of reading: pages and memory with 5,000 nodes and 50,000 pods. Times are in docs/dump.md, not asserted."""

import json
import subprocess
import sys

from balloons.doctor.diagnose import ALL_CHECKS
from tests.large_cluster import NODES, PODS


def test_a_large_cluster_is_read_in_pages_and_kept_small() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.large_cluster"], capture_output=True, text=True, check=True, timeout=300
    )
    found = json.loads(answer.stdout)
    assert found["pages"] == (NODES + PODS) / 500
    assert (found["nodes"], found["pods"]) == (NODES, PODS)
    assert found["checked"] == len(ALL_CHECKS)
    # Of 250 MB that were sent; the interpreter with the client takes about 60 MB of it.
    assert found["peak_mb"] < 350
