"""The dashboard Throttle: pace against the health of the API servers, with the reasons marked on every panel."""

from __future__ import annotations

from balloons.text_and_colours import BAD_LIGHT, GOOD_LIGHT, WARNING_LIGHT
from lab.monitoring.board import Annotation, Board, Kind, Panel, Query, Row, Step, Word, number
from lab.monitoring.dashboard_variables import CLUSTER, OF_CLUSTER, OF_THROTTLE, THROTTLE, of_throttle

_RATE = "$__rate_interval"
_JOINED = f"sum by (cluster, throttle) (rate(kube_balloons_throttle_joined_total{{{THROTTLE}}}[{_RATE}]))"
_AGE = f"max by (server) (kube_balloons_throttle_server_reading_age_seconds{{{CLUSTER}}})"
_CEILING = of_throttle("lever_ceiling", "lever", "resource")
_CEILING_IN_BYTES = of_throttle("lever_ceiling", "lever", "resource", resource="memory|.*storage.*")
BRAKES = (
    *("BackingOff", "Crowded", "Errors", "Recovering", "SignalsLost", "SignalsStale", "ServerSilent", "Alarm"),
    *("ControllerManager", "Deadline", "IdleErrors", "FloorPace", "DelayNotOurs"),
)
"""Reasons that cut or freeze the window: what is marked on the panels."""


def _stage(name: str) -> str:
    return of_throttle("nodes", stage=name)


_NOW = Row(
    "Now",
    (
        number("Pace", "Joins per minute that the window means.", of_throttle("pace_joins_per_minute"), "{{throttle}}"),
        number(
            "Window",
            "Joins that may load the API servers at the same time.",
            of_throttle("window_joins"),
            "{{throttle}}",
        ),
        number("In flight", "Machines asked for that are no usable nodes yet.", _stage("in_flight"), "{{throttle}}"),
        number("Waiting", "Nodes that are wanted and not asked for yet.", _stage("waiting"), "{{throttle}}"),
        number(
            "Controller manager",
            "Throttles whose joins wait for its own request limit, and not for the API servers: no pace helps.",
            f"sum({of_throttle('is_controller_bound')})",
            "wait for it",
            below=GOOD_LIGHT,
            steps=(Step(1, WARNING_LIGHT),),
        ),
        number(
            "Servers read",
            "API servers whose figures are fresh enough to act on.",
            f"sum(max by (cluster, server) (kube_balloons_throttle_server_is_fresh{{{CLUSTER}}}))",
            "fresh",
        ),
    ),
)

_PACE = Row(
    "Pace against health",
    (
        Panel(
            title="Window, and the joins under way",
            description="The law moves the window, and the joins follow. Learned is what the last scale-up taught.",
            unit="short",
            queries=(
                Query(of_throttle("window_joins"), "{{throttle}} window"),
                Query(_stage("joining"), "{{throttle}} joining"),
                Query(of_throttle("learned_window_joins"), "{{throttle}} learned"),
            ),
        ),
        Panel(
            title="Health index of the worst server",
            description="Latency and queue wait over their baseline; 1 is an idle server, 0 is unknown.",
            unit="short",
            queries=(Query(of_throttle("index"), "{{throttle}}"),),
        ),
        Panel(
            title="Pace, and joins that ended",
            description="Joins per minute: what the window means (Little's law), and what really ended.",
            unit="short",
            queries=(
                Query(of_throttle("pace_joins_per_minute"), "{{throttle}} pace"),
                Query(
                    f"60 * {_JOINED}",
                    "{{throttle}} joined",
                ),
            ),
        ),
        Panel(
            title="429 and 5xx",
            description="Those that joins may meet, over all requests of the worst server. Others do not count.",
            unit="percentunit",
            queries=(Query(of_throttle("error_ratio"), "{{throttle}}"),),
        ),
        Panel(
            title="Because",
            description="Why the window is what it is. Every reason has a section in the runbook.",
            unit="short",
            kind=Kind.STATES,
            queries=(Query(f"{of_throttle('because', 'reason')} == 1", "{{throttle}} {{reason}}"),),
        ),
        Panel(
            title="Phase",
            description="What the law is doing.",
            unit="short",
            kind=Kind.STATES,
            queries=(Query(f"{of_throttle('phase', 'phase')} == 1", "{{throttle}} {{phase}}"),),
        ),
    ),
)

_NODES = Row(
    "Nodes on their way",
    (
        Panel(
            title="Nodes by stage",
            description="Waiting: not asked for. Booting: asked for. Held: kept back. Joining: loads the servers.",
            unit="short",
            is_stacked=True,
            queries=tuple(
                Query(_stage(name), f"{{{{throttle}}}} {name}") for name in ("joining", "held", "booting", "waiting")
            ),
        ),
        Panel(
            title="What may be done now",
            description="Allowance: more nodes that may be asked for. Admit: held nodes that may be let in.",
            unit="short",
            queries=(
                Query(of_throttle("allowance_nodes"), "{{throttle}} allowance"),
                Query(of_throttle("admit_nodes"), "{{throttle}} admit"),
            ),
        ),
        Panel(
            title="How long a node takes",
            description="Means of the latest, 0 while unknown. Booting ends when the machine is heard of.",
            unit="s",
            width=24,
            queries=(
                Query(of_throttle("boot_seconds"), "{{throttle}} booting"),
                Query(of_throttle("join_seconds"), "{{throttle}} joining"),
            ),
        ),
    ),
)

_LEVERS = Row(
    "Levers",
    (
        Panel(
            title="State of each lever",
            description="Confirmed is in force, HandedBack is not needed now. The others are in the runbook.",
            unit="short",
            kind=Kind.STATES,
            queries=(Query(f"{of_throttle('lever_state', 'lever', 'state')} == 1", "{{lever}} {{state}}"),),
        ),
        Panel(
            title="Writes of levers",
            description="Per second, by how they ended.",
            unit="ops",
            queries=(
                Query(
                    f"sum by (outcome) (rate(kube_balloons_throttle_lever_writes_total{{{CLUSTER}}}[{_RATE}]))",
                    "{{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Ceilings: cores, nodes, objects held",
            description="What each lever enforces now; a ceiling that is handed back is not shown.",
            unit="short",
            queries=(Query(f"{_CEILING} unless {_CEILING_IN_BYTES}", "{{lever}} {{resource}}"),),
        ),
        Panel(
            title="Ceilings: memory",
            description="The same for resources that are counted in bytes.",
            unit="bytes",
            queries=(Query(_CEILING_IN_BYTES, "{{lever}} {{resource}}"),),
        ),
    ),
)

_SERVERS = Row(
    "API servers, and what it costs to read them",
    (
        Panel(
            title="Servers that are read",
            description="Whether the figures of each API server are fresh enough to act on.",
            unit="short",
            kind=Kind.STATES,
            width=8,
            words=(Word("stale", BAD_LIGHT), Word("fresh", GOOD_LIGHT)),
            queries=(Query(f"max by (server) (kube_balloons_throttle_server_is_fresh{{{CLUSTER}}})", "{{server}}"),),
        ),
        Panel(
            title="Age of readings",
            description="Age of the newest complete window of counts; above 30 s it is not acted on.",
            unit="s",
            width=8,
            queries=(Query(_AGE, "{{server}}"),),
        ),
        Panel(
            title="Reads",
            description="Scrapes and rounds of queries per second, by how they ended.",
            unit="ops",
            width=8,
            queries=(
                Query(
                    f"sum by (source, outcome) (rate(kube_balloons_throttle_reads_total{{{CLUSTER}}}[{_RATE}]))",
                    "{{source}} {{outcome}}",
                ),
            ),
        ),
        Panel(
            title="Duration of reads",
            description="99th percentile; a read that takes eight seconds is given up.",
            unit="s",
            queries=(
                Query(
                    "histogram_quantile(0.99, sum by (source, le) "
                    f"(rate(kube_balloons_throttle_read_seconds_bucket{{{CLUSTER}}}[{_RATE}])))",
                    "{{source}}",
                ),
            ),
        ),
        Panel(
            title="Bytes read",
            description="Per second, as sent.",
            unit="Bps",
            queries=(
                Query(
                    f"sum by (source) (rate(kube_balloons_throttle_read_bytes_total{{{CLUSTER}}}[{_RATE}]))",
                    "{{source}}",
                ),
            ),
        ),
    ),
)

BECAUSE = Annotation(
    "Cuts and freezes",
    Query(f"{of_throttle('because', 'reason', reason='|'.join(BRAKES))} == 1", "{{throttle}}: {{reason}}"),
)

THROTTLE_BOARD = Board(
    uid="kube-balloons-throttle",
    title="Kubernetes / Balloons / Throttle",
    description="How fast nodes may join, how the API servers bear it, and why.",
    variables=(OF_CLUSTER, OF_THROTTLE),
    rows=(_NOW, _PACE, _NODES, _LEVERS, _SERVERS),
    annotations=(BECAUSE,),
)
