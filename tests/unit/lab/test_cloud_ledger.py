import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cloud.nodegroups.cloud import InstanceState, Ledger, RefusalError

EMPTY = Ledger(group="gpu", min_size=0, max_size=5)


def states(ledger: Ledger) -> dict[str, str]:
    return {instance.name: instance.state.value for instance in ledger.instances}


def test_orders_are_numbered_and_names_are_never_used_twice() -> None:
    three = EMPTY.increase(3)
    assert states(three) == {"gpu-1": "creating", "gpu-2": "creating", "gpu-3": "creating"}
    assert set(states(three.gone({"gpu-3"}).increase(1))) == {"gpu-1", "gpu-2", "gpu-4"}


@pytest.mark.parametrize("delta", [0, -1, 6])
def test_growth_outside_the_maximum_is_refused(delta: int) -> None:
    with pytest.raises(RefusalError, match=f"cannot grow by {delta} from 0: its maximum is 5"):
        EMPTY.increase(delta)


def test_orders_beyond_the_stock_are_out_of_stock_until_room_is_made() -> None:
    ledger = replace(EMPTY, stock=2).increase(1).increase(3)
    assert [i.state for i in ledger.instances] == [
        InstanceState.CREATING,
        InstanceState.CREATING,
        InstanceState.OUT_OF_STOCK,
        InstanceState.OUT_OF_STOCK,
    ]
    again = ledger.delete({"gpu-1", "gpu-3", "gpu-4"}).gone({"gpu-1", "gpu-3", "gpu-4"}).increase(1)
    assert states(again) == {"gpu-2": "creating", "gpu-5": "creating"}


def test_only_open_orders_are_taken_back_newest_first() -> None:
    ledger = EMPTY.increase(3).running("gpu-3")
    assert set(states(ledger.decrease_target(-1))) == {"gpu-1", "gpu-3"}
    with pytest.raises(RefusalError, match="has 2 open orders: -3"):
        ledger.decrease_target(-3)
    with pytest.raises(RefusalError, match="1 cannot be taken back"):
        ledger.decrease_target(1)


def test_a_machine_that_is_being_deleted_no_longer_counts() -> None:
    ledger = EMPTY.increase(2).running("gpu-1").delete({"gpu-1"})
    assert ledger.target_size == 1
    assert states(ledger) == {"gpu-1": "deleting", "gpu-2": "creating"}
    assert states(ledger.gone({"gpu-1"})) == {"gpu-2": "creating"}
    with pytest.raises(RefusalError, match="has no machine gpu-1"):
        ledger.delete({"gpu-1"})


def test_deletion_below_the_minimum_is_refused() -> None:
    with pytest.raises(RefusalError, match="below its minimum of 2"):
        replace(EMPTY, min_size=2).increase(2).delete({"gpu-1"})


@given(st.lists(st.tuples(st.sampled_from(["increase", "decrease", "delete", "run", "gone"]), st.integers(-4, 6))))
def test_the_target_stays_within_its_bounds_whatever_is_asked(requests: list[tuple[str, int]]) -> None:
    ledger = replace(EMPTY, stock=3)
    for request, number in requests:
        with contextlib.suppress(RefusalError):
            ledger = _ask(ledger, request, number)
        assert 0 <= ledger.target_size <= ledger.max_size
        names = [instance.name for instance in ledger.instances]
        assert len(set(names)) == len(names)
        on_hand = [i for i in ledger.instances if i.state is not InstanceState.OUT_OF_STOCK]
        assert len(on_hand) <= 3


def _ask(ledger: Ledger, request: str, number: int) -> Ledger:
    if request == "increase":
        return ledger.increase(number)
    if request == "decrease":
        return ledger.decrease_target(number)
    if request == "delete":
        return ledger.delete({f"gpu-{number}"})
    creating = [i.name for i in ledger.instances if i.state is InstanceState.CREATING]
    if request == "run":
        return ledger.running(creating[0]) if creating else ledger
    return ledger.gone({i.name for i in ledger.instances if i.state is InstanceState.DELETING})
