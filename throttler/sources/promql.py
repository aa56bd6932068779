"""The second source: an existing Prometheus, for readings where scraping is off or forbidden, and for alarms."""

import asyncio
from collections.abc import Mapping

import structlog

from throttler.signals.reading import Alarm
from throttler.signals.sample import Sample
from throttler.signals.servers import Address, Servers
from throttler.sources.outcome import Read, ReadError, ReadObserver, ReadOutcome, ignore_read
from throttler.sources.promql_client import PromqlClient
from throttler.sources.promql_queries import SAMPLE_QUERY
from throttler.sources.promql_samples import samples_of
from throttler.sources.settings import AlarmSetting

ROUND_S = 10.0
"""Prometheus itself scrapes every 15 to 60 s: asking more often brings nothing."""
HELD_S = 60.0
"""An alarm or a server that Prometheus has stopped speaking of is remembered for so long."""

log = structlog.get_logger()


class PrometheusWatch:
    """Asks in rounds and remembers; `servers` is what is known of each API server through Prometheus."""

    def __init__(
        self, client: PromqlClient, alarms: tuple[AlarmSetting, ...], *, observer: ReadObserver = ignore_read
    ) -> None:
        self.servers = Servers()
        self._client = client
        self._settings = alarms
        self._observer = observer
        self._alarms: dict[str, tuple[Alarm, float]] = {}
        self._problems: dict[str, str] = {}

    def alarms(self, now_s: float) -> tuple[Alarm, ...]:
        """The alarms whose value is known; the others are in `problems`."""
        return tuple(alarm for alarm, at_s in self._alarms.values() if now_s - at_s <= HELD_S)

    @property
    def problems(self) -> tuple[str, ...]:
        """In words, what Prometheus did not tell."""
        return tuple(self._problems.values())

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            started_s = _now_s()
            try:
                await self.round()
            except Exception:
                log.exception("a round of queries to Prometheus failed unexpectedly")
                self._problems["round"] = "a round of queries to Prometheus failed unexpectedly"
            await asyncio.sleep(max(0.0, started_s + ROUND_S - _now_s()))

    async def round(self) -> None:
        """One round: every API server, then every alarm."""
        self._problems.clear()
        await self._read_servers()
        for setting in self._settings:
            await self._read_alarm(setting)

    async def _read_servers(self) -> None:
        asked_s, size_bytes, outcome = _now_s(), 0, ReadOutcome.GOOD
        try:
            points, size_bytes = await self._client.query(SAMPLE_QUERY)
            self._take(samples_of(points, asked_s), asked_s)
        except ReadError as error:
            outcome = error.outcome
            self._problems["servers"] = error.problem
        read = Read(
            source="prometheus",
            server=self._client.name,
            outcome=outcome,
            seconds=_now_s() - asked_s,
            size_bytes=size_bytes,
        )
        self._observer(read)

    def _take(self, samples: Mapping[str, Sample], now_s: float) -> None:
        if not samples:
            self._problems["servers"] = "Prometheus knows no API server (an empty answer is not zero load)"
        known = {name: address for name, address in self.servers.addresses.items() if _is_remembered(address, now_s)}
        self.servers = self.servers.found({**known, **samples}, 0, now_s)
        for name, address in self.servers.addresses.items():
            self.servers = self.servers.with_address(_updated(address, samples.get(name), now_s), now_s)

    async def _read_alarm(self, setting: AlarmSetting) -> None:
        """The largest value counts where the query gives several; one that gives none leaves the alarm unknown."""
        try:
            points, _ = await self._client.query(setting.query)
        except ReadError as error:
            self._problems[setting.name] = f"alarm {setting.name}: {error.problem}"
            return
        if not points:
            self._problems[setting.name] = f"alarm {setting.name}: the query gives no value, which is not zero"
            return
        value = max(point.value for point in points)
        self._alarms[setting.name] = (Alarm(name=setting.name, value=value, threshold=setting.threshold), _now_s())


def _updated(address: Address, sample: Sample | None, now_s: float) -> Address:
    """A sample that Prometheus has given before brings nothing: it has not scraped since, and ages by itself."""
    if sample is None:
        return address.failed("Prometheus has no figures of it", now_s)
    is_known = any(process.latest.taken_s >= sample.taken_s for process in address.processes)
    return address if is_known else address.answered(sample)


def _is_remembered(address: Address, now_s: float) -> bool:
    return address.failing_since_s is None or now_s - address.failing_since_s <= HELD_S


def _now_s() -> float:
    return asyncio.get_running_loop().time()
