"""The dashboard Overview: warm capacity, what work felt of it, and how the service itself does."""

from __future__ import annotations

from balloons.text_and_colours import BAD_LIGHT, COLOURS, GOOD_LIGHT, WARNING_LIGHT
from lab.monitoring.board import Board, Kind, Panel, Query, Row, Step, Word, number
from lab.monitoring.dashboard_variables import CLUSTER, OF_POOL, POOL, of_pool

_RATE = "$__rate_interval"
_BOUND = "kube_balloons_pool_bound_pods_total"
_POOL_LEGEND = "{{namespace}}/{{pool}}"


def _share_of_warm(window: str, by: str = "") -> str:
    aggregate = f"sum {by}" if by else "sum"
    warm = f'{aggregate} (increase({_BOUND}{{{POOL},found="warm"}}[{window}]))'
    return f"{warm} / ({aggregate} (increase({_BOUND}{{{POOL}}}[{window}])) > 0)"


def _quantile(share: float, name: str) -> str:
    buckets = f"rate(kube_balloons_{name}_bucket{{{CLUSTER}}}[{_RATE}])"
    return f"histogram_quantile({share}, sum by (le) ({buckets}))"


def _rate_by(label: str, name: str) -> str:
    return f"sum by ({label}) (rate(kube_balloons_{name}{{{CLUSTER}}}[{_RATE}]))"


_STANDINGS = (
    Word("settled", GOOD_LIGHT),
    Word("moving", COLOURS["booting"].line),
    Word("blind", WARNING_LIGHT),
    Word("stuck", BAD_LIGHT),
)
_STANDING = " + ".join(f"{value} * {of_pool('standing', standing=word.text)}" for value, word in enumerate(_STANDINGS))

_TROUBLE = (Step(1, BAD_LIGHT),)


_RIGHT = Row(
    "Are we all right?",
    (
        number(
            "Warm of wanted",
            "Warm nodes over what size and schedules ask for, in the chosen pools. Less while nodes are on their way.",
            f"sum({of_pool('warm_nodes')}) / (sum({of_pool('target_nodes')}) > 0)",
            "of what is wanted",
            unit="percentunit",
            below=BAD_LIGHT,
            steps=(Step(0.5, WARNING_LIGHT), Step(0.9, GOOD_LIGHT)),
        ),
        number(
            "Pods that waited for a node",
            "Pods bound in this range to a node that was not there before them.",
            f'sum(increase({_BOUND}{{{POOL},found="cold"}}[$__range]))',
            "waited",
        ),
        number(
            "Nodes held back",
            "Nodes that work waits for and a JoinThrottle has not let be asked for yet. The board Throttle says why.",
            f'sum(max by (cluster, throttle) (kube_balloons_throttle_nodes{{{CLUSTER},stage="waiting"}}))',
            "not asked for yet",
            below=GOOD_LIGHT,
            steps=(Step(1, WARNING_LIGHT),),
        ),
        number(
            "Servers not read",
            "API servers whose figures are too old to act on. The window does not grow for one that answered before.",
            # `unseen-1` is known by its Lease alone: behind a managed load balancer it may never be met.
            "sum(1 - max by (cluster, server) "
            f'(kube_balloons_throttle_server_is_fresh{{{CLUSTER},server!~"unseen-.*"}}))',
            "stale",
            below=GOOD_LIGHT,
            steps=_TROUBLE,
        ),
        number(
            "Pools that need a person",
            "Pools that cannot be served as they are written. The runbook has a section per reason.",
            f"sum({of_pool('standing', standing='stuck')})",
            "stuck",
            below=GOOD_LIGHT,
            steps=_TROUBLE,
        ),
        number(
            "Leaders",
            "Of each cluster, one replica decides; less is an outage of the service, and balloons stay as they are.",
            f"sum(max by (cluster, pod) (kube_balloons_leader{{{CLUSTER}}}))"
            f" / count(group by (cluster) (kube_balloons_leader{{{CLUSTER}}}))",
            "lead",
            below=BAD_LIGHT,
            # Of many clusters one may have two: whatever is above 1 is red.
            steps=(Step(1, GOOD_LIGHT), Step(1.001, BAD_LIGHT)),
        ),
    ),
)

_NOW = Row(
    "Now",
    (
        number(
            "Warm nodes",
            "Nodes that are Ready, healthy, not busy and held, in the chosen pools.",
            f"sum({of_pool('warm_nodes')})",
            "warm",
        ),
        number(
            "Busy nodes",
            "Nodes of the chosen pools that run work that leaves no room for a balloon.",
            f"sum({of_pool('busy_nodes')})",
            "busy",
        ),
        number(
            "Idle nodes",
            "Nodes of the chosen pools that could be held and are not: an autoscaler may take them.",
            f"sum({of_pool('idle_nodes')})",
            "idle",
        ),
        number(
            "Warm hits",
            "Of the pods bound on the pools' nodes in this range, the share whose node was there first.",
            _share_of_warm("$__range"),
            "warm hits",
            unit="percentunit",
        ),
        number(
            "Replicas",
            "Replicas that are scraped, by version.",
            f"count by (version) (kube_balloons_build_info{{{CLUSTER}}})",
            "{{version}}",
        ),
        number(
            "Objects not read",
            "They exist, break a rule or the format, and are skipped.",
            f"sum(max by (cluster, resource) (kube_balloons_unreadable_objects{{{CLUSTER}}}))",
            "skipped",
            below=GOOD_LIGHT,
            steps=_TROUBLE,
        ),
    ),
)

_WARM = Row(
    "Warm capacity",
    (
        Panel(
            title="Nodes by what they are",
            description="Busy runs real work, warm is held, idle could be held and is not yet, sick is not Ready.",
            unit="short",
            is_stacked=True,
            queries=tuple(Query(f"sum({of_pool(f'{name}_nodes')})", name) for name in ("busy", "warm", "idle", "sick")),
        ),
        Panel(
            title="Warm against wanted, by pool",
            description="A gap means: on its way, or not to be had. The panel 'How pools stand' tells which.",
            unit="short",
            queries=(
                Query(of_pool("warm_nodes"), f"{_POOL_LEGEND} warm"),
                Query(of_pool("target_nodes"), f"{_POOL_LEGEND} wanted"),
            ),
        ),
        Panel(
            title="How pools stand",
            description="Settled: as near to the wish as rules allow. Stuck: needs a person. Blind: trusts no view.",
            unit="short",
            kind=Kind.STATES,
            words=_STANDINGS,
            queries=(Query(_STANDING, _POOL_LEGEND),),
        ),
        Panel(
            title="Balloons without a node",
            description="With Headroom these ask for new nodes; with Hold there should be none for long.",
            unit="short",
            queries=(Query(of_pool("pending_balloons"), _POOL_LEGEND),),
        ),
    ),
)

_WORK = Row(
    "What work felt",
    (
        Panel(
            title="Pods that found a node, and that waited for one",
            description="Real pods bound per second: warm where the node was there first, cold where the pod was.",
            unit="ops",
            queries=(Query(f"sum by (found) (rate({_BOUND}{{{POOL}}}[{_RATE}]))", "{{found}}"),),
        ),
        Panel(
            title="Warm hits, by pool",
            description="Share of the pods bound within five minutes whose node was there first; a gap: none was.",
            unit="percentunit",
            queries=(Query(_share_of_warm("5m", "by (cluster, namespace, pool)"), _POOL_LEGEND),),
        ),
        Panel(
            title="From preemption to binding",
            description="From a balloon leaving its node for real work to the first real pod bound there; all pools.",
            unit="s",
            queries=(
                Query(_quantile(0.5, "preempt_to_bind_seconds"), "p50"),
                Query(_quantile(0.99, "preempt_to_bind_seconds"), "p99"),
            ),
        ),
        Panel(
            title="Balloons that gave way",
            description="Per second. Preempted by the scheduler, or released by the service for waiting pods.",
            unit="ops",
            queries=(Query(_rate_by("how", "preemptions_total"), "{{how}}"),),
        ),
        Panel(
            title="Why pools got less than they asked for",
            description="How often a pool began to be held back in this time range, by reason; see the runbook.",
            unit="short",
            kind=Kind.BARS,
            width=24,
            queries=(
                Query(
                    f"sort_desc(sum by (reason) (increase(kube_balloons_holds_total{{{CLUSTER}}}[$__range])))",
                    "{{reason}}",
                ),
            ),
        ),
    ),
)

_SERVICE = Row(
    "The service itself",
    (
        Panel(
            title="Decisions",
            description="Per second, by outcome; several replicas together. None at all is an alert.",
            unit="ops",
            width=8,
            queries=(Query(_rate_by("outcome", "ticks_total"), "{{outcome}}"),),
        ),
        Panel(
            title="Time to decide, and lag of the loop",
            description="99th percentiles. A lag of six seconds costs the lead.",
            unit="s",
            width=8,
            queries=(
                Query(_quantile(0.99, "tick_seconds"), "decision"),
                Query(_quantile(0.99, "loop_lag_seconds"), "lag"),
            ),
        ),
        Panel(
            title="Silence of watches",
            description="Time since the API server last spoke of a resource. A minute is normal on a quiet one.",
            unit="s",
            width=8,
            queries=(Query(f"max by (resource) (kube_balloons_watch_age_seconds{{{CLUSTER}}})", "{{resource}}"),),
        ),
        Panel(
            title="Requests to the API server",
            description="Own requests per second, retries included, by HTTP status.",
            unit="ops",
            width=8,
            queries=(Query(_rate_by("code", "api_attempts_total"), "{{code}}"),),
        ),
        Panel(
            title="Writes",
            description="Per second, by how they ended. Conflicts are normal; refusals need a person.",
            unit="ops",
            width=8,
            queries=(Query(_rate_by("outcome", "writes_total"), "{{outcome}}"),),
        ),
        Panel(
            title="Who leads",
            description="One replica decides and writes; the others stand by and see the same.",
            unit="short",
            kind=Kind.STATES,
            width=8,
            words=(Word("stands by", COLOURS["stood_by"].line), Word("leads", GOOD_LIGHT)),
            queries=(Query(f"max by (pod) (kube_balloons_leader{{{CLUSTER}}})", "{{pod}}"),),
        ),
    ),
)

OVERVIEW = Board(
    uid="kube-balloons-overview",
    title="Kubernetes / Balloons / Overview",
    description="Warm capacity: what is held, what is wanted, and whether work found it.",
    variables=OF_POOL,
    rows=(_RIGHT, _NOW, _WARM, _WORK, _SERVICE),
)
