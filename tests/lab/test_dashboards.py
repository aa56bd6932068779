"""Nothing is ever empty: a real Prometheus answers every query of dashboards and alerts from a recorded real run."""

import math
import re
from collections.abc import Iterator
from itertools import chain

import pytest

from lab.monitoring.panel_values import courses
from lab.monitoring.prometheus import RECORDING, RecordedRun, Series, recorded_run
from lab.monitoring.write_dashboards import BOARDS
from tests.unit.monitoring.expressions import plain, selectors
from tests.unit.monitoring.test_alerts import ALERTS, RULES
from tests.unit.monitoring.test_expressions import RECORDED

pytestmark = pytest.mark.promtool

PANELS = {f"{board.uid} {panel.title}": panel for board in BOARDS for panel in board.panels}
MARKS = {f"{board.uid} {each.name}": each.query for board in BOARDS for each in board.annotations}
CHOICES = {f"{board.uid} {each.name}": each for board in BOARDS for each in board.variables}


@pytest.fixture(scope="module", params=[{}, {"cluster": "east"}], ids=["one cluster", "many clusters"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedRun]:
    """The recording, scraped by a Prometheus that adds a cluster label, and by one that does not."""
    with recorded_run(tmp_path_factory.mktemp("prometheus"), **request.param) as found:
        yield found


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_panel_shows_something_under_the_names_it_promises(run: RecordedRun, panel) -> None:
    for query in panel.queries:
        expr = plain(query.expr, run.window)
        found = run.at_end(expr) if panel.is_instant else run.over_run(expr)
        assert_shown(found, query.legend, expr)


@pytest.mark.parametrize(
    "panel", [each for each in PANELS.values() if not each.is_instant], ids=lambda each: each.title
)
def test_no_panel_is_flat_all_the_time(run: RecordedRun, panel) -> None:
    """What hardly ever differs from 0 is a figure with a colour: a line of zeros takes room and says nothing."""
    found = [course.values for query in panel.queries for course in courses(run, query)]
    known = [number for number in range(len(found[0])) if not all(math.isnan(values[number]) for values in found)]
    assert any(len({str(value) for value in values[known[0] :]}) > 1 for values in found), panel.title


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_marks_are_set_in_the_run(run: RecordedRun, mark) -> None:
    assert_shown(run.over_run(plain(mark.expr)), mark.legend, mark.expr)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_choice_offers_what_there_is(run: RecordedRun, choice) -> None:
    found = run.over_run(plain(choice.series))
    assert found
    # Without a cluster label only All can be chosen, and All leaves nothing out.
    is_there = choice.name != "cluster" or "cluster" in found[0].labels
    assert {bool(series.labels.get(choice.name)) for series in found} == {is_there}


@pytest.mark.parametrize("rule", [rule for rule in RULES if "record" in rule], ids=lambda rule: rule["record"])
def test_rule_records_something(run: RecordedRun, rule) -> None:
    assert_shown(run.over_run(rule["expr"]), "", rule["expr"])


@pytest.mark.parametrize("name", ALERTS)
def test_alert_watches_series_that_exist(run: RecordedRun, name: str) -> None:
    for each in selectors(ALERTS[name]["expr"]):
        # Whether a series has a label at all (pod!="") hangs on who scrapes; the recording was not scraped from pods.
        matchers = ",".join(f'{label}=~"{value}"' for label, value in each.matchers.items() if value)
        expr = RECORDED.get(each.name) or f"{each.name}{{{matchers}}}"
        assert run.over_run(expr), expr


@pytest.mark.parametrize("name", sorted(ALERTS.keys() - {"KubeBalloonsWarmHitsBurn"}))
def test_alert_is_silent_at_the_end_of_a_run_that_went_well(run: RecordedRun, name: str) -> None:
    assert run.at_end(ALERTS[name]["expr"]) == []


def test_recording_is_small_enough_to_be_kept() -> None:
    assert RECORDING.stat().st_size < 300_000


def test_what_does_not_exist_is_found_empty(run: RecordedRun) -> None:
    assert run.over_run("kube_balloons_pool_warm_nodez") == []
    with pytest.raises(AssertionError):
        assert_shown([Series({}, ((0.0, math.nan),))], "", "nothing but NaN")


def assert_shown(found: list[Series], legend: str, expr: str) -> None:
    """Somewhere is a number, and every series can be named."""
    values = chain.from_iterable(series.points for series in found)
    assert any(not math.isnan(value) for _, value in values), expr
    for label in re.findall(r"{{(\w+)}}", legend):
        assert all(series.labels.get(label) for series in found), (label, expr)
