"""The throttle's half of the service with fakes around it: what runs when, who is left alone, and how it ends."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from balloons.service.metrics import Metrics
from tests.unit.throttler.joins.cluster import CNI, LOGS, WALL_S, a_node, daemons_on, pending
from tests.unit.throttler.service.throttle_scene import (
    FakeHolding,
    FakeSources,
    FakeWatches,
    FakeWrites,
    a_pool,
    a_throttle,
    refused,
)
from throttler.api.throttle_rules import StoredThrottle, ThrottleWire, throttle_from_wire
from throttler.kube.karpenter import NodePool
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.taints import Taint
from throttler.kube.watch_set import CacheState
from throttler.law.verdict import Phase
from throttler.levers.lever_and_reasons import THROTTLE_LABEL, Lane
from throttler.levers.node_pool_limits import NODE_POOL_LIMITS
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.throttling import NOBODY, ClusterView, Throttling

BUSY_S, BLIND_PATIENCE_S, GIVEN_UP_S, LEAVING_S = 2.0, 15.0, 300.0, 60.0
"""As they are today: a figure that a test imports may change unnoticed."""

LIMITS: dict[str, Any] = {"nodes": {"matchLabels": {"pool": "a"}}, "levers": {"nodePoolLimits": {}}}
TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/paced"
TAINTED: dict[str, Any] = {"nodes": {"matchLabels": {"pool": "a"}}, "levers": {"startupTaint": {"key": TAINT}}}
NODE_CLAIMS_SEEN = ("kube_balloons_watch_complete", {"resource": "nodeclaims"})
THERE = a_node("old", age_s=9999)
CLUSTER = ClusterView(nodes={"old": THERE}, pods={"old": daemons_on("old", CNI, LOGS)})


class Scene:
    def __init__(self, *throttles: Any) -> None:
        self.now_s = 1000.0
        self.watches = FakeWatches(throttles=throttles, daemon_sets=(CNI, LOGS))
        self.sources, self.writes = FakeSources(None), FakeWrites()
        self.holding: Any = FakeHolding()
        self.metrics = Metrics("test")
        watches: Any = self.watches
        sources: Any = self.sources
        writes: Any = self.writes
        holding: Any = self.holding
        self.throttling = Throttling(
            watches,
            sources,
            writes,
            holding,
            self.metrics.throttle,
            clock=lambda: self.now_s,
            wall=lambda: WALL_S + self.now_s,
        )

    def tick(self, seconds: float = 0.0, cluster: ClusterView = CLUSTER) -> Any:
        self.now_s += seconds
        return self.throttling.tick(cluster)

    def figure(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"kube_balloons_throttle_{name}", labels)


def ours(name: str = "pool-a", throttle: str = "default") -> NodePool:
    """A NodePool on which our ceiling stands, as the planner writes it."""
    pool = a_pool(name, cpu="24")
    mark = '{"original":{"cpu":"1000"},"ceiling":{"cpu":"24"}}'
    metadata = msgspec.structs.replace(
        pool.metadata, labels={THROTTLE_LABEL: throttle}, annotations={ORIGINAL_ANNOTATION: mark}
    )
    return msgspec.structs.replace(pool, metadata=metadata)


def refused_as(spec: dict[str, Any]) -> StoredThrottle:
    """With this spec and a preset that this version does not know."""
    raw = msgspec.Raw(msgspec.json.encode({**spec, "preset": "of-tomorrow"}))
    return throttle_from_wire(ThrottleWire(Metadata("default", uid="uid-default"), raw))


def test_nothing_runs_and_nothing_is_paced_without_a_throttle() -> None:
    scene = Scene()
    assert scene.tick() is None
    assert scene.throttling.again_s is None
    assert (scene.sources.followed, scene.holding.is_needed, scene.writes.turns) == ((), False, [])


def test_nothing_grows_before_it_is_known_which_throttles_there_are() -> None:
    scene = Scene()
    scene.watches.is_known = False
    assert [lane.allowance for lane in scene.tick()] == [0]


def test_sources_and_lease_run_as_long_as_a_throttle_exists() -> None:
    scene = Scene(a_throttle(**LIMITS))
    assert isinstance(scene.tick()[0], Lane)
    assert (scene.sources.followed, scene.holding.is_needed) == (("default",), True)
    scene.watches.throttles = ()
    scene.tick(1)
    assert scene.sources.followed == ()
    scene.tick(LEAVING_S - 1)
    assert scene.holding.is_needed, "what it held is still being given back"
    scene.tick(1)
    assert not scene.holding.is_needed
    assert scene.tick(1) is None


def test_ticks_come_often_only_while_something_is_in_flight() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    assert scene.throttling.again_s is None
    scene.tick(1, ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(pending("p"),)))
    assert scene.throttling.again_s == BUSY_S


def test_the_ceiling_of_a_deleted_throttle_is_given_back() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.watches.limited = (ours(),)
    scene.tick()
    scene.watches.throttles = ()
    scene.tick(1)
    assert [write.key.name for write in scene.writes.others["default (leaving)"]] == ["pool-a"]


def test_the_ceiling_of_a_throttle_that_cannot_be_read_any_more_is_given_back() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.watches.limited = (ours(),)
    scene.tick()
    scene.watches.throttles = (refused("default"),)
    scene.writes.turns.clear()
    scene.tick(1)
    assert [turn.stored.metadata.name for turn in scene.writes.turns] == ["default"], "its user is told why"
    assert "default (leaving)" in scene.writes.others


def test_ceilings_and_gates_that_no_throttle_claims_are_given_back() -> None:
    gated = pending("g", is_gated=True, is_tried=False, gates=(PACED_GATE,))
    scene = Scene(a_throttle("other", nodes={"matchLabels": {"pool": "b"}}, levers={"nodePoolLimits": {}}))
    scene.watches.limited = (ours(),)
    scene.tick(0, ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(gated,)))
    assert {write.key.name for write in scene.writes.others[NOBODY]} == {"pool-a", "g"}


def test_the_ceiling_of_a_throttle_whose_decision_fails_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("odd figure")

    monkeypatch.setattr("throttler.service.decide_throttles.govern", fail)
    scene = Scene(a_throttle(**LIMITS))
    scene.watches.limited = (ours(),)
    scene.tick()
    assert [turn.findings.problem for turn in scene.writes.turns] == ["deciding failed: ValueError: odd figure"]
    assert (scene.writes.turns[0].lever_writes, scene.writes.others) == ((), {})


def test_leftovers_are_left_alone_while_the_view_is_incomplete() -> None:
    scene = Scene(a_throttle("other", levers={"headroom": True}))
    scene.watches.limited, scene.watches.missing = (ours(),), ("nodepools (forbidden)",)
    scene.tick()
    assert not scene.writes.others


def test_what_is_not_written_on_an_object_is_forgotten_and_on_no_other() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.watches.limited = (a_pool(), a_pool("pool-b"))
    waiting = ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=tuple(pending(f"p{i}") for i in range(9)))
    scene.tick(0, waiting)
    scene.writes.busy = frozenset({("NodePool", ObjectKey("", "pool-a"))})
    scene.tick(5, waiting)
    before = scene.throttling._memories["default"]
    scene.tick(5, waiting)
    after = scene.throttling._memories["default"]
    lever = NODE_POOL_LIMITS
    pools_before, pools_after = lever.remembered(before.levers).pools, lever.remembered(after.levers).pools
    assert pools_after["pool-a"] == pools_before["pool-a"]
    assert pools_after["pool-b"].contest.written_s == pools_before["pool-b"].contest.written_s + 5
    assert after.law != before.law


def test_metrics_tell_window_reason_and_stages_and_end_with_the_throttle() -> None:
    scene = Scene(a_throttle(**LIMITS, window={"initial": 16}))
    scene.watches.limited = (a_pool(),)
    scene.tick()
    scene.tick(5, ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(pending("p"),)))
    assert scene.figure("nodes", throttle="default", stage="waiting") == 1
    assert scene.figure("window_joins", throttle="default") == 16
    assert scene.figure("because", throttle="default", reason="Starting") == 1
    assert scene.figure("because", throttle="default", reason="Errors") == 0
    assert scene.figure("server_is_fresh", server="api-0") == 1
    assert scene.figure("lever_state", throttle="default", lever="NodePool/pool-a", state="Contested") == 0
    scene.watches.throttles = ()
    scene.tick(1)
    assert scene.figure("window_joins", throttle="default") is None
    assert scene.figure("lever_state", throttle="default", lever="NodePool/pool-a", state="Contested") is None


def phases(scene: Scene) -> set[float | None]:
    return {scene.figure("phase", throttle="default", phase=phase.value) for phase in Phase}


@pytest.mark.parametrize(("more", "phase"), [({}, 1), ({"paused": True}, None), ({"dryRun": True}, 1)])
def test_metrics_of_a_throttle_that_holds_nothing_raise_no_alarm(more: dict[str, Any], phase: int | None) -> None:
    """Its NodePool is misspelt and no server is read: of no concern while it is paused, when nothing is paced by it."""
    scene = Scene(a_throttle(levers={"nodePoolLimits": {"names": ["misspelt"]}}, **more))
    scene.sources.by_throttle = lambda now_s: {}  # type: ignore[method-assign]
    waits = ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(pending("p"),))
    for _ in range(2):
        scene.tick(5, waits)
    assert scene.figure("phase", throttle="default", phase="Stale") == phase
    assert scene.figure("because", throttle="default", reason="SignalsLost") == phase
    refused_lever = scene.figure("lever_state", throttle="default", lever="NodePool/misspelt", state="Refused")
    assert refused_lever == (None if more else 1)


def test_metrics_of_a_throttle_that_is_refused_tell_nothing_of_before() -> None:
    """30 nodes were waited for then, and none joins: an alert would say so for as long as it is refused."""
    scene = Scene(a_throttle(**LIMITS))
    waits = ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(pending("p"),))
    for _ in range(2):
        scene.tick(5, waits)
    assert scene.figure("nodes", throttle="default", stage="waiting") == 1
    scene.watches.throttles = (refused("default"),)
    scene.tick(1, waits)
    assert scene.figure("nodes", throttle="default", stage="waiting") is None
    assert scene.figure("window_joins", throttle="default") is None
    assert scene.figure("because", throttle="default", reason="Starting") == 0
    assert phases(scene) == {0}, "KubeBalloonsThrottleStuck"
    scene.tick(LEAVING_S + 1, waits)
    scene.watches.throttles = ()
    assert scene.tick(LEAVING_S + 1, waits) is None
    assert phases(scene) == {None}
    assert scene.figure("because", throttle="default", reason="Starting") is None


def test_metrics_tell_of_a_throttle_that_cannot_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written for it, so its ceilings hold growth back, and no other series would say so."""
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    assert phases(scene) == {0, 1}

    def fails(*_: object) -> None:
        raise RuntimeError("odd")

    monkeypatch.setattr("throttler.service.decide_throttles.count_joins", fails)
    scene.tick(5)
    assert phases(scene) == {0}


@pytest.mark.virtual_time
async def test_a_stop_ends_the_sources_and_what_is_held_may_be_handed_over() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    await scene.throttling.stop()
    assert scene.sources.followed == ()
    assert scene.holding.is_stopped
    assert scene.holding.may_hand_over


@pytest.mark.virtual_time
async def test_what_a_throttle_holds_that_is_gone_is_given_back_by_who_knew_it() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    scene.watches.throttles = ()
    scene.tick(1)
    await scene.throttling.stop()
    assert (scene.holding.is_needed, [throttle.metadata.name for throttle in scene.holding.gone]) == (True, ["default"])


@pytest.mark.virtual_time
@pytest.mark.parametrize(("spec", "gone"), [(TAINTED, []), (LIMITS, ["default"])], ids=["the same", "edited since"])
async def test_what_a_refused_throttle_may_hold_a_successor_reads_for_itself(
    spec: dict[str, Any], gone: list[str]
) -> None:
    scene = Scene(a_throttle(**TAINTED))
    scene.tick()
    scene.watches.throttles = (refused_as(spec),)
    scene.tick(1)
    await scene.throttling.stop()
    assert [throttle.metadata.name for throttle in scene.holding.gone] == gone


@pytest.mark.virtual_time
@pytest.mark.parametrize("is_known", [True, False])
async def test_who_is_told_to_stop_before_its_first_tick_holds_what_it_took_over(is_known: bool) -> None:
    scene = Scene(*[a_throttle(**LIMITS)] if is_known else [])
    scene.watches.is_known = is_known
    await scene.throttling.stop()
    assert (scene.holding.is_needed, scene.holding.may_hand_over) == (True, is_known)


def test_a_watch_that_reconnects_is_not_told_to_anybody_and_one_that_stays_away_is() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    scene.writes.turns.clear()
    scene.watches.missing = ("nodeclaims",)
    scene.tick(5)
    assert scene.writes.turns == []
    scene.tick(BLIND_PATIENCE_S)
    assert [turn.findings.missing for turn in scene.writes.turns] == [("nodeclaims",)]


def test_a_cache_that_throttles_wait_for_is_shown_to_be_incomplete_and_no_longer_once_it_is_not_needed() -> None:
    """KubeBalloonsViewIncomplete looks at it: no ceiling moves meanwhile, and nothing else would say so."""
    scene = Scene(a_throttle(**LIMITS))
    scene.watches.states = {"nodeclaims": CacheState(age_s=3.0, is_complete=False, unreadable=1)}
    for look in (scene.tick, scene.throttling.stand_by):
        look()
        assert scene.metrics.registry.get_sample_value(*NODE_CLAIMS_SEEN) == 0
    scene.watches.states = {}
    scene.tick(1)
    assert scene.metrics.registry.get_sample_value(*NODE_CLAIMS_SEEN) is None


GATED = pending("g", is_gated=True, is_tried=False, gates=(PACED_GATE,))
RAMP = ClusterView(nodes=CLUSTER.nodes, pods=CLUSTER.pods, unplaced=(pending("p"), GATED))


def a_ramp_without_a_right() -> Scene:
    """The right to see NodeClaims is taken away while a ceiling is in force and a pod is held."""
    scene = Scene(a_throttle(**{**LIMITS, "levers": {"nodePoolLimits": {}, "schedulingGates": {}}}))
    scene.watches.limited = (ours(),)
    scene.tick(0, replace(RAMP, unplaced=(pending("p"),)))
    scene.watches.missing = ("nodeclaims (may not list nodeclaims)",)
    return scene


def test_what_is_held_is_given_back_where_only_the_throttle_stays_blind() -> None:
    scene = a_ramp_without_a_right()
    for _ in range(10):
        scene.tick(GIVEN_UP_S / 10, RAMP)
        assert scene.writes.turns[-1].lever_writes == ()
    lanes = scene.tick(1, RAMP)
    turn = scene.writes.turns[-1]
    assert {write.key.name for write in turn.lever_writes} == {"pool-a", "g"}
    assert (lanes, turn.findings.is_given_up) == ((), True), "nor are balloons kept waiting"
    assert scene.figure("nodes", throttle="default", stage="waiting") is None, "or none would seem to join for hours"
    scene.watches.missing = ()
    scene.tick(1, RAMP)
    assert scene.writes.turns[-1].findings.verdict is not None
    assert not scene.writes.turns[-1].findings.is_given_up
    assert scene.figure("nodes", throttle="default", stage="waiting") is not None


def test_what_is_held_stays_while_nobody_sees_the_cluster_or_another_leads() -> None:
    """An API server that is away keeps everybody blind: that ends, and all wait for the same."""
    scene = a_ramp_without_a_right()
    scene.tick(GIVEN_UP_S, replace(RAMP, missing=("nodes",)))
    scene.tick(GIVEN_UP_S, RAMP)
    assert scene.writes.turns[-1].lever_writes == ()
    scene.throttling.stand_by()
    scene.tick(GIVEN_UP_S, RAMP)
    assert scene.writes.turns[-1].lever_writes == ()


@pytest.mark.parametrize("is_known", [True, False], ids=["there was none", "nobody knew"])
def test_a_throttle_whose_caches_have_just_begun_is_not_given_up(is_known: bool) -> None:
    """For hours there was no throttle, or it was not known whether: nothing was to be seen."""
    scene = Scene()
    scene.watches.is_known, scene.watches.missing = is_known, ("nodeclaims",)
    for _ in range(3):
        scene.tick(GIVEN_UP_S)
    scene.watches.is_known, scene.watches.throttles = True, (a_throttle(**LIMITS),)
    scene.tick(BLIND_PATIENCE_S)
    assert scene.writes.turns == [], "a user is told nothing of the first seconds"
    scene.tick(1)
    assert [turn.findings.is_given_up for turn in scene.writes.turns] == [False]


def test_who_stands_by_asks_no_server_remembers_nothing_and_shows_nothing() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    scene.tick(5)
    assert scene.figure("window_joins", throttle="default") is not None
    scene.throttling.stand_by()
    assert scene.sources.followed == ()
    assert scene.figure("window_joins", throttle="default") is None
    assert scene.throttling._memories == {}


def test_a_throttle_that_is_made_anew_a_week_later_begins_anew() -> None:
    """All nodes that came meanwhile would count as joins that end now, of a week each."""
    scene = Scene(a_throttle(**LIMITS))
    scene.tick()
    scene.tick(5)
    scene.watches.throttles = ()
    scene.tick(5)
    scene.tick(LEAVING_S)
    scene.watches.throttles = (a_throttle(**LIMITS),)
    week_s = 7 * 86_400.0
    came = {f"n{at}": a_node(f"n{at}", age_s=-week_s / 2) for at in range(5)}
    pods = {name: daemons_on(name, CNI, LOGS) for name in came}
    scene.tick(week_s, ClusterView(nodes={**CLUSTER.nodes, **came}, pods={**CLUSTER.pods, **pods}))
    joins = scene.writes.turns[-1].findings.joins
    assert (joins.registered, joins.joined, joins.join_s) == (6, 0, None)


def test_of_throttles_that_are_gone_nothing_is_kept() -> None:
    scene, stays = Scene(), a_throttle("stays", nodes={"matchLabels": {"pool": "b"}})
    for at in range(20):
        scene.watches.throttles = (a_throttle(f"t{at}", **LIMITS), stays)
        scene.tick(LEAVING_S)
        scene.tick(LEAVING_S)
    sizes = {name: len(filed) for name, filed in vars(scene.throttling).items() if isinstance(filed, dict)}
    assert max(sizes.values()) <= 3, sizes


def test_a_right_that_came_back_after_the_lead_was_lost_is_shown() -> None:
    scene = Scene()
    scene.watches.is_forbidden = True
    scene.tick()
    assert scene.figure("is_forbidden") == 1
    scene.watches.is_forbidden = False
    scene.throttling.stand_by()
    assert scene.figure("is_forbidden") == 0


def test_a_throttle_that_goes_while_the_lead_changes_is_given_back_by_who_leads_next() -> None:
    scene = Scene(a_throttle(**LIMITS))
    scene.throttling.stand_by()
    scene.watches.throttles, scene.watches.limited = (), (ours(),)
    scene.throttling.stand_by()
    scene.tick(1)
    assert [write.key.name for write in scene.writes.others["default (leaving)"]] == ["pool-a"]
    assert scene.tick(LEAVING_S) is None


def held_nodes(*names: str) -> ClusterView:
    nodes = {name: a_node(name, taints=(Taint(TAINT, "NoSchedule"),)) for name in names}
    return ClusterView(nodes={**CLUSTER.nodes, **nodes}, pods=CLUSTER.pods)


def test_a_deleted_throttle_gives_back_for_as_long_as_it_takes() -> None:
    scene = Scene(a_throttle(**TAINTED))
    scene.tick(0, held_nodes("n1", "n2"))
    scene.watches.throttles = ()
    for _ in range(10):
        scene.writes.others.clear()
        scene.tick(LEAVING_S / 3, held_nodes("n1"))
        assert [write.key.name for write in scene.writes.others["default (leaving)"]] == ["n1"]
    scene.tick(LEAVING_S / 2)
    assert scene.holding.is_needed, "a node with the taint may be on its way"
    assert scene.tick(LEAVING_S / 2) is None


OTHER_TAINT = {"startupTaint": {"key": f"{TAINT}-anew"}}


@pytest.mark.parametrize(
    "edit",
    [
        {"levers": {}},
        {"levers": OTHER_TAINT},
        {"nodes": {"matchLabels": {"pool": "b"}}},
        {"levers": OTHER_TAINT, "paused": True},
        {"levers": OTHER_TAINT, "window": {"max": 60}},
    ],
)
def test_nodes_lose_a_taint_that_their_throttle_no_longer_names(edit: dict[str, Any]) -> None:
    """Those that register soon after, too. It may also have been deleted and made anew between two looks."""
    scene = Scene(a_throttle(**TAINTED))
    scene.tick(0, held_nodes("n1"))
    scene.watches.throttles = (a_throttle(**{**TAINTED, **edit}),)
    for name in ("n1", "n2", "n3"):
        scene.writes.others.clear()
        scene.tick(LEAVING_S / 2, held_nodes(name))
        assert [[write.key.name for write in each] for each in scene.writes.others.values()] == [[name]]
    scene.tick(LEAVING_S)
    assert scene.throttling._leaving == {}


def test_a_taint_that_is_still_named_stays() -> None:
    scene = Scene(a_throttle(**TAINTED))
    scene.tick(0, held_nodes("n1"))
    scene.watches.throttles = (a_throttle(**{**TAINTED, "window": {"max": 60}}),)
    scene.tick(1, held_nodes("n1"))
    assert scene.writes.others == {}
    scene.watches.throttles = (a_throttle(**{**TAINTED, "levers": {}}),)
    scene.tick(1, held_nodes())
    scene.watches.throttles = (a_throttle(**TAINTED),)
    scene.tick(1, held_nodes("n1"))
    assert scene.writes.others == {}, "it was named again"


def test_a_deleted_throttle_is_not_forgotten_while_nobody_sees_what_it_holds() -> None:
    scene = Scene(a_throttle(**TAINTED))
    scene.tick()
    scene.watches.throttles, scene.watches.missing = (), ("nodes",)
    for _ in range(4):
        scene.tick(LEAVING_S / 2)
    scene.watches.missing = ()
    scene.tick(1, held_nodes("n1"))
    assert [write.key.name for write in scene.writes.others["default (leaving)"]] == ["n1"]


def test_a_throttle_that_was_refused_before_we_came_holds_no_node() -> None:
    """As after a return to an older version, which does not know a preset: nodes go on coming with the taint."""
    scene = Scene(refused_as(TAINTED))
    for number in range(4):
        scene.writes.others.clear()
        scene.tick(LEAVING_S, held_nodes(f"n{number}"))
        assert [write.key.name for write in scene.writes.others["default (leaving)"]] == [f"n{number}"]
    assert {turn.stored.metadata.name for turn in scene.writes.turns} == {"default"}, "its user is told why"


def test_throttles_that_may_not_be_read_pace_nothing_and_metrics_say_so() -> None:
    scene = Scene()
    assert (scene.tick(), scene.figure("is_forbidden")) == (None, 0)
    scene.watches.is_forbidden = True
    assert (scene.tick(), scene.figure("is_forbidden")) == (None, 1)
