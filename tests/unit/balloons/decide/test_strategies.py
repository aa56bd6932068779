"""Annotations and buffers instead of balloons, and what is swept up in the end."""

from typing import Any

import pytest
from msgspec.structs import replace

from balloons.api.pool import Mode, NotWarm, NotWarmTaint, PodTemplate, PoolNodes, SecretName, Strategy
from balloons.balloon_manifest import ImageSettings
from balloons.decide.decide import decide
from balloons.decide.decision_and_reasons import (
    Action,
    AnnotateNode,
    ApplyObject,
    Decision,
    DeleteObject,
    Memory,
    Reason,
    Unseen,
)
from balloons.decide.pool_view_and_schedule import pool_of
from balloons.decide.strategies import lowered_unseen
from balloons.view.index_and_snapshot import Deployment, DeploymentStatus, StoredObject
from tests.world import NOW, POOL_KEY, SIZE, World, a_pool, later, nodes, work
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import POOL_LABEL, SHAPE_LABEL
from throttler.kube.quantities_and_durations import parse_resources
from throttler.kube.reasons_and_events import because
from throttler.kube.selectors import LabelSelector
from throttler.kube.taints import Taint, Toleration

SETTINGS = ImageSettings()
KEEP = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
HELD_BY = "kube-balloons.github.io/held-by"
OWN = ObjectKey("team-a", "gpu-16cpu-64gi")
BUFFERS: dict[str, Any] = {"buffer_version": "autoscaling.x-k8s.io/v1beta1"}


OLDER = a_pool("older", created_s=1.0)


def actions(decided: Decision) -> list[Action]:
    return [*(action for decision in decided.pools for action in decision.actions), *decided.sweeps]


def step(world: World, memory: Memory, seconds: float = 0.0, **changes: Any) -> tuple[Decision, Memory]:
    decided, memory = decide(world.snapshot(**changes), memory, SETTINGS, later(NOW, seconds))
    world.apply(decided)
    world.settle()
    return decided, memory


def annotated(world: World) -> set[str]:
    return {name for name, node in world.nodes.items() if HELD_BY in node.annotations}


def annotating(count: int, **spec: Any) -> World:
    return World.of(a_pool(strategy=Strategy.ANNOTATE, **spec), nodes=nodes(count))


def test_idle_nodes_are_annotated_and_then_left_alone() -> None:
    world = annotating(3)
    _, memory = step(world, Memory())
    assert annotated(world) == set(world.nodes)
    assert not actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0])


def test_the_users_own_annotation_is_enough_and_stays() -> None:
    world = annotating(2)
    world.change_node("n000", annotations={KEEP: "true"})
    step(world, Memory())
    world.change_pool(size=0)
    step(world, Memory())
    assert world.nodes["n000"].annotations == {KEEP: "true"}
    assert world.nodes["n001"].annotations == {}


def test_a_busy_node_is_let_go() -> None:
    world = annotating(2)
    _, memory = step(world, Memory())
    world.add(work("w", "n000"))
    step(world, memory)
    assert annotated(world) == {"n001"}


def test_a_node_that_leaves_the_pool_is_let_go() -> None:
    """By another label, or by another selector: nobody else would ever take the annotations off."""
    world = annotating(4)
    _, memory = step(world, Memory())
    relabelled = {**world.nodes["n000"].labels, "pool": "web"}
    world.change_node("n000", labels=relabelled)
    _, memory = step(world, memory, 1)
    assert annotated(world) == {"n001", "n002", "n003"}
    world.change_pool(nodes=PoolNodes(LabelSelector({"pool": "web"})))
    _, memory = step(world, memory, 2)
    assert annotated(world) == {"n000"}
    assert not actions(decide(world.snapshot(), memory, SETTINGS, NOW)[0])


def test_an_older_pool_takes_a_node_over_from_one_that_annotates() -> None:
    world = annotating(2, created_s=9.0)
    _, memory = step(world, Memory())
    world.pools[OLDER.key] = OLDER
    for seconds in (1, 12, 24):
        _, memory = step(world, memory, seconds)
    assert annotated(world) == set()
    assert {balloon.node for balloon in world.balloons()} == {"n000", "n001"}


@pytest.mark.parametrize(
    ("size", "kept"), [(0, set()), (1, {"n002"}), (2, {"n001", "n002"}), (None, {"n000", "n001", "n002"})]
)
def test_a_node_that_cannot_be_had_is_kept_while_it_is_wanted(size: int | None, kept: set[str]) -> None:
    """An autoscaler would remove it; for ever kept, a broken node costs money for nothing."""
    world = annotating(3)
    _, memory = step(world, Memory())
    world.change_node("n000", conditions=frozenset({("Ready", "False")}), is_ready=False)
    world.change_node("n001", is_cordoned=True)
    _, memory = step(world, memory, 10)
    world.change_pool(size=size)
    step(world, memory, 7200)
    assert annotated(world) == kept


def test_our_annotations_are_mended() -> None:
    world = annotating(1)
    step(world, Memory())
    whole = world.nodes["n000"].annotations
    world.change_node("n000", annotations={key: value for key, value in whole.items() if key != KEEP})
    step(world, Memory())
    assert world.nodes["n000"].annotations == whole


@pytest.mark.parametrize(("count", "left"), [(30, 20), (100, 80)])
def test_fast_ticks_let_no_more_nodes_go(count: int, left: int) -> None:
    world = annotating(count)
    _, memory = step(world, Memory())
    world.change_pool(size=0)
    for second in range(1, 10):
        _, memory = step(world, memory, second)
    assert len(annotated(world)) == left


def buffering() -> World:
    return World.of(a_pool(strategy=Strategy.CAPACITY_BUFFER, mode=Mode.HEADROOM, size=5, max_size=9), nodes=nodes(3))


def test_a_buffer_and_its_template_hold_the_wanted_size() -> None:
    world = buffering()
    decided, _ = step(world, Memory(), **BUFFERS)
    assert [(a.kind, a.replicas) for a in actions(decided) if isinstance(a, ApplyObject)] == [
        ("PodTemplate", 5),
        ("CapacityBuffer", 5),
    ]
    assert {action.because.reason for action in actions(decided)} == {Reason.GROWING}
    assert not actions(decide(world.snapshot(**BUFFERS), Memory(), SETTINGS, NOW)[0])


def the_autoscaler_fills(world: World) -> None:
    """A node for each unit that finds none free."""
    taken = {pod.node for pod in world.pods.values()}
    free = sum(name not in taken for name in world.nodes)
    world.nodes |= nodes(max(0, sum(b.spec["replicas"] for b in world.buffers.values()) - free), f"x{len(world.nodes)}")


def work_takes_every_node(world: World) -> None:
    world.add(*(work(f"job-{name}", name) for name in world.nodes))


def test_a_buffer_of_a_paused_pool_does_not_outgrow_max_size() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    the_autoscaler_fills(world)
    world.change_pool(paused=True)
    sizes = []
    for round_ in range(4):
        decided, memory = step(world, memory, 10.0 * round_, **BUFFERS)
        assert decided.pools[0].because.reason is Reason.PAUSED
        sizes.append([buffer.spec["replicas"] for buffer in world.buffers.values()])
        work_takes_every_node(world)
        _, memory = step(world, memory, 10.0 * round_ + 5.0, **BUFFERS)
        the_autoscaler_fills(world)
        assert len(world.nodes) <= 9
    assert sizes == [[5], [4], [0], [0]]
    assert {action.because.reason for action in world.log[2:]} == {Reason.PAUSED}
    world.change_pool(paused=False)
    world.pods = {}
    step(world, memory, 60.0, **BUFFERS)
    assert [buffer.spec for buffer in world.buffers.values()] == [
        {"podTemplateRef": {"name": "gpu-16cpu-64gi"}, "replicas": 5}
    ]


def test_a_buffer_of_a_paused_pool_keeps_what_is_free_for_it() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    the_autoscaler_fills(world)
    world.change_pool(paused=True, max_size=2, size=1)
    world.change_node("n000", is_ready=False, created_s=NOW.wall.timestamp())
    decided, _ = step(world, memory, 10.0, **BUFFERS)
    assert not actions(decided)


@pytest.mark.parametrize(("busy", "joining", "left"), [(4, 5, 5), (6, 3, 3), (6, 0, 3), (9, 0, 0)])
def test_a_buffer_of_a_paused_pool_keeps_what_joins_for_it_without_its_gpus_yet(
    busy: int, joining: int, left: int
) -> None:
    world = buffering()
    with_gpus = {"allocatable": SIZE | parse_resources({"nvidia.com/gpu": "8"}), "instance_type": "paper-gpu"}
    world.nodes = nodes(busy, **with_gpus)
    _, memory = step(world, Memory(), **BUFFERS)
    work_takes_every_node(world)
    # As a kubelet registers before its device plugin runs.
    world.nodes |= nodes(joining, "new", is_ready=False, instance_type="paper-gpu", created_s=NOW.wall.timestamp())
    world.change_pool(paused=True)
    step(world, memory, 10.0, **BUFFERS)
    assert [buffer.spec["replicas"] for buffer in world.buffers.values()] == [left]


BLIND = {**BUFFERS, "missing": ("pods",)}


def test_a_buffer_whose_pods_nobody_sees_is_lowered_by_each_node_beyond_max_size() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    the_autoscaler_fills(world)
    assert len(world.nodes) == 5
    sizes, counts = [], []
    for _ in range(3):
        decided, memory = step(world, memory, 20.0, **BLIND)
        assert decided.pools[0].because.reason is Reason.INCOMPLETE_VIEW
        work_takes_every_node(world)
        the_autoscaler_fills(world)
        decided, memory = step(world, memory, 25.0, **BLIND)
        sizes += [buffer.spec["replicas"] for buffer in world.buffers.values()]
        counts.append(len(world.nodes))
    # Nine are meant. Five that were free could all be ordered anew at once, and no more after that.
    assert (sizes, counts) == ([4, 0, 0], [10, 14, 14])
    _, memory = step(world, memory, 60.0, **BUFFERS)
    assert not memory.unseen_buffers


def test_a_buffer_whose_pods_nobody_sees_is_never_raised_and_keeps_what_nodes_beyond_max_size_were_free() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    world.nodes |= nodes(9, "idle")
    for gone in ("idle000", "idle001"):
        _, memory = step(world, memory, 20.0, **BLIND)
        del world.nodes[gone]
    world.change_pool(size=9)
    decided, _ = step(world, memory, 40.0, **BLIND)
    assert actions(decided) == []


def test_nothing_of_a_buffer_changes_while_nobody_sees_the_nodes_either() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    _, memory = step(world, memory, 20.0, **BLIND)
    world.nodes |= nodes(12, "new")
    decided, memory = step(world, memory, 25.0, **BUFFERS, missing=("pods", "nodes"))
    assert actions(decided) == []
    decided, _ = step(world, memory, 30.0, **BLIND)
    assert actions(decided) == [], "what came while nobody looked says nothing of the units"


PREFLIGHT = Taint("preflight", "NoSchedule")
STARTUP = Taint("startup-taint.cluster-autoscaler.kubernetes.io/preflight", "NoSchedule")


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ({"taints": (PREFLIGHT,)}, 0),
        ({"taints": (PREFLIGHT,), "is_uninitialized": True}, 3),
        ({"taints": (STARTUP,)}, 3),
    ],
    ids=["nobody waits for it", "Karpenter waits for it", "cluster-autoscaler waits for it"],
)
def test_a_buffer_of_a_paused_pool_keeps_what_is_in_preflight_for_it(changes: dict[str, Any], left: int) -> None:
    """Where the autoscaler does not know that the node will be free, it buys another one beside it."""
    taints = tuple(NotWarmTaint(taint.key) for taint in (PREFLIGHT, STARTUP))
    world = buffering()
    world.nodes = nodes(6)
    world.change_pool(nodes=PoolNodes(LabelSelector({"pool": "gpu"}), not_warm=NotWarm(taints)))
    _, memory = step(world, Memory(), **BUFFERS)
    work_takes_every_node(world)
    world.nodes |= nodes(3, "new", **changes)
    world.change_pool(paused=True)
    decided, _ = step(world, memory, 10.0, **BUFFERS)
    assert [buffer.spec["replicas"] for buffer in world.buffers.values()] == [left]
    assert decided.pools[0].status.nodes == 9


def test_without_buffers_on_the_server_nothing_is_written() -> None:
    decided, _ = step(buffering(), Memory())
    assert (decided.pools[0].because.reason, actions(decided)) == (Reason.NO_BUFFERS, [])


FULL = PodTemplate(
    labels={"team": "research"},
    annotations={"example.com/scan": "off"},
    image_pull_secrets=(SecretName("registry"),),
    runtime_class_name="nvidia",
)
TOLERANT = PoolNodes(LabelSelector({"pool": "gpu"}), tolerations=(Toleration(key="gpu", operator="Exists"),))


@pytest.mark.parametrize("strategy", [Strategy.BALLOON, Strategy.CAPACITY_BUFFER])
@pytest.mark.parametrize(
    "less",
    [
        {"template": replace(FULL, labels={})},
        {"template": replace(FULL, annotations={})},
        {"template": replace(FULL, image_pull_secrets=())},
        {"template": replace(FULL, runtime_class_name="")},
        {"nodes": PoolNodes(LabelSelector({"pool": "gpu"}))},
        {"pre_pull": ()},
    ],
    ids=["labels", "annotations", "pull secrets", "runtime class", "tolerations", "prePull"],
)
def test_what_a_pool_no_longer_asks_for_leaves_its_balloons(strategy: Strategy, less: dict[str, Any]) -> None:
    size: dict[str, Any] = {"mode": Mode.HEADROOM, "size": 3, "max_size": 9, "strategy": strategy}
    full: dict[str, Any] = {"template": FULL, "nodes": TOLERANT, "pre_pull": ("registry.example/model:1",)}
    settings = ImageSettings(allowed_images=("registry.example/",))
    world = World.of(a_pool(**size, **full), nodes=nodes(3))

    def applied() -> list[str]:
        decided, _ = decide(world.snapshot(**BUFFERS), Memory(), settings, NOW)
        world.apply(decided)
        world.settle()
        return [action.kind for action in actions(decided) if isinstance(action, ApplyObject)]

    kind = "Deployment" if strategy is Strategy.BALLOON else "PodTemplate"
    assert kind in applied()
    assert applied() == []
    world.change_pool(**less)
    assert applied() == [kind]
    assert applied() == []


@pytest.mark.parametrize("broken", [{}, {"replicas": 0, "template": {"spec": {}}}], ids=["whole", "broken"])
def test_a_deployment_of_a_vanished_shape_goes_at_once(broken: dict[str, Any]) -> None:
    world = World.of(a_pool(), nodes={**typed("n", "p5", 2), **typed("m", "m5", 1)})
    _, memory = step(world, Memory())
    world.remove_node("m000")
    key = ObjectKey("team-a", "gpu-m5")
    stored = world.deployments[key]
    world.deployments[key] = replace(stored, spec=stored.spec | broken)
    (gone,) = actions(decide(world.snapshot(), memory, SETTINGS, later(NOW, 10.0))[0])
    assert (type(gone), gone.key) == (DeleteObject, key)


def test_a_buffer_of_a_vanished_shape_goes() -> None:
    world = buffering()
    step(world, Memory(), **BUFFERS)
    world.nodes = nodes(3, "m", labels={"node.kubernetes.io/instance-type": "m5"}, instance_type="m5")
    step(world, Memory(), **BUFFERS)
    assert [key.name for key in world.buffers] == [key.name for key in world.templates] == ["gpu-m5"]


def test_buffers_stay_while_no_shape_is_known_at_all() -> None:
    world = buffering()
    step(world, Memory(), **BUFFERS)
    world.nodes = {}
    step(world, Memory(), **BUFFERS)
    assert len(world.buffers) == len(world.templates) == 1


def pools_with_buffers(count: int) -> tuple[World, Memory]:
    """So many pools with a node, a buffer and a template each."""
    selectors = {f"p{number:04}": LabelSelector({"pool": f"p{number:04}"}) for number in range(count)}
    spec: dict[str, Any] = {"strategy": Strategy.CAPACITY_BUFFER, "mode": Mode.HEADROOM, "size": 5, "max_size": 9}
    pools = [a_pool(name, nodes=PoolNodes(selector), **spec) for name, selector in selectors.items()]
    own = {name: nodes(1, f"{name}-", labels={"pool": name}) for name in selectors}
    world = World.of(*pools, nodes={name: node for some in own.values() for name, node in some.items()})
    _, memory = step(world, Memory(), **BUFFERS)
    assert len(world.buffers) == len(world.templates) == count
    return world, memory


@pytest.mark.parametrize("missing", [(), ("pods",)])
@pytest.mark.parametrize("paused", [False, True])
def test_no_pool_looks_through_the_buffers_of_all(
    monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...], *, paused: bool
) -> None:
    """A thousand pools took seconds at each look."""
    world, memory = pools_with_buffers(20)
    world.pools = {key: replace(pool, spec=replace(pool.spec, paused=paused)) for key, pool in world.pools.items()}
    looks: list[Metadata] = []

    def counted(metadata: Metadata) -> ObjectKey:
        looks.append(metadata)
        return pool_of(metadata)

    monkeypatch.setattr("balloons.decide.strategies.pool_of", counted)
    decide(world.snapshot(**BUFFERS, missing=missing), memory, SETTINGS, NOW)
    assert len(looks) == 40, "each object is sorted to its pool once"


def test_a_buffer_that_is_going_is_not_deleted_again() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    world.nodes = nodes(3, "m", labels={"node.kubernetes.io/instance-type": "m5"}, instance_type="m5")
    going = replace(next(iter(world.buffers.values())).metadata, deletion_timestamp="2026-11-21T12:00:00Z")
    objects = {
        kind: {key: replace(stored, metadata=going) for key, stored in getattr(world, kind).items()}
        for kind in ("buffers", "templates")
    }
    seen = world.snapshot(**objects, **BUFFERS)
    assert not any(isinstance(action, DeleteObject) for action in actions(decide(seen, memory, SETTINGS, NOW)[0]))


def test_balloons_outlive_their_pool_for_ten_minutes() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    del world.pools[POOL_KEY]
    _, memory = step(world, memory, 1)
    decided, memory = step(world, memory, 600)
    assert not actions(decided)
    decided, _ = step(world, memory, 601)
    assert [type(action) for action in actions(decided)] == [DeleteObject]
    assert not world.balloons()


def test_a_pool_that_returns_in_time_finds_its_balloons() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    pool = world.pools.pop(POOL_KEY)
    _, memory = step(world, memory, 1)
    world.pools[POOL_KEY] = pool
    decided, memory = step(world, memory, 700)
    assert (actions(decided), dict(memory.gone_since_s)) == ([], {})


def test_an_invalid_pool_is_not_gone() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    del world.pools[POOL_KEY]
    for second in (1, 2_000):
        decided, memory = step(world, memory, second, invalid={POOL_KEY: "bad"})
        assert not decided.sweeps


def test_nodes_and_buffers_of_a_pool_that_is_gone_are_let_go() -> None:
    for world, changes in ((annotating(2), {}), (buffering(), BUFFERS)):
        _, memory = step(world, Memory(), **changes)
        del world.pools[POOL_KEY]
        _, memory = step(world, memory, 1, **changes)
        step(world, memory, 601, **changes)
        assert not annotated(world)
        assert not world.buffers
        assert not world.templates


def test_a_former_strategys_balloons_go_after_ten_minutes() -> None:
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    world.change_pool(strategy=Strategy.ANNOTATE)
    decided, memory = step(world, memory, 1)
    assert all(isinstance(action, AnnotateNode) for action in actions(decided))
    decided, _ = step(world, memory, 601)
    assert decided.sweeps[0].because.reason is Reason.OTHER_STRATEGY
    assert not world.deployments


def labelled(*labels: str) -> Metadata:
    """Somebody's object in the pool's namespace that wears labels of ours."""
    values = {POOL_LABEL: "gpu", SHAPE_LABEL: "16cpu-64gi"}
    return Metadata(
        "training", "team-a", uid="theirs", resource_version="7", labels={key: values[key] for key in labels}
    )


@pytest.mark.parametrize("labels", [(POOL_LABEL,), (POOL_LABEL, SHAPE_LABEL)], ids=["pool", "pool and shape"])
@pytest.mark.parametrize("paused", [False, True])
def test_work_that_wears_a_pools_label_is_left_alone(labels: tuple[str, ...], paused: bool) -> None:
    """As somebody does to say for which pool's nodes the work is meant."""
    theirs = Deployment(labelled(*labels), {"replicas": 3, "template": {"spec": {"containers": []}}})
    for mode in ({}, {"mode": Mode.HEADROOM, "size": 3, "max_size": 3}):
        world = World.of(a_pool(**mode), nodes=nodes(3))
        _, memory = step(world, Memory())
        world.change_pool(paused=paused)
        stored = {**world.deployments, ObjectKey("team-a", "training"): theirs}
        for seconds in (10.0, 1_000.0):
            decided, memory = decide(world.snapshot(deployments=stored), memory, SETTINGS, later(NOW, seconds))
            assert actions(decided) == []


@pytest.mark.parametrize("is_first", [False, True], ids=["seen last", "seen first"])
def test_a_copy_of_a_balloon_deployment_is_left_alone_and_named(is_first: bool) -> None:
    """It has all labels of ours, and the same shape; its name is another."""
    world = World.of(a_pool(), nodes=nodes(3))
    _, memory = step(world, Memory())
    ours = world.deployments[OWN]
    metadata = replace(ours.metadata, name="gpu-by-hand", uid="uid-copy")
    copy = {ObjectKey("team-a", "gpu-by-hand"): replace(ours, metadata=metadata, spec={**ours.spec, "replicas": 9})}
    seen = world.snapshot(deployments={**copy, **world.deployments} if is_first else {**world.deployments, **copy})
    decided, memory = decide(seen, memory, SETTINGS, NOW)
    assert actions(decided) == []
    assert [(note.reason, note.sentence) for note in decided.pools[0].notes] == [
        (
            Reason.COPIED,
            "1 Deployment wears the labels of this pool's balloons and is none of its own, so its pods hold nothing "
            "for it: gpu-by-hand",
        )
    ]
    gone = world.snapshot(deployments={**copy, **world.deployments}, pools={})
    for seconds in (10.0, 1_000.0):
        decided, memory = decide(gone, memory, SETTINGS, later(NOW, seconds))
    assert [action.key for action in actions(decided) if isinstance(action, DeleteObject)] == [OWN]


def test_copies_of_a_buffer_and_its_template_are_left_alone() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)

    def copied(found: dict[ObjectKey, StoredObject]) -> dict[ObjectKey, StoredObject]:
        (ours,) = found.values()
        named = replace(ours, metadata=replace(ours.metadata, name="by-hand"), spec={**ours.spec, "replicas": 9})
        return {ObjectKey("team-a", "by-hand"): named, **found}

    seen = world.snapshot(buffers=copied(world.buffers), templates=copied(world.templates), **BUFFERS)
    assert actions(decide(seen, memory, SETTINGS, NOW)[0]) == []


def test_a_buffer_and_a_template_that_wear_a_pools_label_are_left_alone() -> None:
    world = buffering()
    _, memory = step(world, Memory(), **BUFFERS)
    theirs = {ObjectKey("team-a", "training"): StoredObject(labelled(POOL_LABEL), {"replicas": 30})}
    for paused in (False, True):
        world.change_pool(paused=paused)
        seen = world.snapshot(buffers={**world.buffers, **theirs}, templates={**world.templates, **theirs}, **BUFFERS)
        assert actions(decide(seen, memory, SETTINGS, later(NOW, 1_000.0))[0]) == []


def test_a_deployment_that_merely_carries_the_label_is_not_ours() -> None:
    world = World.of(nodes=nodes(1))
    step(world, Memory())
    step(mine := World.of(a_pool(), nodes=nodes(1)), Memory())
    stored = next(iter(mine.deployments.values()))
    stored.metadata.labels.pop("app.kubernetes.io/managed-by")
    world.deployments[stored.key] = stored
    _, memory = step(world, Memory(), 1)
    assert not step(world, memory, 5_000)[0].sweeps


def a_deployment(replicas: int, ready: int, *, rolling: bool = False) -> Deployment:
    metadata = Metadata(name="warm-gpu", namespace="team-a", resource_version="1", uid="u")
    status = DeploymentStatus(replicas=replicas, ready_replicas=ready, updated_replicas=0 if rolling else replicas)
    return Deployment(metadata, {"replicas": replicas, "template": {}}, status)


@pytest.mark.parametrize(
    ("before", "stored", "away", "after", "replicas"),
    [
        (None, a_deployment(10, 7), 0, Unseen(7, 3), None),
        (None, a_deployment(10, 7), 2, Unseen(9, 1), None),
        (None, a_deployment(10, 7), 5, Unseen(12, 0), None),
        (None, a_deployment(20, 17, rolling=True), 0, Unseen(17, 3, 2), None),
        (Unseen(7, 3), a_deployment(10, 7), 0, Unseen(7, 3), None),
        # One that waited got its node; then none waits for it any more.
        (Unseen(7, 3), a_deployment(10, 8), 0, Unseen(8, 2), None),
        (Unseen(7, 3), a_deployment(10, 11), 0, Unseen(11, 0), None),
        # Work took two nodes: their balloons wait, and go.
        (Unseen(7, 3), a_deployment(10, 5), 0, Unseen(5, 3), 8),
        (Unseen(7, 0), a_deployment(7, 6), 0, Unseen(6, 0), 6),
        # The node of one of them is only not Ready.
        (Unseen(7, 3), a_deployment(10, 5), 1, Unseen(6, 3), 9),
        # A roll-out replaces two at a time, until all are there again.
        (Unseen(20, 0, 2), a_deployment(20, 18, rolling=True), 0, Unseen(20, 0, 2), None),
        (Unseen(20, 0, 2), a_deployment(20, 17, rolling=True), 0, Unseen(19, 0, 2), 19),
        (Unseen(20, 0, 2), a_deployment(20, 20, rolling=True), 0, Unseen(20, 0, 2), None),
        (Unseen(20, 0, 2), a_deployment(20, 19), 0, Unseen(20, 0, 2), None),
        (Unseen(20, 0, 2), a_deployment(20, 20), 0, Unseen(20, 0, 0), None),
        (Unseen(20, 0, 0), a_deployment(20, 19), 0, Unseen(19, 0, 0), 19),
    ],
)
def test_while_pods_are_not_seen_each_that_waited_may_get_one_node_and_no_more(
    before: Unseen | None, stored: Deployment, away: int, after: Unseen, replicas: int | None
) -> None:
    unseen, lower = lowered_unseen(stored, before, away, because(Reason.STEADY, warm=1, target=1))
    assert unseen == after
    assert [action.manifest["spec"]["replicas"] for action in lower] == ([] if replicas is None else [replicas])


@pytest.mark.parametrize(("replicas", "at_once"), [(1, 1), (9, 1), (19, 1), (20, 2), (100, 10)])
def test_a_roll_out_replaces_a_tenth_at_a_time_and_at_least_one(replicas: int, at_once: int) -> None:
    unseen, _ = lowered_unseen(
        a_deployment(replicas, 0, rolling=True), None, 0, because(Reason.STEADY, warm=1, target=1)
    )
    assert unseen.at_once == at_once


DISRUPTED = (Taint("karpenter.sh/disrupted", "NoSchedule"),)


def typed(prefix: str, instance_type: str, count: int) -> dict[str, Node]:
    labels = {"node.kubernetes.io/instance-type": instance_type}
    return nodes(count, prefix, labels=labels, instance_type=instance_type)


def sizes(world: World) -> dict[str, int]:
    return {key.name: stored.replicas for key, stored in world.deployments.items()}


def test_a_shape_whose_last_node_is_leaving_is_lowered_first_and_its_deployment_goes_with_its_balloon() -> None:
    """Its ReplicaSet would make another balloon, and an autoscaler buy a node of that type for it."""
    there = {**typed("n", "p5", 2), **typed("m", "m5", 1)}
    world = World.of(a_pool(), nodes=there)
    _, memory = step(world, Memory())
    assert sizes(world) == {"gpu-p5": 2, "gpu-m5": 1}
    world.change_node("m000", taints=DISRUPTED)
    decided, memory = decide(world.snapshot(), memory, SETTINGS, later(NOW, 10.0))
    lowered = [action for action in actions(decided) if isinstance(action, ApplyObject)]
    assert [(action.key.name, action.replicas) for action in lowered] == [("gpu-m5", 0)]
    assert not [action for action in actions(decided) if isinstance(action, DeleteObject)]
    world.apply(decided)
    world.settle()
    step(world, memory, 20.0)
    assert sizes(world) == {"gpu-p5": 2}


@pytest.mark.parametrize(
    ("ready", "away", "before", "kept", "may_wait"),
    [
        # (ready, may wait) before; the Deployment wants ten.
        (6, 0, None, None, 4),
        (6, 2, None, None, 2),
        (9, 2, None, None, 0),
        (6, 0, (6, 4), None, 4),
        (8, 0, (6, 4), None, 2),
        (5, 0, (6, 4), 9, 4),
        (5, 1, (6, 4), None, 4),
        (5, 0, (6, 1), 6, 1),
        (12, 0, (6, 4), None, 0),
    ],
)
def test_balloons_that_came_to_wait_while_nobody_saw_them_go(
    ready: int, away: int, before: tuple[int, int] | None, kept: int | None, may_wait: int
) -> None:
    """Those that waited already may each get a node once."""
    metadata = Metadata("gpu-16cpu-64gi", "team-a", resource_version="1")
    stored = Deployment(
        metadata, {"replicas": 10}, DeploymentStatus(replicas=10, ready_replicas=ready, updated_replicas=10)
    )
    known = None if before is None else Unseen(before[0], before[1], 0)
    now, lowered = lowered_unseen(stored, known, away, because(Reason.PAUSED))
    assert [action.replicas for action in lowered] == ([] if kept is None else [kept])
    assert (now.ready, now.may_wait) == (ready + away, may_wait)
