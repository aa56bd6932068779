"""Which sources of signals run: one watch for each distinct set of settings that some throttle names."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from throttler.api.throttle import JoinThrottle
from throttler.kube.caller import AttemptObserver
from throttler.kube.connection import Connection
from throttler.kube.errors import ConfigError
from throttler.kube.quantity import QuantityError
from throttler.signals.reading import Signals
from throttler.sources.outcome import ReadObserver
from throttler.sources.own_attempts import OwnAttempts
from throttler.sources.prometheus_access import PrometheusAccess
from throttler.sources.settings import SourceSettings, source_settings
from throttler.sources.signal_watch import SignalWatch

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Running:
    """A watch and its task."""

    watch: SignalWatch
    task: asyncio.Task[None]


class SignalWatches:
    """Begins and ends watches as throttles come and go; `own` is what the service's clients report to, `access` what
    the operator gives for one Prometheus."""

    def __init__(
        self,
        connection: Connection,
        own: OwnAttempts,
        observer: ReadObserver,
        attempts: AttemptObserver,
        access: PrometheusAccess | None = None,
    ) -> None:
        self._connection = connection
        self._own = own
        self._observer = observer
        self._attempts = attempts
        self._access = access
        self._running: dict[SourceSettings, _Running] = {}
        self._settings: dict[str, SourceSettings] = {}
        self._problems: dict[str, str] = {}

    def follow(self, throttles: Iterable[JoinThrottle]) -> None:
        """Run what these throttles name, and nothing else."""
        self._settings, self._problems = {}, {}
        for throttle in throttles:
            self._follow_one(throttle)
        for settings in self._running.keys() - self._settings.values():
            self._running.pop(settings).task.cancel()

    def by_throttle(self, now_s: float) -> dict[str, Signals]:
        """What each throttle's sources tell at `now_s` (monotonic)."""
        found = {settings: running.watch.signals(now_s) for settings, running in self._running.items()}
        told = {name: found[settings] for name, settings in self._settings.items()}
        return told | {name: Signals(problems=(problem,)) for name, problem in self._problems.items()}

    def distinct(self, now_s: float) -> list[Signals]:
        """The same without repetition, for metrics of servers."""
        return [running.watch.signals(now_s) for running in self._running.values()]

    def _follow_one(self, throttle: JoinThrottle) -> None:
        name = throttle.metadata.name
        try:
            settings = source_settings(throttle.spec.signals)
            if settings not in self._running or self._running[settings].task.done():
                self._running[settings] = self._begin(settings)
            self._settings[name] = settings
        except (ConfigError, QuantityError) as error:
            self._problems[name] = str(error)

    def _begin(self, settings: SourceSettings) -> _Running:
        watch = SignalWatch(
            self._connection,
            settings,
            own=self._own,
            observer=self._observer,
            attempts=self._attempts,
            access=self._access,
        )
        task = asyncio.create_task(watch.run(), name="signals")
        task.add_done_callback(_ended)
        return _Running(watch, task)


def _ended(task: asyncio.Task[None]) -> None:
    """A watch that failed is begun anew at the next tick."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("reading signals failed", exc_info=error)
