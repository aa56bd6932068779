"""A plan for machines, as docs/schemas/plan.json says, and a saved one against what happened: the nodes that
came since, by their own timestamps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from balloons.cluster.object_fields_and_flags import moment, part, parts, text, whole
from balloons.preview.calibrate import Birth
from balloons.preview.forecast import Band, Wave
from balloons.preview.inputs import Known, PlanInputs, PoolFacts
from balloons.preview.scale_up_plan import ScaleUpPlan, Side
from balloons.preview.workload_pods_and_fitting import Fitting
from throttler.kube.quantities_and_durations import format_resources, rfc3339

API_VERSION = "balloons.kube-balloons.github.io/v1"
MOST_MOMENTS = 240
"""Of the timeline; a longer one is thinned out evenly."""
MOST_SIDE_MOMENTS = 120
"""Of the course of each policy."""
Json = dict[str, Any]
KIND = "Plan"
MOST = 1e12
"""Of any figure of a saved plan that is read: with larger ones axes and percentages mean nothing."""
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


def plan_json(plan: ScaleUpPlan, made_by: str = "") -> Json:
    """The whole plan as plain data; `made_by` is the version of the program."""
    forecast = plan.forecast
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "createdAt": rfc3339(plan.at),
        "madeBy": made_by,
        "request": _request(plan),
        "cluster": _cluster(plan),
        "nodesComing": plan.coming,
        "eta": _eta(forecast.eta_s, plan.at) if forecast else None,
        "firstNode": _band(forecast.first_s) if forecast else None,
        "limit": _limit(plan),
        "waves": [_wave(wave) for wave in plan.waves],
        "timeline": _timeline(plan),
        "killTimer": _kill_timer(plan),
        "pacing": {"policy": plan.policy, "sides": [_side_over_time(side) for side in plan.sides]},
        "ceilings": [
            {"name": ceiling.name, "nodes": ceiling.nodes, "detail": ceiling.detail} for ceiling in plan.pool.ceilings
        ],
        "cost": _cost(plan),
        "pods": _pods(plan.fitting) if plan.fitting else None,
        "inputs": [_input(*figure) for figure in figures(plan.inputs, plan.pool)],
        "unseen": list(plan.inputs.unseen),
        "broken": list(plan.broken),
    }


def figures(inputs: PlanInputs, pool: PoolFacts) -> Iterator[tuple[str, Known, str]]:
    """Every figure that went in: name, value, unit."""
    servers, controllers = inputs.servers, inputs.controllers
    yield "boot", pool.boot_s, "seconds"
    yield "bootSpread", pool.boot_jitter, "share"
    yield "join", inputs.join_s, "seconds"
    yield "reaction", controllers.reaction_s, "seconds"
    yield "daemonSets", controllers.daemon_sets, "count"
    yield "daemonPodRate", controllers.pods_per_s, "perSecond"
    yield "bindRate", controllers.binds_per_s, "perSecond"
    yield "killTimer", controllers.kill_timer_s, "seconds"
    yield "apiServers", servers.count, "count"
    yield "serverCores", servers.cores, "cores"
    yield "background", servers.background, "share"
    yield "joinCost", servers.join_cpu_s, "coreSeconds"
    yield "joinRequests", servers.requests_per_join, "count"
    if controllers.launches_per_s is not None:
        yield "launchRate", controllers.launches_per_s, "perSecond"


def side_json(side: Side) -> Json:
    """One policy's outcome."""
    return {
        "policy": side.policy,
        "etaSeconds": seconds(side.eta_s),
        "peakRequestsPerSecond": round(side.peak_requests_per_s, 1),
        "peakUtilisation": round(side.peak_utilisation, 3),
        "refusedShare": round(side.error_share, 5),
        "slowerBy": round(side.slower_by, 2),
        "hurtSeconds": round(side.hurt_s, 1),
        "hurtShare": round(side.hurt_share, 3),
        "slowerByHigh": round(side.slower_by_high, 2),
        "isStuck": side.is_stuck,
    }


def _side_over_time(side: Side) -> Json:
    course = thinned(list(side.moments), MOST_SIDE_MOMENTS)
    return {
        **side_json(side),
        "timeline": [
            {
                "atSeconds": seconds(moment.at_s),
                "ready": moment.ready,
                "utilisation": round(moment.utilisation, 3),
                "slowerBy": round(moment.slower_by, 2),
            }
            for moment in course
        ],
    }


def seconds(value: float | None) -> float | None:
    """To a tenth."""
    return None if value is None else round(value, 1)


def _request(plan: ScaleUpPlan) -> Json:
    asked = plan.asked
    return {
        "pool": plan.pool.name,
        "addNodes": asked.add,
        "toNodes": plan.pool.nodes + asked.add,
        "withinSeconds": seconds(asked.within_s),
        "inWords": asked.in_words,
    }


def _cluster(plan: ScaleUpPlan) -> Json:
    inputs = plan.inputs
    return {
        "autoscaler": inputs.autoscaler,
        "nodes": inputs.nodes,
        "poolNodes": plan.pool.nodes,
        "warmNodes": plan.pool.warm,
        "throttle": inputs.throttle.name if inputs.throttle else None,
    }


def _eta(eta: Band, at: datetime) -> Json:
    return {**_band(eta), "at": rfc3339(at + timedelta(seconds=eta.median)) if eta.median is not None else None}


def _band(band: Band) -> Json:
    return {
        "medianSeconds": seconds(band.median),
        "lowSeconds": seconds(band.low),
        "highSeconds": seconds(band.high),
    }


def _limit(plan: ScaleUpPlan) -> Json | None:
    limit = plan.limit
    if limit is None:
        return None
    words = {"name": limit.value, "because": limit.because, "meaning": limit.meaning}
    return {**words, "etaWithoutSeconds": seconds(plan.without_limit_s), "fix": plan.fix}


def _wave(wave: Wave) -> Json:
    return {
        "fromSeconds": seconds(wave.from_s),
        "untilSeconds": seconds(wave.until_s),
        "nodes": wave.nodes,
        "ready": wave.ready,
        "limit": wave.limit.value,
        "because": wave.limit.because,
        "object": wave.name,
    }


def _timeline(plan: ScaleUpPlan) -> list[Json]:
    return [
        {
            "atSeconds": seconds(moment.at_s),
            "waiting": moment.waiting,
            "booting": moment.booting,
            "held": moment.held,
            "joining": moment.joining,
            "ready": moment.ready,
            "utilisation": round(moment.utilisation, 3),
        }
        for moment in thinned([moment for moment in plan.moments if moment.at_s >= 0])
    ]


def thinned(moments: list[Any], most: int = MOST_MOMENTS) -> list[Any]:
    """At most so many of them, the first and the last included."""
    if len(moments) <= most:
        return moments
    step = (len(moments) - 1) / (most - 1)
    return [moments[round(index * step)] for index in range(most)]


def _kill_timer(plan: ScaleUpPlan) -> Json:
    lost = plan.forecast.lost if plan.forecast else Band(0.0, 0.0, 0.0)
    return {"seconds": plan.inputs.controllers.kill_timer_s.value, "lost": lost.median, "lostHigh": lost.high}


def _cost(plan: ScaleUpPlan) -> Json:
    cost = plan.cost
    return {
        "pricePerNodeHour": cost.price_per_hour,
        "waiting": None if cost.waiting is None else round(cost.waiting, 2),
        "warmPerHour": None if cost.warm_per_hour is None else round(cost.warm_per_hour, 2),
        "nodeSecondsNotUsable": round(plan.forecast.node_seconds) if plan.forecast else 0,
        "noPriceFor": cost.unpriced or None,
    }


def _pods(fitting: Fitting) -> Json:
    return {
        "pods": fitting.pods,
        "onNodesThere": fitting.on_there,
        "onNewNodes": fitting.on_new,
        "newNodes": dict(fitting.new_nodes),
        "unjudged": fitting.unjudged,
        "gangs": [
            {
                "name": gang.name,
                "pods": gang.pods,
                "fitsNow": gang.fits_now,
                "isPlaceable": gang.is_placeable,
                "podsOnNewNodes": gang.pods_on_new,
            }
            for gang in fitting.gangs
        ],
        "unplaceable": [
            {"pods": group.pods, "requests": format_resources(group.requests), "reason": group.reason}
            for group in fitting.unplaceable
        ],
    }


def _input(name: str, known: Known, unit: str) -> Json:
    return {
        "name": name,
        "value": round(known.value, 4),
        "unit": unit,
        "source": known.source.value,
        "detail": known.detail,
        "spread": round(known.spread, 3),
    }


class SavedPlanError(ValueError):
    """The file is no plan that we wrote; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a comparison reads of a saved plan; times in seconds."""

    at: datetime
    pool: str
    """Where `pods_pools` are several, the one that was to get most."""
    nodes: int
    eta_s: float | None
    low_s: float | None
    high_s: float | None
    reaction_s: float
    """From the demand, the plan's second 0, to the first machine asked for."""
    curve: tuple[tuple[float, int], ...]
    """(seconds, ready nodes)."""
    pods_pools: frozenset[str] = frozenset()
    """Those that pods were to get nodes of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedStep:
    """When so many nodes were to be ready, and when they were; None: not yet, or never predicted."""

    ready: int
    predicted_s: float | None
    real_s: float | None

    @property
    def off_by(self) -> float | None:
        """Real over predicted, less one."""
        if self.predicted_s is None or self.real_s is None or not self.predicted_s:
            return None
        return self.real_s / self.predicted_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`came` counts nodes that are there and were not when the plan was made, `ready` those that are usable."""

    saved: Saved
    came: int
    ready: int
    since_s: float
    """From when the plan was made to when the demand came: the plan's second 0."""
    steps: tuple[ComparedStep, ...]

    @property
    def is_in_band(self) -> bool | None:
        """Whether the end fell into the plan's band; None before the end."""
        end_s = self.steps[-1].real_s if self.steps else None
        if end_s is None or self.saved.low_s is None:
            return None
        return self.saved.low_s <= end_s <= (self.saved.high_s if self.saved.high_s is not None else end_s)


def saved_plan(body: Any) -> Saved:
    """Read a plan's JSON; raises SavedPlanError."""
    at = moment(body, "createdAt")
    if text(body, "kind") != KIND or at is None:
        raise SavedPlanError("no saved plan; accepted: a file that `balloons plan --save FILE` wrote")
    nodes = whole(body, "nodesComing")
    if nodes is None or not 1 <= nodes <= 10_000_000:
        raise SavedPlanError(f"nodesComing {nodes}: nothing was to come, so nothing can be compared")
    eta = part(body, "eta")
    return Saved(
        at=at,
        pool=text(body, "request", "pool"),
        nodes=nodes,
        eta_s=_number(eta, "medianSeconds"),
        low_s=_number(eta, "lowSeconds"),
        high_s=_number(eta, "highSeconds"),
        reaction_s=_reaction_s(body),
        curve=tuple(_points(body)),
        pods_pools=frozenset(part(body, "pods", "newNodes")),
    )


def compared(saved: Saved, births: Sequence[Birth]) -> Comparison:
    """The plan against how these nodes came to be."""
    since = saved.at.timestamp()
    pools = {saved.pool, *saved.pods_pools}
    came = [birth for birth in births if birth.created_s >= since and not pools.isdisjoint(("", birth.pool))]
    zero_s = _begin_s(came, since, saved.reaction_s)
    usable = sorted(birth.usable_s - zero_s for birth in came if birth.usable_s is not None)
    steps = [_step(max(1, round(share * saved.nodes)), saved, usable) for share in SHARES]
    return Comparison(saved=saved, came=len(came), ready=len(usable), since_s=zero_s - since, steps=tuple(steps))


def _begin_s(came: Sequence[Birth], since_s: float, reaction_s: float) -> float:
    """When the demand came: with the pods that nodes were made for, or at the earliest order less the reaction.

    Without either nothing tells when it began but the plan itself.
    """
    wanted = [birth.wanted_s for birth in came if birth.wanted_s is not None and birth.wanted_s >= since_s]
    asked = [
        birth.asked_s - (reaction_s if birth.is_asked_by_claim else 0.0)
        for birth in came
        if birth.asked_s is not None and birth.asked_s >= since_s
    ]
    return max(since_s, min(wanted or asked, default=since_s))


def _step(ready: int, saved: Saved, usable: Sequence[float]) -> ComparedStep:
    predicted = next((at_s for at_s, count in saved.curve if count >= ready), None)
    if ready == saved.nodes:
        predicted = saved.eta_s
    return ComparedStep(ready=ready, predicted_s=predicted, real_s=usable[ready - 1] if len(usable) >= ready else None)


def _points(body: Any) -> list[tuple[float, int]]:
    points = []
    for point in parts(body, "timeline"):
        at_s, ready = _number(point, "atSeconds"), whole(point, "ready")
        if at_s is not None and ready is not None:
            points.append((at_s, ready))
    return points


def _reaction_s(body: Any) -> float:
    reactions = (_number(figure, "value") for figure in parts(body, "inputs") if text(figure, "name") == "reaction")
    return next((figure for figure in reactions if figure is not None), 0.0)


def _number(value: Mapping[str, Any], key: str) -> float | None:
    """None also for what JSON calls Infinity and NaN, and for more than a float holds."""
    number = value.get(key)
    if not isinstance(number, int | float) or isinstance(number, bool):
        return None
    return float(number) if abs(number) <= MOST else None


def comparison_json(comparison: Comparison, at: datetime) -> dict[str, Any]:
    """For machines."""
    return {
        "apiVersion": "balloons.kube-balloons.github.io/v1",
        "kind": "PlanComparison",
        "createdAt": rfc3339(at),
        "plannedAt": comparison.saved.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "pool": comparison.saved.pool,
        "nodesPlanned": comparison.saved.nodes,
        "nodesCame": comparison.came,
        "nodesReady": comparison.ready,
        "startedAfterSeconds": seconds(comparison.since_s),
        "isInBand": comparison.is_in_band,
        "steps": [
            {
                "ready": step.ready,
                "predictedSeconds": step.predicted_s,
                "realSeconds": seconds(step.real_s),
                "offBy": None if step.off_by is None else round(step.off_by, 4),
            }
            for step in comparison.steps
        ],
    }
