"""`python -m benchmarks.trails`: two ways through the code, function by function.

The way of a 429 leads from a server's counter to the limit that is written: the same scale-up is decided twice, with
and without refused requests in the last scrape. The way of an idle node leads to its balloon, and on to the release
when a job waits for it: the same events are decided twice, with and without that node. On a trail is every function
that answers what it does not answer without: what somebody reads who follows one thing through the code.
"""

import argparse
import asyncio
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, cast

import msgspec
import structlog

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.service.action_calls_and_pool_status import PoolStatusWriter, Writer
from balloons.service.loop import DecisionLoop, Wake
from balloons.service.metrics import Metrics
from balloons.service.pool_status_and_events import Announcer
from balloons.service.pool_write_queue import PoolWrites
from balloons.service.preemptions_and_warm_hits import Preemptions
from balloons.service.watched_kinds import node_within_s, pod_within_s
from balloons.view.index_and_snapshot import Circumstances, Deployment, Index, Now, PriorityClass
from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import decode_throttle
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodePool
from throttler.kube.kube_client import KubeClient
from throttler.kube.metadata import Metadata, ObjectKey, OwnerReference
from throttler.kube.node import HOST_LABEL, Node
from throttler.kube.pod import POOL_LABEL, SHAPE_LABEL, Pod, PodKind, Scheduling
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.requests import Resource
from throttler.kube.selectors import LabelSelector
from throttler.levers.lever_and_reasons import Clocks, LeverScene
from throttler.service.decide_throttles import Memories, TickView, Turn, decide_throttles
from throttler.signals.metric_families import parse_rows
from throttler.signals.reading import Signals
from throttler.signals.sample import sample_from_rows
from throttler.signals.servers import Address

ROOT = Path(__file__).parents[1]
READ_OF_429 = ("throttler/signals/", "throttler/joins/", "throttler/law/", "throttler/levers/", "throttler/service/")
READ_OF_NODE = ("balloons/view/", "balloons/decide/", "balloons/service/", "balloons/balloon_manifest.py")
"""Folders whose functions count."""
GOAL_CALLS, GOAL_FILES = 60, 25
"""As much as somebody can follow in one sitting."""
MOST_CALLS, MOST_FILES = 60, 25
MOST_NODE_CALLS, MOST_NODE_FILES = 60, 19
"""As long as the trails are now: they may only become shorter."""

WALL_S, TICKS, SCRAPE_S = 1_700_000_000.0, 12, 5.0
REFUSED = 40
METRICS = """
apiserver_request_total{{verb="PATCH",resource="nodes",code="200"}} {requests}
apiserver_request_duration_seconds_sum{{verb="PATCH",resource="nodes"}} {slow_s}
apiserver_request_duration_seconds_count{{verb="PATCH",resource="nodes"}} {requests}
apiserver_flowcontrol_dispatched_requests_total{{priority_level="system",flow_schema="system-nodes"}} {requests}
apiserver_flowcontrol_rejected_requests_total{{priority_level="system",flow_schema="system-nodes"}} {refused}
process_cpu_seconds_total {cpu_s}
go_sched_gomaxprocs_threads 4
process_start_time_seconds 1699990000
"""
SIZE = parse_resources({"cpu": "8", "memory": "32Gi", "pods": "110"})
MADE = datetime.fromtimestamp(WALL_S, UTC)

CLOCK_S = 1000.0
NOW = Now(CLOCK_S, MADE)
CLASS = PriorityClass(Metadata("kube-balloons"), value=-10, preemption_policy="Never")
HOLDING = BalloonPool(
    Metadata("gpu", "team-a", uid="uid-gpu", resource_version="1", generation=1),
    PoolSpec(nodes=PoolNodes(LabelSelector({"pool": "a"})), mode=Mode.HOLD),
)

Answers = Mapping[tuple[str, str], list[str]]
"""(file, function) -> what it answered, in order."""


Trail = list[tuple[str, str]]
"""Each function on it by file and name, in the order in which they first answered."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print calls and files of the trails; the exit code is 1 when one is longer than its bound."""
    parser = argparse.ArgumentParser(prog="benchmarks.trails", description="follow one thing through the code")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    is_json = parser.parse_args(arguments).json
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
    trails = (
        ("a 429 to the limit it lowers", trail(), (MOST_CALLS, MOST_FILES)),
        ("an idle node to its balloon and its release", node_trail(), (MOST_NODE_CALLS, MOST_NODE_FILES)),
    )
    told, is_longer = [], False
    for what, steps, (most_calls, most_files) in trails:
        calls, files = len(steps), len({file for file, _ in steps})
        is_longer |= calls > most_calls or files > most_files
        told.append({"what": what, "calls": calls, "files": files, "trail": steps})
        if not is_json:
            bounds = f"at most {most_calls} in {most_files}, goal {GOAL_CALLS} in {GOAL_FILES}"
            print("\n".join(f"{file}: {name}" for file, name in steps))
            print(f"{what}: {calls} calls in {files} files ({bounds})\n")
    if is_json:
        print(json.dumps({"trails": told}))
    return int(is_longer)


def trail() -> Trail:
    """The way of a 429."""
    calm, calm_limit = followed(0)
    refused, refused_limit = followed(REFUSED)
    if calm_limit == refused_limit:
        raise AssertionError(f"the limit stays at {calm_limit}: the refused requests did nothing")
    return _only_in(refused, calm)


def node_trail() -> Trail:
    """The way of an idle node."""
    without, before = asyncio.run(_NodeStory(has_node=False).followed())
    with_it, writes = asyncio.run(_NodeStory(has_node=True).followed())
    if set(writes) - set(before) != {"apply deployments", "delete pods"}:
        raise AssertionError(f"written is {writes}: no balloon, or it was not released")
    return _only_in(with_it, without)


def _only_in(answers: Answers, others: Answers) -> Trail:
    return [place for place, files in answers.items() if not set(files) <= set(others.get(place, ()))]


def followed(refused: int) -> tuple[Answers, str]:
    """The last tick's answers, and the limit that it writes."""
    story = _Story()
    for _ in range(TICKS):
        story.tick(0)
    answers: dict[tuple[str, str], list[str]] = defaultdict(list)
    with _profiled(answers, READ_OF_429):
        turn = story.tick(refused)
    writes = [msgspec.json.encode(write.body).decode() for write in turn.lever_writes]
    return answers, "\n".join(writes)


class _Story:
    """A scale-up under a ceiling: nodes join, many pods wait, one API server is scraped before each tick."""

    def __init__(self) -> None:
        spec = {"nodes": {"matchLabels": {"pool": "a"}}, "levers": {"nodePoolLimits": {}}}
        metadata = {"name": "default", "uid": "t", "resourceVersion": "1", "creationTimestamp": MADE.isoformat()}
        throttle = decode_throttle(msgspec.json.encode({"metadata": metadata, "spec": spec}))
        assert isinstance(throttle, JoinThrottle), throttle
        self.throttle = throttle
        self.address, self.ticks = Address(name="api-0", known_since_s=0.0), 0
        self.memories: Memories = {}

    def tick(self, refused: int) -> Turn:
        """Scrape, decide."""
        self.ticks += 1
        now_s = SCRAPE_S * self.ticks
        requests = 2000 * self.ticks
        text = METRICS.format(requests=requests, slow_s=0.004 * requests, refused=refused, cpu_s=4.0 * self.ticks)
        rows = parse_rows([line.encode() for line in text.splitlines() if line])
        sample = sample_from_rows(rows, asked_s=now_s, taken_s=now_s, wall_s=WALL_S + now_s)
        self.address = self.address.answered(sample)
        signals = {"default": Signals(readings=self.address.readings())}
        turns, self.memories = decide_throttles((self.throttle,), self._view(now_s, signals), self.memories)
        return turns[0]

    def _view(self, now_s: float, signals: Mapping[str, Signals]) -> TickView:
        nodes = {f"n{number}": _node(f"n{number}", number) for number in range(24)}
        pods = tuple(_pod(f"p{number}") for number in range(60))
        world = JoinWorld(nodes=nodes, unplaced=pods, wall_s=WALL_S + now_s)
        moment = Clocks(now_s, WALL_S + now_s)
        scene = LeverScene(moment=moment, nodes=nodes, unplaced=pods, limited=(_pool(),))
        return TickView(world=world, scene=scene, signals=signals)


def _node(name: str, number: int) -> Node:
    """The first two are in use, the others join."""
    is_ready = number < 2
    conditions = frozenset({("Ready", "True")}) if is_ready else frozenset[tuple[str, str]]()
    node = Node(name, f"uid-{name}", "1", {"pool": "a"}, SIZE, conditions=conditions, is_ready=is_ready)
    return msgspec.structs.replace(node, created_s=WALL_S)


def _pod(name: str) -> Pod:
    requests = parse_resources({"cpu": "6", "pods": "1"})
    return Pod(ObjectKey("jobs", name), f"uid-{name}", "1", "", 0, requests, scheduling=Scheduling(is_tried=True))


def _pool() -> NodePool:
    metadata = {"name": "pool-a", "uid": "p", "resourceVersion": "7"}
    spec = {"template": {"metadata": {"labels": {"pool": "a"}}, "spec": {"requirements": []}}}
    return msgspec.convert({"metadata": metadata, "spec": spec}, NodePool)


class _Wire:
    """An API server that takes everything, and remembers it."""

    def __init__(self) -> None:
        self.writes: list[str] = []
        self.bodies: list[Mapping[str, Any]] = []

    async def apply(self, resource: Resource, body: Mapping[str, Any], *names: Any, **how: Any) -> bytes:
        if "subresource" not in how:
            self.writes.append(f"apply {resource.plural}")
            self.bodies.append(body)
        return b'{"metadata": {"resourceVersion": "9"}}'

    async def delete(self, resource: Resource, *names: Any, **how: Any) -> bytes:
        self.writes.append(f"delete {resource.plural}")
        return b"{}"

    async def create(self, *what: Any) -> bytes:
        return b"{}"

    def now_s(self) -> float:
        return NOW.wall.timestamp()


class _Seen:
    """Caches that show every write at once."""

    is_complete = True

    def circumstances(self) -> Circumstances:
        return Circumstances(server_minor=36)

    def version_of(self, plural: str) -> str:
        return "1000000"

    def has_pod(self, node: str, uid: str) -> bool:
        return False


class _NodeStory:
    """A pool holds its idle nodes; one more comes, gets its balloon, and then a pod waits that fits only there.

    The pod may not preempt, so the balloon is released for it.
    """

    def __init__(self, *, has_node: bool) -> None:
        self.has_node = has_node
        self.wire, self.index, self.preemptions = _Wire(), Index(), Preemptions()
        self.answers: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.deployments: dict[ObjectKey, Deployment] = {}

    async def followed(self) -> tuple[Answers, list[str]]:
        """What was answered on the way, and what was written."""
        clock = asyncio.get_running_loop().time
        metrics, client = Metrics("trails"), cast(KubeClient, self.wire)
        wake = Wake(clock)
        status_writer = PoolStatusWriter(client, self.index.pool, Announcer("trails"), metrics, clock)
        writer = Writer(client, client, client, clock)
        writes = PoolWrites(
            writer, status_writer, _Seen(), metrics, self.preemptions, is_dry_run=False, clock=lambda: CLOCK_S
        )
        loop = DecisionLoop(
            self.index,
            _Seen(),
            writes,
            wake,
            metrics,
            self.preemptions,
            ImageSettings(),
            interval_s=10.0,
            clock=lambda: CLOCK_S,
            # What answers otherwise because it is later is not on the trail.
            decide=lambda snapshot, memory, settings, _, lanes: decide(snapshot, memory, settings, NOW, lanes),
        )
        self.index.change_priority_class(None, CLASS)
        self.index.change_pool(None, HOLDING)
        for number in range(2):
            self.index.change_node(None, _warm(f"n{number}", "a"))
        for _ in range(2):
            await self._decide(loop)
            self._balloons_come()
        self.wire.writes.clear()
        with _profiled(self.answers, READ_OF_NODE):
            if self.has_node:
                node = _warm("idle", "b")
                self.index.change_node(None, node)
                wake.poke(node_within_s(None, node))
            await self._decide(loop)
        self._balloons_come()
        await self._decide(loop)
        with _profiled(self.answers, READ_OF_NODE):
            pod = _unable_to_preempt()
            self.index.change_pod(None, pod)
            wake.poke(pod_within_s(None, pod))
            await self._decide(loop)
        return self.answers, self.wire.writes

    async def _decide(self, loop: DecisionLoop) -> None:
        """Until all is written; the service itself never waits for that."""
        loop.tick()
        while writing := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(writing)

    def _balloons_come(self) -> None:
        """What was applied is stored, and each node without a balloon has one."""
        for body in self.wire.bodies:
            metadata, spec = body["metadata"], dict(body["spec"])
            stored = Metadata(metadata["name"], metadata["namespace"], "uid-d", "9", labels=dict(metadata["labels"]))
            key = ObjectKey(stored.namespace, stored.name)
            self.index.change_deployment(self.deployments.get(key), Deployment(stored, spec))
            self.deployments[key] = Deployment(stored, spec)
            requests = parse_resources(spec["template"]["spec"]["containers"][0]["resources"]["requests"])
            held = self.index.pods_by_node
            for name in [name for name in ("n0", "n1", "idle") if self.index.node(name) and not held.get(name)]:
                balloon = Pod(
                    ObjectKey(stored.namespace, f"balloon-{name}"),
                    f"uid-{name}",
                    "1",
                    name,
                    CLASS.value,
                    {**requests, "pods": 1000},
                    is_running=True,
                    kind=PodKind.BALLOON,
                    owner=OwnerReference("ReplicaSet", f"{stored.name}-5f7d", controller=True),
                    pool=stored.labels[POOL_LABEL],
                    shape=stored.labels[SHAPE_LABEL],
                )
                self.index.change_pod(None, balloon)
        self.wire.bodies.clear()


def _warm(name: str, zone: str) -> Node:
    node = _node(name, 0)
    return msgspec.structs.replace(node, labels={"pool": "a", "zone": zone, HOST_LABEL: name})


def _unable_to_preempt() -> Pod:
    scheduling = Scheduling(is_tried=True, node_selector={"zone": "b"}, cannot_preempt=True)
    return msgspec.structs.replace(_pod("job"), scheduling=scheduling)


@contextmanager
def _profiled(answers: dict[tuple[str, str], list[str]], read: tuple[str, ...]) -> Iterator[None]:
    """Note what each function of these folders answers meanwhile."""
    places: dict[str, str] = {}

    def hear(frame: FrameType, event: str, answer: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        path = code.co_filename
        if path not in places:
            places[path] = path.removeprefix(f"{ROOT}/") if path.startswith(str(ROOT)) else ""
        if places[path].startswith(read) and not code.co_name.startswith("<") and not _is_made(code.co_name):
            answers[places[path], code.co_qualname].append(re.sub(r"0x[0-9a-f]+", "", repr(answer)))

    sys.setprofile(hear)
    try:
        yield
    finally:
        sys.setprofile(None)


def _is_made(name: str) -> bool:
    """Whether nobody wrote it: methods of dataclasses."""
    return name.startswith("__")


if __name__ == "__main__":
    sys.exit(main())
