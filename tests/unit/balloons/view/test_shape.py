"""Machine shapes, and the size of the balloon that holds one whole."""

from typing import Any

from balloons.api.pool import Shape as PoolShape
from balloons.api.pool import ShapeType
from balloons.view.load import EMPTY, NodeLoad, load_of
from balloons.view.shape import Shape, are_alike, balloon_requests, explicit_shape, shapes_of
from tests.world import a_node, a_pool, daemon, work
from throttler.kube.node import INSTANCE_TYPE_LABEL, Node
from throttler.kube.resources import Resources, parse_resources

SLACK = {"cpu": "200m", "memory": "256Mi"}


def sized(name: str, instance_type: str = "", **amounts: str) -> Node:
    devices = {key.replace("__", "/").replace("_", "."): text for key, text in amounts.items() if "__" in key}
    plain = {key: text for key, text in amounts.items() if "__" not in key}
    allocatable = parse_resources({"cpu": "16", "memory": "64Gi", "pods": "110", **plain, **devices})
    labels = {INSTANCE_TYPE_LABEL: instance_type} if instance_type else {}
    return a_node(name, labels=labels, allocatable=allocatable)


def unloaded(*nodes: Node) -> list[tuple[Node, NodeLoad]]:
    return [(node, EMPTY) for node in nodes]


def requests(shape: Shape, in_use: Resources | None = None, **shape_spec: Any) -> Resources | None:
    return balloon_requests(a_pool(shape=PoolShape(**shape_spec)), shape, SLACK, in_use)


def test_a_balloon_takes_what_daemonsets_and_slack_leave() -> None:
    shapes = shapes_of([(sized("n"), load_of([daemon("d", "n", cpu="500m")], -10))])
    assert requests(shapes.by_name["16cpu-64gi"]) == {
        "cpu": 15_300,
        "memory": (64 * 1024 - 1024 - 256) * 1024**2 * 1000,
    }


def test_the_smallest_room_of_a_shape_counts() -> None:
    shapes = shapes_of(unloaded(sized("a", "m5", cpu="16"), sized("b", "m5", cpu="15900m")))
    assert shapes.by_name["m5"].room["cpu"] == 15_900


def test_two_machine_types_are_two_shapes_largest_group_first() -> None:
    shapes = shapes_of(unloaded(sized("a", "m5"), sized("b", "g5"), sized("c", "g5")))
    assert list(shapes.by_name) == ["g5", "m5"]
    assert shapes.main == "g5"


def test_gpus_are_requested() -> None:
    shapes = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8")))
    found = requests(shapes.by_name["g5"])
    assert found is not None
    assert found["nvidia.com/gpu"] == 8_000


def test_a_free_node_whose_device_plugin_is_not_up_is_unfinished() -> None:
    shapes = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"), sized("b", "g5")))
    assert shapes.unfinished == {"b"}
    assert shapes.by_name["g5"].room["nvidia.com/gpu"] == 8_000


def test_a_node_in_use_is_never_unfinished() -> None:
    busy = (sized("b", "g5", nvidia_com__gpu="0"), load_of([work("w", "b")], -10))
    assert not shapes_of([*unloaded(sized("a", "g5", nvidia_com__gpu="8")), busy]).unfinished


def test_the_odd_device_of_one_node_does_not_empty_the_others() -> None:
    others = [(sized(f"n{i}", "m5"), load_of([work(f"w{i}", f"n{i}")], -10)) for i in range(3)]
    shapes = shapes_of([*others, *unloaded(sized("odd", "m5", acme_com__dongle="1"), sized("free", "m5"))])
    assert not shapes.unfinished
    assert "acme.com/dongle" not in shapes.by_name["m5"].room


def test_two_nodes_with_half_of_the_devices_each_are_both_unfinished() -> None:
    half = unloaded(sized("a", "p5", nvidia_com__gpu="8"), sized("b", "p5", aws_com__efa="4"))
    shapes = shapes_of(half)
    assert shapes.unfinished == {"a", "b"}
    assert requests(shapes.by_name["p5"]) is None


def test_a_request_in_use_is_kept_while_it_fits_and_holds() -> None:
    shape = shapes_of(unloaded(sized("a"))).by_name["16cpu-64gi"]
    close = parse_resources({"cpu": "15500m", "memory": "62Gi"})
    far = parse_resources({"cpu": "8", "memory": "62Gi"})
    beyond = parse_resources({"cpu": "16500m", "memory": "62Gi"})
    assert requests(shape, close) == close
    assert requests(shape, far) != far
    assert requests(shape, beyond) != beyond


def test_a_request_without_the_gpu_is_not_kept() -> None:
    shape = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"))).by_name["g5"]
    assert requests(shape, parse_resources({"cpu": "15800m", "memory": "63Gi"})) == requests(shape)


def test_nothing_is_left_on_a_node_full_of_daemons() -> None:
    shapes = shapes_of([(sized("n", cpu="600m"), load_of([daemon("d", "n", cpu="500m")], -10))])
    assert requests(next(iter(shapes.by_name.values()))) is None


def test_the_users_slack_replaces_the_default() -> None:
    shape = shapes_of(unloaded(sized("a"))).by_name["16cpu-64gi"]
    found = requests(shape, slack={"cpu": "2"})
    assert found is not None
    assert found["cpu"] == 14_000


def test_explicit_requests_are_taken_as_given() -> None:
    shape = explicit_shape(unloaded(sized("a"))).by_name["explicit"]
    assert requests(shape, type=ShapeType.EXPLICIT, resources={"cpu": "2"}) == {"cpu": 2_000}


def test_a_remembered_shape_keeps_its_requests() -> None:
    shape = Shape("m5", "m5", {}, 0, is_remembered=True)
    assert requests(shape, parse_resources({"cpu": "15"})) == {"cpu": 15_000}


def test_shapes_without_instance_types_are_alike() -> None:
    assert are_alike(shapes_of(unloaded(sized("a"), sized("b", cpu="32"))).by_name.values())
    assert not are_alike(shapes_of(unloaded(sized("a", "m5"), sized("b", "m6", cpu="32"))).by_name.values())


def test_a_slack_that_the_user_raises_is_given() -> None:
    """It was ignored while the old request still covered nine tenths of the new one."""
    shape = shapes_of(unloaded(sized("a", "m5"))).by_name["m5"]
    before = requests(shape)
    after = requests(shape, before, slack={"cpu": "1500m"})
    assert after is not None
    assert after["cpu"] == 14_500


def test_gpus_that_vanish_from_all_nodes_at_once_roll_no_balloon() -> None:
    """A restart of the device plugin everywhere took the GPU out of the request, and replaced every balloon."""
    with_gpu = requests(shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"))).by_name["g5"])
    without = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="0"))).by_name["g5"]
    assert requests(without, with_gpu) == with_gpu
