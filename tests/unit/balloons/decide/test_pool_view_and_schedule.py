"""Schedules ask "is now inside the window", in the pool's zone, also in the nights when clocks change."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from balloons.api.pool import Schedule
from balloons.decide.pool_view_and_schedule import (
    _last_firing,
    active_schedule,
    deployments_by_pool,
    is_inside,
    last_firing,
)
from balloons.view.index_and_snapshot import Deployment
from throttler.kube.metadata import Metadata
from throttler.kube.pod import MANAGED_BY, POOL_LABEL, SHAPE_LABEL

OFFICE = Schedule("0 8 * * MON-FRI", "10h", "Europe/Berlin", size=20)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "inside"),
    [
        ("2026-11-20 06:59:59", False),  # Friday, a second before eight in Berlin (UTC+1)
        ("2026-11-20 07:00:00", True),
        ("2026-11-20 16:59:59", True),
        ("2026-11-20 17:00:00", False),
        ("2026-11-21 09:00:00", False),  # Saturday
        ("2026-07-01 06:00:00", True),  # summer time: UTC+2
        ("2026-07-01 05:59:59", False),
    ],
)
def test_the_window_is_the_zones_own(moment: str, inside: bool) -> None:
    assert is_inside(OFFICE, utc(moment)) is inside


def test_a_fixed_time_that_the_autumn_night_repeats_fires_once() -> None:
    nightly = Schedule("30 2 * * *", "30m", "Europe/Berlin", size=1)
    assert is_inside(nightly, utc("2026-10-25 00:30:00"))  # 02:30, still summer time
    assert not is_inside(nightly, utc("2026-10-25 01:30:00"))  # 02:30 again, winter time


@pytest.mark.parametrize(
    ("zone", "cron", "fired"),
    [
        ("Europe/Berlin", "30 2 * * *", "2026-10-25 00:30:00"),
        ("America/New_York", "45 1 * * *", "2026-11-01 05:45:00"),
        ("America/Santiago", "45 23 * * *", "2026-04-05 02:45:00"),
        ("Australia/Lord_Howe", "40 1 * * *", "2026-04-04 14:40:00"),
    ],
)
def test_a_window_that_opens_in_a_repeated_hour_stays_open(zone: str, cron: str, fired: str) -> None:
    """It closed when the hour began again, until the time of its firing: the pool let its nodes go meanwhile."""
    nightly = Schedule(cron, "6h", zone, size=12)
    for minutes in range(-5, 365):
        moment = utc(fired) + timedelta(minutes=minutes)
        assert is_inside(nightly, moment) is (0 <= minutes < 360), moment


def test_a_schedule_of_every_hour_is_active_in_both_passes_of_a_repeated_one() -> None:
    hourly = Schedule("0 * * * *", "30m", "Europe/Berlin", size=1)
    for quarter in range(24):
        moment = utc("2026-10-24 22:00:00") + timedelta(minutes=15 * quarter)
        assert is_inside(hourly, moment) is (moment.minute < 30), moment


def test_a_fixed_time_that_the_spring_night_skips_fires_when_the_hour_is_over() -> None:
    nightly = Schedule("30 2 * * *", "30m", "Europe/Berlin", size=1)
    assert last_firing(nightly, utc("2026-03-29 01:10:00")) == utc("2026-03-29 01:00:00")
    assert is_inside(nightly, utc("2026-03-29 01:10:00"))


@pytest.mark.whole
@pytest.mark.parametrize("zone", ["Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca"])
def test_zones_with_odd_clock_changes_have_one_window_a_day(zone: str) -> None:
    daily = Schedule("0 12 * * *", "1h", zone, size=1)
    start = utc("2026-01-01 00:00:00")
    was_inside, windows = False, 0
    for quarter in range(365 * 96):
        inside = is_inside(daily, start + timedelta(minutes=15 * quarter))
        windows += inside and not was_inside
        was_inside = inside
    assert windows in (365, 366)


def test_a_deployment_that_is_being_deleted_is_no_pools_any_more() -> None:
    labels = {POOL_LABEL: "gpu", SHAPE_LABEL: "a", **MANAGED_BY}
    stays = Metadata("gpu-a", "team-a", labels=labels)
    goes = replace(stays, namespace="team-b", deletion_timestamp="2026-11-21T12:00:00Z")
    found = deployments_by_pool([Deployment(stays), Deployment(goes)])
    assert {str(pool): list(labelled.own) for pool, labelled in found.items()} == {"team-a/gpu": ["a"]}


def test_the_first_active_schedule_in_the_users_order_wins() -> None:
    all_day = Schedule("0 0 * * *", "24h", size=5)
    noon = Schedule("0 12 * * *", "1h", size=50)
    assert active_schedule((all_day, noon), utc("2026-11-20 12:30:00")) is all_day
    assert active_schedule((noon, all_day), utc("2026-11-20 12:30:00")) is noon
    assert active_schedule((noon,), utc("2026-11-20 14:00:00")) is None


@given(st.datetimes(datetime(2000, 1, 1), datetime(2060, 1, 1)), st.integers(1, 24))
def test_a_window_as_long_as_its_period_never_closes(moment: datetime, hours: int) -> None:
    daily = Schedule("0 0 * * *", f"{24 + hours}h", size=1)
    assert is_inside(daily, moment.replace(tzinfo=UTC))


def test_a_day_that_comes_once_in_28_years_is_sought_once_a_minute() -> None:
    """Tenants write schedules: 200 of these are decided on again and again within a minute."""
    rare = [Schedule("59 23 29 2 */7", "1s", zone, size=1) for zone in ("America/New_York", "Etc/UTC")] * 100
    _last_firing.cache_clear()
    for second in range(30):
        assert active_schedule(rare, utc(f"2027-02-27 10:00:{second:02}")) is None
    assert _last_firing.cache_info().misses == 2


@given(st.sampled_from(["* * * * *", "30 2 * * *", "0 8 * * MON-FRI"]), st.integers(0, 4 * 3600))
def test_the_second_within_a_minute_changes_no_firing(cron: str, after_s: int) -> None:
    wall = utc("2026-10-24 23:00:00") + timedelta(seconds=after_s)
    found = last_firing(Schedule(cron, "1h", "Europe/Berlin", size=1), wall)
    assert found <= wall
    assert found == last_firing(Schedule(cron, "1h", "Europe/Berlin", size=1), wall.replace(second=0))
