"""The names, types and texts of metrics, as promtool judges them; and no series per node."""

import re
import subprocess

import pytest
from prometheus_client import generate_latest

from balloons.api.pool import PoolStatus
from balloons.decide.decision_and_reasons import PoolDecision, Reason
from balloons.service.metrics import WATCHED, Metrics
from lab.binaries import find_binary
from throttler.kube.metadata import ObjectKey
from throttler.kube.reasons_and_events import because
from throttler.service.all_levers import CEILINGS
from throttler.service.guard import GuardMetrics

OPEN = {"namespace", "pool", "throttle", "server", "verb"}
"""Labels whose values are not known before something happens."""
PER_NODE = {"node", "nodename", "instance", "uid", "hostname", "claim", "machine"}


@pytest.fixture
def metrics() -> Metrics:
    """A service that has decided for one pool."""
    made = Metrics("1.2.3")
    made.show([PoolDecision(ObjectKey("ml", "gpu"), because(Reason.PAUSED), PoolStatus())])
    return made


@pytest.mark.promtool
def test_promtool_has_nothing_to_say_about_the_page(metrics: Metrics) -> None:
    page = generate_latest(metrics.registry) + generate_latest(GuardMetrics().registry)
    answer = _check(_with_one_sample_each(page.decode()))
    assert (answer.returncode, answer.stderr + answer.stdout) == (0, "")


@pytest.mark.promtool
def test_promtool_would_say_something() -> None:
    assert _check("# TYPE waits counter\nwaits 1\n").returncode != 0


def test_no_label_tells_nodes_apart(metrics: Metrics) -> None:
    assert not PER_NODE & {label for labels in metrics.labels.values() for label in labels}


def test_counts_of_known_things_are_there_before_the_first() -> None:
    metrics = Metrics("1.2.3")
    for family in metrics.registry.collect():
        is_open = OPEN & set(metrics.labels.get(family.name, ()))
        if family.type in ("counter", "histogram") and not is_open:
            assert family.samples, family.name
            assert {sample.value for sample in family.samples} == {0}


def test_caches_of_every_kind_that_may_bear_a_ceiling_are_counted_from_the_start() -> None:
    assert {lever.WRITES_ON.plural for lever in CEILINGS} <= set(WATCHED)


def test_build_is_told(metrics: Metrics) -> None:
    (family,) = [each for each in metrics.registry.collect() if each.name == "kube_balloons_build"]
    (sample,) = family.samples
    assert (sample.name, sample.labels["version"], sample.value) == ("kube_balloons_build_info", "1.2.3", 1)


def _with_one_sample_each(page: str) -> str:
    """promtool looks at no family without samples, such as those of a throttle while there is none."""
    page = re.sub(r"^(# TYPE (\w+) \w+)\n(?=#|\Z)", r'\1\n\2{throttle="t"} 0\n', page, flags=re.MULTILINE)
    assert 'kube_balloons_throttle_window_joins{throttle="t"} 0' in page
    return page


def _check(page: str) -> "subprocess.CompletedProcess[str]":
    command = [find_binary("promtool"), "check", "metrics"]
    return subprocess.run(command, input=page, capture_output=True, text=True, check=False, timeout=180)
