"""When the autoscaler looks: every so often, and Karpenter also when the scheduler tries waiting pods anew."""

from collections.abc import Iterable

from balloons.preview.looks import Looks


def seen(looks: Looks, until_s: float, prompts: Iterable[float] = ()) -> list[float]:
    """When it looks, asked every quarter of a second, with demand at 0."""
    told = sorted(prompts)
    looks.expect(0.0)
    found = []
    for step in range(int(4 * until_s) + 1):
        now_s = step / 4
        while told and told[0] <= now_s:
            looks.prompt(told.pop(0))
        found += [now_s] if looks.is_due(now_s) else []
    return found


def test_both_look_every_so_often() -> None:
    assert seen(Looks(10.0, is_prompted=False), 35) == [0, 10, 20, 30]
    assert seen(Looks(10.0, is_prompted=True), 35) == [0, 10, 20, 30]


def test_karpenter_looks_a_second_after_a_node_has_come_and_ten_after_the_last() -> None:
    assert seen(Looks(10.0, is_prompted=True), 25, prompts=[6.0, 6.5, 7.25]) == [0, 7, 8.25, 18.25]
    assert seen(Looks(10.0, is_prompted=False), 25, prompts=[6.0, 6.5, 7.25]) == [0, 10, 20]


def test_karpenter_looks_every_second_while_nodes_keep_coming() -> None:
    steady = [3.0 + step / 2 for step in range(8)]
    assert seen(Looks(10.0, is_prompted=True), 20, prompts=steady) == [0, 4, 5.5, 7, 17.5]
