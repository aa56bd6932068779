from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.errors import parse_retry_after

NOW = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        (None, None),
        ("0", 0.5),
        ("1", 1),
        ("30", 30),
        ("3600", 60),
        ("-1", 0.5),
        ("1.5", 1.5),
        (" 7 ", 7),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("1e400", None),
        ("٣", 3),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20),
        (format_datetime(NOW - timedelta(hours=1), usegmt=True), 0.5),
        (format_datetime(NOW + timedelta(days=1), usegmt=True), 60),
        ("Sat, 21 Nov 2026 04:00:10 -0000", 10),
        ("Sat, 99 Nov 2026 04:00:10 GMT", None),
    ],
)
def test_every_form_becomes_a_wait_within_bounds_or_nothing(text, expected_s):
    assert parse_retry_after(text, NOW) == expected_s


def test_a_date_needs_a_clock():
    assert parse_retry_after(format_datetime(NOW, usegmt=True), None) is None


@given(st.text())
def test_no_text_leads_out_of_bounds(text):
    seconds = parse_retry_after(text, NOW)
    assert seconds is None or 0.5 <= seconds <= 60
