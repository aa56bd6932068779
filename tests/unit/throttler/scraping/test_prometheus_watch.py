"""Prometheus as second source: the same readings, and empty, partial or slow answers that are not zero."""

import asyncio
import json
import math
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lab.binaries import find_binary
from tests.unit.throttler.kube.loopback_api import loopback_api
from tests.unit.throttler.scraping.fake_prometheus import ALARM, EVALUATED_AT, FakePrometheus, answer, element, server
from tests.unit.throttler.scraping.metrics_server import answering, stall
from throttler.scraping.prometheus_watch import _FIGURES, HELD_S, PrometheusWatch, samples_of
from throttler.scraping.promql_client import MAX_BYTES, Point, PromqlClient, points_of
from throttler.scraping.settings_and_allowed_hosts import ANSWER_LIMIT_S
from throttler.signals.metric_families import REJECTED
from throttler.signals.reading import Read, ReadError, ReadOutcome


async def rounds(
    prometheus: FakePrometheus, *states: list[dict[str, object]], alarms=(), reads=None
) -> PrometheusWatch:
    async with loopback_api(prometheus.handle) as api:
        observer = (reads if reads is not None else []).append
        watch = PrometheusWatch(PromqlClient(api.url, allows_loopback=True), alarms, observer=observer)
        for state in states:
            prometheus.servers = state
            await watch.round()
        return watch


async def test_two_scrapes_of_prometheus_are_a_window() -> None:
    reads: list[Read] = []
    watch = await rounds(FakePrometheus(), server("a", 100, age_s=19), server("a", 250, age_s=4), reads=reads)
    (reading,) = watch.servers.readings()
    now_s = asyncio.get_running_loop().time()
    assert (reading.server, reading.requests, reading.span_s) == ("a", 150.0, 15.0)
    assert reading.latency_s == pytest.approx(0.01)
    assert now_s - reading.ended_s == pytest.approx(4, abs=2)
    assert [(read.source, read.outcome) for read in reads] == [("prometheus", ReadOutcome.GOOD)] * 2


async def test_asking_again_before_prometheus_scraped_again_brings_nothing() -> None:
    state = server("a", 250, age_s=4)
    watch = await rounds(FakePrometheus(), server("a", 100, age_s=19), state, state, state)
    assert watch.servers.readings()[0].requests == 150
    assert watch.servers.frozen(0.0) == ()


async def test_figures_that_stand_still_get_older() -> None:
    watch = await rounds(FakePrometheus(), server("a", 100, age_s=40), server("a", 250, age_s=25), server("a", 250))
    now_s = asyncio.get_running_loop().time()
    assert now_s - watch.servers.readings()[0].ended_s == pytest.approx(25, abs=2)
    assert len(watch.servers.frozen(now_s)) == 1


async def test_levels_seats_and_errors_are_read() -> None:
    def state(requests: float, wait: float, errors: float) -> list[dict[str, object]]:
        levels = [
            element(value, instance="a", figure=figure, priority_level="system")
            for figure, value in (("wait_sum", wait), ("wait_count", requests), ("seats", 3), ("seat_limit", 4))
        ]
        age_s = 19 if requests == 100 else 4
        refused = {"rejected": errors, "all_rejected": 4 * errors, "refusals": 90 * errors}
        failed = {"failures": errors, "all_failures": 3 * errors + 2, "away": 2}
        figures = {**refused, **failed, "cpu": requests / 50, "cpus": 2}
        return [*server("a", requests, age_s=age_s, **figures), *levels]

    watch = await rounds(FakePrometheus(), state(100, 0, 0), state(250, 30, 5))
    (reading,) = watch.servers.readings()
    assert reading.queue_wait_s == pytest.approx(0.2)
    assert reading.seats_share == 0.75
    assert (reading.errors, reading.others_errors) == (10, 25)
    assert REJECTED.name not in reading.missing
    assert reading.cpu_share == pytest.approx(0.1)


async def test_without_the_levels_of_joins_their_own_refusals_count() -> None:
    states = (server("a", 100, age_s=19), server("a", 250, refusals=5, rejected=90))
    (reading,) = (await rounds(FakePrometheus(), *states)).servers.readings()
    assert reading.errors == 5
    assert REJECTED.name in reading.missing, "said on the throttle's status"


async def test_what_is_no_api_server_is_left_out() -> None:
    controller = [element(5, instance="kcm", figure="cpu"), element(1.7e9, instance="kcm", figure="started")]
    watch = await rounds(FakePrometheus(), [*server("a", 100), *controller])
    assert set(watch.servers.addresses) == {"a"}


async def test_an_empty_answer_is_silence_and_not_zero() -> None:
    watch = await rounds(FakePrometheus(), server("a", 100, age_s=19), server("a", 250), [])
    now_s = asyncio.get_running_loop().time()
    assert watch.problems == ("Prometheus knows no API server (an empty answer is not zero load)",)
    assert [silent.problem for silent in watch.servers.silent(now_s)] == ["Prometheus has no figures of it"]
    assert watch.servers.readings()[0].requests == 150


async def test_a_server_that_vanishes_from_the_answer_is_silent() -> None:
    both = [*server("a", 100), *server("b", 100)]
    watch = await rounds(FakePrometheus(), both, server("a", 250, age_s=1))
    silent = watch.servers.silent(asyncio.get_running_loop().time())
    assert [server.problem for server in silent if server.server == "b"] == ["Prometheus has no figures of it"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>secret</html>", "no vector"),
        (b"", "no vector"),
        (b"[" * 100_000, "no vector"),
        (answer(element(1), warnings=["secret store did not answer"]), "partial"),
        (answer(element(1), isPartial=True), "partial"),
        (json.dumps({"status": "error", "error": "secret"}).encode(), "failed"),
        (answer(element("many")), "no number"),
        (json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode(), "no vector"),
    ],
)
def test_what_is_no_whole_vector_of_numbers_is_refused_in_our_own_words(body: bytes, words: str) -> None:
    with pytest.raises(ReadError, match=words) as caught:
        points_of(body)
    assert "secret" not in caught.value.problem


def test_a_remark_on_the_query_is_no_warning_about_its_result() -> None:
    remark = 'PromQL info: metric might not be a counter, name does not end in _total: "cni_errors" (1:6)'
    assert [point.value for point in points_of(answer(element(1), warnings=[remark]))] == [1.0]
    with pytest.raises(ReadError, match="partial"):
        points_of(answer(element(1), warnings=[remark, "a store did not answer"]))


async def query_failure(handler, limit_s: float = 8.0) -> tuple[ReadError, int]:
    async with loopback_api(handler) as api:
        with pytest.raises(ReadError) as caught:
            await PromqlClient(api.url, limit_s=limit_s, allows_loopback=True).query("up")
        return caught.value, len(api.asked)


async def test_a_slow_prometheus_is_given_up() -> None:
    error, _ = await query_failure(stall, 0.2)
    assert (error.outcome, error.problem) == (ReadOutcome.TIMEOUT, "Prometheus did not answer within 0.2 s")


async def test_a_redirect_is_not_followed() -> None:
    error, asked = await query_failure(answering(b"", status=307, headers={"Location": "/other"}))
    assert (error.outcome, asked) == (ReadOutcome.REFUSED, 1)


async def test_an_answer_without_end_is_given_up() -> None:
    error, _ = await query_failure(answering(b"x" * (MAX_BYTES + 1)))
    assert error.outcome is ReadOutcome.TOO_LARGE


async def test_a_prometheus_that_is_away_is_a_problem_and_changes_no_reading() -> None:
    watch = await rounds(FakePrometheus(), server("a", 100, age_s=19), server("a", 250))
    before = watch.servers
    await watch.round()
    assert watch.servers == before
    assert "cannot be reached" in watch.problems[0]


async def test_an_alarm_has_its_largest_value() -> None:
    prometheus = FakePrometheus()
    prometheus.alarms = {ALARM.query: answer(element(2, pod="x"), element(4, pod="y"))}
    watch = await rounds(prometheus, server("a", 100), alarms=(ALARM,))
    (alarm,) = watch.alarms(asyncio.get_running_loop().time())
    assert (alarm.name, alarm.value, alarm.threshold, alarm.is_on) == ("cni", 4.0, 3.0, True)


async def test_an_alarm_may_be_a_scalar() -> None:
    prometheus = FakePrometheus()
    body = json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}).encode()
    prometheus.alarms = {ALARM.query: body}
    watch = await rounds(prometheus, server("a", 100), alarms=(ALARM,))
    assert [alarm.is_on for alarm in watch.alarms(asyncio.get_running_loop().time())] == [False]


async def test_an_alarm_without_a_value_is_unknown_and_not_off() -> None:
    prometheus = FakePrometheus()
    prometheus.alarms = {ALARM.query: answer()}
    watch = await rounds(prometheus, server("a", 100), alarms=(ALARM,))
    assert watch.alarms(asyncio.get_running_loop().time()) == ()
    assert watch.problems == ("alarm cni: the query gives no value, which is not zero",)


@pytest.mark.parametrize(
    ("value", "is_on"), [("4", [True]), ("2", [False]), ("+Inf", [True]), ("-Inf", [False]), ("NaN", [])]
)
async def test_an_instance_that_is_idle_hides_no_alarm_of_another(value: str, is_on: list[bool]) -> None:
    """Errors over requests are 0/0 there, and +Inf where only errors came. Each left the alarm unknown."""
    prometheus = FakePrometheus()
    prometheus.alarms = {ALARM.query: answer(element("NaN", pod="idle"), element(value, pod="busy"))}
    watch = await rounds(prometheus, server("a", 100), alarms=(ALARM,))
    alarms = watch.alarms(asyncio.get_running_loop().time())
    assert [alarm.is_on for alarm in alarms] == is_on
    assert all(math.isfinite(alarm.value) for alarm in alarms)
    assert (watch.problems == ()) == bool(is_on)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1"])
def test_a_figure_of_a_server_that_cannot_be_is_refused(value: str) -> None:
    with pytest.raises(ReadError, match="out of range"):
        samples_of(points_of(answer(element(value, figure="servers", instance="a"))), 0.0)


async def test_an_alarm_is_remembered_for_a_while_when_prometheus_goes_away() -> None:
    prometheus = FakePrometheus()
    prometheus.alarms = {ALARM.query: answer(element(4))}
    watch = await rounds(prometheus, server("a", 100), alarms=(ALARM,))
    await watch.round()
    now_s = asyncio.get_running_loop().time()
    assert len(watch.alarms(now_s)) == 1
    assert watch.alarms(now_s + HELD_S + 1) == ()
    assert any(problem.startswith("alarm cni:") for problem in watch.problems)


async def test_what_was_wrong_is_told_while_it_is_asked_for_again() -> None:
    """A Prometheus that hangs takes most of each round: its problems were told for two seconds in ten."""
    prometheus = FakePrometheus()
    prometheus.alarms = {ALARM.query: answer()}
    asked, going_on = asyncio.Event(), asyncio.Event()

    async def slow(request: web.BaseRequest) -> web.Response:
        asked.set()
        await going_on.wait()
        return await prometheus.handle(request)

    going_on.set()
    async with loopback_api(slow) as api:
        watch = PrometheusWatch(PromqlClient(api.url, allows_loopback=True), (ALARM,))
        await watch.round()
        before = watch.problems
        assert len(before) == 2
        asked.clear()
        going_on.clear()
        again = asyncio.create_task(watch.round())
        await asked.wait()
        assert watch.problems == before
        prometheus.servers, prometheus.alarms = server("a", 100), {ALARM.query: answer(element(4))}
        going_on.set()
        await again
        assert watch.problems == ()


def test_only_figures_of_api_servers_are_asked_for() -> None:
    """Each kubelet and exporter has a start time and a CPU: of 5,000 nodes that is more than an answer may have."""
    for query in _FIGURES.values():
        assert "apiserver_" in query


@pytest.mark.promtool
def test_a_second_job_on_the_same_server_whose_scrape_fails_makes_no_old_error_new(tmp_path: Path) -> None:
    """Its series are away from the fifth minute to the tenth. A real Prometheus evaluates the query."""
    labels = 'code="500",group="",resource="nodes",subresource="",verb="GET",dry_run="",instance="a"'
    jobs = {"apiserver": "5000+1x20", "again": "5000+1x4 stale _x5 5010+1x8"}
    expected = {"4m": 5004, "7m": 5007, "12m": 5012}
    test = {
        "interval": "1m",
        "input_series": [
            {"series": f'apiserver_request_total{{{labels},job="{job}"}}', "values": values}
            for job, values in jobs.items()
        ],
        "promql_expr_test": [
            {
                "expr": _FIGURES["failures"],
                "eval_time": at,
                "exp_samples": [{"labels": '{instance="a"}', "value": value}],
            }
            for at, value in expected.items()
        ],
    }
    (tmp_path / "cases.yaml").write_text(json.dumps({"evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [find_binary("promtool"), "test", "rules", "cases.yaml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


class SlowPrometheus:
    """Answers each query just in time."""

    name = "slow"

    async def query(self, text: str) -> tuple[tuple[Point, ...], int]:
        await asyncio.sleep(ANSWER_LIMIT_S - 0.1)
        return (Point({}, 4.0, EVALUATED_AT),), 100


@pytest.mark.virtual_time
async def test_no_alarm_is_forgotten_while_a_slow_prometheus_tells_of_all() -> None:
    slow: Any = SlowPrometheus()
    alarms = tuple(replace(ALARM, name=f"alarm-{number}") for number in range(16))
    watch = PrometheusWatch(slow, alarms)
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(HELD_S)
    known = set()
    for _ in range(300):
        await asyncio.sleep(1.0)
        known.add(len(watch.alarms(asyncio.get_running_loop().time())))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert known == {16}
