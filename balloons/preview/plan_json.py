"""A plan for machines: docs/schemas/plan.json says what may be relied on. Durations in seconds, times RFC 3339 UTC."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from balloons.preview.fitting import Fitting
from balloons.preview.forecast import Band, Forecast
from balloons.preview.inputs import PlanInputs, PoolFacts
from balloons.preview.known import Known
from balloons.preview.scale_up_plan import ScaleUpPlan, Side
from balloons.preview.waves import Wave
from throttler.kube.quantity import format_resources

API_VERSION = "balloons.kube-balloons.github.io/v1"
MOST_MOMENTS = 240
"""Of the timeline; a longer one is thinned out evenly."""
MOST_SIDE_MOMENTS = 120
"""Of the course of each policy."""

Json = dict[str, Any]


def plan_json(plan: ScaleUpPlan, made_by: str = "") -> Json:
    """The whole plan as plain data; `made_by` is the version of the program."""
    found = plan.forecast
    return {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "createdAt": rfc3339(plan.at),
        "madeBy": made_by,
        "request": _request(plan),
        "cluster": _cluster(plan),
        "nodesComing": plan.coming,
        "eta": _eta(found.eta_s, plan.at) if found else None,
        "firstNode": _band(found.first_s) if found else None,
        "limit": _limit(plan),
        "waves": [_wave(wave) for wave in plan.waves],
        "timeline": _timeline(found) if found else [],
        "killTimer": _kill_timer(plan),
        "pacing": {"policy": plan.policy, "sides": [_side_over_time(side) for side in plan.sides]},
        "ceilings": [{"name": each.name, "nodes": each.nodes, "detail": each.detail} for each in plan.pool.ceilings],
        "cost": _cost(plan),
        "pods": _pods(plan.fitting) if plan.fitting else None,
        "inputs": [_input(*each) for each in figures(plan.inputs, plan.pool)],
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


def rfc3339(at: datetime) -> str:
    """To the second, UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


def _eta(found: Band, at: datetime) -> Json:
    return {**_band(found), "at": rfc3339(at + timedelta(seconds=found.median)) if found.median is not None else None}


def _band(found: Band) -> Json:
    return {
        "medianSeconds": seconds(found.median),
        "lowSeconds": seconds(found.low),
        "highSeconds": seconds(found.high),
    }


def _limit(plan: ScaleUpPlan) -> Json | None:
    limit, found = plan.limit, plan.relief
    if limit is None:
        return None
    words = {"name": limit.value, "because": limit.because, "meaning": limit.meaning}
    return {**words, "etaWithoutSeconds": seconds(found.without_it_s) if found else None, "fix": plan.fix}


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


def _timeline(found: Forecast) -> list[Json]:
    return [
        {
            "atSeconds": seconds(each.at_s),
            "waiting": each.waiting,
            "booting": each.booting,
            "held": each.held,
            "joining": each.joining,
            "ready": each.ready,
            "utilisation": round(each.utilisation, 3),
        }
        for each in thinned([moment for moment in found.run.moments if moment.at_s >= 0])
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


def _pods(found: Fitting) -> Json:
    return {
        "pods": found.pods,
        "onNodesThere": found.on_there,
        "onNewNodes": found.on_new,
        "newNodes": dict(found.new_nodes),
        "unjudged": found.unjudged,
        "gangs": [
            {
                "name": each.name,
                "pods": each.pods,
                "fitsNow": each.fits_now,
                "isPlaceable": each.is_placeable,
                "podsOnNewNodes": each.pods_on_new,
            }
            for each in found.gangs
        ],
        "unplaceable": [
            {"pods": each.pods, "requests": format_resources(each.requests), "reason": each.reason}
            for each in found.unplaceable
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
