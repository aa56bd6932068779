"""`python -m benchmarks.trails`: the way of a 429 from a server's counter to the limit that is written.

The same scale-up is decided twice, with and without refused requests in the last scrape. On the trail is every
function that answers what it does not answer without them: what somebody reads who follows one 429 through the code.
"""

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import decode_throttle
from throttler.joins.joins import JoinWorld
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod, Scheduling
from throttler.kube.quantity import parse_resources
from throttler.levers.lever import Clocks
from throttler.levers.lever_context import LeverScene
from throttler.service.tick import decide_throttles
from throttler.service.tick_view import Memories, TickView, Turn
from throttler.signals.metrics_text import parse_rows
from throttler.signals.reading import Signals
from throttler.signals.sample import sample_from_rows
from throttler.signals.servers import Address

ROOT = Path(__file__).parents[1]
READ = ("throttler/signals/", "throttler/joins/", "throttler/law/", "throttler/levers/", "throttler/service/")
"""Folders whose functions count."""
GOAL_CALLS, GOAL_FILES = 60, 25
"""As much as somebody can follow in one sitting."""
MOST_CALLS, MOST_FILES = 60, 25
"""As long as the trail is now: it may only become shorter."""

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

Answers = Mapping[tuple[str, str], list[str]]
"""(file, function) -> what it answered, in order."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print calls and files of the trail; the exit code is 1 when it is longer than its bound."""
    parser = argparse.ArgumentParser(prog="benchmarks.trails", description="follow one 429 to the limit it lowers")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    found = trail()
    files = sorted({file for file, _ in found})
    if parser.parse_args(arguments).json:
        print(json.dumps({"calls": len(found), "files": len(files), "trail": found}))
    else:
        print("\n".join(f"{file}: {name}" for file, name in found))
        bounds = f"at most {MOST_CALLS} in {MOST_FILES}, goal {GOAL_CALLS} in {GOAL_FILES}"
        print(f"{len(found)} calls in {len(files)} files ({bounds})")
    return int(len(found) > MOST_CALLS or len(files) > MOST_FILES)


def trail() -> list[tuple[str, str]]:
    """Each function on it by file and name, in the order in which they first answered."""
    calm, calm_limit = followed(0)
    refused, refused_limit = followed(REFUSED)
    if calm_limit == refused_limit:
        raise AssertionError(f"the limit stays at {calm_limit}: the refused requests did nothing")
    return [place for place, answers in refused.items() if not set(answers) <= set(calm.get(place, ()))]


def followed(refused: int) -> tuple[Answers, str]:
    """The last tick's answers, and the limit that it writes."""
    story = _Story()
    for _ in range(TICKS):
        story.tick(0)
    answers: dict[tuple[str, str], list[str]] = defaultdict(list)
    turn = _profiled(lambda: story.tick(refused), answers)
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


def _profiled(act: Callable[[], Turn], answers: dict[tuple[str, str], list[str]]) -> Turn:
    places: dict[str, str] = {}

    def hear(frame: FrameType, event: str, answer: Any) -> None:
        if event != "return":
            return
        code = frame.f_code
        path = code.co_filename
        if path not in places:
            places[path] = path.removeprefix(f"{ROOT}/") if path.startswith(str(ROOT)) else ""
        if places[path].startswith(READ) and not code.co_name.startswith("<") and not _is_made(code.co_name):
            answers[places[path], code.co_qualname].append(re.sub(r"0x[0-9a-f]+", "", repr(answer)))

    sys.setprofile(hear)
    try:
        return act()
    finally:
        sys.setprofile(None)


def _is_made(name: str) -> bool:
    """Whether nobody wrote it: methods of dataclasses."""
    return name.startswith("__")


if __name__ == "__main__":
    sys.exit(main())
