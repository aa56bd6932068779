"""Random scale-ups, each drawn from one seed: the cluster, what is asked for, and what stands in the way."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

HISTORY = 20
"""Nodes of a first scale-up in each cluster: what there is to learn from. What a join costs differed by 12 % between
one batch of twelve and the next; a real cluster sees hundreds a day."""
KINDS = {"boot": 5, "manager": 4, "window": 3, "pool limit": 2, "machines": 2, "launches": 2, "servers": 2}
"""Ranges that make each kind of limit likely, and how many of twenty; which one then binds is measured."""
FEW_SEATS, USUAL_SEATS = (20, 10), (400, 200)
QUICK_MANAGER_QPS, DEFAULT_MANAGER_QPS = 300.0, 20.0
"""Out of the way, and the binary's default (--kube-api-qps)."""
MANAGER_BURST_S = 1.5
"""Its burst, in seconds of its rate, as by default."""
QUICK_NODES = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One scale-up. `pool_limit` and `machines` count all nodes, those of the history among them."""

    number: int
    kind: str
    nodes: int
    """Asked for at once, one whole-node pod each."""
    boot_s: float
    boot_jitter: float
    """Standard deviation of the boot time's logarithm."""
    daemon_sets: int
    seats: tuple[int, int]
    """Of the API server, for reads and for writes."""
    cores: int
    """GOMAXPROCS of the API server. One where it may be what binds: two cores of a machine of two it never has."""
    manager_qps: float = QUICK_MANAGER_QPS
    window: int | None = None
    """The most joins that a JoinThrottle lets into flight; None: nobody paces."""
    pool_limit: int | None = None
    """What the NodePool's limits leave room for."""
    machines: int | None = None
    """How many machines the cloud has."""
    starts_per_s: float | None = None
    starts_burst: int = 1
    is_planned_by_pods: bool = False
    """Whether the plan is asked with the very pods (--pods) instead of --add."""

    @property
    def can_come(self) -> int:
        """How many of the nodes can come at all: from the configuration alone."""
        bounds = [bound - HISTORY for bound in (self.pool_limit, self.machines) if bound is not None]
        return min([self.nodes, *bounds])

    @property
    def text(self) -> str:
        """One line for the progress."""
        return f"{self.kind:<10} {self.nodes:>3} nodes, boot {self.boot_s:4.1f} s, {self.daemon_sets} DaemonSets"


def cases(seed: int, is_quick: bool = False) -> Iterator[Case]:
    """Case after case, without end; each twenty of them have all kinds. A quick one is small."""
    number = 0
    while True:
        kinds = [kind for kind, count in KINDS.items() for _ in range(count)]
        random.Random(f"{seed} {number}").shuffle(kinds)
        for kind in kinds:
            case = _case(number, kind, random.Random(f"{seed} {number} {kind}"))
            yield replace(case, nodes=min(case.nodes, QUICK_NODES)) if is_quick else case
            number += 1


def _case(number: int, kind: str, draw: random.Random) -> Case:
    usual = Case(
        number=number,
        kind=kind,
        nodes=draw.randint(20, 70),
        boot_s=round(draw.uniform(14, 24), 1),
        boot_jitter=round(draw.uniform(0.03, 0.09), 3),
        daemon_sets=draw.randint(1, 4),
        seats=draw.choice((FEW_SEATS, USUAL_SEATS)),
        cores=1,
        is_planned_by_pods=draw.random() < 0.5,
    )
    soon_s = round(draw.uniform(6, 10), 1)
    match kind:
        case "manager":
            sets = draw.randint(6, 8)
            nodes = round(DEFAULT_MANAGER_QPS * draw.uniform(20, 30) / sets)
            return replace(
                usual, nodes=nodes, boot_s=soon_s, daemon_sets=sets, cores=2, manager_qps=DEFAULT_MANAGER_QPS
            )
        case "window":
            return replace(usual, nodes=draw.randint(36, 56), boot_s=soon_s, cores=2, window=draw.randint(8, 14))
        case "pool limit":
            return replace(usual, pool_limit=HISTORY + _part(usual.nodes, draw))
        case "machines":
            return replace(usual, machines=HISTORY + _part(usual.nodes, draw))
        case "launches":
            rate = round(draw.uniform(0.8, 1.6), 2)
            nodes = HISTORY + round(rate * draw.uniform(22, 36))
            return replace(usual, nodes=nodes, boot_s=soon_s, cores=2, starts_per_s=rate, starts_burst=HISTORY)
        case "servers":
            sets, nodes = draw.randint(6, 8), draw.randint(90, 120)
            return replace(usual, nodes=nodes, boot_s=soon_s, boot_jitter=0.03, daemon_sets=sets, cores=1)
    return usual


def _part(nodes: int, draw: random.Random) -> int:
    return max(1, round(nodes * draw.uniform(0.5, 0.8)))
