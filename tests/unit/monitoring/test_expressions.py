"""Every expression of an alert, a rule or a dashboard parses, and asks for what the service really exports."""

import pytest

from lab.monitoring.write_dashboards import BOARDS
from tests.unit.monitoring.expressions import KNOWN, Selector, plain, selectors
from tests.unit.monitoring.test_alerts import RULES

RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
OF_RULES = {rule.get("alert") or rule["record"]: rule["expr"] for rule in RULES}
OF_PANELS = {
    f"{board.uid} {panel.title} {number}": query.expr
    for board in BOARDS
    for panel in board.panels
    for number, query in enumerate(panel.queries)
}
OF_CHOICES = {f"{board.uid} ${each.name}": each.series for board in BOARDS for each in board.variables}
OF_MARKS = {f"{board.uid} {each.name}": each.query.expr for board in BOARDS for each in board.annotations}
ALL = {**OF_RULES, **OF_PANELS, **OF_CHOICES, **OF_MARKS}
COUNTING = ("rate", "increase")
COUNTED = ("_total", "_bucket", "_sum", "_count")
EVERYWHERE = {"cluster", "pod", "le"}
"""Labels that the scrape adds, and that of histograms' buckets."""

each_expression = pytest.mark.parametrize("expr", ALL.values(), ids=ALL)
each_panel_query = pytest.mark.parametrize("expr", OF_PANELS.values(), ids=OF_PANELS)


def _ours(expr: str) -> list[Selector]:
    return [each for each in selectors(plain(expr)) if each.name not in RECORDED]


@each_expression
def test_expression_asks_for_metrics_and_labels_that_exist(expr: str) -> None:
    for each in _ours(expr):
        assert each.family in KNOWN.types, each.name
        labels = {*KNOWN.labels.get(each.family, ()), *EVERYWHERE}
        assert set(each.matchers) <= labels, each


@each_expression
def test_expression_asks_for_label_values_that_exist(expr: str) -> None:
    for each in _ours(expr):
        for label, pattern in each.matchers.items():
            if label in KNOWN.values:
                assert set(pattern.split("|")) <= KNOWN.values[label], each


@each_expression
def test_counters_are_read_as_rates_and_gauges_are_not(expr: str) -> None:
    for each in _ours(expr):
        is_counter = each.name.endswith(COUNTED)
        assert (each.function in COUNTING) == is_counter, each


@each_panel_query
def test_panel_takes_its_window_from_the_dashboard(expr: str) -> None:
    """Five minutes only where a title or a description says so: joins and bindings are rare events."""
    for window in ("$__rate_interval", "$__range", "5m"):
        expr = expr.replace(f"[{window}]", "[]")
    assert not any(each in expr for each in ("s]", "m]", "h]", "d]"))


@each_panel_query
def test_panel_can_be_narrowed_to_a_cluster(expr: str) -> None:
    for each in selectors(expr.replace("$__rate_interval", "1m").replace("$__range", "1h")):
        assert each.matchers["cluster"] == "$cluster", each


def test_a_wrong_expression_would_be_found() -> None:
    with pytest.raises(ValueError, match=r".+"):
        selectors("sum by (pool (rate(x[5m]))")
    assert selectors("rate(x_total{a='b'}[5m])") == [Selector("x_total", {"a": "b"}, "rate", True)]
    assert "kube_balloons_pool_nodez" not in KNOWN.types
