"""A cluster in memory with the service's parts at work in it: an API server at the transport, a Deployment controller,
a scheduler that neither waits nor preempts, and real watch caches, loop and writes on top. In virtual time.

Lists may take as long as those of a large cluster do: pages that hold nothing stand for what nobody here looks at.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

from balloons.balloon_manifest import ImageSettings
from balloons.service.action_calls_and_pool_status import PoolStatusWriter, Writer
from balloons.service.loop import DecisionLoop, Wake
from balloons.service.metrics import Metrics
from balloons.service.pool_status_and_events import Announcer
from balloons.service.pool_write_queue import PoolWrites
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.service.watches import Watches
from balloons.view.index_and_snapshot import Index
from tests.unit.throttler.kube.fake_list_and_watch import FakeResponse, client_for, status_answer
from throttler.kube.requests import Request

Key = tuple[str, str]
CLASS = "kube-balloons"
BOOKMARKS_S = 20.0


class LargeCluster:
    """`put` and `drop` are what others do; `empty_pages` by plural is how large the cluster seems."""

    def __init__(self, nodes: int) -> None:
        self.version = 100
        self.objects: dict[str, dict[Key, dict[str, Any]]] = {}
        self.log: list[tuple[int, str, dict[str, Any], dict[str, Any] | None]] = []
        self.asked: list[tuple[float, str, str]] = []
        self.empty_pages: dict[str, int] = {}
        self.page_s = 0.2
        self.streams_lists = False
        self.oldest: dict[str, int] = {}
        self.refuses: set[str] = set()
        """Nodes whose kubelet admits no balloon."""
        self.rewrites: dict[str, Any] = {}
        """What an admission webhook puts into every Deployment's container."""
        self._numbers = count()
        self._news = asyncio.Event()
        self._listed: dict[str, tuple[int, list[dict[str, Any]]]] = {}
        self.put("priorityclasses", {"metadata": {"name": CLASS}, "value": -10, "preemptionPolicy": "Never"})
        for _ in range(nodes):
            self.add_node()

    # --- what there is ---

    def put(self, plural: str, thing: Mapping[str, Any]) -> dict[str, Any]:
        stored = json.loads(json.dumps(thing))
        meta = stored["metadata"]
        key = meta.get("namespace", ""), meta["name"]
        kind = "MODIFIED" if key in self.objects.setdefault(plural, {}) else "ADDED"
        meta["resourceVersion"] = str(self._next_version())
        meta.setdefault("uid", f"u{next(self._numbers)}")
        meta.setdefault("creationTimestamp", "2026-11-22T00:00:00Z")
        before = self.objects[plural].get(key)
        self.objects[plural][key] = stored
        self._tell(plural, kind, stored, before)
        return stored

    def drop(self, plural: str, key: Key) -> None:
        gone = self.objects[plural].pop(key)
        last = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._next_version())}}
        self._tell(plural, "DELETED", last, gone)

    def add_node(self) -> None:
        name = f"n{len(self.objects.get('nodes', {})):04}"
        labels = {"pool": "gpu", "node.kubernetes.io/instance-type": "p5", "kubernetes.io/hostname": name}
        sizes = {"cpu": "100", "memory": "1000Gi", "pods": "110"}
        status = {"allocatable": sizes, "conditions": [{"type": "Ready", "status": "True"}]}
        self.put("nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

    def add_pool(self, name: str = "gpu", **spec: Any) -> None:
        nodes = {"selector": {"matchLabels": {"pool": name}}}
        meta = {"name": name, "namespace": "b", "generation": 1}
        self.put("balloonpools", {"metadata": meta, "spec": {"mode": "Hold", "nodes": nodes, **spec}})

    def add_work(self, name: str, *, node: str = "") -> Key:
        where = {"nodeName": node} if node else {}
        spec = {"priority": 0, "containers": [{"resources": {"requests": {"cpu": "90"}}}], **where}
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"phase": "Running"} if node else {"phase": "Pending", "conditions": [refused]}
        self.put("pods", {"metadata": {"name": name, "namespace": "jobs"}, "spec": spec, "status": status})
        self.control()
        return "jobs", name

    def forget_past(self, plural: str) -> None:
        """Ends the watches of a resource with a 410."""
        self.oldest[plural] = self._next_version()
        self._wake_all()

    def lists_of(self, plural: str) -> int:
        """`pods` are those that run; lists of what failed are told apart from them."""
        return sum(verb in ("list", "watchlist") and about == plural for _, verb, about in self.asked)

    def writes(self) -> list[tuple[float, str, str]]:
        return [each for each in self.asked if each[1] in ("apply", "patch", "delete", "create")]

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    def _tell(self, plural: str, kind: str, thing: dict[str, Any], before: dict[str, Any] | None) -> None:
        self.log.append((self.version, plural, {"type": kind, "object": thing}, before))
        self._wake_all()

    def _wake_all(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- controllers ---

    def control(self) -> None:
        """Deployments get their pods, and pods their nodes, one each; work goes first."""
        pods = self.objects.setdefault("pods", {})
        for deployment in list(self.objects.get("deployments", {}).values()):
            self._size(deployment, pods)
        taken = {pod["spec"].get("nodeName") for pod in pods.values() if _is_alive(pod)}
        free = [name for _, name in sorted(self.objects["nodes"]) if name not in taken]
        for pod in sorted(pods.values(), key=lambda each: -each["spec"]["priority"]):
            if not pod["spec"].get("nodeName") and free:
                spec = {**pod["spec"], "nodeName": free.pop(0)}
                status = {"phase": "Running"}
                if spec["priority"] < 0 and spec["nodeName"] in self.refuses:
                    status = {"phase": "Failed", "reason": "OutOfcpu"}
                    asyncio.get_running_loop().call_later(0.1, self.control)
                self.put("pods", {**pod, "spec": spec, "status": status})
        for deployment in list(self.objects.get("deployments", {}).values()):
            self._count(deployment, pods)

    def _count(self, deployment: dict[str, Any], pods: dict[Key, dict[str, Any]]) -> None:
        own = [pods[key] for key in self._made_for(deployment, pods)]
        ready = sum("nodeName" in pod["spec"] for pod in own)
        status = {"replicas": len(own), "updatedReplicas": len(own), "readyReplicas": ready}
        if deployment.get("status") != status:
            self.put("deployments", {**deployment, "status": status})

    def _made_for(self, deployment: dict[str, Any], pods: dict[Key, dict[str, Any]]) -> list[Key]:
        wanted = deployment["spec"]["selector"]["matchLabels"].items()
        alive = [key for key, pod in pods.items() if _is_alive(pod)]
        return [key for key in alive if wanted <= pods[key]["metadata"].get("labels", {}).items()]

    def _size(self, deployment: dict[str, Any], pods: dict[Key, dict[str, Any]]) -> None:
        own = self._made_for(deployment, pods)
        own.sort(key=lambda key: (bool(pods[key]["spec"].get("nodeName")), key))
        for key in own[: max(0, len(own) - deployment["spec"]["replicas"])]:
            self.drop("pods", key)
        template = deployment["spec"]["template"]
        owner = {"kind": "ReplicaSet", "name": f"{deployment['metadata']['name']}-5f7d", "uid": "r", "controller": True}
        for _ in range(deployment["spec"]["replicas"] - len(own)):
            meta = {
                "name": f"balloon-{next(self._numbers)}",
                "namespace": deployment["metadata"]["namespace"],
                "labels": template["metadata"]["labels"],
                "ownerReferences": [owner],
            }
            spec = {**template["spec"], "priority": -10}
            self.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    # --- the API server ---

    @asynccontextmanager
    async def open(self, request: Request, credentials: Any) -> AsyncIterator[Any]:
        plural, _, subresource = request.resource.partition("/")
        is_next_page = "continue" in request.query
        if not is_next_page:
            about = "failed balloons" if _is_about_failed(request) else request.resource
            self.asked.append((asyncio.get_running_loop().time(), request.verb, about))
        await asyncio.sleep(0.005)
        if request.verb == "list":
            yield await self._page(plural, request)
        elif request.verb == "watchlist":
            yield self._stream(plural, request) if self.streams_lists else status_answer(422, "Invalid", "not offered")
        elif request.verb == "watch":
            yield self._watch(plural, request)
        elif request.verb == "get":
            yield self._get(request, plural)
        else:
            yield self._write(request, plural, subresource)

    async def close(self) -> None:
        """Nothing is open."""

    def _get(self, request: Request, plural: str) -> FakeResponse:
        if request.path == "/version":
            return FakeResponse(200, b'{"minor":"36"}')
        found = self.objects.get(plural, {}).get(_key_in(request.path, plural, has_subresource=False))
        return FakeResponse(200, json.dumps(found).encode()) if found else status_answer(404, "NotFound")

    async def _page(self, plural: str, request: Request) -> FakeResponse:
        number = int(request.query.get("continue", "0"))
        what = plural + request.query.get("fieldSelector", "")
        if number == 0:
            self._listed[what] = self.version, self._selected(plural, request)
        version, items = self._listed[what]
        is_last = number >= (0 if _is_about_failed(request) else self.empty_pages.get(plural, 0))
        await asyncio.sleep(self.page_s)
        meta = {"resourceVersion": str(version), "continue": "" if is_last else str(number + 1)}
        return FakeResponse(200, json.dumps({"metadata": meta, "items": items if is_last else []}).encode())

    def _selected(self, plural: str, request: Request) -> list[dict[str, Any]]:
        return [each for each in self.objects.get(plural, {}).values() if is_selected(each, request)]

    def _stream(self, plural: str, request: Request) -> FakeResponse:
        lines = [{"type": "ADDED", "object": each} for each in self._selected(plural, request)]
        meta = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        lines.append({"type": "BOOKMARK", "object": {"metadata": meta}})
        return FakeResponse(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def _watch(self, plural: str, request: Request) -> Any:
        since = int(request.query["resourceVersion"])
        if since < self.oldest.get(plural, 0):
            return status_answer(410, "Expired", "too old resource version")
        return _Stream(self, plural, since, request)

    async def next_event(self, until_s: float) -> None:
        """Returns when anything has happened, or at `until_s`."""
        try:
            async with asyncio.timeout_at(until_s):
                await self._news.wait()
        except TimeoutError:
            pass

    def _write(self, request: Request, plural: str, subresource: str) -> FakeResponse:
        key = _key_in(request.path, plural, bool(subresource))
        if request.verb == "create":
            body = json.loads(request.body or b"{}")
            return FakeResponse(201, json.dumps(self.put(plural, body) if plural == "leases" else body).encode())
        stored = self.objects.get(plural, {}).get(key)
        if stored is None and request.verb != "apply":
            return status_answer(404, "NotFound")
        if request.verb == "delete":
            self.drop(plural, key)
            asyncio.get_running_loop().call_later(0.05, self.control)
            return FakeResponse(200, b"{}")
        body = json.loads(request.body or b"{}")
        changed = _merged(stored or {}, body if not subresource else {"status": body["status"]})
        if plural == "deployments":
            changed["spec"]["template"]["spec"]["containers"][0] |= self.rewrites
        if changed != stored:
            changed["metadata"]["generation"] = (stored or {}).get("metadata", {}).get("generation", 0) + (
                not subresource
            )
            changed = self.put(plural, changed)
            asyncio.get_running_loop().call_later(0.05, self.control)
        return FakeResponse(200, json.dumps(changed).encode())


class _Stream:
    """An open watch."""

    status = 200

    def __init__(self, cluster: LargeCluster, plural: str, since: int, request: Request) -> None:
        self.headers: dict[str, str] = {}
        self._cluster, self._plural, self._since, self._request = cluster, plural, since, request
        self._bookmark_at = asyncio.get_running_loop().time() + BOOKMARKS_S
        self._ends_at = asyncio.get_running_loop().time() + float(request.query["timeoutSeconds"])

    async def read_chunk(self) -> bytes:
        clock = asyncio.get_running_loop().time
        while True:
            if self._since < self._cluster.oldest.get(self._plural, 0):
                return b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
            news = list(self._news())
            self._since = self._cluster.version
            if news:
                return b"".join(json.dumps(event).encode() + b"\n" for event in news)
            if clock() >= self._ends_at:
                return b""
            if clock() >= self._bookmark_at:
                self._bookmark_at = clock() + BOOKMARKS_S
                meta = {"resourceVersion": str(self._cluster.version), "name": ""}
                return json.dumps({"type": "BOOKMARK", "object": {"metadata": meta}}).encode() + b"\n"
            await self._cluster.next_event(min(self._ends_at, self._bookmark_at))

    def _news(self) -> Iterator[dict[str, Any]]:
        """What comes into the selection is added, what leaves it is deleted, as a server has it."""
        for version, plural, event, before in self._cluster.log:
            if version <= self._since or plural != self._plural:
                continue
            was, is_now = before is not None and is_selected(before, self._request), event["type"] != "DELETED"
            is_now = is_now and is_selected(event["object"], self._request)
            if was or is_now:
                yield {**event, "type": ("MODIFIED" if was else "ADDED") if is_now else "DELETED"}


def _is_alive(pod: Mapping[str, Any]) -> bool:
    return pod["status"]["phase"] not in ("Succeeded", "Failed")


def _is_about_failed(request: Request) -> bool:
    return request.query.get("fieldSelector") == "status.phase=Failed"


def is_selected(thing: Mapping[str, Any], request: Request) -> bool:
    """By the label that must be there, and by the phase."""
    label, phase = request.query.get("labelSelector", ""), thing.get("status", {}).get("phase", "")
    if label and label not in thing["metadata"].get("labels", {}):
        return False
    parts = [part for part in request.query.get("fieldSelector", "").split(",") if part]
    return all(
        (phase != part.partition("!=")[2]) if "!=" in part else (phase == part.partition("=")[2]) for part in parts
    )


def _key_in(path: str, plural: str, has_subresource: bool) -> Key:
    parts = path.strip("/").split("/")
    namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
    return namespace, parts[-2 if has_subresource else -1] if parts[-1] != plural else ""


def _merged(stored: Any, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    result = dict(stored) if isinstance(stored, dict) else {}
    for name, value in body.items():
        result[name] = _merged(result.get(name), value)
    return result


@asynccontextmanager
async def serving(cluster: LargeCluster) -> AsyncIterator[Any]:
    """The service's parts at work; gives them by name."""
    clock = asyncio.get_running_loop().time
    client = client_for(cluster)
    index, wake, metrics, preemptions = Index(), Wake(clock), Metrics("test"), Preemptions()
    watches = Watches(client, index, wake, metrics, preemptions, clock=clock)
    status_writer = PoolStatusWriter(client, index.pool, Announcer("me"), metrics, clock)
    writes = PoolWrites(
        Writer(client, client, client, clock),
        status_writer,
        watches,
        metrics,
        preemptions,
        is_dry_run=False,
        clock=clock,
    )
    loop = DecisionLoop(
        index, watches, writes, wake, metrics, preemptions, ImageSettings(), interval_s=10.0, clock=clock, cpu_s=clock
    )
    tasks = [asyncio.create_task(watches.run()), asyncio.create_task(loop.run(asyncio.Event()))]
    try:
        yield SimpleNamespace(watches=watches, writes=writes, loop=loop, index=index)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await writes.drain(0.0)


async def until_bound(cluster: LargeCluster, keys: list[Key], at_most_s: float = 120.0) -> float:
    """Seconds until all of these pods have a node."""
    clock = asyncio.get_running_loop().time
    began = clock()
    while clock() - began < at_most_s:
        if all(cluster.objects["pods"][key]["spec"].get("nodeName") for key in keys):
            break
        await asyncio.sleep(0.05)
    return cast(float, clock() - began)
