"""The dashboard Plan against real: what was meant to happen beside what did."""

from __future__ import annotations

from lab.monitoring.board import Board, Panel, Query, Row
from lab.monitoring.dashboard_variables import OF_POOL, OF_THROTTLE, THROTTLE, of_pool, of_throttle
from lab.monitoring.throttle_dashboard import BECAUSE

_JOINED = f"sum by (cluster, throttle) (rate(kube_balloons_throttle_joined_total{{{THROTTLE}}}[5m]))"


def _stage(name: str) -> str:
    return of_throttle("nodes", stage=name)


_LEFT = f"({_stage('waiting')} + {_stage('in_flight')})"

_SCALE_UP = Row(
    "The scale-up",
    (
        Panel(
            title="Nodes: wanted and there",
            description="Wanted is what is registered, in flight and waited for; there is what is registered.",
            unit="short",
            queries=(
                Query(f"{_stage('registered')} + {_stage('booting')} + {_stage('waiting')}", "{{throttle}} wanted"),
                Query(_stage("registered"), "{{throttle}} there"),
            ),
        ),
        Panel(
            title="Time that is left",
            description="Nodes still to come over the planned pace, and over the joins that ended in five minutes.",
            unit="s",
            queries=(
                Query(f"60 * {_LEFT} / ({of_throttle('pace_joins_per_minute')} > 0)", "{{throttle}} planned"),
                Query(f"{_LEFT} / ({_JOINED} > 0)", "{{throttle}} real"),
            ),
        ),
        Panel(
            title="Pace: planned and real",
            description="Joins per minute: what the window means, and what ended within five minutes.",
            unit="short",
            queries=(
                Query(of_throttle("pace_joins_per_minute"), "{{throttle}} planned"),
                Query(f"60 * {_JOINED}", "{{throttle}} real"),
            ),
        ),
        Panel(
            title="Window: planned, learned and used",
            description="Joins at a time that the law allows now, that it learned, and that are under way.",
            unit="short",
            queries=(
                Query(of_throttle("window_joins"), "{{throttle}} window"),
                Query(of_throttle("learned_window_joins"), "{{throttle}} learned"),
                Query(_stage("joining"), "{{throttle}} joining"),
            ),
        ),
        Panel(
            title="Overshoot",
            description="Joins under way above the window: asked for before it shrank, or come another way.",
            unit="short",
            queries=(Query(f"clamp_min({_stage('joining')} - {of_throttle('window_joins')}, 0)", "{{throttle}}"),),
        ),
        Panel(
            title="Joined and lost",
            description="In this range: machines that became usable nodes, and those that never came.",
            unit="short",
            queries=(
                Query(
                    f"sum by (throttle) (increase(kube_balloons_throttle_joined_total{{{THROTTLE}}}[$__range]))",
                    "{{throttle}} joined",
                ),
                Query(
                    f"sum by (throttle) (increase(kube_balloons_throttle_lost_total{{{THROTTLE}}}[$__range]))",
                    "{{throttle}} lost",
                ),
            ),
        ),
        Panel(
            title="Time per step",
            description="Means of the latest, 0 while unknown: until the machine is heard of, and then until usable.",
            unit="s",
            width=24,
            queries=(
                Query(of_throttle("boot_seconds"), "{{throttle}} booting"),
                Query(of_throttle("join_seconds"), "{{throttle}} joining"),
            ),
        ),
    ),
)

_POOLS = Row(
    "The pools",
    (
        Panel(
            title="Warm: planned and real",
            description="Warm nodes that size and schedules ask for, and those that there are.",
            unit="short",
            queries=(
                Query(of_pool("target_nodes"), "{{namespace}}/{{pool}} planned"),
                Query(of_pool("warm_nodes"), "{{namespace}}/{{pool}} real"),
            ),
        ),
        Panel(
            title="Warm nodes that are missing",
            description="Wanted and not there, and the balloons that wait for a node meanwhile.",
            unit="short",
            queries=(
                Query(
                    f"clamp_min({of_pool('target_nodes')} - {of_pool('warm_nodes')}, 0)",
                    "{{namespace}}/{{pool}} missing",
                ),
                Query(of_pool("pending_balloons"), "{{namespace}}/{{pool}} pending"),
            ),
        ),
    ),
)

PLAN = Board(
    uid="kube-balloons-plan",
    title="Kubernetes / Balloons / Plan against real",
    description="What throttles and pools meant to do beside what happened.",
    variables=(*OF_POOL, OF_THROTTLE),
    rows=(_SCALE_UP, _POOLS),
    annotations=(BECAUSE,),
)
