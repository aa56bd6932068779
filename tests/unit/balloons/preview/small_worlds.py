"""Worlds for the tests of the flow, in which whatever a test does not name is out of its way."""

from balloons.preview.possible_worlds import World
from throttler.simulator.requests_and_machines import JOIN
from throttler.simulator.scenario_and_faults import ScaleUp, Scenario

ROOMY = Scenario(name="roomy", demands=(ScaleUp(at_s=0.0, nodes=120),), servers=4, capacity=100.0, lead_s=60.0)


def world(scenario: Scenario = ROOMY, **changes: object) -> World:
    given: dict[str, object] = {
        "seed": 1,
        "scenario": scenario,
        "join_s": JOIN.alone_s,
        "daemon_sets": 0,
        "daemon_share": 0.0,
        "pods_per_s": 1e9,
        "burst": 1e9,
        "status_writes": 0.0,
        "is_scheduler_slower": False,
        "launches_per_s": None,
        "launch_burst": 0,
        "look_s": 10.0,
        "is_look_prompted": False,
        "rhythm": 0.0,
        "raise_every_s": 0.0,
        "taken_up_s": 0.0,
        "ready_share": 0.5,
        "notice_s": 0.0,
        "step_s": 0.5,
        "poke_s": 1.0,
    }
    return World(**{**given, **changes})  # type: ignore[arg-type]
