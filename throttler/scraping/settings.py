"""What the user says about signals, checked once."""

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from throttler.api.throttle import SignalSources
from throttler.kube.errors import ConfigError
from throttler.kube.quantities_and_durations import parse_quantity
from throttler.signals.reading import INTERVAL_S


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmSetting:
    """A PromQL query and the value from which it is an alarm."""

    name: str
    query: str
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """Where signals come from.

    `servers`: URLs to scrape; empty finds them in the EndpointSlices of default/kubernetes. `interval_s`: between two
    scrapes of one server. `prometheus_url`: an existing Prometheus of this cluster, for alarms and where scraping is
    off or not allowed. Raises ConfigError that names value and reason.
    """

    scrapes: bool = True
    servers: tuple[str, ...] = ()
    interval_s: float = INTERVAL_S
    prometheus_url: str | None = None
    alarms: tuple[AlarmSetting, ...] = ()

    def __post_init__(self) -> None:
        if not 0.2 <= self.interval_s <= 60:
            raise ConfigError(f"signals interval must be in [0.2, 60] s, got {self.interval_s}")
        for url in (*self.servers, *filter(None, [self.prometheus_url])):
            checked_url(url)
        if self.alarms and not self.prometheus_url:
            raise ConfigError("signals.alarms need signals.prometheus.url: they are PromQL queries")


def source_settings(spec: SignalSources, *, interval_s: float = INTERVAL_S) -> SourceSettings:
    """The `spec.signals` of a JoinThrottle as settings; raises ConfigError or QuantityError."""
    return SourceSettings(
        scrapes=spec.scrape.enabled,
        servers=spec.scrape.servers,
        interval_s=interval_s,
        prometheus_url=spec.prometheus.url if spec.prometheus else None,
        alarms=tuple(
            AlarmSetting(name=alarm.name, query=alarm.query, threshold=parse_quantity(alarm.threshold) / 1000)
            for alarm in spec.alarms
        ),
    )


def checked_url(url: str) -> SplitResult:
    """The parts of an http(s) URL without user, query or fragment; raises ConfigError."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError as error:
        raise ConfigError(f"signals: {url!r} is no URL: {error}") from error
    if not is_good or parts.username is not None or parts.query or parts.fragment or not _is_plain(url):
        raise ConfigError(f"signals: {url!r} is not an address such as https://host:6443")
    return parts


def _is_plain(url: str) -> bool:
    return url.isascii() and url.isprintable() and " " not in url
