"""The way of a 429 to the limit that it lowers, and of an idle node to its balloon and its release."""

from benchmarks.trails import MOST_CALLS, MOST_FILES, MOST_NODE_CALLS, MOST_NODE_FILES, node_trail, trail


def test_the_trail_leads_from_the_counter_over_the_brake_to_the_limit() -> None:
    steps = trail()
    names = [name for _, name in steps]
    assert steps[0][0] == "throttler/signals/metric_families.py"
    assert names.index("sample_from_rows") < names.index("braked") < names.index("ObjectCeiling.decided")


def test_the_trail_becomes_no_longer() -> None:
    steps = trail()
    assert len(steps) <= MOST_CALLS
    assert len({file for file, _ in steps}) <= MOST_FILES


def test_the_trail_of_a_node_leads_from_the_event_over_the_size_to_the_release() -> None:
    steps = node_trail()
    names = [name for _, name in steps]
    assert names[0] == "Index.change_node"
    assert names.index("target") < names.index("decide") < names.index("Writer.carry_out")
    assert names.index("Writer.carry_out") < names.index("Preemptions.expect_release")


def test_the_trail_of_a_node_becomes_no_longer() -> None:
    steps = node_trail()
    assert len(steps) <= MOST_NODE_CALLS
    assert len({file for file, _ in steps}) <= MOST_NODE_FILES
