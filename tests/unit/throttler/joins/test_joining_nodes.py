import msgspec
import pytest

from tests.unit.throttler.joins.cluster import CNI, LOGS, RULES, UNREGISTERED, a_node, a_world, daemons_on, pending
from throttler.api.throttle import LabelLever
from throttler.joins.count_joins import count_joins
from throttler.joins.join_memory import JoinMemory
from throttler.joins.joining_nodes import ExpectedDaemons, Stage, stage_of
from throttler.joins.joins import JoinRules
from throttler.kube.daemon_set import DaemonSet
from throttler.kube.metadata import ObjectKey
from throttler.kube.node import Node
from throttler.kube.pod import Pod, PodKind
from throttler.kube.selectors import Requirement
from throttler.kube.taints import JOINING_TAINTS, Taint, Toleration

WITH_TAINT = JoinRules(nodes=RULES.nodes, taint_key="example.com/paced")
WITH_LABEL = JoinRules(nodes=RULES.nodes, label=LabelLever("example.com/let-in"))


def stage(node: Node, *pods: Pod, rules: JoinRules = RULES, sets: tuple[DaemonSet, ...] = (CNI, LOGS)) -> Stage:
    return stage_of(node, a_world(node, pods=pods, daemon_sets=sets), rules, ExpectedDaemons.by(sets))


def test_a_node_that_is_not_ready_joins() -> None:
    assert stage(a_node("n", is_ready=False)) is Stage.UNREADY


@pytest.mark.parametrize("key", [*sorted(JOINING_TAINTS), "startup-taint.cluster-autoscaler.kubernetes.io/x"])
def test_a_ready_node_that_others_have_not_let_in_joins(key: str) -> None:
    node = a_node("n", taints=(Taint(key, "NoExecute"),))
    assert stage(node, *daemons_on("n", CNI, LOGS)) is Stage.UNREADY


def test_a_ready_node_joins_until_its_daemon_pods_run() -> None:
    node = a_node("n")
    assert stage(node, *daemons_on("n", CNI)) is Stage.WITHOUT_DAEMONS
    assert stage(node, *daemons_on("n", CNI), *daemons_on("n", LOGS, is_running=False)) is Stage.STARTING_DAEMONS
    assert stage(node, *daemons_on("n", CNI, LOGS)) is Stage.USABLE
    bare = Pod(ObjectKey("jobs", "bare"), "uid-bare", "1", "n", 0, {})
    assert stage(node, *daemons_on("n", CNI, LOGS), bare) is Stage.USABLE, "it runs nobody else's pod"


def test_a_pod_that_is_leaving_does_not_count() -> None:
    leaving = [msgspec.structs.replace(pod, is_terminating=True) for pod in daemons_on("n", CNI)]
    assert stage(a_node("n"), *leaving, *daemons_on("n", LOGS)) is Stage.WITHOUT_DAEMONS


def test_only_daemon_sets_that_want_the_node_are_waited_for() -> None:
    gpu = msgspec.structs.replace(CNI, uid="uid-gpu", node_selector={"gpu": "yes"})
    arm = msgspec.structs.replace(CNI, uid="uid-arm", node_terms=((Requirement("arch", "In", ("arm64",)),),))
    gone = msgspec.structs.replace(CNI, uid="uid-gone", is_deleting=True)
    assert stage(a_node("n"), sets=(gpu, arm, gone)) is Stage.USABLE
    assert stage(a_node("n", labels={"gpu": "yes"}), sets=(gpu,)) is Stage.WITHOUT_DAEMONS
    assert stage(a_node("n", labels={"arch": "arm64"}), sets=(arm,)) is Stage.WITHOUT_DAEMONS


def test_daemon_sets_that_do_not_tolerate_a_taint_are_not_waited_for() -> None:
    node = a_node("n", taints=(Taint("team", "NoSchedule", "a"),))
    tolerant = msgspec.structs.replace(CNI, uid="uid-all", tolerations=(Toleration(operator="Exists"),))
    assert stage(node, sets=(CNI,)) is Stage.USABLE
    assert stage(node, sets=(CNI, tolerant)) is Stage.WITHOUT_DAEMONS


def test_our_startup_taint_holds_a_node_whatever_else_it_is() -> None:
    taints = (Taint("example.com/paced", "NoSchedule"), UNREGISTERED)
    assert stage(a_node("n", is_ready=False, taints=taints), rules=WITH_TAINT) is Stage.HELD
    assert stage(a_node("n", taints=taints), rules=RULES) is Stage.UNREADY


def test_a_node_without_our_daemon_set_label_is_held() -> None:
    assert stage(a_node("n"), rules=WITH_LABEL) is Stage.HELD
    let_in = a_node("n", labels={"example.com/let-in": "true"})
    assert stage(let_in, *daemons_on("n", CNI, LOGS), rules=WITH_LABEL) is Stage.USABLE


def test_a_node_whose_owner_gave_our_label_another_value_is_not_held() -> None:
    """The lever leaves it alone, so it would take a place in flight for ever."""
    theirs = a_node("n", labels={"example.com/let-in": "never"})
    assert stage(theirs, rules=WITH_LABEL) is Stage.WITHOUT_DAEMONS
    assert stage(theirs, *daemons_on("n", CNI, LOGS), rules=WITH_LABEL) is Stage.USABLE


def test_a_node_that_has_work_before_it_is_let_in_comes_for_nobody_else() -> None:
    """Only DaemonSets wait for our label: the scheduler places work on a node that lacks it."""
    held = a_node("a"), a_node("b")
    pods = tuple(pending(f"p{number}") for number in range(10))
    work = msgspec.structs.replace(pending("taken"), node="a")
    free, _ = count_joins(a_world(*held, unplaced=pods), JoinMemory(), WITH_LABEL, 1000.0)
    assert (free.held, free.waiting) == (2, 8)
    taken, _ = count_joins(a_world(*held, pods=[work], unplaced=pods), JoinMemory(), WITH_LABEL, 1000.0)
    assert (taken.held, taken.waiting) == (2, 9)


def test_work_with_a_node_that_is_not_in_the_view_yet_tells_of_it_though_daemon_pods_are_there_first() -> None:
    work = msgspec.structs.replace(pending("work"), node="n1", kind=PodKind.WORK)
    joins, _ = count_joins(a_world(pods=[*daemons_on("n1", CNI), work]), JoinMemory(), RULES, 1000.0)
    assert joins.booting == 1
    joins, _ = count_joins(a_world(pods=daemons_on("n1", CNI)), JoinMemory(), RULES, 1000.0)
    assert joins.booting == 0
