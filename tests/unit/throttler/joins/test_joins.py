"""What several throttles have in flight together, and which nodes are a throttle's."""

from dataclasses import fields

import msgspec
import pytest

from throttler.api.throttle import JoinThrottle, LabelLever, Levers, TaintLever, ThrottleSpec
from throttler.joins.joins import JoinRules, Joins, levers_in_effect, total_joins
from throttler.kube.daemon_set import DaemonSet
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.selectors import LabelSelector, Requirement
from throttler.kube.taints import Toleration
from throttler.law.settings import law_settings

COUNTS = [each.name for each in fields(Joins) if each.type is int or each.type == "int"]
AGES = ["oldest_booting_s", "oldest_held_s", "oldest_joining_s"]


AGENT = DaemonSet(ObjectKey("kube-system", "agent"), "uid-agent")
EVERYTHING = msgspec.structs.replace(AGENT, tolerations=(Toleration(operator="Exists"),))
PICKY = msgspec.structs.replace(AGENT, node_selector={"example.com/agents": "yes"})
MARKED = Levers(startup_taint=TaintLever("example.com/paced"), daemon_set_label=LabelLever("example.com/agents", "yes"))


@pytest.mark.parametrize(
    ("agents", "by_taint", "by_label"),
    [
        ((EVERYTHING,), False, False),
        ((AGENT, EVERYTHING), True, False),
        ((msgspec.structs.replace(AGENT, is_deleting=True), EVERYTHING), False, False),
        ((PICKY, EVERYTHING), True, True),
        ((msgspec.structs.replace(EVERYTHING, node_selector=PICKY.node_selector),), False, True),
        ((), True, True),
    ],
)
def test_a_mark_that_keeps_no_daemon_sets_pod_off_is_not_in_effect(
    agents: tuple[DaemonSet, ...], by_taint: bool, by_label: bool
) -> None:
    throttle = JoinThrottle(Metadata("default"), ThrottleSpec(levers=MARKED))
    rules = JoinRules.of(throttle, "", (), agents)
    assert (bool(rules.taint_key), rules.label is not None) == (by_taint, by_label)
    assert rules.holds_joins is law_settings(throttle.spec, agents).has_gate is (by_taint or by_label)


def test_no_mark_is_none_with_any_daemon_sets() -> None:
    assert levers_in_effect(Levers(), (PICKY, AGENT)) == Levers()
    assert not JoinRules(nodes=LabelSelector()).holds_joins


@pytest.mark.parametrize("name", COUNTS)
def test_counts_add_up(name: str) -> None:
    total = total_joins([Joins(**{name: 3}), Joins(**{name: 4}), Joins()])
    assert total == Joins(**{name: 7})


@pytest.mark.parametrize("name", AGES)
def test_the_longest_wait_is_the_longest_of_all(name: str) -> None:
    assert total_joins([Joins(**{name: 3.0}), Joins(**{name: 9.0}), Joins(**{name: 4.0})]) == Joins(**{name: 9.0})  # type: ignore[arg-type]


def test_durations_are_means_of_those_that_are_known() -> None:
    total = total_joins([Joins(join_s=10.0, boot_s=30.0, boot_spread_s=5.0), Joins(join_s=20.0), Joins(boot_s=50.0)])
    assert (total.join_s, total.boot_s, total.boot_spread_s) == (15.0, 40.0, 0.0)
    known = total_joins([Joins(boot_s=30.0, boot_spread_s=5.0), Joins(boot_s=30.0, boot_spread_s=9.0), Joins()])
    assert known.boot_spread_s == 5.0, "of those that spread least: more apart is not to be relied on"
    assert total_joins([Joins(), Joins()]) == Joins()


def test_one_count_is_the_total_and_none_is_nothing() -> None:
    one = Joins(waiting=3, boot_spread_s=4.0)
    assert total_joins([one]) is one
    assert total_joins([]) == Joins()


def test_one_that_waits_for_the_controller_manager_is_enough() -> None:
    assert total_joins([Joins(is_controller_bound=True), Joins()]).is_controller_bound
    assert not total_joins([Joins(), Joins()]).is_controller_bound


def test_what_comes_and_what_is_in_flight() -> None:
    joins = Joins(waiting=1, booting=2, held=4, joining=8, late_booting=16, late_joining=32)
    assert (joins.coming, joins.in_flight, joins.late) == (7, 14, 48)


def test_a_node_is_of_the_first_throttle_that_selects_it() -> None:
    rules = JoinRules(
        nodes=LabelSelector({"pool": "a"}),
        older=(LabelSelector(match_expressions=(Requirement("team", "In", ("x",)),)), LabelSelector({"zone": "1"})),
    )
    assert rules.label_keys == ("pool", "team", "zone")
    assert rules.selects({"pool": "a"})
    assert not rules.selects({"pool": "b"})
    assert not rules.selects({"pool": "a", "team": "x"})
    assert not rules.selects({"pool": "a", "zone": "1"})
    assert rules.selects({"pool": "a", "team": "y", "zone": "2"})
