"""The pure parts behind the recorded run and its pictures."""

import math

import pytest

from lab.monitoring.panel_values import filled, in_unit, legend, unit_size
from lab.monitoring.prometheus import Scrapes

PAGE = """# HELP a Counted.
# TYPE a counter
a_total{x="1"} %d.0
a_total{x="2"} 5.0
# HELP b Measured.
# TYPE b gauge
b 7.0
# EOF
"""


def test_scrapes_become_one_text_with_families_and_series_together() -> None:
    scrapes = Scrapes()
    scrapes.add(PAGE % 1, 100.0)
    scrapes.add(PAGE % 2, 115.0)
    assert scrapes.text().splitlines() == [
        "# HELP a Counted.",
        "# TYPE a counter",
        'a_total{x="1"} 1.0 100.000',
        'a_total{x="1"} 2.0 115.000',
        'a_total{x="2"} 5.0 100.000',
        'a_total{x="2"} 5.0 115.000',
        "# HELP b Measured.",
        "# TYPE b gauge",
        "b 7.0 100.000",
        "b 7.0 115.000",
        "# EOF",
    ]


def test_family_that_comes_later_is_kept() -> None:
    scrapes = Scrapes()
    scrapes.add("# EOF\n", 100.0)
    scrapes.add(PAGE % 2, 115.0)
    assert "b 7.0 115.000" in scrapes.text()


def test_choices_are_filled_in_as_all() -> None:
    expr = 'sum(rate(a_total{cluster=~"$cluster",pool=~"$pool"}[$__rate_interval])) + increase(b_total[$__range])'
    assert filled(expr, "10m") == 'sum(rate(a_total{cluster=~".*",pool=~".*"}[60s])) + increase(b_total[10m])'


def test_legend_names_a_series_by_its_labels() -> None:
    assert legend("{{namespace}}/{{pool}} warm", {"namespace": "ml", "pool": "gpu"}) == "ml/gpu warm"
    assert legend("{{pool}}", {}) == ""


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.25, "percentunit", "25 %"),
        (0.012, "s", "12 ms"),
        (90.0, "s", "90 s"),
        (600.0, "s", "10 min"),
        (3 * 1024**3, "bytes", "3 GiB"),
        (2048.0, "Bps", "2 KiB/s"),
        (0.5, "ops", "0.5/s"),
        (1200.0, "short", "1,200"),
        (math.nan, "short", "-"),
    ],
)
def test_values_are_written_in_their_unit(value: float, unit: str, text: str) -> None:
    assert in_unit(value, unit) == text


@pytest.mark.parametrize(
    ("top", "unit", "size"),
    [
        (2_300.0, "s", 60.0),
        (32.0, "s", 1.0),
        (3.2 * 1024**4, "bytes", 1024**4),
        (30 * 1024.0, "Bps", 1024.0),
        (9 * 1024.0**5, "bytes", 1024**4),
        (0.5, "bytes", 1.0),
        (170.0, "short", 1.0),
    ],
)
def test_steps_of_an_axis_are_round_in_the_unit_that_is_written(top: float, unit: str, size: float) -> None:
    """8.33 min and 1.46 TiB are no steps."""
    assert unit_size(top, unit) == size
