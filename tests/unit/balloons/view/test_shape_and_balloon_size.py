"""Machine shapes, and the size of the balloon that holds one whole."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import ShapeSpec, ShapeType
from balloons.decide.census import Rules, take_census
from balloons.view import shape_and_balloon_size as by_kind
from balloons.view.node_load_and_devices import EMPTY, NodeLoad, load_of
from balloons.view.shape_and_balloon_size import (
    ANY_TYPE,
    Shape,
    Shapes,
    any_type_requests,
    are_alike,
    balloon_requests,
    counted_by_nodes,
    explicit_shape,
    is_any_settled,
    remembered_shapes,
    shape_name,
)
from tests.world import a_node, a_pool, daemon, work
from throttler.kube.node import INSTANCE_TYPE_LABEL, Node
from throttler.kube.quantities_and_durations import Resources, parse_resources

RULES = Rules.of(a_pool(), 0.0)


def sized(name: str, instance_type: str = "", **amounts: str) -> Node:
    devices = {key.replace("__", "/").replace("_", "."): text for key, text in amounts.items() if "__" in key}
    plain = {key: text for key, text in amounts.items() if "__" not in key}
    allocatable = parse_resources({"cpu": "16", "memory": "64Gi", "pods": "110", **plain, **devices})
    labels = {INSTANCE_TYPE_LABEL: instance_type} if instance_type else {}
    return a_node(name, labels=labels, allocatable=allocatable)


def unloaded(*nodes: Node) -> list[tuple[Node, NodeLoad]]:
    return [(node, EMPTY) for node in nodes]


def shapes_of(
    seen: Sequence[tuple[Node, NodeLoad]],
    wall_s: float = 0.0,
    devices: Collection[str] = (),
    remembered: Sequence[Shape] = (),
) -> Shapes:
    return by_kind.shapes_of(take_census(seen, RULES).measured, wall_s, devices, remembered)


def requests(shape: Shape, in_use: Resources | None = None, **shape_spec: Any) -> Resources | None:
    return balloon_requests(a_pool(shape=ShapeSpec(**shape_spec)), shape, in_use)


def test_a_balloon_takes_what_daemonsets_and_slack_leave() -> None:
    shapes = shapes_of([(sized("n"), load_of([daemon("d", "n", cpu="500m")], -10))])
    assert requests(shapes.by_name["16cpu-64gi"]) == {
        "cpu": 15_300,
        "memory": (64 * 1024 - 1024 - 256) * 1024**2 * 1000,
    }


def test_one_small_node_does_not_set_the_size() -> None:
    even = [sized(f"n{i}", "m5") for i in range(9)]
    one = shapes_of(unloaded(*even, sized("odd", "m5", cpu="8")))
    assert one.by_name["m5"].room["cpu"] == 16_000


@given(small=st.integers(0, 8), odd_cpu=st.integers(100, 15_999))
def test_an_odd_node_more_changes_no_template(small: int, odd_cpu: int) -> None:
    """Two sizes 200m apart, as hosts of one type differ; then a node of whatever size."""
    even = [sized(f"n{i}", "m5", cpu="15800m" if i < small else "16") for i in range(9)]
    before = requests(shapes_of(unloaded(*even)).by_name["m5"])
    after = shapes_of(unloaded(*even, sized("odd", "m5", cpu=f"{odd_cpu}m"))).by_name["m5"]
    assert small == 1 or requests(after, before) == before


def test_what_a_fifth_of_the_nodes_lacks_sets_the_size() -> None:
    nodes = [sized(f"n{i}", "m5", cpu="12" if i < 2 else "16") for i in range(10)]
    assert shapes_of(unloaded(*nodes)).by_name["m5"].room["cpu"] == 12_000


@pytest.mark.parametrize("priority", [-10, 0], ids=["work", "scavengers"])
def test_nodes_in_use_do_not_set_the_size_while_others_are_idle(priority: int) -> None:
    """Whatever runs there is above balloons of this priority or not."""
    busy = [(sized(f"b{i}", "m5", cpu="8"), load_of([work(f"w{i}", f"b{i}", cpu="4")], priority)) for i in range(5)]
    assert shapes_of([*busy, *unloaded(sized("n", "m5"))]).by_name["m5"].room["cpu"] == 16_000
    assert shapes_of(busy).by_name["m5"].room["cpu"] == 8_000, "where all of them work, those do"
    small = sized("b0", "m5", cpu="8")
    alike = [(msgspec.structs.replace(small, name=f"b{i}"), busy[i][1]) for i in range(5)]
    assert shapes_of([*alike, *unloaded(sized("n", "m5"))]).by_name["m5"].room["cpu"] == 16_000, "nor equal ones"


@pytest.mark.parametrize(
    ("odd", "nodes", "is_set"),
    [(1, 1, True), (1, 2, False), (2, 2, True), (1, 19, False), (2, 19, True), (2, 20, False), (3, 20, True)],
)
def test_one_of_several_nodes_and_up_to_a_tenth_may_be_smaller(odd: int, nodes: int, is_set: bool) -> None:
    seen = unloaded(*(sized(f"n{i}", "m5", cpu="12" if i < odd else "16") for i in range(nodes)))
    assert shapes_of(seen).by_name["m5"].room["cpu"] == (12_000 if is_set else 16_000)


def test_two_machine_types_are_two_shapes_largest_group_first() -> None:
    shapes = shapes_of(unloaded(sized("a", "m5"), sized("b", "g5"), sized("c", "g5")))
    assert list(shapes.by_name) == ["g5", "m5"]
    assert shapes.main == "g5"


def test_gpus_are_requested() -> None:
    shapes = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8")))
    found = requests(shapes.by_name["g5-gpu"])
    assert found is not None
    assert found["nvidia.com/gpu"] == 8_000


def test_a_device_that_the_pool_names_is_asked_for() -> None:
    node = sized("a", "gaudi", habana_ai__gaudi="8", acme_com__dongle="1")
    plain = shapes_of(unloaded(node)).by_name["gaudi"]
    named = shapes_of(unloaded(node), devices=("habana.ai/gaudi",)).by_name["gaudi-gaudi"]
    assert set(plain.room) == {"cpu", "memory"}
    assert named.room["habana.ai/gaudi"] == 8_000
    assert "acme.com/dongle" not in named.room


def test_a_node_whose_device_plugin_is_not_up_is_short_of_devices() -> None:
    shapes = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"), sized("b", "g5")))
    assert shapes.by_name["g5-gpu"].short == {"b": "nvidia.com/gpu"}
    assert shapes.by_name["g5-gpu"].room["nvidia.com/gpu"] == 8_000


@pytest.mark.parametrize("left", ["7", "4", "0"])
def test_the_commonest_count_of_devices_is_asked_for(left: str) -> None:
    even = [sized(f"n{i}", "g5", nvidia_com__gpu="8") for i in range(3)]
    shape = shapes_of(unloaded(*even, sized("odd", "g5", nvidia_com__gpu=left))).by_name["g5-gpu"]
    assert shape.room["nvidia.com/gpu"] == 8_000
    assert shape.short == {"odd": "nvidia.com/gpu"}


def test_plugins_that_are_down_have_no_vote() -> None:
    down = [sized(f"n{i}", "g5", nvidia_com__gpu="0") for i in range(9)]
    shape = shapes_of(unloaded(*down, sized("up", "g5", nvidia_com__gpu="8"))).by_name["g5-gpu"]
    assert shape.room["nvidia.com/gpu"] == 8_000


def test_of_two_counts_as_common_the_larger_is_asked_for() -> None:
    nodes = [sized(f"n{i}", "g5", nvidia_com__gpu=count) for i, count in enumerate(["4", "8", "8", "4"])]
    assert shapes_of(unloaded(*nodes)).by_name["g5-gpu"].room["nvidia.com/gpu"] == 8_000


def makes(plain: int, with_efa: int, **changes: Any) -> list[tuple[Node, NodeLoad]]:
    few = [sized(f"p{i}", "p5", nvidia_com__gpu="8") for i in range(plain)]
    more = [sized(f"e{i}", "p5", nvidia_com__gpu="8", vpc_amazonaws_com__efa="4") for i in range(with_efa)]
    return unloaded(*(msgspec.structs.replace(node, **changes) for node in (*few, *more)))


def test_one_type_with_and_without_network_cards_is_two_shapes() -> None:
    shapes = shapes_of(makes(5, 5), wall_s=10_000.0)
    assert set(shapes.by_name) == {"p5-gpu", "p5-gpu-efa"}
    assert not any(shape.short for shape in shapes.by_name.values())


@pytest.mark.parametrize(
    ("plain", "with_efa", "age_s", "is_make"),
    [(2, 18, 900.0, True), (2, 18, 899.0, False), (2, 19, 900.0, False), (3, 19, 900.0, True), (1, 1, 900.0, False)],
)
def test_a_make_of_its_own_is_a_tenth_of_the_nodes_at_least_and_two_for_a_quarter_of_an_hour(
    plain: int, with_efa: int, age_s: float, is_make: bool
) -> None:
    shapes = shapes_of(makes(plain, with_efa, created_s=10_000.0 - age_s), wall_s=10_000.0)
    assert ("p5-gpu" in shapes.by_name) is is_make


def test_new_nodes_wait_for_the_devices_of_the_others() -> None:
    shapes = shapes_of(makes(5, 5, created_s=9_500.0), wall_s=10_000.0)
    assert list(shapes.by_name) == ["p5-gpu-efa"]
    assert len(shapes.by_name["p5-gpu-efa"].short) == 5


def test_a_single_node_that_lacks_a_card_is_short_and_no_shape() -> None:
    shapes = shapes_of(makes(1, 5), wall_s=10_000.0)
    assert list(shapes.by_name) == ["p5-gpu-efa"]
    assert set(shapes.by_name["p5-gpu-efa"].short) == {"p0"}


def bare(count: int, age_s: float, first: int = 0) -> list[Node]:
    """Nodes without a device, at the second 10,000."""
    made = (sized(f"b{first + i}", "p5") for i in range(count))
    return [msgspec.structs.replace(node, created_s=10_000.0 - age_s) for node in made]


def test_nodes_without_any_device_are_never_a_make_of_their_own() -> None:
    shapes = shapes_of([*makes(5, 0), *unloaded(*bare(5, 9_000.0))], wall_s=10_000.0)
    assert set(shapes.by_name["p5-gpu"].short) == {f"b{i}" for i in range(5)}


def remembered(*devices: str, instance_type: str = "p5") -> Shape:
    return Shape("p5-of-before", instance_type, {}, devices=frozenset(devices), is_vacant=True)


@pytest.mark.parametrize(
    ("known", "age_s", "names"),
    [
        ([remembered("nvidia.com/gpu")], 899.0, ["p5-gpu"]),
        ([remembered("nvidia.com/gpu"), remembered()], 899.0, ["p5-gpu"]),
        ([remembered("nvidia.com/gpu")], 900.0, ["p5"]),
        ([remembered("nvidia.com/gpu", instance_type="g5")], 899.0, ["p5"]),
        ([remembered("habana.ai/gaudi")], 899.0, ["p5"]),
    ],
    ids=["new", "some had none", "settled", "of another type", "asked for no more"],
)
def test_the_first_nodes_of_an_empty_pool_wait_for_the_devices_that_others_had(
    known: list[Shape], age_s: float, names: list[str]
) -> None:
    assert list(shapes_of(unloaded(*bare(2, age_s)), 10_000.0, remembered=known).by_name) == names


@pytest.mark.parametrize(("settled", "new", "name"), [(1, 0, "p5"), (1, 9, "p5"), (1, 10, "p5-gpu"), (2, 18, "p5")])
def test_no_device_is_waited_for_once_a_tenth_of_the_nodes_is_old_without_one(
    settled: int, new: int, name: str
) -> None:
    nodes = unloaded(*bare(settled, 900.0), *bare(new, 0.0, first=settled))
    assert list(shapes_of(nodes, 10_000.0, remembered=[remembered("nvidia.com/gpu")]).by_name) == [name]


def test_devices_that_are_remembered_tell_nothing_while_others_show_theirs() -> None:
    nodes = [*makes(5, 5), *unloaded(*bare(5, 9_000.0))]
    known = remembered("nvidia.com/gpu", "vpc.amazonaws.com/efa", "rdma/hca")
    assert list(shapes_of(nodes, 10_000.0, remembered=[known]).by_name) == ["p5-gpu", "p5-gpu-efa"]


def test_a_balloon_that_was_made_before_the_first_gpus_were_named_holds_none() -> None:
    plain = Shape("p5", "p5", {}, is_vacant=True)
    shapes = shapes_of(makes(1, 0))
    assert not replace(shapes, by_name={**shapes.by_name, "p5": plain}).holds("p5", "p5-gpu")


def test_a_balloon_without_the_card_holds_a_node_that_has_one() -> None:
    shapes = shapes_of(makes(5, 5), wall_s=10_000.0)
    assert shapes.holds("p5-gpu", "p5-gpu-efa")
    assert not shapes.holds("p5-gpu-efa", "p5-gpu")


def test_a_balloon_holds_no_node_of_another_type_that_has_a_card_besides() -> None:
    shapes = shapes_of(unloaded(sized("a", "c5"), sized("b", "c5n", vpc_amazonaws_com__efa="4")))
    assert not shapes.holds("c5", "c5n-efa")


def test_a_balloon_holds_nodes_of_its_own_shape_and_none_of_a_shape_that_nobody_knows() -> None:
    """Without instance types nothing tells whether a node has all that another one has."""
    plain, card = "16cpu-64gi", "32cpu-64gi-efa"
    shapes = shapes_of(unloaded(sized("a"), sized("b", cpu="32", vpc_amazonaws_com__efa="4")))
    assert set(shapes.by_name) == {plain, card}
    assert shapes.holds(plain, plain)
    assert not shapes.holds(plain, card)
    assert not shapes.holds(plain, "gone")
    assert not shapes.holds("gone", plain)
    assert not shapes.holds("gone", "gone")


@pytest.mark.parametrize(("ages_s", "is_settled"), [((0.0, 900.0), True), ((0.0, 899.0), False), ((), False)])
def test_one_old_node_tells_which_devices_its_plugins_give(ages_s: tuple[float, ...], is_settled: bool) -> None:
    nodes = [msgspec.structs.replace(sized(f"n{age_s:g}"), created_s=1000.0 - age_s) for age_s in ages_s]
    assert is_any_settled(take_census(unloaded(*nodes), RULES).measured, 1000.0) == is_settled


@pytest.mark.parametrize(
    ("nodes", "left_out"),
    [
        ((), {"nvidia.com/gpu", "example.com/nic"}),
        ((sized("a"),), {"nvidia.com/gpu", "example.com/nic"}),
        ((sized("a"), sized("b", nvidia_com__gpu="8")), {"example.com/nic"}),
    ],
    ids=["no node", "no device", "one that names GPUs"],
)
def test_of_what_a_shape_asks_for_only_devices_that_no_node_names_are_left_out(
    nodes: tuple[Node, ...], left_out: set[str]
) -> None:
    """What else no node names, such as huge pages, its balloon asks for all the same: it would hold too little."""
    asked = parse_resources({"cpu": "4", "hugepages-2Mi": "1Gi", "nvidia.com/gpu": "8", "example.com/nic": "1"})
    counted = counted_by_nodes(take_census(unloaded(*nodes), RULES).measured, asked)
    assert counted == {name: milli for name, milli in asked.items() if name not in left_out}


def test_a_long_name_is_cut_and_stays_one_of_its_own() -> None:
    node = sized("a", "standard-nd96amsr-a100-v4-with-a-long-name", nvidia_com__gpu="8")
    names = {shape_name(node, devices) for devices in ([], ["nvidia.com/gpu"], ["rdma/ib", "nvidia.com/gpu"])}
    assert len(names) == 3
    assert all(len(name) <= 40 for name in names)


@pytest.mark.parametrize(("length", "is_whole"), [(40, True), (41, False)])
def test_a_name_of_forty_characters_is_left_whole(length: int, is_whole: bool) -> None:
    name = shape_name(sized("a", "m" * length), [])
    assert (name == "m" * length) is is_whole
    assert len(name) == 40


def test_two_types_whose_names_become_one_are_two_shapes() -> None:
    """One was left out, and its nodes were counted for the other, whose balloons do not go there."""
    node, other = sized("a", "gpu.large"), sized("b", "gpu-large", cpu="32")
    shapes = shapes_of(unloaded(node, other))
    assert (shapes.of(other), len(shapes.by_name)) == ("gpu-large", 2)
    assert {shape.instance_type for shape in shapes.by_name.values()} == {"gpu.large", "gpu-large"}
    assert shapes.by_name[shapes.of(node)].room["cpu"] == 16_000


def test_the_type_that_has_a_deployment_of_the_name_keeps_it() -> None:
    node, other = sized("a", "gpu.large"), sized("b", "gpu-large", cpu="32")
    known = Shape("gpu-large", "gpu.large", {}, is_vacant=True)
    shapes = shapes_of(unloaded(node, other), remembered=[known])
    assert shapes.of(node) == "gpu-large"
    assert shapes_of(unloaded(node, other), remembered=list(shapes.by_name.values())).by_name == shapes.by_name


def test_a_type_of_which_no_character_can_stand_in_a_label_is_called_node() -> None:
    assert shape_name(sized("a", "***"), []) == "node"


def test_a_pool_without_nodes_has_no_main_shape() -> None:
    assert shapes_of([]).main == ""


def test_a_request_in_use_is_kept_while_it_fits_and_holds() -> None:
    shape = shapes_of(unloaded(sized("a"))).by_name["16cpu-64gi"]
    close = parse_resources({"cpu": "15500m", "memory": "62Gi"})
    far = parse_resources({"cpu": "8", "memory": "62Gi"})
    beyond = parse_resources({"cpu": "16500m", "memory": "62Gi"})
    assert requests(shape, close) == close
    assert requests(shape, far) != far
    assert requests(shape, beyond) != beyond


TEN_CORES = Shape("m5", "m5", parse_resources({"cpu": "10200m", "memory": "10496Mi"}))
"""With the default slack its balloons ask for 10 cores and 10 GiB."""


@pytest.mark.parametrize(
    ("cpu", "memory", "is_kept"),
    [
        ("9", "9Gi", True),
        ("8999m", "9Gi", False),
        ("9", "9215Mi", False),
        ("10100m", "10368Mi", True),
        ("10101m", "10368Mi", False),
        ("10100m", "10369Mi", False),
    ],
)
def test_a_request_is_kept_from_nine_tenths_up_to_half_of_the_slack(cpu: str, memory: str, is_kept: bool) -> None:
    in_use = parse_resources({"cpu": cpu, "memory": memory})
    assert requests(TEN_CORES) == parse_resources({"cpu": "10", "memory": "10Gi"})
    assert (requests(TEN_CORES, in_use) == in_use) is is_kept


def test_a_request_for_a_device_that_the_shape_has_not_is_not_kept() -> None:
    in_use = parse_resources({"cpu": "10", "memory": "10Gi", "nvidia.com/gpu": "8"})
    assert requests(TEN_CORES, in_use) == parse_resources({"cpu": "10", "memory": "10Gi"})


@pytest.mark.parametrize(("gpus", "cpu", "memory"), [({}, "9", "9216Mi"), ({"nvidia.com/gpu": "8"}, "2500m", "2560Mi")])
def test_a_balloon_for_any_type_asks_for_all_devices_and_part_of_the_rest(
    gpus: dict[str, str], cpu: str, memory: str
) -> None:
    main = parse_resources({"cpu": "10", "memory": "10Gi", **gpus})
    assert any_type_requests(main) == parse_resources({"cpu": cpu, "memory": memory, **gpus})


@given(cpu=st.integers(1, 500_000), mib=st.integers(1, 10**6))
def test_requests_are_steps_that_a_quantity_shows_short(cpu: int, mib: int) -> None:
    """10 millicores and 1 MiB: beneath what is there, by less than a step."""
    there = {"cpu": cpu, "memory": mib * 1024**2 * 1000 + 12_345}
    asked = any_type_requests(there)
    assert asked["cpu"] % 10 == 0
    assert asked["memory"] % (1024**2 * 1000) == 0
    assert 0 <= int(0.9 * there["cpu"]) - asked["cpu"] < 10
    assert 0 <= int(0.9 * there["memory"]) - asked["memory"] < 1024**2 * 1000


def test_a_request_without_the_gpu_is_not_kept() -> None:
    shape = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"))).by_name["g5-gpu"]
    assert requests(shape, parse_resources({"cpu": "15800m", "memory": "63Gi"})) == requests(shape)


@pytest.mark.parametrize("known", [{"cpu": 8000}, {"memory": 8000}, {}])
def test_a_node_that_does_not_say_how_much_it_has_takes_no_balloon(known: Resources) -> None:
    assert requests(Shape("m5", "m5", known)) is None


def test_nothing_is_left_on_a_node_full_of_daemons() -> None:
    shapes = shapes_of([(sized("n", cpu="600m"), load_of([daemon("d", "n", cpu="500m")], -10))])
    assert requests(next(iter(shapes.by_name.values()))) is None


@pytest.mark.parametrize("size", [{"cpu": "200m"}, {"cpu": "100m"}, {"memory": "256Mi"}, {"memory": "0"}])
def test_nothing_is_left_on_a_node_whose_cores_or_memory_are_all_slack(size: dict[str, str]) -> None:
    shape = shapes_of(unloaded(sized("n", "m5", **size))).by_name["m5"]
    assert requests(shape) is None
    assert requests(shape, parse_resources({"cpu": "10", "memory": "10Gi"})) is None, "nor what was there before"


def test_the_users_slack_replaces_the_default() -> None:
    shape = shapes_of(unloaded(sized("a"))).by_name["16cpu-64gi"]
    found = requests(shape, slack={"cpu": "2"})
    assert found is not None
    assert found["cpu"] == 14_000


def test_explicit_requests_are_taken_as_given() -> None:
    shape = explicit_shape(take_census(unloaded(sized("a")), RULES).measured, {}).by_name["explicit"]
    assert requests(shape, type=ShapeType.EXPLICIT, resources={"cpu": "2"}) == {"cpu": 2_000}


def test_a_remembered_shape_keeps_its_requests() -> None:
    shape = Shape("m5", "m5", {}, is_vacant=True)
    assert requests(shape, parse_resources({"cpu": "15"})) == {"cpu": 15_000}


def test_shapes_without_instance_types_are_alike() -> None:
    assert are_alike(shapes_of(unloaded(sized("a"), sized("b", cpu="32"))).by_name.values())
    assert not are_alike(shapes_of(unloaded(sized("a", "m5"), sized("b", "m6", cpu="32"))).by_name.values())
    assert not are_alike(shapes_of(unloaded(sized("a"))).by_name.values()), "there is only one"
    gone = Shape("32cpu-64gi", "", {}, is_vacant=True)
    assert not are_alike([Shape("16cpu-64gi", "", {}), gone]), "the other one has no node now"


def test_a_slack_that_the_user_raises_is_given() -> None:
    """It was ignored while the old request still covered nine tenths of the new one."""
    shape = shapes_of(unloaded(sized("a", "m5"))).by_name["m5"]
    before = requests(shape)
    after = requests(shape, before, slack={"cpu": "1500m"})
    assert after is not None
    assert after["cpu"] == 14_500


def test_gpus_that_vanish_from_all_nodes_at_once_roll_no_balloon() -> None:
    """A restart of the device plugin everywhere took the GPU out of the request, and replaced every balloon."""
    with_gpu = requests(shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"))).by_name["g5-gpu"])
    without = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="0"))).by_name["g5-gpu"]
    assert requests(without, with_gpu) == with_gpu


def test_a_balloon_that_asks_for_no_gpu_stays_as_it_is_until_a_node_has_one() -> None:
    none_yet = shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="0"))).by_name["g5-gpu"]
    plain = requests(shapes_of(unloaded(sized("a", "g5"))).by_name["g5"])
    assert requests(none_yet, plain) == plain


def test_gpus_that_vanish_while_nodes_change_are_asked_for_all_the_same() -> None:
    """A driver's upgrade restarts the plugins and takes more of each node: balloons were made without the GPU."""
    with_gpu = requests(shapes_of(unloaded(sized("a", "g5", nvidia_com__gpu="8"))).by_name["g5-gpu"])
    smaller = shapes_of(unloaded(sized("a", "g5", cpu="12", nvidia_com__gpu="0"))).by_name["g5-gpu"]
    assert requests(smaller, with_gpu) == {**(with_gpu or {}), "cpu": 11_800}


def test_shapes_are_remembered_whose_templates_can_be_read() -> None:
    container = {"resources": {"requests": {"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "1"}}}
    whole, broken = {"spec": {"containers": [container]}}, {"spec": {"containers": []}}
    stored = {"gone": whole, "broken": broken, "none": None, "": whole, ANY_TYPE: whole}
    found = remembered_shapes(stored)
    assert [*found] == ["gone"]
    assert (found["gone"].is_vacant, found["gone"].devices) == (True, {"nvidia.com/gpu"})
