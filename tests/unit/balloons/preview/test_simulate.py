"""What is simulated is known, whole and not too much."""

from dataclasses import replace
from typing import Any

import pytest

from balloons.preview.forecast import Band, Forecast, Limit, Maker, PolicyError, policy_maker
from balloons.preview.inputs import (
    Ceiling,
    Known,
    PlanInputs,
    PoolFacts,
    Stated,
    StatedError,
    assumed_inputs,
    with_stated,
)
from balloons.preview.scale_up_plan import PlanError
from balloons.preview.simulate import Sweep, simulate, simulation_json
from tests.unit.balloons.preview.made_runs import forecast_of, moment, run


@pytest.mark.parametrize("value", [0, 0.5, 1.5, 150_001])
def test_no_broken_number_of_nodes_is_swept(value: float) -> None:
    with pytest.raises(StatedError, match="accepted: a whole number from 1 to 150,000"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("add", (value,)))


def test_what_cannot_be_simulated_is_refused_before_it_takes_time() -> None:
    with pytest.raises(StatedError, match="'speed' cannot be swept"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("speed", (1.0,)))
    with pytest.raises(PlanError, match="61 runs"):
        simulate(assumed_inputs(), "", 5, ["none"], Sweep("boot", tuple(float(each) for each in range(1, 62))))
    with pytest.raises(PlanError, match="150,001 nodes more are too many"):
        simulate(assumed_inputs(), "", 150_001, ["none"])


@pytest.mark.parametrize(
    "name",
    [
        "5",
        "foo5",
        "rate=",
        "rate=0",
        "rate=-1",
        "rate=1000001",
        "rate=nan",
        "window=x",
        "window=0",
        "ratewindow=5",
        "rate=1_0",
        "rate=\u0661",
    ],
)
def test_a_policy_without_a_number_that_it_can_keep_to_is_refused(name: str) -> None:
    with pytest.raises(PolicyError, match="is not accepted"):
        policy_maker(name, None)


@pytest.mark.parametrize("name", ["rate=1000000", "rate=1e3", "rate=0.5", "window=1000000", "none", "throttle", "aimd"])
def test_policies_by_name(name: str) -> None:
    assert callable(policy_maker(name, None))


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, int]]:
    """Boot time and nodes of each forecast that was asked for; all foretell the same."""
    asked: list[tuple[float, int]] = []

    def foretold(_: PlanInputs, pool: PoolFacts, nodes: int, __: Maker) -> Forecast:
        asked.append((pool.boot_s.value, nodes))
        course = moment(0.0, booting=5), moment(100.0, ready=5)
        return forecast_of(run(*course), eta_s=Band(100.0, 90.04, None), lost=Band(2.0, 1.0, 3.0))

    monkeypatch.setattr("balloons.preview.simulate.forecast", foretold)
    return asked


def test_every_policy_is_run_with_every_value(asked_for: list[tuple[float, int]]) -> None:
    sweep = Sweep("boot", (30.0, 60.0))
    cells = simulate(assumed_inputs(), "", 5, ["none", "throttle"], sweep)
    assert [(cell.policy, cell.value, cell.add) for cell in cells] == [
        ("none", 30.0, 5), ("throttle", 30.0, 5), ("none", 60.0, 5), ("throttle", 60.0, 5),
    ]  # fmt: skip
    assert asked_for == [(30.0, 5), (30.0, 5), (60.0, 5), (60.0, 5)]
    assert {cell.limit for cell in cells} == {Limit.BOOT}
    told = simulation_json(cells, sweep)
    assert (told["kind"], told["sweep"], len(told["runs"])) == ("Simulation", "boot", 4)
    first = told["runs"][0]
    assert (first["policy"], first["value"], first["addNodes"], first["limit"]) == ("none", 30.0, 5, "boot time")
    assert (first["etaSeconds"], first["etaLowSeconds"], first["etaHighSeconds"], first["lost"]) == (
        100.0, 90.0, None, 2.0,
    )  # fmt: skip


def test_the_size_of_the_scale_up_is_swept_as_well(asked_for: list[tuple[float, int]]) -> None:
    cells = simulate(assumed_inputs(), "", 5, ["none"], Sweep("add", (1.0, 150_000.0)))
    assert [cell.add for cell in cells] == [nodes for _, nodes in asked_for] == [1, 150_000]
    (alone,) = simulate(assumed_inputs(), "", 5, ["none"])
    assert (alone.value, alone.add) == (None, 5)
    assert simulation_json([alone], None)["sweep"] is None


@pytest.mark.parametrize(("add", "stopped"), [(5, False), (6, True)])
def test_a_limit_on_nodes_is_passed_over_and_named(asked_for: list[tuple[float, int]], add: int, stopped: bool) -> None:
    """A plan of as many says "No"; here it was not told at all."""
    full = Ceiling(name="NodePool/x", nodes=5)
    (only,) = assumed_inputs().pools
    given = replace(assumed_inputs(), pools=(replace(only, ceilings=(full,)),))
    (cell,) = simulate(given, "", add, ["none"])
    assert ([nodes for _, nodes in asked_for], cell.ceiling) == ([add], full if stopped else None)
    (told,) = simulation_json([cell], None)["runs"]
    assert told["ceilingPassedOver"] == ({"name": "NodePool/x", "nodes": 5} if stopped else None)


@pytest.mark.usefixtures("asked_for")
def test_sixty_runs_are_as_many_as_one_simulation_has() -> None:
    values = tuple(float(value) for value in range(1, 31))
    assert len(simulate(assumed_inputs(), "", 5, ["none", "aimd"], Sweep("boot", values))) == 60


def test_other_servers_of_a_sweep_do_not_change_what_a_join_costs() -> None:
    """It was learned on what was taken for two servers; those of the sweep are others, and no better guess at these."""
    found = assumed_inputs()
    given = replace(found, servers=replace(found.servers, join_cpu_s=Known.learned(1.0, "here")))
    seen: list[float] = []

    def foretold(what: PlanInputs, *_: Any) -> Forecast:
        seen.append(what.servers.join_cpu_s.value)
        return forecast_of(run())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("balloons.preview.simulate.forecast", foretold)
        simulate(given, "", 5, ["none"], Sweep("servers", (4.0,)))
    assert seen == [1.0]


def test_a_scale_up_whose_nodes_never_come_is_limited_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("balloons.preview.simulate.forecast", lambda *_: forecast_of(run()))
    (cell,) = simulate(assumed_inputs(), "", 5, ["none"])
    assert simulation_json([cell], None)["runs"][0]["limit"] is None


def test_a_pool_that_is_not_there_is_named_with_those_that_are() -> None:
    found = assumed_inputs()
    (only,) = found.pools
    given = replace(found, pools=(replace(only, name="b"), replace(only, name="a")))
    with pytest.raises(PlanError, match="pool 'c' is not there; there are: a, b"):
        simulate(given, "c", 5, ["none"])
    with pytest.raises(PlanError, match="there are: none"):
        simulate(replace(given, pools=()), "", 5, ["none"])


@pytest.mark.whole
def test_without_a_gate_nodes_come_at_the_rate_that_was_asked_for() -> None:
    """What a rate allowed between two looks of the autoscaler was lost, four fifths of it."""
    given = with_stated(assumed_inputs(), Stated(boot=20, join=10, servers=3, server_cores=64, controller_qps=1000))
    ends_s = {cell.policy: cell.side.eta_s or 0.0 for cell in simulate(given, "", 120, ["rate=60", "rate=120"])}
    assert ends_s["rate=60"] == pytest.approx(120 + 10 + 20 + 10, rel=0.15)
    assert ends_s["rate=120"] == pytest.approx(60 + 10 + 20 + 10, rel=0.15)
