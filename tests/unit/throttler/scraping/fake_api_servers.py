"""What a cluster says about its API servers, and servers that are scraped without a socket."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec

from throttler.kube.decoding import ListPage
from throttler.kube.errors import ForbiddenError
from throttler.kube.requests import LEASES
from throttler.scraping.scrape_watch import SLICES, LeaseWire, ScrapeTarget, SliceWire
from throttler.signals.reading import ReadError
from throttler.signals.sample import Sample

NOW = datetime(2026, 1, 2, tzinfo=UTC)
STARTED_AT = 1_700_000_000.0


def slice_of(*addresses: str, port: int = 6443, ready: bool | None = True, name: str = "https") -> SliceWire:
    wire = {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}} for address in addresses],
        "ports": [{"name": name, "port": port}],
    }
    return msgspec.convert(wire, SliceWire)


def lease(age_s: float = 0.0) -> LeaseWire:
    spec = {"renewTime": (NOW - timedelta(seconds=age_s)).isoformat()}
    return msgspec.convert({"metadata": {"name": "apiserver-x"}, "spec": spec}, LeaseWire)


class FakeClient:
    """Stands where a KubeClient stands; a list that is None is forbidden."""

    def __init__(self, slices=(), leases=()) -> None:
        self.slices = slices
        self.leases = leases
        self.asked: list[str] = []

    async def pages(self, resource, wire, selection):
        self.asked.append(resource.plural)
        items = {SLICES: self.slices, LEASES: self.leases}[resource]
        if items is None:
            raise ForbiddenError("no right to list", status=403)
        yield ListPage(list(items), "1")


class FakeScraper:
    """Servers that count a request per scrape; `broken` fail with an error, `frozen` never answer in time."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.broken: dict[str, ReadError] = {}
        self.asked: list[tuple[float, str]] = []
        self.seconds = 0.01

    async def scrape(self, target: ScrapeTarget) -> Sample:
        asked_s = asyncio.get_running_loop().time()
        self.asked.append((asked_s, target.name))
        await asyncio.sleep(self.seconds)
        if target.name in self.broken:
            raise self.broken[target.name]
        self.counts[target.name] = self.counts.get(target.name, 0) + 1
        return Sample(
            asked_s=asked_s,
            taken_s=asked_s,
            wall_s=STARTED_AT + asked_s,
            started_at=STARTED_AT,
            requests=float(self.counts[target.name]),
            failures=0.0,
            pulse=float(self.counts[target.name]),
        )
