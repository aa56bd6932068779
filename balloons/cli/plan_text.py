"""A plan as text: what comes first is what one asks first. Pure."""

from balloons.cli.look import Look
from balloons.cli.table import Row, fitting, lines
from balloons.preview.compare import Comparison
from balloons.preview.fitting import GangFit
from balloons.preview.forecast import Forecast
from balloons.preview.plan import Plan
from balloons.preview.plan_json import figures
from balloons.preview.waves import Wave
from balloons.preview.words import POLICIES, TITLES, count, duration, figure, share
from balloons.printable import printable

WAVES = ("WAVE", "FROM", "UNTIL", "NODES", "READY", "PER-MIN", "LIMITED-BY")
SIDES = ("POLICY", "ETA", "PEAK-REQ/S", "API-LOAD", "REFUSED", "SLOWER-BY")
STEPS = ("READY", "PREDICTED", "REAL", "OFF-BY")
INPUTS = ("INPUT", "VALUE", "SOURCE", "DETAIL")
BOLD, END = "\x1b[1m", "\x1b[0m"


def plan_lines(plan: Plan, look: Look, chart: list[str]) -> list[str]:
    """Everything; `chart` is drawn by whoever has a terminal."""
    parts = [_head(plan, look), _pods(plan), _waves(plan.waves, look), chart, _load(plan, look), _risks(plan)]
    parts += [_cost(plan), _inputs(plan, look), list(map(printable, plan.inputs.unseen))]
    return [line for index, part in enumerate(filter(None, parts)) for line in ([""] if index else []) + part]


def wave_rows(waves: tuple[Wave, ...]) -> list[Row]:
    """One row per wave."""
    return [
        {
            "WAVE": str(number),
            "FROM": duration(wave.from_s),
            "UNTIL": duration(wave.until_s),
            "NODES": f"{wave.nodes:+,}" if wave.until_s is not None else f"{wave.nodes:,} missing",
            "READY": f"{wave.ready:,}",
            "PER-MIN": f"{60 * wave.nodes / wave.seconds:,.0f}" if wave.seconds else "0",
            "LIMITED-BY": f"{wave.limit.value} ({wave.name})" if wave.name else wave.limit.value,
        }
        for number, wave in enumerate(waves, start=1)
    ]


def _head(plan: Plan, look: Look) -> list[str]:
    inputs, asked = plan.inputs, plan.asked
    name = f" of {printable(plan.pool.name)}" if plan.pool.name else ""
    text = [
        f"{count(asked.add, 'node')} more: {plan.pool.nodes:,} -> {plan.pool.nodes + asked.add:,}{name}",
        f"Seen: {printable(inputs.autoscaler)}",
    ]
    if plan.forecast is not None:
        text.append(_bold(_eta(plan, plan.forecast), look))
    if plan.limit is not None:
        text.append(f"Limited by: {plan.limit.value}: {plan.limit.meaning}.{_without(plan)}")
    return text


def _without(plan: Plan) -> str:
    """Said where it would help by a twentieth or more."""
    found = plan.relief
    if found is None or found.share is None or found.share > 0.95:
        return ""
    return f" Without that: {duration(found.without_it_s)}."


def _eta(plan: Plan, found: Forecast) -> str:
    eta = found.eta_s
    if eta.median is None:
        return f"Ready: not within 12 h ({count(found.run.moments[-1].ready, 'node')} by then)"
    at_least = "at least " if found.is_collapse else ""
    which = "" if plan.coming == plan.asked.add else f"{plan.coming:,} of them "
    high = duration(eta.high) if eta.high is not None else "no end"
    first = duration(found.first_s.median)
    likely = f"90 %: {duration(eta.low)} to {high}"
    return f"Ready: {which}in {at_least}{duration(eta.median)} ({likely}); the first after {first}"


def _bold(text: str, look: Look) -> str:
    return f"{BOLD}{text}{END}" if look.is_coloured else text


def _waves(waves: tuple[Wave, ...], look: Look) -> list[str]:
    return table(WAVES, wave_rows(waves), look) if waves else []


def table(headers: tuple[str, ...], rows: list[Row], look: Look) -> list[str]:
    """As every table of this program: columns that do not fit are left out from the right."""
    shown = fitting(headers, rows, look.width, kept=2)
    return lines(shown, rows, has_headers=look.has_headers)


def _pods(plan: Plan) -> list[str]:
    found = plan.fitting
    if found is None:
        return []
    new = ", ".join(f"{nodes:,} {printable(pool) or 'new'}" for pool, nodes in sorted(found.new_nodes.items()))
    text = [f"{count(found.pods, 'pod')}: {found.on_there:,} fit nodes that are there, {found.on_new:,} need new ones"]
    text[0] += f" ({new})" if new else ""
    text += [
        f"Gang {printable(gang.name)}, {count(gang.pods, 'pod')}: whole {_when(gang, plan)}" for gang in found.gangs
    ]
    text += [f"{count(each.pods, 'pod')} cannot run: {each.reason}" for each in found.unplaceable]
    if found.unjudged:
        text.append(f"{count(found.unjudged, 'pod')} with rules that are not judged here (volumes, zones, other pods)")
    return text


def _when(gang: GangFit, plan: Plan) -> str:
    if not gang.is_placeable:
        return "never: not all of it fits"
    if gang.fits_now:
        return "now, on nodes that are there"
    if plan.ceiling is not None or plan.forecast is None:
        return "never: not all nodes that it needs can come"
    return f"in {duration(plan.forecast.eta_s.median)}"


def _load(plan: Plan, look: Look) -> list[str]:
    rows: list[Row] = [
        {
            "POLICY": POLICIES.get(side.policy, side.policy) + (" *" if side.policy == plan.policy else ""),
            "ETA": duration(side.eta_s),
            "PEAK-REQ/S": f"{side.peak_requests_per_s:,.0f}",
            "API-LOAD": share(side.peak_utilisation),
            "REFUSED": share(side.error_share),
            "SLOWER-BY": f"{side.slower_by:,.1f}x",
        }
        for side in plan.sides
    ]
    return table(SIDES, rows, look) if rows else []


def _risks(plan: Plan) -> list[str]:
    found = [f"! {printable(each)}" for each in plan.broken]
    if plan.forecast is not None and plan.forecast.is_collapse:
        found.append(
            f"! The API servers would refuse {share(plan.forecast.error_share)} of all requests; "
            "expect it to take longer than this, and everybody else to feel it"
        )
    timer_s = plan.inputs.controllers.kill_timer_s.value
    if plan.forecast is not None and not plan.forecast.lost.high:
        found.append(f"No machine is lost to its kill timer of {duration(timer_s)}.")
    return found


def _cost(plan: Plan) -> list[str]:
    cost = plan.cost
    if cost.price_per_hour is None:
        return [f"No price for {printable(cost.unpriced)}: give one with --price."]
    text = [f"Waiting costs {cost.waiting or 0:,.2f}: machines paid for before they are usable."]
    if cost.warm_per_hour:
        text.append(f"Warmth costs {cost.warm_per_hour:,.2f} per hour: {count(plan.pool.warm, 'warm node')}.")
    return text


def _inputs(plan: Plan, look: Look) -> list[str]:
    rows: list[Row] = [
        {
            "INPUT": TITLES[name],
            "VALUE": figure(known.value, unit),
            "SOURCE": known.source.value,
            "DETAIL": known.detail,
        }
        for name, known, unit in figures(plan.inputs, plan.pool)
    ]
    rows += [
        {"INPUT": "ceiling", "VALUE": f"{each.nodes:,} more", "SOURCE": each.name, "DETAIL": each.detail}
        for each in plan.pool.ceilings
    ]
    return table(INPUTS, rows, look)


def comparison_lines(found: Comparison, look: Look) -> list[str]:
    """A saved plan against what happened."""
    saved = found.saved
    name = f" in {printable(saved.pool)}" if saved.pool else ""
    text = [
        f"Planned {saved.at:%Y-%m-%d %H:%M:%S} UTC: {count(saved.nodes, 'node')}{name} in {duration(saved.eta_s)} "
        f"(90 %: {duration(saved.low_s)} to {duration(saved.high_s)})",
        f"Since then {count(found.came, 'node')} came, {found.ready:,} of them are usable; "
        f"it began {duration(max(0.0, found.since_s))} after the plan",
    ]
    if found.is_in_band is not None:
        text.append("The end is inside the plan's band." if found.is_in_band else "The end is outside the plan's band.")
    rows: list[Row] = [
        {
            "READY": f"{step.ready:,}",
            "PREDICTED": duration(step.predicted_s),
            "REAL": "not yet" if step.real_s is None else duration(step.real_s),
            "OFF-BY": "" if step.off_by is None else f"{100 * step.off_by:+.0f} %",
        }
        for step in found.steps
    ]
    return [*text, "", *table(STEPS, rows, look)]
