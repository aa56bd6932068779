"""Which taints keep a pod off a node, as the scheduler sees it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.taints import Taint, Toleration, is_joining_taint, is_marked_to_leave, tolerates, untolerated

WORDS = st.sampled_from(["", "a", "b", "NoSchedule", "NoExecute", "PreferNoSchedule", "Exists", "Equal"])


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        (Toleration("team", "Equal", "a", "NoSchedule"), True),
        (Toleration("team", "", "a", "NoSchedule"), True),
        (Toleration("team", "Equal", "a"), True),
        (Toleration("team", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Exists", "", "NoSchedule"), True),
        (Toleration("", "Exists", "", "NoExecute"), False),
        (Toleration("team", "Equal", "b"), False),
        (Toleration("team", "Equal", "a", "NoExecute"), False),
        (Toleration("other", "Exists"), False),
        (Toleration("", "Equal", "a"), False),
        (Toleration("team", "Gt", "a"), False),
        (Toleration(), False),
    ],
)
def test_toleration(toleration: Toleration, is_tolerated: bool) -> None:
    assert tolerates(toleration, Taint("team", "NoSchedule", "a")) is is_tolerated


@pytest.mark.parametrize(
    ("key", "is_joining", "is_leaving"),
    [
        ("startup-taint.cluster-autoscaler.kubernetes.io/cni", True, False),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/cilium-agent-not-ready", True, False),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/oke-impending-node-termination", False, True),
        ("status-taint.cluster-autoscaler.kubernetes.io/slow", False, False),
    ],
)
def test_the_prefixes_of_cluster_autoscaler(key: str, is_joining: bool, is_leaving: bool) -> None:
    """As in cluster-autoscaler/utils/taints, and Oracle's cloud provider beside it."""
    taint = Taint(key, "NoSchedule")
    assert (is_joining_taint(taint), is_marked_to_leave([taint])) == (is_joining, is_leaving)


def test_names_the_first_taint_that_keeps_pods_off() -> None:
    taints = (Taint("soft", "PreferNoSchedule"), Taint("team", "NoSchedule", "a"), Taint("gone", "NoExecute"))
    assert untolerated(taints, ()) == taints[1]
    assert untolerated(taints, (Toleration("team", "Exists"),)) == taints[2]
    assert untolerated(taints, (Toleration("", "Exists"),)) is None
    assert untolerated(taints[:1], ()) is None


@given(
    st.lists(st.builds(Taint, WORDS, WORDS, WORDS), max_size=4),
    st.lists(st.builds(Toleration, WORDS, WORDS, WORDS, WORDS), max_size=4),
)
def test_another_toleration_never_keeps_a_pod_off(taints: list[Taint], tolerations: list[Toleration]) -> None:
    if untolerated(taints, tolerations[1:]) is None:
        assert untolerated(taints, tolerations) is None
