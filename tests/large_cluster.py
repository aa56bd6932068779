"""5,000 nodes and 50,000 pods, read and diagnosed in a process of its own: `python -m tests.large_cluster`."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from balloons.cluster import kinds
from balloons.doctor.diagnose import ALL_CHECKS, diagnose, kinds_of
from balloons.reading.read_cluster import read_cluster
from tests.unit.throttler.kube.fake_list_and_watch import FakeResponse, client_for, status_answer
from throttler.kube.connection import Credentials
from throttler.kube.requests import Request

NODES, PODS = 5_000, 50_000
MANAGED = [{"manager": "kubelet", "operation": "Update", "fieldsV1": {f"f:field{i}": {} for i in range(60)}}]
ENV = [{"name": f"VARIABLE_{i}", "value": "x" * 40} for i in range(20)]
POD = {
    "metadata": {
        "name": "NAME",
        "namespace": "batch",
        "uid": "u",
        "labels": {"app": "train", "job": "j"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "x" * 1000},
        "managedFields": MANAGED,
    },
    "spec": {
        "nodeName": "n7",
        "priority": 0,
        "containers": [
            {"name": "main", "image": "train:1", "env": ENV, "resources": {"requests": {"cpu": "2", "memory": "8Gi"}}}
        ],
        "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    },
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
NODE = {
    "metadata": {"name": "NAME", "labels": {f"label{i}": "value" for i in range(20)}, "managedFields": MANAGED},
    "spec": {"providerID": "aws:///a/NAME"},
    "status": {
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True", "message": "kubelet is posting ready status"}],
        "images": [{"names": ["x" * 100], "sizeBytes": 1} for _ in range(50)],
    },
}


class LargeCluster:
    """Answers page by page, each made when it is asked for."""

    def __init__(self) -> None:
        self.pages = 0
        self.sent_bytes = 0
        self.largest = 0

    @asynccontextmanager
    async def open(self, request: Request, credentials: Credentials) -> AsyncIterator[Any]:
        things = {"/api/v1/nodes": (NODE, NODES), "/api/v1/pods": (POD, PODS)}
        if request.path == "/version":
            yield FakeResponse(200, b'{"gitVersion":"v1.36.3"}')
        elif request.path in things:
            yield self._page(request, *things[request.path])
        else:
            yield status_answer(404)

    def _page(self, request: Request, thing: Any, count: int) -> FakeResponse:
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        text = json.dumps(thing)
        items = ",".join(text.replace("NAME", f"o{i}") for i in range(start, min(count, start + limit)))
        following = f',"continue":"{start + limit}"' if start + limit < count else ""
        body = f'{{"metadata":{{"resourceVersion":"1"{following}}},"items":[{items}]}}'.encode()
        self.pages += 1
        self.sent_bytes += len(body)
        self.largest = max(self.largest, len(body))
        return FakeResponse(200, body)


def peak_mb() -> float:
    """The most memory of this program so far; `ru_maxrss` would count that of the process it was started from, too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1e3


def measure() -> dict[str, float]:
    """Seconds of CPU and bytes, of this process as a whole."""
    api = LargeCluster()
    started_s = time.process_time()
    seen = asyncio.run(_read(api))
    read_s = time.process_time() - started_s
    checked = diagnose(seen).checked
    return {
        "pages": api.pages,
        "sent_mb": api.sent_bytes / 1e6,
        "nodes": len(seen.listed(kinds.NODES).objects),
        "pods": len(seen.listed(kinds.PODS).objects),
        "kept_mb": sum(len(text) for listed in seen.lists.values() for text in listed.objects) / 1e6,
        "peak_mb": peak_mb(),
        "read_s": read_s,
        "diagnosed_s": time.process_time() - started_s - read_s,
        "checked": checked,
    }


async def _read(api: LargeCluster) -> Any:
    return await read_cluster(client_for(api), kinds_of(ALL_CHECKS))


if __name__ == "__main__":
    print(json.dumps({name: round(value, 1) for name, value in measure().items()}))
