"""The twelve scenarios of the study, in its order and under its letters.

What its table leaves open was chosen: the bursts of H fall into the scale-up, the background is 0.25, its swing 0.1.
The heartbeats of "nodes before" are part of the background.
"""

from throttler.simulator.scenario import Blindness, ListBurst, ScaleUp, Scenario, ServerLoss, Slowdown

_SMALL = (ScaleUp(at_s=0.0, nodes=500),)
_MIDDLE = (ScaleUp(at_s=0.0, nodes=1000),)
_LARGE = (ScaleUp(at_s=0.0, nodes=2000),)

TWELVE: tuple[Scenario, ...] = (
    Scenario(name="A small", demands=_SMALL, servers=2, capacity=4, nodes_before=200),
    Scenario(
        name="B large", demands=(ScaleUp(at_s=0.0, nodes=7500),), servers=5, capacity=16, boot_s=180, nodes_before=500
    ),
    Scenario(
        name="C drop",
        demands=_LARGE,
        servers=5,
        capacity=12,
        nodes_before=1500,
        disturbances=(ServerLoss(at_s=200, for_s=120), Slowdown(at_s=200, for_s=120, factor=0.65)),
    ),
    Scenario(
        name="D stale",
        demands=_LARGE,
        servers=5,
        capacity=12,
        nodes_before=1500,
        disturbances=(Blindness(at_s=180, for_s=180), Slowdown(at_s=210, for_s=120, factor=0.55)),
    ),
    Scenario(name="E spare", demands=_LARGE, servers=5, capacity=18, nodes_before=200, background=0.15),
    Scenario(
        name="F repeat",
        demands=tuple(ScaleUp(at_s=at_s, nodes=500) for at_s in (0.0, 1500.0, 3000.0)),
        servers=2,
        capacity=4,
        nodes_before=200,
    ),
    Scenario(name="G long boot", demands=_SMALL, servers=2, capacity=4, boot_s=480, nodes_before=200, kill_timer_s=900),
    Scenario(
        name="H noisy",
        demands=_MIDDLE,
        servers=3,
        capacity=8,
        nodes_before=800,
        background=0.35,
        background_swing=0.35,
        scrape_noise=0.15,
        scrape_missing=0.15,
        disturbances=tuple(ListBurst(at_s=at_s, for_s=60, per_s=20) for at_s in (200, 350, 500)),
    ),
    Scenario(name="I too many seats", demands=_MIDDLE, servers=3, capacity=6, seats_per_capacity=20, nodes_before=500),
    Scenario(
        name="J tiny",
        demands=(ScaleUp(at_s=0.0, nodes=300),),
        servers=1,
        capacity=2.2,
        seats_per_capacity=3,
        nodes_before=100,
        background=0.35,
    ),
    Scenario(name="K heavy", demands=_MIDDLE, servers=3, capacity=10, nodes_before=300, join_weight=4),
    Scenario(name="M too few seats", demands=_MIDDLE, servers=3, capacity=10, seats_per_capacity=0.6, nodes_before=300),
)
