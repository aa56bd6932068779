"""`python -m benchmarks.herd`: the same scale-up with real kubelets and with joiners, at once and paced."""

import asyncio
import statistics
import sys
from collections.abc import Callable, Iterator

import msgspec

from benchmarks.herd.kubelets import open_kubelets
from benchmarks.report import Figure, Report, progress, run
from benchmarks.scaleup.law_pacer import LawPacer
from benchmarks.scaleup.pacers import AtOnce, FixedWindow, Pacer
from benchmarks.scaleup.trial import Setup, Trial, joiner_machines, run_trial
from lab.controlplane import ControlPlane
from lab.scaleup.cluster import QUICK_MANAGER_QPS, start_small_plane

NODES, WINDOW = 60, 20
KUBELETS, JOINERS = "kubelets", "joiners"
FAKED = (
    "Kubelets are real (kubemark), their container runtime is fake: pods run as soon as they are bound.",
    "60 kubelet processes start on this machine's cores: their own CPU, not the API server's, bounds `at once`.",
    "API server (1 core, 30 seats), etcd (without fsync), controller manager and scheduler are real.",
)
Make = Callable[[ControlPlane], Pacer]
WAYS: tuple[tuple[str, Make], ...] = (
    ("at once", lambda plane: AtOnce()),
    (f"window {WINDOW}", lambda plane: FixedWindow(WINDOW)),
    ("ours cold", lambda plane: LawPacer(plane)),
)


def measure(is_quick: bool) -> Report:
    """Each way with kubelets, then with joiners, on a fresh control plane each."""
    nodes = 4 if is_quick else NODES
    trials = asyncio.run(_measure(nodes))
    behind = {f"{kind}, {way}": msgspec.to_builtins(trial) for (kind, way), trial in trials.items()}
    return Report(
        name="herd",
        figures=tuple(_figures(trials)),
        faked=FAKED,
        behind={"nodes": nodes, "trials": behind},
        is_quick=is_quick,
    )


async def _measure(nodes: int) -> dict[tuple[str, str], Trial]:
    trials = {}
    for way, make in WAYS:
        for kind in (KUBELETS, JOINERS):
            trials[kind, way] = await _trial(nodes, kind, make)
            progress(f"{kind:<9} {way:<10} {_row(trials[kind, way])}")
    return trials


async def _trial(nodes: int, kind: str, make: Make) -> Trial:
    async with start_small_plane(1, QUICK_MANAGER_QPS) as plane:
        open_machines = (lambda accesses: open_kubelets(plane)) if kind == KUBELETS else joiner_machines
        return await run_trial(Setup(nodes=nodes), make(plane), plane, open_machines)


def _figures(trials: dict[tuple[str, str], Trial]) -> Iterator[Figure]:
    for way, _ in WAYS:
        peer = f"joiners: {trials[JOINERS, way].all_usable_s:.1f} s"
        value = trials[KUBELETS, way].all_usable_s
        yield _figure("all_usable_s", f"{way}: until the last node is usable", way, value, "s", peer)
    herd, ours = trials[KUBELETS, "at once"], trials[KUBELETS, "ours cold"]
    what, peer = "kubelets: innocent client's p99, ours cold over at once", f"{1000 * herd.bystander_p99_s:.0f} ms"
    yield _figure("innocent_over_herd", what, "", ours.bystander_p99_s / herd.bystander_p99_s, "x", peer)
    what, peer = "kubelets: mean time to usable, ours cold over at once", f"{herd.mean_usable_s:.1f} s"
    yield _figure("mean_usable_over_herd", what, "", ours.mean_usable_s / herd.mean_usable_s, "x", peer)


def _figure(name: str, what: str, case: str, value: float, unit: str, peer: str) -> Figure:
    return Figure(name=name, what=what, value=value, unit=unit, case=case.replace(" ", "_"), peer=peer)


def _row(trial: Trial) -> str:
    half = statistics.median(trial.usable_s)
    return (
        f"all {trial.all_usable_s:5.1f} s, half {half:5.1f} s, a join {trial.join_s:5.1f} s, "
        f"innocent p99 {1000 * trial.bystander_p99_s:5.0f} ms, 429+5xx {trial.errors:.0f}"
    )


if __name__ == "__main__":
    sys.exit(run("herd", measure))
