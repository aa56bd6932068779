"""Writing decisions: order, isolation of pools, own writes not seen yet, dry runs, failures. With a fake client."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    Decision,
    DeleteObject,
    LeaveNode,
    MarkBalloon,
    PoolDecision,
    Reason,
    ReleaseBalloon,
    RemoveFailed,
)
from balloons.service.action_calls_and_pool_status import PoolStatusWriter, Writer
from balloons.service.metrics import Metrics
from balloons.service.pool_status_and_events import Announcer
from balloons.service.pool_write_queue import PoolWrites
from balloons.service.preemptions_and_warm_hits import Preemptions
from throttler.kube.errors import (
    ApiError,
    AttemptTimeoutError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.kube.requests import Resource
from throttler.kube.selectors import LabelSelector
from throttler.kube.write_queue_and_status import LATE_S

pytestmark = pytest.mark.virtual_time

GPU, CPU = ObjectKey("ns", "gpu"), ObjectKey("ns", "cpu")
WHY = because(Reason.WARMING, warm=0, target=3, pending=0)


class FakeClient:
    """Records every call in words; answers with growing versions, with scripted errors, or slowly."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bodies: list[Any] = []
        self.version = 100
        self.errors: dict[str, list[ApiError]] = {}
        self.delays_s: dict[str, float] = {}
        self.at_once = self.most_at_once = 0

    def now_s(self) -> float:
        return 1.7e9

    async def apply(self, resource: Resource, body: Any, name: str, namespace: str, **more: Any) -> bytes:
        sub = f"/{more['subresource']}" if more.get("subresource") else ""
        assert more["field_manager"] == "kube-balloons"
        force = " by force" if more["force"] and not sub else ""
        return await self._answer(f"apply {resource.plural}{sub} {namespace}/{name}{force}", body)

    async def patch(self, resource: Resource, body: Any, name: str, namespace: str | None = None, **more: Any) -> bytes:
        return await self._answer(f"patch {resource.plural} {namespace or ''}/{name}", body)

    async def delete(self, resource: Resource, name: str, namespace: str, **more: Any) -> bytes:
        return await self._answer(f"delete {resource.plural} {namespace}/{name}", more)

    async def create(self, resource: Resource, body: Any, namespace: str) -> bytes:
        return await self._answer(f"create {resource.plural} {namespace} {body['reason']}", body)

    async def _answer(self, call: str, body: Any) -> bytes:
        self.calls.append(call)
        self.bodies.append(body)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.delays_s.get(call, 0.001))
        self.at_once -= 1
        if self.errors.get(call):
            raise self.errors[call].pop(0)
        self.version += 1
        return msgspec.json.encode({"metadata": {"resourceVersion": str(self.version)}})

    @property
    def writes(self) -> list[str]:
        """Calls that are not about telling users."""
        return [call for call in self.calls if "status" not in call and "events" not in call]


class FakeCaches:
    """Caches that show nothing new until told to."""

    def __init__(self) -> None:
        self.version = "0"
        self.pods: set[str] = set()

    def version_of(self, plural: str) -> str:
        return self.version

    def has_pod(self, node: str, uid: str) -> bool:
        return uid in self.pods

    def catch_up(self) -> None:
        self.version, self.pods = "1000000", set()


class Scene:
    def __init__(self, *, is_dry_run: bool = False) -> None:
        self.client, self.caches = FakeClient(), FakeCaches()
        self.metrics = Metrics("test")
        spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD)
        self.stored = {key: BalloonPool(Metadata(key.name, "ns", resource_version="1"), spec) for key in (GPU, CPU)}
        clock = asyncio.get_running_loop().time
        client: Any = self.client
        status_writer = PoolStatusWriter(client, self.stored.get, Announcer("me"), self.metrics, clock)
        self.writes = PoolWrites(
            Writer(client, client, client, clock),
            status_writer,
            self.caches,
            self.metrics,
            Preemptions(),
            is_dry_run=is_dry_run,
            clock=clock,
        )

    def start(self, *actions: Action, pool: ObjectKey = GPU, **more: Any) -> set[ObjectKey]:
        return set(self.writes.start(Decision((decision(*actions, pool=pool, **more),))))

    async def write(self, *actions: Action, **more: Any) -> list[str]:
        """Start, wait for the end, and return the writes that were made for it."""
        before = len(self.client.writes)
        self.start(*actions, **more)
        await self.writes.drain(1000)
        return self.client.writes[before:]

    def counted(self, action: str, outcome: str) -> float | None:
        labels = {"action": action, "outcome": outcome}
        return self.metrics.registry.get_sample_value("kube_balloons_writes_total", labels)


def decision(*actions: Action, pool: ObjectKey = GPU, **more: Any) -> PoolDecision:
    return PoolDecision(pool, WHY, PoolStatus(warm=1), actions, **more)


def apply(name: str = "gpu-a", namespace: str = "ns") -> ApplyObject:
    key = ObjectKey(namespace, name)
    return ApplyObject(key, "apps/v1", "Deployment", {"kind": "Deployment"}, 3, WHY)


def release(name: str) -> ReleaseBalloon:
    return ReleaseBalloon(ObjectKey("ns", name), f"uid-{name}", "7", f"node-{name}", "ns/job", WHY)


def leave(name: str) -> LeaveNode:
    return LeaveNode(ObjectKey("ns", name), f"uid-{name}", f"node-{name}", WHY)


def mark(name: str) -> MarkBalloon:
    return MarkBalloon(ObjectKey("ns", name), f"uid-{name}", -1000, WHY)


APPLY = "apply deployments ns/gpu-a"


async def test_actions_are_written_in_order_and_status_after_them() -> None:
    scene = Scene()
    await scene.write(mark("b1"), apply(), release("b1"))
    told = "create events ns Warming"
    assert told in scene.client.calls
    assert [call for call in scene.client.calls if call != told] == [
        "patch pods ns/b1",
        APPLY,
        "delete pods ns/b1",
        "apply balloonpools/status ns/gpu",
    ]


async def test_every_write_is_guarded() -> None:
    scene = Scene()
    gone = DeleteObject(ObjectKey("ns", "old"), "apps/v1", "Deployment", "u1", "5", WHY)
    node = AnnotateNode("n1", "9", {"x": "y", "z": None}, WHY)
    await scene.write(gone, mark("b1"), release("b1"))
    await scene.write(node)
    deleted, marked, released, *_, annotated = [body for body in scene.client.bodies if "reason" not in body]
    assert (deleted["uid"], deleted["resource_version"]) == ("u1", "5")
    assert marked["metadata"]["uid"] == "uid-b1"
    assert (released["uid"], released["resource_version"]) == ("uid-b1", "7")
    assert annotated == {"metadata": {"resourceVersion": "9", "annotations": {"x": "y", "z": None}}}


async def test_what_failed_is_removed_by_uid_and_has_balloons_wait_for_nothing() -> None:
    scene = Scene()
    scene.client.delays_s = {"delete pods ns/b2": 60.0}
    failed = RemoveFailed(ObjectKey("ns", "b2"), "uid-b2", "n1", WHY)
    scene.start(apply(), release("b1"), failed)
    await asyncio.sleep(1)
    assert set(scene.client.writes) == {APPLY, "delete pods ns/b1", "delete pods ns/b2"}
    assert {"uid": "uid-b2"} in scene.client.bodies
    await scene.writes.drain(1000)
    assert scene.counted("remove", "done") == 1


async def test_balloons_are_released_together_but_not_all_at_once() -> None:
    scene = Scene()
    calls = await scene.write(apply(), *(release(f"b{i}") for i in range(100)))
    assert calls[0] == APPLY
    assert len(calls) == 101
    assert scene.client.most_at_once == 32


async def test_nothing_is_released_when_the_size_was_not_lowered() -> None:
    """The ReplicaSet would put a new balloon where the waiting pod should go."""
    scene = Scene()
    scene.client.errors[APPLY] = [ServerError("webhook x timed out", status=500)]
    assert await scene.write(apply(), release("b1")) == [APPLY]
    assert "webhook x timed out" in scene.writes.problems[GPU]


async def test_a_pool_that_is_not_served_any_more_is_not_told_of_a_write_that_failed_before() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("exceeded quota", status=403)]
    await scene.write(apply())
    assert scene.client.bodies[-1]["status"]["conditions"][0]["reason"] == "WriteFailed"
    await asyncio.sleep(LATE_S)
    why = because(Reason.BOUND, bound="maxSize", message="maxSize is 90; accepted: up to 9")
    scene.writes.start(Decision((PoolDecision(GPU, why, PoolStatus(because=why.code)),)))
    await scene.writes.drain(1000)
    assert scene.client.bodies[-1]["status"]["conditions"][0]["reason"] == "Bound"


async def test_a_pool_that_is_made_again_by_the_same_name_is_told_as_well_that_it_is_not_served() -> None:
    scene = Scene()
    why = because(Reason.BOUND, bound="maxSize", message="maxSize is 90; accepted: up to 9")
    turned_away = Decision((PoolDecision(GPU, why, PoolStatus(because=why.code)),))
    for uid, told in (("first", 1), ("first", 1), ("second", 2)):
        metadata = msgspec.structs.replace(scene.stored[GPU].metadata, uid=uid)
        scene.stored[GPU] = msgspec.structs.replace(scene.stored[GPU], metadata=metadata)
        await asyncio.sleep(LATE_S)
        scene.writes.start(turned_away)
        await scene.writes.drain(1000)
        assert len(scene.client.bodies) == told


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ServerError('failed calling webhook "x": no endpoints', status=500), "refused"),
        (ServerError("etcdserver: request timed out", status=500), "unknown"),
        (TooManyRequestsError("too many requests", status=429), "busy"),
        (ForbiddenError("exceeded quota", status=403), "refused"),
    ],
)
async def test_a_write_counts_as_refused_where_somebody_has_to_do_something(error: ApiError, outcome: str) -> None:
    """KubeBalloonsWritesRefused names a right, a policy or a webhook: a busy server is none of these."""
    scene = Scene()
    scene.client.errors[APPLY] = [error]
    await scene.write(apply())
    assert scene.counted("apply", outcome) == 1


async def test_a_balloon_leaves_a_node_that_goes_although_the_size_was_refused() -> None:
    """An autoscaler replaces what it finds there, whatever the Deployment says."""
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("webhook x denied the request", status=403)] * 9
    scene.caches.pods = {"uid-b1", "uid-b2"}
    assert await scene.write(apply(), release("b0"), leave("b1")) == [APPLY, "delete pods ns/b1"]
    assert {"uid": "uid-b1"} in scene.client.bodies
    assert "webhook x denied" in scene.writes.problems[GPU]
    assert await scene.write(apply(), leave("b1")) == [], "it is on its way"
    scene.caches.pods = {"uid-b2"}
    assert await scene.write(apply(), leave("b2")) == ["delete pods ns/b2"], "also while the pool rests"


async def test_what_leaves_goes_after_the_size_and_is_waited_for_by_nothing() -> None:
    scene = Scene()
    scene.caches.pods = {"uid-b1"}
    assert await scene.write(apply(), leave("b1")) == [APPLY, "delete pods ns/b1"]
    scene.caches.version = "1000000"
    assert await scene.write(apply()) == [APPLY]


async def test_balloons_leave_a_few_at_a_time_as_most_have_gone_with_the_size() -> None:
    scene = Scene()
    calls = await scene.write(apply(), *(leave(f"b{i}") for i in range(100)))
    assert len(calls) == 1 + 32


async def test_a_node_that_gets_a_balloon_again_is_left_again_only_after_a_while() -> None:
    """Balloons that tolerate everything come back to it for as long as it is there."""
    scene = Scene()
    again = LeaveNode(ObjectKey("ns", "b2"), "uid-b2", "node-b1", WHY)
    assert await scene.write(leave("b1")) == ["delete pods ns/b1"]
    assert await scene.write(again) == []
    await asyncio.sleep(31)
    assert await scene.write(again) == ["delete pods ns/b2"]


async def test_pool_is_passed_over_until_the_caches_show_its_write() -> None:
    scene = Scene()
    await scene.write(apply())
    assert scene.start(apply()) == {GPU}
    scene.caches.catch_up()
    assert await scene.write(apply()) == [APPLY]


async def test_pool_is_passed_over_while_released_balloons_are_seen() -> None:
    scene = Scene()
    scene.caches.pods = {"uid-b1"}
    await scene.write(release("b1"))
    assert scene.start(apply()) == {GPU}


async def test_slow_pool_holds_up_no_other() -> None:
    scene = Scene()
    scene.client.delays_s[APPLY] = 10.0
    scene.start(apply())
    await asyncio.sleep(0.1)
    assert scene.writes.start(Decision((decision(apply()), decision(apply("cpu-a"), pool=CPU)))).keys() == {GPU}
    await asyncio.sleep(0.1)
    assert "apply deployments ns/cpu-a" in scene.client.calls
    assert scene.client.calls.count(APPLY) == 1


async def test_write_that_is_awaited_is_looked_for_sooner_than_a_failure() -> None:
    scene = Scene()
    scene.client.errors["apply deployments ns/cpu-a"] = [ServerError("no", status=500)]
    both = Decision((decision(apply()), decision(apply("cpu-a"), pool=CPU)))
    scene.writes.start(both)
    await scene.writes.drain(10)
    assert scene.writes.start(both) == {GPU: 0.1, CPU: 1.0}


async def test_failing_pool_changes_nothing_for_others() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("deployments is forbidden", status=403)]
    scene.writes.start(Decision((decision(apply()), decision(apply("cpu-a"), pool=CPU))))
    await scene.writes.drain(10)
    assert set(scene.writes.problems) == {GPU}
    assert scene.counted("apply", "done") == 1
    assert scene.counted("apply", "refused") == 1


async def test_forbidden_write_is_tried_at_most_twice_a_minute() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("no", status=403) for _ in range(100)]
    for _ in range(600):
        scene.start(apply())
        await asyncio.sleep(1)
    assert scene.client.writes.count(APPLY) <= 20


async def test_pool_that_fails_again_rests_until_it_is_tried_again() -> None:
    """After one time-out its pods are all but placed: another pool must not give nodes for them, too."""
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("no", status=403)] * 2
    await scene.write(apply())
    assert scene.writes.resting == set()
    await asyncio.sleep(30)
    await scene.write(apply())
    assert scene.writes.resting == {GPU}
    await asyncio.sleep(60)
    assert scene.writes.resting == set()
    await scene.write(apply())
    assert scene.writes.resting == set(), "its write is only waited for"


async def test_problem_is_in_the_status_until_it_is_solved() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError('cannot patch "deployments"', status=403)]
    await scene.write(apply())
    statuses = [body for body in scene.client.bodies if "status" in body]
    texts = {c["type"]: c["message"] for c in statuses[-1]["status"]["conditions"]}
    assert 'cannot patch "deployments"' in texts["Stalled"]
    await asyncio.sleep(31)
    await scene.write(apply())
    assert scene.writes.problems == {}


async def test_problem_stays_while_the_pool_rests() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ForbiddenError("no", status=403)]
    await scene.write(apply())
    for _ in range(5):
        await asyncio.sleep(1)
        assert await scene.write(apply()) == []
        assert GPU in scene.writes.problems
        assert await scene.write() == [], "with nothing to do either"
        assert GPU in scene.writes.problems


@pytest.mark.parametrize("failing", ["b1", "b2"])
async def test_one_of_two_writes_that_fails_is_a_failure(failing: str) -> None:
    scene = Scene()
    scene.client.errors[f"patch pods ns/{failing}"] = [ForbiddenError("no", status=403)]
    assert await scene.write(mark("b1"), mark("b2"), apply()) == ["patch pods ns/b1", "patch pods ns/b2"]
    assert GPU in scene.writes.problems
    scene.caches.catch_up()
    assert await scene.write(apply()) == [], "it rests"


async def test_timed_out_write_counts_as_maybe_done() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [AttemptTimeoutError("no answer")]
    await scene.write(apply())
    assert scene.counted("apply", "unknown") == 1
    await asyncio.sleep(9)
    assert scene.start(apply()) == {GPU}
    await asyncio.sleep(2)
    assert await scene.write(apply()) == [APPLY]


async def test_object_that_is_gone_needs_no_deleting() -> None:
    scene = Scene()
    scene.client.errors["delete pods ns/b1"] = [NotFoundError("no such pod", status=404)]
    assert await scene.write(release("b1"), apply()) == ["delete pods ns/b1", APPLY]
    assert scene.writes.problems == {}


async def test_field_taken_by_another_is_taken_back_once_in_a_while() -> None:
    scene = Scene()
    scene.client.errors[APPLY] = [ConflictError("conflict with kubectl", status=409) for _ in range(10)]
    assert await scene.write(apply()) == [APPLY, f"{APPLY} by force"]
    scene.caches.catch_up()
    assert await scene.write(apply()) == [APPLY]
    await asyncio.sleep(31)
    assert await scene.write(apply()) == [APPLY, f"{APPLY} by force"]


async def test_conflict_is_no_news_for_users() -> None:
    scene = Scene()
    scene.client.errors["patch pods ns/b1"] = [ConflictError("changed", status=409)]
    await scene.write(mark("b1"), apply())
    assert scene.client.writes == ["patch pods ns/b1"]
    assert scene.writes.problems == {}


async def test_balloon_that_is_being_taken_already_needs_no_release() -> None:
    """The scheduler writes a condition on a balloon that it preempts; our delete then meets another version."""
    scene = Scene()
    scene.client.errors["delete pods ns/b1"] = [ConflictError("changed", status=409)]
    await scene.write(release("b1"), release("b2"))
    scene.caches.catch_up()
    assert await scene.write(apply()) == [APPLY], "nobody rests for it"


async def test_writes_that_fail_together_are_one_failure_to_rest_from() -> None:
    """Six refused writes of one batch doubled the rest six times, and a pool stood still for half a minute."""

    async def rest_after(count: int) -> float:
        scene = Scene()
        names = [f"b{i}" for i in range(count)]
        scene.client.errors |= {f"patch pods ns/{name}": [ServerError("no", status=500)] for name in names}
        await scene.write(*(mark(name) for name in names))
        began = asyncio.get_running_loop().time()
        while not await scene.write(apply()):
            await asyncio.sleep(0.5)
        return asyncio.get_running_loop().time() - began

    assert await rest_after(6) == await rest_after(1)


async def test_dry_run_writes_nothing_at_all() -> None:
    scene = Scene(is_dry_run=True)
    await scene.write(apply(), release("b1"))
    scene.writes.start(Decision((), (apply("left"),)))
    await scene.writes.drain(10)
    assert scene.client.calls == []


async def test_dry_run_of_one_pool_still_tells_its_user() -> None:
    scene = Scene()
    await scene.write(apply(), is_dry_run=True)
    assert set(scene.client.calls) == {"apply balloonpools/status ns/gpu", "create events ns Warming"}


async def test_what_may_not_be_swept_up_keeps_nothing_else() -> None:
    scene = Scene()
    scene.client.errors = {"delete deployments ns/old": [ForbiddenError("the webhook keeps it")]}
    left = [
        *(
            DeleteObject(ObjectKey("ns", name), "apps/v1", "Deployment", f"u-{name}", "7", WHY)
            for name in ("old", "new")
        ),
        AnnotateNode("n1", "7", {"held-by": None}, WHY),
    ]
    scene.writes.start(Decision(sweeps=tuple(left)))
    await scene.writes.drain(1000)
    assert sorted(scene.client.writes) == ["delete deployments ns/new", "delete deployments ns/old", "patch nodes /n1"]


async def test_a_status_of_what_was_before_an_edit_does_not_say_that_the_edit_is_done() -> None:
    """The apply waits for a webhook, and meanwhile somebody gives the pool another size."""
    scene = Scene()
    scene.client.delays_s[APPLY] = 3.0
    scene.writes.start(Decision((replace(decision(apply()), status=PoolStatus(observed_generation=1)),)))
    await asyncio.sleep(1.0)
    pool = scene.stored[GPU]
    scene.stored[GPU] = msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, generation=2))
    await scene.writes.drain(10)
    (told,) = [body for call, body in zip(scene.client.calls, scene.client.bodies, strict=True) if "/status" in call]
    assert told["status"]["observedGeneration"] == 1


async def test_sweeps_are_written_like_a_pool_of_their_own() -> None:
    scene = Scene()
    gone = DeleteObject(ObjectKey("ns", "old"), "apps/v1", "Deployment", "u1", "5", WHY)
    scene.writes.start(Decision((), (gone,)))
    await scene.writes.drain(10)
    assert scene.client.calls == ["delete deployments ns/old"]


async def test_drain_lets_writes_finish_but_not_for_ever() -> None:
    scene = Scene()
    scene.client.delays_s[APPLY] = 1.0
    scene.start(apply())
    await scene.writes.drain(3)
    assert scene.counted("apply", "done") == 1
    scene.caches.catch_up()
    scene.client.delays_s[APPLY] = 100.0
    scene.start(apply())
    await scene.writes.drain(3)
    assert not scene.writes.is_busy
    assert scene.counted("apply", "done") == 1


@pytest.mark.whole
async def test_the_same_again_is_applied_ever_more_rarely() -> None:
    """A webhook that rewrites the image was answered with an apply at every tick for ever."""
    scene = Scene()
    for _ in range(3600):
        scene.caches.catch_up()
        await scene.write(apply())
        await asyncio.sleep(1)
    assert 8 <= scene.client.writes.count(APPLY) <= 14
    changed = ApplyObject(apply().key, "apps/v1", "Deployment", {"kind": "Deployment", "spec": 1}, 4, WHY)
    assert await scene.write(changed) == [APPLY], "other words are not kept waiting"


async def test_what_gives_nodes_back_is_not_kept_waiting_for_repeats() -> None:
    scene = Scene()
    for _ in range(4):
        scene.caches.catch_up()
        await scene.write(apply())
    assert await scene.write(apply(), release("b1")) == [APPLY, "delete pods ns/b1"]


async def test_pool_does_not_wait_for_ever_to_see_its_own_write() -> None:
    scene = Scene()
    await scene.write(apply())
    await asyncio.sleep(LATE_S)
    assert scene.start(apply()) == {GPU}, "given up now"
    assert await scene.write(apply()) == [APPLY]


async def test_figures_are_told_every_15_to_30_seconds_but_reasons_at_once() -> None:
    scene = Scene()
    for warm in range(360):
        scene.writes.start(Decision((PoolDecision(GPU, WHY, PoolStatus(warm=warm)),)))
        await asyncio.sleep(0.5)
        scene.stored[GPU] = _as_told(scene)
    told = scene.client.calls.count("apply balloonpools/status ns/gpu")
    assert 180 / 30 <= told <= 180 / 15 + 1
    steady = because(Reason.STEADY, warm=9, target=9)
    scene.writes.start(Decision((PoolDecision(GPU, steady, PoolStatus(warm=9)),)))
    await scene.writes.drain(1)
    assert scene.client.calls.count("apply balloonpools/status ns/gpu") == told + 1


def _as_told(scene: Scene) -> BalloonPool:
    told = [body for body in scene.client.bodies if "status" in body]
    status = msgspec.convert(told[-1]["status"], PoolStatus)
    metadata = Metadata("gpu", "ns", resource_version=str(scene.client.version))
    return BalloonPool(metadata, scene.stored[GPU].spec, status)


CONFLICT = because(Reason.CONFLICT, nodes=2, other="pool old")


async def test_a_note_of_one_decision_is_told_although_no_status_is_due() -> None:
    """What it was before: its Event waited for the next figures, and was lost if the note was gone by then."""
    scene = Scene()
    await scene.write()
    scene.stored[GPU] = _as_told(scene)
    scene.client.calls.clear()
    await scene.write(notes=(CONFLICT,))
    await scene.write()
    assert scene.client.calls == ["create events ns Conflict"]


async def test_a_note_is_told_although_its_decision_is_passed_over() -> None:
    scene = Scene()
    scene.client.delays_s[APPLY] = 5.0
    scene.start(apply())
    await asyncio.sleep(1)
    scene.start(notes=(CONFLICT,))
    await asyncio.sleep(1)
    scene.start()
    await scene.writes.drain(10)
    assert "create events ns Conflict" in scene.client.calls


async def test_an_event_that_gets_no_answer_is_written_again_a_minute_later() -> None:
    scene = Scene()
    event = "create events ns Conflict"
    scene.client.errors[event] = [AttemptTimeoutError("no answer")]
    await scene.write(notes=(CONFLICT,))
    for _ in range(13):
        await asyncio.sleep(10)
        await scene.write()
    assert scene.client.calls.count(event) == 2


async def test_an_event_that_is_refused_is_not_written_again() -> None:
    scene = Scene()
    event = "create events ns Conflict"
    scene.client.errors[event] = [ForbiddenError("no right")]
    await scene.write(notes=(CONFLICT,))
    for _ in range(13):
        await asyncio.sleep(10)
        await scene.write()
    assert scene.client.calls.count(event) == 1
