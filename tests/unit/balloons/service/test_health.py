"""What the HTTP server gives to anybody who asks, and how often that costs anything."""

from collections.abc import Iterator

from aiohttp import ClientSession
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily

from balloons.service.health import Page, serve_health
from balloons.service.settings import Address


class Counted:
    """A collector that knows how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self.asked += 1
        yield GaugeMetricFamily("asked", "How often.", value=self.asked)


async def test_a_thousand_scrapes_within_a_second_write_one_page() -> None:
    registry, counted = CollectorRegistry(), Counted()
    registry.register(counted)
    counted.asked, now_s = 0, [0.0]
    page = Page(registry, lambda: now_s[0])
    first = [page.text("")[1] for _ in range(1_000)]
    assert (counted.asked, len(set(first))) == (1, 1)
    now_s[0] = 1.0
    assert page.text("")[1] != first[0]
    assert counted.asked == 2


async def test_probes_and_metrics_are_answered() -> None:
    problem = [""]
    served = serve_health(Address("127.0.0.1", 0), CollectorRegistry(), lambda: "", lambda: problem[0])
    async with served as address, ClientSession() as session:
        for path, status in (("/metrics", 200), ("/healthz", 200), ("/readyz", 200)):
            assert (await session.get(f"http://{address}{path}")).status == status
        problem[0] = "view incomplete"
        answer = await session.get(f"http://{address}/readyz")
        assert (answer.status, await answer.text()) == (503, "view incomplete\n")
