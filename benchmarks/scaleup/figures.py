"""The figures of the issue's table, from the trials."""

from collections.abc import Iterator, Mapping

from benchmarks.report import Figure
from benchmarks.scaleup.own_requests import OwnRequests
from benchmarks.scaleup.plan import COLD, HERD, WARM, Findings


def figures(found: Mapping[str, Findings], own: OwnRequests | None) -> tuple[Figure, ...]:
    """Those whose groups were measured."""
    return (
        *(_calm(found["one server"]) if "one server" in found else ()),
        *(_disturbed(found)),
        *(_slow_manager(found["slow manager"]) if "slow manager" in found else ()),
        *(_own(own) if own is not None else ()),
        *(_errors(found) if found else ()),
    )


def _calm(seen: Findings) -> Iterator[Figure]:
    best = seen.best_window
    peer = f"{best}: {seen.time_s(best):.1f} s"
    for name, who, goal, floor in (("warm_time_ratio", WARM, 1.03, 1.10), ("cold_time_ratio", COLD, 1.08, 1.20)):
        what = f"{who}: time over the best fixed window"
        yield _ratio(name, what, seen.time_s(who) / seen.time_s(best), peer, goal, floor)
    mean = seen.mean_usable_s(best)
    what = "ours warm: mean time to usable over that window's"
    yield _ratio("mean_usable_ratio", what, seen.mean_usable_s(WARM) / mean, f"{mean:.1f} s", 1.05, 1.15)
    p99_s = seen.bystander_p99_s(WARM)
    for name, other, goal, floor in (("innocent_over_best", best, 1.0, 1.2), ("innocent_over_herd", HERD, 0.4, 0.6)):
        their_s = seen.bystander_p99_s(other)
        what = f"ours warm: innocent client's p99 over that of {other}"
        yield _ratio(name, what, p99_s / their_s, f"{1000 * their_s:.0f} ms", goal, floor)
    half_s = seen.time_s(HERD) / 2
    ours, theirs = (seen.trials[who][0].usable_at(half_s) for who in (WARM, HERD))
    what = f"nodes usable when the herd was half through ({half_s:.0f} s), ours warm"
    yield Figure(name="usable_at_half", what=what, value=ours, unit="nodes", peer=f"herd: {theirs}")


def _disturbed(found: Mapping[str, Findings]) -> Iterator[Figure]:
    seen = [found[name] for name in ("noisy lister", "frozen server") if name in found]
    if seen:
        worst = max(seen, key=_over_best)
        what = f"ours warm, disturbed half way ({worst.group.name}): time over the best of the sweep"
        peer = f"{worst.best_fixed}: {worst.time_s(worst.best_fixed):.1f} s"
        yield _ratio("disturbed_ratio", what, _over_best(worst), peer, 1.0, 1.15)


def _over_best(seen: Findings) -> float:
    return seen.time_s(WARM) / seen.time_s(seen.best_fixed)


def _slow_manager(seen: Findings) -> Iterator[Figure]:
    best = min((name for name in seen.trials if name.startswith("window")), key=seen.mean_usable_s)
    what = "ours warm, controller manager at its default: mean time to usable over the best window's"
    peer = f"{best}: {seen.mean_usable_s(best):.1f} s"
    yield _ratio("kcm_mean_usable_ratio", what, seen.mean_usable_s(WARM) / seen.mean_usable_s(best), peer, 1.05, 1.15)


def _own(own: OwnRequests) -> Iterator[Figure]:
    what = f"the service's own requests per node, {own.nodes} nodes on Karpenter"
    yield Figure(name="requests_per_node", what=what, value=own.per_node, unit="requests", goal=2, floor=4)


def _errors(found: Mapping[str, Findings]) -> Iterator[Figure]:
    ours = sum(seen.errors((COLD, WARM)) for seen in found.values())
    herd = sum(seen.errors((HERD,)) for seen in found.values())
    what = "429 and 5xx in all of our trials"
    yield Figure(name="errors", what=what, value=ours, unit="answers", peer=f"herds: {herd:.0f}")


def _ratio(name: str, what: str, value: float, peer: str, goal: float, floor: float) -> Figure:
    return Figure(name=name, what=what, value=value, unit="x", peer=peer, goal=goal, floor=floor)
