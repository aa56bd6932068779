"""The way of a 429 to the limit that it lowers."""

from benchmarks.trails import MOST_CALLS, MOST_FILES, trail


def test_the_trail_leads_from_the_counter_over_the_brake_to_the_limit() -> None:
    found = trail()
    names = [name for _, name in found]
    assert found[0][0] == "throttler/signals/metrics_text.py"
    assert names.index("sample_from_rows") < names.index("braked") < names.index("plan_pool")


def test_the_trail_becomes_no_longer() -> None:
    found = trail()
    assert len(found) <= MOST_CALLS
    assert len({file for file, _ in found}) <= MOST_FILES
