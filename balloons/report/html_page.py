"""A plan as one HTML file: nothing is loaded, nothing runs, and whatever came from a cluster is escaped."""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from balloons.report import sentences
from balloons.report.chart import DARK, NARROW, VARIABLES, WIDE
from balloons.report.document import Document
from balloons.report.png_and_svg import FONTS, Chart, NothingToDrawError, inline_svg
from balloons.report.sentences import answer_of, arrowed, shown
from balloons.text_and_colours import duration, printable, share

MOST_ROWS = 50
"""Of any table or list: a page is for people."""
MOST_JSON = 150_000
"""Characters of the plan itself; with them a page stays under 500 KB."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of the page."""

    name: str
    value: str
    note: str = ""


def page(plan: Document, version: str) -> str:
    """The page; `version` is that of the program that draws it. Equal for equal arguments."""
    environment = Environment(
        loader=PackageLoader("balloons.report", ""), autoescape=True, undefined=StrictUndefined, trim_blocks=False
    )
    return environment.get_template("page.html").render(_values(plan, version))


def _values(plan: Document, version: str) -> dict[str, Any]:
    wide, narrow = _drawings(plan, Chart.STAGES)
    compared, compared_narrow = _drawings(plan, Chart.COMPARED)
    answer = answer_of(plan)
    return {
        "title": arrowed(sentences.title(plan)),
        "made": f"Planned {plan.created_at[:10]} {plan.created_at[11:19]} UTC · {shown(plan.cluster.autoscaler)}",
        "when": sentences.when(plan),
        "limited_by": sentences.limited_by(plan),
        "level": answer.level.value,
        "answer": _together(answer.sentence),
        "fix": answer.command,
        "tiles": list(_tiles(plan)),
        "broken": sentences.first(
            [*map(shown, plan.broken[1:]), *filter(None, [sentences.nothing_seen(plan)])], MOST_ROWS
        ),
        "wide": wide,
        "narrow": narrow,
        "compared": compared,
        "compared_narrow": compared_narrow,
        "has_load": any(moment.utilisation is not None for moment in plan.timeline),
        "waves": [sentences.wave_row(number, wave) for number, wave in enumerate(plan.waves[:MOST_ROWS], start=1)],
        "more_waves": max(0, len(plan.waves) - MOST_ROWS),
        "reasons": _reasons(plan),
        "sides": _sides(plan),
        "risks": sentences.risks(plan),
        "cost": sentences.cost(plan),
        "ceilings": [
            (shown(ceiling.name), f"{ceiling.nodes:,}", shown(ceiling.detail)) for ceiling in plan.ceilings[:MOST_ROWS]
        ],
        "pods": sentences.first(sentences.pods(plan), MOST_ROWS),
        "inputs": [sentences.input_row(figure) for figure in plan.inputs[:MOST_ROWS]],
        "assumed": sentences.assumed(plan),
        "unseen": sentences.first(map(shown, plan.unseen), MOST_ROWS),
        "findings": _findings(plan),
        "found": _found(plan),
        "versions": _versions(plan, version),
        "body": _body(plan),
        "light": Markup(" ".join(f"{name}: {colour};" for colour, name in VARIABLES.items())),
        "dark": Markup(" ".join(f"{VARIABLES[colour]}: {dark};" for colour, dark in DARK.items())),
        "fonts": Markup(FONTS),
    }


def _drawings(plan: Document, chart: Chart) -> tuple[Markup, Markup]:
    """The drawing library escapes what it writes (xml.sax.saxutils), so that its SVG may stand as it is."""
    try:
        return Markup(inline_svg(plan, WIDE, chart)), Markup(inline_svg(plan, NARROW, chart))
    except NothingToDrawError:
        return Markup(), Markup()


def _tiles(plan: Document) -> list[Tile]:
    tiles, eta, limit = [], plan.eta, plan.limit
    if not plan.request.add_nodes:
        tiles.append(Tile("all ready", "now", sentences.no_longer(plan)))
    elif eta is None:
        tiles.append(Tile("all ready", "never", "none of them can come"))
    else:
        which = "all ready" if plan.nodes_coming == plan.request.add_nodes else f"{plan.nodes_coming:,} of them ready"
        tiles.append(Tile(which, sentences.ends(plan), f"nine in ten: {sentences.band(eta)}"))
    if plan.first_node is not None:
        tiles.append(Tile("first node", duration(plan.first_node.median_seconds), sentences.band(plan.first_node)))
    if limit is not None:
        without = limit.eta_without_seconds
        tiles.append(
            Tile("limited by", shown(limit.name), "" if without is None else f"without it {duration(without)}")
        )
    for side in plan.pacing.sides:
        if side.policy == plan.pacing.policy:
            note = f"{side.peak_requests_per_second:,.0f} requests/s, {share(side.refused_share)} refused"
            tiles.append(Tile("peak API load", share(side.peak_utilisation), _together(note)))
    return tiles


def _together(text: str) -> str:
    """A number and its sign stay in one line."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _reasons(plan: Document) -> list[tuple[str, str, str, str]]:
    return [
        (
            reason.because,
            reason.limit,
            "for ever" if reason.seconds is None else duration(reason.seconds),
            reason.meaning,
        )
        for reason in sentences.reasons(plan)[:MOST_ROWS]
    ]


def _sides(plan: Document) -> list[tuple[str, ...]]:
    rows = [(side, sentences.side_row(side)) for side in plan.pacing.sides[:MOST_ROWS]]
    return [(f"{name} *" if side.policy == plan.pacing.policy else name, *rest) for side, (name, *rest) in rows]


def _findings(plan: Document) -> list[tuple[str, ...]]:
    return [
        (finding.severity, finding.code, shown(finding.object), shown(finding.message), shown(finding.fix))
        for finding in (plan.findings or ())[:MOST_ROWS]
    ]


def _found(plan: Document) -> str:
    if plan.findings is None:
        return "not looked for"
    counts = Counter(finding.severity for finding in plan.findings)
    words = [("error", "errors"), ("warning", "warnings"), ("info", "info")]
    said = ", ".join(f"{counts[one]:,} {one if counts[one] == 1 else more}" for one, more in words if counts[one])
    return (said or "nothing") + (f"; the first {MOST_ROWS}" if len(plan.findings) > MOST_ROWS else "")


def _versions(plan: Document, version: str) -> list[tuple[str, str]]:
    throttle = plan.cluster.throttle
    return [
        ("this page", f"kube-balloons {version}"),
        ("the plan", f"kube-balloons {shown(plan.made_by) or '(version not said)'}"),
        ("detected", shown(plan.cluster.autoscaler)),
        ("JoinThrottle", shown(throttle) if throttle else "none: nodes join as they come"),
        ("asked for", shown(plan.request.in_words) or sentences.title(plan)),
        ("schema", plan.api_version),
    ]


def _body(plan: Document) -> str:
    """Empty where it is too large."""
    text = "\n".join(map(printable, json.dumps(msgspec.to_builtins(plan), indent=1).splitlines()))
    return text if len(text) <= MOST_JSON else ""
