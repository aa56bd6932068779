"""The figures of the issue's table, from the trials."""

from collections.abc import Iterator, Mapping

from benchmarks.report import Figure
from benchmarks.scaleup.own_requests import OwnRequests
from benchmarks.scaleup.plan import COLD, HERD, WARM, Findings


def figures(groups: Mapping[str, Findings], own: OwnRequests | None) -> tuple[Figure, ...]:
    """Those whose groups were measured."""
    return (
        *(_calm(groups["one server"]) if "one server" in groups else ()),
        *(_disturbed(groups)),
        *(_slow_manager(groups["slow manager"]) if "slow manager" in groups else ()),
        *(_own(own) if own is not None else ()),
        *(_errors(groups) if groups else ()),
    )


def _calm(findings: Findings) -> Iterator[Figure]:
    best = findings.best_window
    peer = f"{best}: {findings.time_s(best):.1f} s"
    for name, who, goal, floor in (("warm_time_ratio", WARM, 1.03, 1.10), ("cold_time_ratio", COLD, 1.08, 1.20)):
        what = f"{who}: time over the best fixed window"
        yield _ratio(name, what, findings.time_s(who) / findings.time_s(best), peer, goal, floor)
    mean = findings.mean_usable_s(best)
    what = "ours warm: mean time to usable over that window's"
    yield _ratio("mean_usable_ratio", what, findings.mean_usable_s(WARM) / mean, f"{mean:.1f} s", 1.05, 1.15)
    p99_s = findings.bystander_p99_s(WARM)
    for name, other, goal, floor in (("innocent_over_best", best, 1.0, 1.2), ("innocent_over_herd", HERD, 0.4, 0.6)):
        their_s = findings.bystander_p99_s(other)
        what = f"ours warm: innocent client's p99 over that of {other}"
        yield _ratio(name, what, p99_s / their_s, f"{1000 * their_s:.0f} ms", goal, floor)
    half_s = findings.time_s(HERD) / 2
    ours, theirs = (findings.trials[who][0].usable_at(half_s) for who in (WARM, HERD))
    what = f"nodes usable when the herd was half through ({half_s:.0f} s), ours warm"
    yield Figure(name="usable_at_half", what=what, value=ours, unit="nodes", peer=f"herd: {theirs}")


def _disturbed(groups: Mapping[str, Findings]) -> Iterator[Figure]:
    disturbed = [groups[name] for name in ("noisy lister", "frozen server") if name in groups]
    if disturbed:
        worst = max(disturbed, key=_over_best)
        what = f"ours warm, disturbed half way ({worst.group.name}): time over the best of the sweep"
        peer = f"{worst.best_fixed}: {worst.time_s(worst.best_fixed):.1f} s"
        yield _ratio("disturbed_ratio", what, _over_best(worst), peer, 1.0, 1.15)


def _over_best(findings: Findings) -> float:
    return findings.time_s(WARM) / findings.time_s(findings.best_fixed)


def _slow_manager(findings: Findings) -> Iterator[Figure]:
    best = min((name for name in findings.trials if name.startswith("window")), key=findings.mean_usable_s)
    what = "ours warm, controller manager at its default: mean time to usable over the best window's"
    peer = f"{best}: {findings.mean_usable_s(best):.1f} s"
    yield _ratio(
        "kcm_mean_usable_ratio", what, findings.mean_usable_s(WARM) / findings.mean_usable_s(best), peer, 1.05, 1.15
    )


def _own(own: OwnRequests) -> Iterator[Figure]:
    what = f"the service's own requests per node, {own.nodes} nodes on Karpenter"
    yield Figure(name="requests_per_node", what=what, value=own.per_node, unit="requests", goal=2, floor=4)


def _errors(groups: Mapping[str, Findings]) -> Iterator[Figure]:
    ours = sum(findings.errors((COLD, WARM)) for findings in groups.values())
    herd = sum(findings.errors((HERD,)) for findings in groups.values())
    what = "429 and 5xx in all of our trials"
    yield Figure(name="errors", what=what, value=ours, unit="answers", peer=f"herds: {herd:.0f}")


def _ratio(name: str, what: str, value: float, peer: str, goal: float, floor: float) -> Figure:
    return Figure(name=name, what=what, value=value, unit="x", peer=peer, goal=goal, floor=floor)
