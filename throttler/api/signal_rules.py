"""The rules of `spec.signals`."""

import re
from collections import Counter
from collections.abc import Iterator

from throttler.api.throttle import AlarmQuery, Scrape, SignalSources, ThrottleSpec
from throttler.api.url_rules import prometheus_problems, server_problems
from throttler.kube.decoding import Problem
from throttler.kube.quantity import QuantityError, exact_value

ALARM_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
"""A name that can be a metric's label value, part of a sentence and of a condition's message."""
LARGEST = 1e15
"""1P: no figure of a cluster is larger, and floats are exact up to there."""

_ALARM = re.compile(ALARM_PATTERN, re.ASCII)


def signal_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    """What is wrong with the sources, alone and together."""
    signals = spec.signals
    if not signals.scrape.enabled and signals.prometheus is None and spec.pace.safe_per_minute is None:
        yield Problem(
            "spec.signals",
            "signals has neither scrape nor prometheus; "
            "accepted: one of them, or pace.safePerMinute, the pace to keep without them",
        )
    yield from _scrape_problems(signals.scrape)
    if signals.prometheus is not None:
        yield from prometheus_problems(signals.prometheus.url, "spec.signals.prometheus.url")
    yield from _alarms_problems(signals)


def _scrape_problems(scrape: Scrape) -> Iterator[Problem]:
    path = "spec.signals.scrape.servers"
    if scrape.servers and not scrape.enabled:
        yield Problem(
            path, f"servers has {len(scrape.servers)} addresses with enabled false; accepted: servers with enabled true"
        )
    for index, url in enumerate(scrape.servers):
        yield from server_problems(url, f"{path}[{index}]")
    yield from _repeated(scrape.servers, "servers", "each address once", path)


def _alarms_problems(signals: SignalSources) -> Iterator[Problem]:
    path = "spec.signals.alarms"
    if signals.alarms and signals.prometheus is None:
        yield Problem(
            path,
            f"alarms has {len(signals.alarms)} queries without prometheus; accepted: alarms together with prometheus",
        )
    for index, alarm in enumerate(signals.alarms):
        yield from _alarm_problems(alarm, f"{path}[{index}]")
    yield from _repeated((alarm.name for alarm in signals.alarms), "alarms", "each name once", path)


def _alarm_problems(alarm: AlarmQuery, path: str) -> Iterator[Problem]:
    if not _ALARM.fullmatch(alarm.name):
        yield Problem(
            f"{path}.name",
            f'name "{alarm.name}" is not accepted; '
            "accepted: lower-case letters, digits and -, such as cni-free-addresses",
        )
    if not _is_threshold(alarm.threshold):
        yield Problem(
            f"{path}.threshold",
            f'threshold "{alarm.threshold}" is not accepted; '
            "accepted: a quantity from -1P to 1P, such as 0.9, 250m or 5e3",
        )


def _is_threshold(text: str) -> bool:
    try:
        return abs(exact_value(text)) <= LARGEST
    except QuantityError:
        return False


def _repeated(texts: Iterator[str] | tuple[str, ...], name: str, accepted: str, path: str) -> Iterator[Problem]:
    for text, count in Counter(texts).items():
        if count > 1:
            yield Problem(path, f'{name} has "{text}" {count} times; accepted: {accepted}')
