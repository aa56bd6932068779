"""Which cron expressions and time zones a schedule may have."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.schedule_rules import is_cron, is_zone


@pytest.mark.parametrize(
    "text",
    [
        "0 8 * * MON-FRI", "0 8 * * mon-fri", "* * * * *", "*/5 0-23/2 1,15 JAN-MAR 0-7", "00 08 01 01 0",
        "5/10 * * * 7", "0 0 29 2 *", "0 0 31 2 MON", "*,5 * * * *",
    ],
)  # fmt: skip
def test_takes_what_fires(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * *", " 0 8 * * *", "0 8 * * * ", "0  8 * * *", "0\t8 * * *", "60 * * * *",
        "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8", "* * * FOO *",
        "* * * * MONDAY", "@daily", "*/0 * * * *", "*/100 * * * *", "5-1 * * * *", "0 8 * * FRI-MON", "0 0 30 2 *",
        "0 0 31 4,6 *", "0 0 L * *", "0 0 * * 1#2", "0 0 * * 5L", "? * * * *", "-1 * * * *", "1.5 * * * *",
        "1e1 * * * *", "８ * * * *", "٨ * * * *", "0 8 * * ſUN", "0,  8 * * *", ", * * * *", "1- * * * *",
        "* * * * *\n",
    ],
)  # fmt: skip
def test_refuses_what_never_fires_or_reads_differently_elsewhere(text: str) -> None:
    assert not is_cron(text)


@pytest.mark.parametrize(
    "name", ["Etc/UTC", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince"]
)
def test_takes_zones_of_the_database(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "Mars/Olympus", "America", "../Europe/Berlin", "/etc/passwd", "Europe/../Europe/Berlin", "Europe/Berlin/",
        "Europe//Berlin", "Europe/Berlin\x00", "Europe Berlin", "+02:00", "Ｅurope/Berlin", "x" * 5000,
        "Europe/Berlin\n",
    ],
)  # fmt: skip
def test_refuses_names_that_are_no_zone(name: str) -> None:
    assert not is_zone(name)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    item = st.just("*") | number.map(str) | span
    stepped = item | st.tuples(item, st.integers(1, 99)).map(lambda parts: f"{parts[0]}/{parts[1]}")
    return st.lists(stepped, min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)


@given(EXPRESSIONS)
def test_what_is_taken_fires_in_every_zone_in_both_directions(text: str) -> None:
    assert is_cron(text)
    moment = datetime(2026, 3, 29, 2, 30, tzinfo=UTC).astimezone(ZoneInfo("Europe/Berlin"))
    assert next(CronSim(text, moment)) > moment
    assert next(CronSim(text, moment, reverse=True)) < moment


@given(st.text(max_size=130) | st.text(alphabet="0123456789*/-, LW#?MONFRI", max_size=130))
def test_any_text_is_judged(text: str) -> None:
    if is_cron(text):
        assert next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
