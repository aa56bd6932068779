"""What several throttles have in flight together, and which nodes are a throttle's."""

from dataclasses import fields

import pytest

from throttler.joins.joins import JoinRules, Joins, total_joins
from throttler.kube.selectors import LabelSelector, Requirement

COUNTS = [each.name for each in fields(Joins) if each.type is int or each.type == "int"]
AGES = ["oldest_booting_s", "oldest_held_s", "oldest_joining_s"]


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
