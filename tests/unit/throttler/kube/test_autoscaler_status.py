"""cluster-autoscaler's own words, as version 1.36.1 wrote them in the lab: five machines wanted, one registered."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from throttler.kube.autoscaler_status import AutoscalerStatus, read_status

RECORDED = Path(__file__).resolve().parents[3] / "recorded" / "cluster_autoscaler_status_1.36.1.yaml"
AT_S = datetime(2026, 11, 21, 7, 16, 12, tzinfo=UTC).timestamp()


def test_a_recorded_status_is_read() -> None:
    found = read_status(RECORDED.read_text())
    assert found == AutoscalerStatus(target=5, registered=1, long_unregistered=0, at_s=AT_S)
    assert found.booting == 4


def test_machines_that_were_given_up_boot_no_more() -> None:
    text = RECORDED.read_text().replace("longUnregistered: 0", "longUnregistered: 3")
    found = read_status(text)
    assert found is not None
    # Both node groups say so; the sum of the whole cluster is not counted beside them.
    assert (found.long_unregistered, found.booting) == (6, 0)


@pytest.mark.parametrize(
    "text", ["", "Cluster-autoscaler status at 2020-01-01:\nCluster-wide:\n  Health:  Healthy (ready=1 unready=0)\n"]
)
def test_other_texts_say_nothing(text: str) -> None:
    assert read_status(text) is None


def test_a_time_that_cannot_be_read_is_none() -> None:
    found = read_status("nodeGroups:\n- health:\n    cloudProviderTarget: 2\n  name: a\ntime: soon\n")
    assert found == AutoscalerStatus(target=2, registered=0)


@settings(deadline=None)
@given(st.text(st.sampled_from("nodeGroups: -\nhlt0123456789"), max_size=200))
def test_no_text_breaks_it(text: str) -> None:
    found = read_status(text)
    assert found is None or found.booting >= 0
