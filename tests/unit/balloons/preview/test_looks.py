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


def test_karpenter_looks_a_second_after_the_last_node_has_come_and_then_after_ten() -> None:
    assert seen(Looks(10.0, is_prompted=True), 25, prompts=[6.0, 6.5, 7.25]) == [0, 8.25, 18.25]
    assert seen(Looks(10.0, is_prompted=False), 25, prompts=[6.0, 6.5, 7.25]) == [0, 10, 20]


def test_karpenter_collects_no_longer_than_ten_seconds() -> None:
    steady = [3.0 + step / 2 for step in range(40)]
    assert seen(Looks(10.0, is_prompted=True), 24, prompts=steady) == [0, 13, 23.5]
