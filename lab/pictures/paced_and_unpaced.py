"""One scale-up, at once and paced: nodes over time, the API servers' load, and what everybody else waits.

It is the scale-up that `balloons plan` predicts for `ASKED`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10

from balloons.preview.assumed import assumed_inputs
from balloons.preview.flow import Flow, Moment, flow
from balloons.preview.forecast import SLOW, forecast
from balloons.preview.policies import NONE, THROTTLE, policy_maker
from balloons.preview.stated import Stated, with_stated
from balloons.preview.words import duration

NODES, DAEMON_SETS = 2_000, 10
ASKED = ("plan", "--offline", "--add", str(NODES), "--daemonsets", str(DAEMON_SETS))
WIDTH, HEIGHT = 860, 640
LEFT, RIGHT, TOP = 74, 30, 104
PANEL, GAP = 128, 34
"""Height of a panel, and what is between two: its title."""
MOST_SLOWER = 1000.0
"""Where the last panel ends: times the usual wait, by a logarithmic scale."""
STYLE = """
svg{font:14px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;
--paper:#fff;--ink:#1f2933;--faint:#5b6770;--line:#d5dbe1;--once:#c2410c;--paced:#0072b2}
@media(prefers-color-scheme:dark){svg{
--paper:#171c21;--ink:#e6eaee;--faint:#a4afb9;--line:#39424c;--once:#ff8a3d;--paced:#58b0f0}}
rect{fill:var(--paper)}text{fill:var(--ink)}.faint{fill:var(--faint);font-size:12px}
.title{font-size:19px;font-weight:600}.panel{font-weight:600}.grid{stroke:var(--line)}
polyline{fill:none;stroke-width:2.5}polyline.once{stroke:var(--once)}polyline.paced{stroke:var(--paced)}
tspan{font-weight:600}tspan.once{fill:var(--once)}tspan.paced{fill:var(--paced)}
"""


@dataclass(frozen=True)
class Panel:
    """One of the three charts: what it shows of a moment, between 0 and 1."""

    title: str
    ticks: Sequence[tuple[float, str]]
    height: Callable[[Moment, Flow], float]


PANELS = (
    Panel(
        "Nodes that are ready",
        [(0.0, "0"), (0.5, f"{NODES // 2:,}"), (1.0, f"{NODES:,}")],
        lambda moment, _: moment.ready / NODES,
    ),
    Panel(
        "How busy the API servers are",
        [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")],
        lambda moment, _: min(1.0, moment.utilisation),
    ),
    Panel(
        "How much longer everybody else waits",
        [(0.0, "1x"), (1 / 3, "10x"), (2 / 3, "100x"), (1.0, "1,000x")],
        lambda moment, run: (
            log10(min(MOST_SLOWER, max(1.0, moment.latency_s / run.idle_latency_s))) / log10(MOST_SLOWER)
        ),
    ),
)


@dataclass(frozen=True)
class Way:
    """One of the two scale-ups: how it is called, when it is over in the median world, and the run that is drawn."""

    name: str
    eta_s: float | None
    run: Flow

    @property
    def in_words(self) -> str:
        """When all nodes are ready, and what others feel."""
        slower = self.run.worst_latency_s / self.run.idle_latency_s
        felt = f"others wait up to {slower:.0f} times as long" if slower >= SLOW else "others notice nothing"
        return f"all ready after {duration(self.eta_s)}, {felt}"


def draw() -> str:
    """The SVG: the same bytes for the same law and simulator."""
    ways = _ways()
    longest_s = max(way.run.moments[-1].at_s for way in ways)
    parts = [_panel(number, panel, ways, longest_s) for number, panel in enumerate(PANELS)]
    return "\n".join([_head(*ways), *parts, _time_axis(longest_s), "</svg>", ""])


def _ways() -> tuple[Way, Way]:
    """Both as the plan has them, drawn in the median world of the first: only pacing differs."""
    inputs = with_stated(assumed_inputs(), Stated(daemonsets=DAEMON_SETS))
    pool, throttled = inputs.pools[0], policy_maker(THROTTLE, None)
    at_once = forecast(inputs, pool, NODES, policy_maker(NONE, None))
    paced = forecast(inputs, pool, NODES, throttled)
    world = at_once.world
    return (
        Way("once", at_once.eta_s.median, at_once.run),
        Way("paced", paced.eta_s.median, flow(world, throttled(world.scenario))),
    )


def _head(at_once: Way, paced: Way) -> str:
    label = f"{NODES:,} nodes join. At once: {at_once.in_words}. Paced: {paced.in_words}."
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">
<style>{STYLE}</style>
<rect width="{WIDTH}" height="{HEIGHT}" rx="8"/>
<text class="title" x="{LEFT}" y="34">{NODES:,} nodes join</text>
<text x="{LEFT}" y="57"><tspan class="once">at once</tspan>: {at_once.in_words}</text>
<text x="{LEFT}" y="77"><tspan class="paced">paced</tspan>: {paced.in_words}</text>"""


def _panel(number: int, panel: Panel, ways: Sequence[Way], longest_s: float) -> str:
    top = TOP + number * (PANEL + GAP) + 14
    parts = [f'<text class="panel" x="{LEFT}" y="{top - 8}">{panel.title}</text>']
    for height, label in panel.ticks:
        y = top + PANEL * (1.0 - height)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(f'<text class="faint" x="{LEFT - 8}" y="{y + 4:g}" text-anchor="end">{label}</text>')
    for way in ways:
        points = [
            f"{_x(moment.at_s, longest_s):.1f},{top + PANEL * (1.0 - panel.height(moment, way.run)):.1f}"
            for moment in way.run.moments
            if moment.at_s >= 0.0
        ]
        parts.append(f'<polyline class="{way.name}" points="{" ".join(points)}"/>')
    return "\n".join(parts)


def _time_axis(longest_s: float) -> str:
    y = TOP + len(PANELS) * (PANEL + GAP) + 2
    minutes = range(0, int(longest_s // 60) + 1, 2)
    ticks = [
        f'<text class="faint" x="{_x(each * 60.0, longest_s):.1f}" y="{y}" text-anchor="middle">{each} min</text>'
        for each in minutes
    ]
    note = f"Predicted by: balloons {' '.join(ASKED)}. Both meet the same machines and servers."
    return "\n".join([*ticks, f'<text class="faint" x="{LEFT}" y="{y + 26}">{note}</text>'])


def _x(at_s: float, longest_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at_s / longest_s
