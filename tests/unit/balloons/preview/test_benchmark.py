"""The benchmark of previews works: a small run, whose plans must have an end."""

import pytest

from benchmarks.preview.__main__ import measure


@pytest.mark.whole
def test_measures_plan_simulation_and_help() -> None:
    figures = {figure.name: figure.value for figure in measure(True).figures}
    assert figures.keys() == {"plan_7500_s", "simulate_100k_s", "help_s"}
    assert all(value > 0 for value in figures.values())
