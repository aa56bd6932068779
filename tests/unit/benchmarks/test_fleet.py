"""The arithmetic of the fleet's figures, the sizes of fleets, and how the service's metrics are read."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from benchmarks.fleet.figures import Measured, Sample, figures, lags, longest_gap
from benchmarks.fleet.population import DAEMONS, FILLER, IDLE, Fleet
from benchmarks.fleet.service import RunningService, total
from benchmarks.report import Report, answer, parser_of


def test_the_longest_gap_counts_both_ends() -> None:
    assert longest_gap([1, 2, 5, 6], since=0, until=7) == 3
    assert longest_gap([1, 2], since=0, until=7) == 5
    assert longest_gap([4], since=0, until=5) == 4
    assert longest_gap([], since=2, until=5) == 3


def test_moments_outside_do_not_count() -> None:
    assert longest_gap([0, 9, 12, 30], since=10, until=20) == 8


def test_a_lag_ends_with_the_first_sample_that_has_as_many_nodes() -> None:
    samples = [Sample(0, 10), Sample(1.5, 11), Sample(2.5, 13)]
    assert lags([1.0, 1.2, 2.0], samples) == pytest.approx((0.5, 1.3, 0.5))


def test_arrivals_count_in_order_whoever_told_of_them_first() -> None:
    samples = [Sample(0, 0), Sample(3, 2)]
    assert lags([2.0, 1.0], samples) == (2.0, 1.0)


def test_a_count_that_falls_again_has_been_reached() -> None:
    samples = [Sample(0, 0), Sample(1, 2), Sample(2, 1), Sample(3, 3)]
    assert lags([0.5, 0.5, 0.5], samples) == (0.5, 0.5, 2.5)


def test_nodes_that_were_never_counted_are_no_figure() -> None:
    with pytest.raises(ValueError, match="1 nodes were counted, and 2 or more had arrived"):
        lags([1, 2], [Sample(0, 5), Sample(3, 6)])


def measured(deaf_s: float = 0.3) -> Measured:
    return Measured(
        first_decision_s=20,
        gangs={"quiet": (0.5, 2.0), "first list": (3.0, 4.0), "410": (1.0, 2.5)},
        deaf_s=deaf_s,
        memory_mb=600,
        requests_per_s=0.8,
        cpu_share=0.04,
        lags_s=(0.1,) * 99 + (0.9,),
    )


def test_the_last_pod_of_a_gang_is_what_counts() -> None:
    found = {(figure.name, figure.case): figure.value for figure in figures(measured())}
    assert found["gang_quiet_s", ""] == 2.0
    assert found["gang_during_list_s", "first list"] == 4.0
    assert found["gang_during_list_s", "410"] == 2.5
    assert found["arrival_lag_p99_s", ""] == 0.1


@pytest.mark.parametrize(("deaf_s", "code"), [(0.3, 0), (2.0, 0), (2.1, 1)])
def test_a_figure_below_its_floor_ends_the_run_with_1(deaf_s: float, code: int) -> None:
    report = Report(name="fleet", figures=tuple(figures(measured(deaf_s))), faked=())
    assert answer(report, parser_of("fleet").parse_args(["--json"])) == code


def test_every_pod_has_a_node_and_idle_nodes_run_daemons_only() -> None:
    fleet = Fleet(nodes=100, pods=2_000, pools=4)
    pods = list(fleet.filler("2026-11-23T00:00:00Z"))
    assert len({pod["metadata"]["name"] for pod in pods}) == len({pod["metadata"]["uid"] for pod in pods}) == 2_000
    assert all(FILLER in pod["metadata"]["labels"] for pod in pods)
    idle = {fleet.node(number).name for number in range(100) if fleet.is_idle(number)}
    assert len(idle) == fleet.idle == 25 + 3 * IDLE
    on_idle = [pod for pod in pods if pod["spec"]["nodeName"] in idle]
    assert len(on_idle) == len(idle) * DAEMONS
    assert all("ownerReferences" in pod["metadata"] for pod in on_idle)
    assert sum(spec["size"] for _, spec in fleet.balloon_pools()) == fleet.idle


@pytest.mark.parametrize(
    ("nodes", "pods", "pools"), [(100, 2_000, 0), (100, 2_000, 21), (100, 800, 4), (100, 100_000, 4)]
)
def test_fleets_that_cannot_be_are_refused(nodes: int, pods: int, pools: int) -> None:
    with pytest.raises(ValueError, match="nodes"):
        Fleet(nodes=nodes, pods=pods, pools=pools)


def test_a_metric_is_the_sum_of_its_own_series() -> None:
    page = '# TYPE a gauge\na{pool="x"} 2.0\na{pool="y"} 3.5\na_b{pool="x"} 7.0\nb 4.0\n'
    assert (total(page, "a"), total(page, "b"), total(page, "c")) == (5.5, 4.0, 0.0)


class _Session:
    """Answers each request with the next of its pages, or fails as that says."""

    def __init__(self, *pages: str | Exception) -> None:
        self._pages = list(pages)

    def get(self, address: str, headers: dict[str, str]) -> Any:
        return self

    async def __aenter__(self) -> Any:
        if not self._pages:
            await asyncio.Event().wait()
        page = self._pages.pop(0)
        if isinstance(page, Exception):
            raise page

        async def text() -> str:
            return page

        return SimpleNamespace(status=200, text=text)

    async def __aexit__(self, *error: object) -> None:
        pass


def page_of(warm: int) -> str:
    return f'kube_balloons_pool_warm_nodes{{pool="x"}} {warm}\nkube_balloons_pool_idle_nodes{{pool="x"}} 2\n'


@pytest.mark.virtual_time
async def test_a_page_that_does_not_come_is_no_count_and_ends_no_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was before: one page that took longer than ten seconds, and no later arrival was ever counted."""
    service = RunningService(cast(Any, None), cast(Any, None), 0.0)
    service._session = cast(Any, _Session(page_of(3), TimeoutError(), aiohttp.ClientError(), page_of(5)))
    monkeypatch.setattr(RunningService, "_address", lambda self: "127.0.0.1:1")
    samples: list[Sample] = []
    task = asyncio.create_task(service.count(samples))
    await asyncio.sleep(5)
    assert not task.done()
    task.cancel()
    assert [sample.count for sample in samples] == [5, 7]


def test_parts_that_were_not_run_have_no_figures() -> None:
    only = {figure.name for figure in figures(Measured(lags_s=(0.5, 1.5)))}
    assert only == {"arrival_lag_p99_s"}
