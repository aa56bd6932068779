"""cluster-autoscaler's own words, as version 1.36.1 wrote them in the lab: five machines wanted, one registered."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.cluster_autoscaler import (
    MIN_SIZE,
    MOST_MACHINES,
    AutoscalerStatus,
    CapacityQuota,
    MachineDeployment,
    NodeGroup,
    read_status,
)
from throttler.kube.metadata import OwnedMetadata

RECORDED = Path(__file__).resolve().parents[3] / "recorded" / "cluster_autoscaler_status_1.36.1.yaml"
AT_S = datetime(2026, 11, 21, 7, 16, 12, tzinfo=UTC).timestamp()


def test_a_recorded_status_is_read() -> None:
    found = read_status(RECORDED.read_text())
    groups = NodeGroup("workers", target=5, registered=1, max_size=8), NodeGroup("gpu", max_size=8)
    assert found == AutoscalerStatus(groups, AT_S)
    assert found.booting == 4


def test_machines_that_were_given_up_boot_no_more() -> None:
    text = RECORDED.read_text().replace("longUnregistered: 0", "longUnregistered: 3")
    found = read_status(text)
    assert found is not None
    # Both node groups say so; the sum of the whole cluster is not counted beside them.
    assert [group.long_unregistered for group in found.groups] == [3, 3]
    assert found.booting == 1


def test_nodes_whose_machines_are_gone_are_none_of_those_that_the_group_is_to_have() -> None:
    """Three of a group's machines were deleted, and their Nodes are still there: as many that boot were not counted."""
    text = RECORDED.read_text().replace(
        "        notStarted: 0\n        ready: 1", "        beingDeleted: 3\n        ready: 1"
    )
    text = text.replace("total: 1\n", "total: 4\n")
    found = read_status(text)
    assert found is not None
    assert (found.groups[0].registered, found.groups[0].booting) == (4, 4)


def test_a_group_with_too_many_nodes_takes_nothing_off_anothers() -> None:
    assert AutoscalerStatus((NodeGroup("full", 2, 7), NodeGroup("grows", 5, 1))).booting == 4


def test_no_number_in_a_config_map_fills_the_memory() -> None:
    """Of each machine that boots it is remembered when it was asked for."""
    found = read_status(RECORDED.read_text().replace("cloudProviderTarget: 5", "cloudProviderTarget: 999999999"))
    assert found is not None
    assert found.booting == MOST_MACHINES
    found = read_status(RECORDED.read_text().replace("cloudProviderTarget: 5", "cloudProviderTarget: 9999999999"))
    assert found is not None
    assert found.booting == 0, "no count at all"


@pytest.mark.parametrize(
    "text", ["", "Cluster-autoscaler status at 2020-01-01:\nCluster-wide:\n  Health:  Healthy (ready=1 unready=0)\n"]
)
def test_other_texts_say_nothing(text: str) -> None:
    assert read_status(text) is None


@pytest.mark.parametrize("time", ["soon", "2026-13-21 07:16:12 +0000 UTC", "2026-11-21 07:16:12"])
def test_a_time_that_cannot_be_read_is_none(time: str) -> None:
    found = read_status(f"nodeGroups:\n- health:\n    cloudProviderTarget: 2\n  name: a\ntime: {time}\n")
    assert found == AutoscalerStatus((NodeGroup("a", target=2),))


@pytest.mark.parametrize(
    ("written", "utc_hour"), [("+0000 UTC", 7), ("+0200 CEST", 5), ("-0330 NST", 10), ("+0545 +0545", 1)]
)
def test_the_time_is_read_in_the_zone_that_it_names(written: str, utc_hour: int) -> None:
    found = read_status(RECORDED.read_text().replace("+0000 UTC", written))
    assert found is not None
    assert datetime.fromtimestamp(found.at_s, UTC).hour == utc_hour


def test_names_are_read_whatever_is_in_them() -> None:
    url = "https://compute.test/projects/p/zones/z/instanceGroups/gke-c-pool-1-grp"
    text = f'nodeGroups:\n- health:\n    cloudProviderTarget: 1\n  name: {url}\n- name: "12"\n'
    found = read_status(text)
    assert found is not None
    assert [group.name for group in found.groups] == [url, "12"]


@given(st.text(st.sampled_from("nodeGroups: -\nhlt0123456789"), max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    found = read_status(text)
    assert found is None or found.booting >= 0


@pytest.mark.parametrize(
    ("type_", "is_valid"),
    [("Valid", True), ("valid", True), ("cluster-autoscaler.kubernetes.io/valid", True), ("Ready", False)],
)
def test_a_quota_is_valid_by_the_condition_of_that_name(type_: str, *, is_valid: bool) -> None:
    body = {"metadata": {"name": "cap"}, "status": {"conditions": [{"type": type_, "status": "True"}]}}
    assert (msgspec.convert(body, CapacityQuota).validity is not None) is is_valid
    assert msgspec.convert({"metadata": {"name": "cap"}}, CapacityQuota).validity is None


@pytest.mark.parametrize(
    ("written", "size"),
    [("3", 3), ("999999999", 999_999_999), ("1000000000", 0), ("-1", 0), ("1k", 0), ("\u00b2", 0), ("", 0), (None, 0)],
)
def test_a_smallest_size_that_is_no_whole_number_is_none(written: str | None, size: int) -> None:
    annotations = {} if written is None else {MIN_SIZE: written}
    assert MachineDeployment(OwnedMetadata("group", annotations=annotations)).min_size == size


def test_a_quota_that_does_not_say_its_version_is_of_the_newest() -> None:
    assert CapacityQuota(OwnedMetadata("cap")).api_version == "autoscaling.x-k8s.io/v1beta1"
