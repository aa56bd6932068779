"""The picture of docs/architecture.md: what is read, decided and written, and the packages that do it."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 880, 560
_STYLE = """
.paper { fill: #ffffff } .box { fill: #eef2f6; stroke: #8d99a3 }
.tick { fill: none; stroke: #8d99a3; stroke-dasharray: 5 4 }
.edge { fill: #dbe9f6; stroke: #0072b2 }
.line { fill: none; stroke: #5b6770; stroke-width: 1.6 } .head { fill: #5b6770 }
.name { fill: #1f2933; font-weight: bold; font-size: 15px } .where { fill: #5b6770; font-size: 13px }
text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; text-anchor: middle }
@media (prefers-color-scheme: dark) {
.paper { fill: #171c21 } .box { fill: #242b32; stroke: #5b6770 } .tick { stroke: #5b6770 }
.edge { fill: #1d3346; stroke: #4aa3e0 } .line { stroke: #a4afb9 } .head { fill: #a4afb9 }
.name { fill: #e6eaee } .where { fill: #a4afb9 }
}
"""
LETTER = 8.6
"""Pixels that a bold letter takes at most, on average."""


@dataclass(frozen=True, slots=True)
class Box:
    """What it does, and the packages that do it."""

    left: int
    top: int
    width: int
    height: int
    name: str
    where: str
    style: str = "box"


BOXES = (
    Box(20, 20, 840, 58, "Kubernetes API servers", "nodes, pods, pools, throttles, limits of the autoscaler", "edge"),
    Box(40, 124, 240, 60, "Watch: what is there", "throttler/kube"),
    Box(600, 124, 240, 60, "Write: only what differs", "balloons/service, throttler/service"),
    Box(40, 252, 240, 60, "View: who runs where", "balloons/view"),
    Box(320, 252, 240, 60, "Decide: which balloons", "balloons/decide"),
    Box(600, 252, 240, 60, "Actions, each with why", "balloons/balloon_manifest"),
    Box(40, 364, 240, 60, "Joins: nodes on their way", "throttler/joins"),
    Box(320, 364, 240, 60, "Law: how many may join", "throttler/law"),
    Box(600, 364, 240, 60, "Levers: limits, gates", "throttler/levers"),
    Box(40, 478, 240, 60, "/metrics and Prometheus", "load, latency, refusals", "edge"),
    Box(320, 478, 240, 60, "Signals: do they keep up?", "throttler/scraping, throttler/signals"),
)
ARROWS = (
    "M160 78 V122",  # the API servers are watched
    "M160 184 V250",  # the caches give a view
    "M280 282 H318",
    "M560 282 H598",
    "M720 252 V186",  # actions are written
    "M720 124 V80",
    "M160 312 V362",  # the nodes of the view are counted as joins
    "M280 394 H318",
    "M560 394 H598",
    "M440 364 V314",  # the allowance
    "M840 394 H856 V154 H842",  # what levers write
    "M280 508 H318",
    "M440 478 V426",
)


def architecture() -> str:
    """The SVG, light and dark."""
    arrows = "\n".join(f'<path class="line" marker-end="url(#head)" d="{path}"/>' for path in ARROWS)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">
<title>What kube-balloons reads, decides and writes</title>
<style>{_STYLE}</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">\
<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>
<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="6"/>
<rect class="tick" x="20" y="208" width="846" height="232" rx="6"/>
<text class="where" x="440" y="230">one tick: pure functions of values</text>
<text class="where" x="448" y="343" style="text-anchor: start">allowance</text>
{arrows}
{"".join(map(_drawn, BOXES))}</svg>
"""


def _drawn(box: Box) -> str:
    middle, centre = box.left + box.width // 2, box.top + box.height // 2
    return (
        f'<rect class="{box.style}" x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" rx="5"/>\n'
        f'<text class="name" x="{middle}" y="{centre - 4}">{escape(box.name)}</text>\n'
        f'<text class="where" x="{middle}" y="{centre + 17}">{escape(box.where)}</text>\n'
    )
