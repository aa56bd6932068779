"""What is taken for granted about a cluster of which nothing is known. Each figure says where it was seen."""

from balloons.preview.inputs import ControllerFacts, PlanInputs, PoolFacts, ServerFacts
from balloons.preview.known import Known

NO_CLUSTER = "no cluster looked at"
"""What was detected where nobody looked."""
BOOT_S = Known.assumed(120.0, "clouds take 30 s to 12 min", 0.35)
BOOT_JITTER = Known.assumed(0.15, "machines of one kind boot alike")
JOIN_S = Known.assumed(60.0, "60-90 s with the usual agents", 0.25)
SERVERS = Known.assumed(2, "at least two where it is managed", 0.0)
CORES = Known.assumed(4, "a managed server of middle size", 0.3)
BACKGROUND = Known.assumed(0.25, "a quarter of a server is busy in usual times", 0.3)
LEAST_JOIN_CPU_S = 0.09
DAEMON_SET_CPU_S = 0.023
"""A real kube-apiserver 1.36 of one core finished 400 joins with 8 DaemonSets in 109 s: 0.27 core-seconds each.
Of the 107 requests that a join sent there (counted in its audit log) about 9 come with each DaemonSet pod."""
LEAST_REQUESTS = 60
DAEMON_SET_REQUESTS = 9
"""107 with 8 DaemonSets, and about 25 lists and watches, counted in the audit log of that run."""
DAEMON_SETS = Known.assumed(6, "CNI, CSI, proxy, logs, metrics, devices", 0.0)
PODS_PER_S = Known.assumed(20, "default --kube-api-qps", 0.0)
BURST = Known.assumed(30, "its default --kube-api-burst", 0.0)
BINDS_PER_S = Known.assumed(50, "default --kube-api-qps", 0.0)
REACTION_S = Known.assumed(10, "both autoscalers look every 1-10 s", 0.4)
KILL_TIMER_S = Known.assumed(900, "both autoscalers' default", 0.0)


def join_cpu_s(daemon_sets: float) -> Known:
    """Core-seconds of one join with so many DaemonSet pods."""
    return Known.assumed(
        LEAST_JOIN_CPU_S + DAEMON_SET_CPU_S * daemon_sets,
        f"measured on a real server, with {daemon_sets:g} DaemonSets",
        0.3,
    )


def daemon_share(daemon_sets: float) -> float:
    """Of that, what comes with those pods."""
    pods = DAEMON_SET_CPU_S * daemon_sets
    return pods / (LEAST_JOIN_CPU_S + pods)


def requests_per_join(daemon_sets: float) -> Known:
    """Requests of one join, lists and watches among them."""
    return Known.assumed(
        LEAST_REQUESTS + DAEMON_SET_REQUESTS * daemon_sets,
        f"measured on a real server, with {daemon_sets:g} DaemonSets",
    )


def assumed_inputs(*, nodes: int = 0) -> PlanInputs:
    """A cluster of which only the number of nodes is known."""
    pool = PoolFacts(name="", nodes=nodes, boot_s=BOOT_S, boot_jitter=BOOT_JITTER)
    return PlanInputs(
        autoscaler=NO_CLUSTER,
        nodes=nodes,
        pools=(pool,),
        servers=ServerFacts(
            count=SERVERS,
            cores=CORES,
            background=BACKGROUND,
            join_cpu_s=join_cpu_s(DAEMON_SETS.value),
            requests_per_join=requests_per_join(DAEMON_SETS.value),
        ),
        controllers=ControllerFacts(
            daemon_sets=DAEMON_SETS,
            pods_per_s=PODS_PER_S,
            burst=BURST,
            binds_per_s=BINDS_PER_S,
            reaction_s=REACTION_S,
            kill_timer_s=KILL_TIMER_S,
        ),
        join_s=JOIN_S,
    )
