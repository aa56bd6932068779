import asyncio

import pytest

from lab.cloud import BootTime, MachineOrder, MachineSort
from lab.cloud.kubelet_joiner.client import Turns
from lab.errors import LabError
from tests.unit.lab.cloud_fakes import FakeApi, FakeKind, fleet

pytestmark = pytest.mark.virtual_time

TEN_S = BootTime(median_s=10, jitter=0)


def order(name: str) -> MachineOrder:
    return MachineOrder(name=name, provider_id=f"fake://{name}", labels={"team": "a"})


async def test_a_node_appears_after_the_boot_time_and_not_before() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(9.9)
    assert api.nodes == {}
    assert machines.running == ()
    await asyncio.sleep(0.2)
    assert api.nodes["one"]["spec"]["providerID"] == "fake://one"
    assert api.nodes["one"]["metadata"]["labels"] == {"team": "a"}
    assert machines.running == ("one",)


async def test_a_failing_machine_boots_but_never_joins() -> None:
    api, kind = FakeApi(), FakeKind()
    booted: list[str] = []
    machines = fleet(api, kind, BootTime(median_s=10, jitter=0, failure_share=1))
    machines.order(order("one"), MachineSort.PAPER, lambda: booted.append("one"))
    await asyncio.sleep(3600)
    assert (booted, api.nodes, kind.log) == (["one"], {}, [])
    assert machines.ordered == ("one",)


async def test_machines_beyond_the_room_wait_for_others_to_end() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S, room=2)
    for name in ("one", "two", "three"):
        machines.order(order(name), MachineSort.PAPER)
    await asyncio.sleep(3600)
    assert machines.running == ("one", "two")
    await machines.end("one")
    await asyncio.sleep(11)
    assert machines.running == ("three", "two")
    assert kind.log == ["one joins", "two joins", "one ends", "three joins"]


async def test_a_cloud_starts_machines_no_faster_than_its_limit() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S, starts=Turns(0.5, 2, asyncio.get_running_loop().time()))
    for name in ("one", "two", "three", "four"):
        machines.order(order(name), MachineSort.PAPER)
    found = []
    for wait_s in (10.1, 2.0, 2.0):
        await asyncio.sleep(wait_s)
        found.append(len(machines.running))
    assert found == [2, 3, 4], "two at once, then one every two seconds"


async def test_a_machine_that_is_ended_while_it_boots_never_joins() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(5)
    await machines.end("one")
    await asyncio.sleep(60)
    assert (api.nodes, kind.log, machines.ordered) == ({}, [], ())


async def test_a_machine_that_is_ended_while_it_joins_leaves_no_node() -> None:
    api, kind = FakeApi(), FakeKind(takes_s=2)
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(11)
    assert "one" in api.nodes
    await machines.end("one")
    assert (api.nodes, kind.log, machines.ordered) == ({}, ["one joins", "one ends"], ())


async def test_joining_goes_on_until_the_server_is_back() -> None:
    api, kind = FakeApi(), FakeKind()
    api.is_down = True
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(60)
    assert machines.running == ()
    api.is_down = False
    await asyncio.sleep(2)
    assert machines.running == ("one",)


async def test_a_killed_machine_leaves_its_node_and_stays_ordered() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(11)
    await machines.kill("one")
    assert (set(api.nodes), machines.running, machines.ordered) == ({"one"}, (), ("one",))
    with pytest.raises(LabError, match="no machine runs as 'one'; there are none"):
        await machines.kill("one")


async def test_closing_ends_every_machine() -> None:
    api, kind = FakeApi(), FakeKind()
    machines = fleet(api, kind, TEN_S)
    machines.order(order("one"), MachineSort.PAPER)
    await asyncio.sleep(11)
    machines.order(order("two"), MachineSort.PAPER)
    await machines.close()
    assert (kind.log, machines.ordered) == (["one joins", "one ends"], ())
