"""The rules of a JoinThrottle that no type expresses, in the words of the CRD's validations.

An API server runs the validations of `manifests/crds/jointhrottles.yaml` itself. An object that an older server let in,
or that was stored before a rule existed, is refused here with the same sentence: one table of bad manifests is put
before both, and the sentences are compared.

The service sends requests to the addresses of `spec.signals` from inside the cluster, so nothing in them may reach a
cloud's metadata service or carry credentials. Hosts are names, dotted quads or bracketed IPv6: no spelling of an
address that only some parsers read as one (0xa9fea9fe, 2852039166) fits the pattern. What a name resolves to is judged
when it is dialled.

`decode_throttle` makes a JoinThrottle of what the API server sends, or says why it is refused: never an exception.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import AddressValueError, IPv6Address
from typing import Any

import msgspec

from throttler.api.throttle import (
    THROTTLE_KIND,
    AlarmQuery,
    JoinThrottle,
    LabelLever,
    Levers,
    Pace,
    Scrape,
    SignalSources,
    ThrottleSpec,
    ThrottleStatus,
    Window,
)
from throttler.kube.custom_objects import (
    Form,
    Invalid,
    Problem,
    Refused,
    decode_object,
    name_problems,
    status_of,
    texts,
    without_nulls,
)
from throttler.kube.metadata import Metadata
from throttler.kube.quantities_and_durations import DurationError, QuantityError, exact_value, parse_duration
from throttler.kube.selectors import KEY_PATTERN, LONGEST_KEY, key_problems, selector_problems, value_problems
from throttler.kube.taints import STARTUP_TAINT_PREFIX


def problems(throttle: JoinThrottle) -> tuple[Problem, ...]:
    """Every rule that the throttle breaks; empty for a good one."""
    spec = throttle.spec
    return (
        *name_problems(throttle.metadata.name, "what the throttle changes"),
        *selector_problems(spec.nodes, "spec.nodes"),
        *_window_problems(spec.window),
        *_pace_problems(spec.pace),
        *_in_flight_problems(spec),
        *timer_problems(spec),
        *signal_problems(spec),
        *lever_problems(spec),
    )


def _window_problems(window: Window) -> Iterator[Problem]:
    low, start, high = window.min, window.initial, window.max
    if low is not None and start is not None and start < low:
        yield Problem("spec.window.initial", f"initial {start} is below min {low}; accepted: min to max")
    if high is not None and start is not None and start > high:
        yield Problem("spec.window.initial", f"initial {start} is above max {high}; accepted: min to max")
    if low is not None and high is not None and low > high:
        yield Problem("spec.window.min", f"min {low} is above max {high}; accepted: 1 to max")


def _pace_problems(pace: Pace) -> Iterator[Problem]:
    safe, most = pace.safe_per_minute, pace.max_per_minute
    if safe is not None and most is not None and safe > most:
        yield Problem(
            "spec.pace.safePerMinute",
            f"safePerMinute {safe} is above maxPerMinute {most}; accepted: 1 to maxPerMinute",
        )


def _in_flight_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    most, low = spec.max_in_flight, spec.window.min
    if most is not None and low is not None and most < low:
        yield Problem(
            "spec.maxInFlight",
            f"maxInFlight {most} is below window.min {low}; accepted: window.min or more, "
            "because the window never falls below that",
        )


SHORTEST_TIMER_S = 1.0
LONGEST_TIMER_S = 3600.0
TAINT_LIMIT_S = 600.0
"""cluster-autoscaler counts a node tainted for 15 min as unready, and stops when too many are (45 % by default)."""


def timer_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    """What is wrong with the two times, alone, against each other and against the levers."""
    wait_s, kill_s = _seconds(spec.max_wait), _seconds(spec.kill_timer)
    if wait_s is None:
        yield _no_duration("maxWait", spec.max_wait)
    if kill_s is None:
        yield _no_duration("killTimer", spec.kill_timer)
    if wait_s is None:
        return
    if kill_s is not None and wait_s >= kill_s:
        yield Problem(
            "spec.maxWait",
            f'maxWait "{spec.max_wait}" is not below killTimer "{spec.kill_timer}"; '
            "accepted: less than killTimer, after which the autoscaler gives a machine up",
        )
    yield from _timer_lever_problems(spec, wait_s)


def _timer_lever_problems(spec: ThrottleSpec, wait_s: float) -> Iterator[Problem]:
    if spec.levers.startup_taint is not None and wait_s > TAINT_LIMIT_S:
        yield Problem(
            "spec.maxWait",
            f'maxWait "{spec.max_wait}" with startupTaint; accepted: at most 10m, '
            "because cluster-autoscaler counts nodes tainted for 15 minutes as unready",
        )


def _seconds(text: str) -> float | None:
    try:
        seconds = parse_duration(text)
    except DurationError:
        return None
    return seconds if SHORTEST_TIMER_S <= seconds <= LONGEST_TIMER_S else None


def _no_duration(name: str, text: str) -> Problem:
    return Problem(f"spec.{name}", f'{name} "{text}" is not accepted; accepted: from 1s to 1h, such as 90s, 10m or 1h')


ALARM_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
"""A name that can be a metric's label value, part of a sentence and of a condition's message."""
LARGEST_THRESHOLD = 1e15
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
        return abs(exact_value(text)) <= LARGEST_THRESHOLD
    except QuantityError:
        return False


def _repeated(texts: Iterable[str], name: str, accepted: str, path: str) -> Iterator[Problem]:
    for text, count in Counter(texts).items():
        if count > 1:
            yield Problem(path, f'{name} has "{text}" {count} times; accepted: {accepted}')


_LABEL = "[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_LAST_LABEL = "[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_HOST = rf"(({_LABEL}\.)*{_LAST_LABEL}|{_OCTET}(\.{_OCTET}){{3}}|\[[0-9A-Fa-f:]{{2,39}}\])"
_PORT = "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
SERVER_PATTERN = rf"https://{_HOST}{_PORT}"
"""One API server: no path, and TLS, because the service's token goes there."""
PROMETHEUS_PATTERN = rf"https?://{_HOST}{_PORT}(/[-A-Za-z0-9._~/]*)?"
FORBIDDEN_PATTERN = (
    r"https?://(169\.254\.|168\.63\.129\.16|100\.100\.100\.200|\[fe[89ab]|\[fd00:0*ec2:|\[[0:]*ffff:|"
    r"metadata[.:/]|metadata$|metadata\.google\.internal|instance-data)"
)
"""Link-local, and where clouds keep their instances' credentials; matched from the start, in any case."""

_SERVER = re.compile(SERVER_PATTERN, re.ASCII)
_PROMETHEUS = re.compile(PROMETHEUS_PATTERN, re.ASCII)
_FORBIDDEN = re.compile(FORBIDDEN_PATTERN, re.ASCII | re.IGNORECASE)


def server_problems(url: str, path: str) -> Iterator[Problem]:
    """What is wrong with the address of an API server."""
    if not _SERVER.fullmatch(url) or not _is_address(url):
        yield Problem(
            path,
            f'server "{url}" is not accepted; accepted: https:// with a host and a port, such as https://10.0.0.1:6443',
        )
    yield from _forbidden_problems(url, path)


def prometheus_problems(url: str, path: str) -> Iterator[Problem]:
    """What is wrong with the address of a Prometheus."""
    if not _PROMETHEUS.fullmatch(url) or not _is_address(url):
        yield Problem(
            path,
            f'url "{url}" is not accepted; accepted: http:// or https:// with a host, a port and a path, '
            "such as http://prometheus.monitoring:9090",
        )
    yield from _forbidden_problems(url, path)


def _forbidden_problems(url: str, path: str) -> Iterator[Problem]:
    if _FORBIDDEN.match(url):
        yield Problem(
            path, f'url "{url}" leads to link-local or instance metadata; accepted: the address of a server of yours'
        )


def _is_address(url: str) -> bool:
    """Whether what stands in brackets, if anything, is an IPv6 address."""
    if "[" not in url:
        return True
    try:
        IPv6Address(url.partition("[")[2].partition("]")[0])
    except AddressValueError:
        return False
    return True


NAME_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""A DNS-1123 subdomain, as objects are named."""
NAMESPACE_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
TAINT_DOMAIN = STARTUP_TAINT_PREFIX
"""Taints under it are known to cluster-autoscaler as startup taints (its utils/taints). No other is ours to take off:
with a key of its choice a throttle could open nodes that `dedicated` or `nvidia.com/gpu` keeps closed."""
LABEL_DOMAIN = "node-restriction.kubernetes.io/"
"""Labels under it are administrators' own: kubelets cannot put them on."""
FOREIGN_PATTERN = r"([-a-z0-9.]+\.)?(kubernetes\.io|k8s\.io|karpenter\.sh)/.*"
"""Keys with which Kubernetes and Karpenter say something of their own about a node, such as hostname."""

_NAME = re.compile(NAME_PATTERN, re.ASCII)
_NAMESPACE = re.compile(NAMESPACE_PATTERN, re.ASCII)
_KEY = re.compile(KEY_PATTERN, re.ASCII)
_FOREIGN = re.compile(FOREIGN_PATTERN, re.ASCII)


def lever_problems(spec: ThrottleSpec) -> Iterator[Problem]:
    """What is wrong with the levers, alone and against the nodes."""
    yield from _ceiling_problems(spec.levers)
    if spec.levers.startup_taint is not None:
        yield from _taint_problems(spec.levers.startup_taint.key)
    if spec.levers.daemon_set_label is not None:
        yield from _label_problems(spec.levers.daemon_set_label)
        yield from _selected_problems(spec, spec.levers.daemon_set_label.key)


def _ceiling_problems(levers: Levers) -> Iterator[Problem]:
    if levers.capacity_quota is not None:
        yield from _object_name_problems(levers.capacity_quota.name, "spec.levers.capacityQuota.name")
    if levers.node_pool_limits is not None:
        yield from _names_problems(levers.node_pool_limits.names, "NodePool", "spec.levers.nodePoolLimits.names")
    if levers.machine_deployments is not None:
        where, path = levers.machine_deployments.namespace, "spec.levers.machineDeployments"
        if not _NAMESPACE.fullmatch(where):
            yield Problem(
                f"{path}.namespace",
                f'namespace "{where}" is not accepted; accepted: lower-case letters, digits and -, such as capi-system',
            )
        yield from _names_problems(levers.machine_deployments.names, "MachineDeployment", f"{path}.names")


def _names_problems(names: Sequence[str], kind: str, path: str) -> Iterator[Problem]:
    for index, name in enumerate(names):
        yield from _object_name_problems(name, f"{path}[{index}]")
    yield from _repeated(names, "names", f"each {kind} once", path)


def _object_name_problems(name: str, path: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(
            path, f'name "{name}" is not accepted; accepted: the name of an object, in lower case, such as gpu-a'
        )


def _taint_problems(key: str) -> Iterator[Problem]:
    path = "spec.levers.startupTaint.key"
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        yield Problem(
            path,
            f'taint "{key}" cannot be on a node; accepted: a taint key such as {TAINT_DOMAIN}paced',
        )
    if not key.startswith(TAINT_DOMAIN):
        yield Problem(path, f'taint "{key}" is not known as a startup taint; accepted: a key under {TAINT_DOMAIN}')


def _label_problems(lever: LabelLever) -> Iterator[Problem]:
    path = "spec.levers.daemonSetLabel"
    yield from key_problems(lever.key, f"{path}.key")
    yield from value_problems(lever.value, f"{path}.value")
    if _FOREIGN.fullmatch(lever.key) and not lever.key.startswith(LABEL_DOMAIN):
        yield Problem(
            f"{path}.key",
            f'label "{lever.key}" belongs to Kubernetes or Karpenter; '
            f"accepted: a key of your own, or one under {LABEL_DOMAIN}",
        )


def _selected_problems(spec: ThrottleSpec, key: str) -> Iterator[Problem]:
    asked = {*spec.nodes.match_labels, *(part.key for part in spec.nodes.match_expressions)}
    if key in asked:
        yield Problem(
            "spec.nodes",
            f'nodes selects by "{key}", which levers.daemonSetLabel puts on; '
            "accepted: labels that nodes have when they register",
        )


def decode_throttle(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> JoinThrottle | Invalid:
    """The throttle of an object as the API server sends it (JSON, or the same as plain data)."""
    return decode_object(raw, _FORM)


def _with_textual_thresholds(spec: Any) -> Any:
    """The same spec with whole-number thresholds as text: users write `threshold: 5` as well as `threshold: "5"`."""
    match spec:
        case {"signals": {"alarms": list() as alarms} as signals}:
            readable = [_with_textual_threshold(alarm) for alarm in alarms]
            return {**spec, "signals": {**signals, "alarms": readable}}
    return spec


def _with_textual_threshold(alarm: Any) -> Any:
    match alarm:
        case {"threshold": threshold}:
            return {**alarm, **texts({"threshold": threshold})}
    return alarm


_FORM = Form(
    kind=THROTTLE_KIND,
    spec=ThrottleSpec,
    status=ThrottleStatus,
    make=JoinThrottle,
    rules=problems,
    prepared=_with_textual_thresholds,
    without_spec={},
)


class ThrottleWire(msgspec.Struct, frozen=True):
    """A JoinThrottle with spec and status left as they came: whatever is in them, the object itself is seen."""

    metadata: Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class RefusedThrottle(Refused[ThrottleStatus]):
    """A throttle that breaks a rule."""

    status: ThrottleStatus = field(default_factory=ThrottleStatus)
    held: JoinThrottle | None = None
    """The same, paused, with nothing but its nodes and levers: what it may hold. None where these break a rule."""


StoredThrottle = JoinThrottle | RefusedThrottle


def throttle_from_wire(wire: ThrottleWire) -> StoredThrottle:
    """The throttle, or who it is and which rule it breaks."""
    throttle = decode_throttle(msgspec.json.encode(wire))
    if isinstance(throttle, Invalid):
        return RefusedThrottle(wire.metadata, throttle.message, status_of(wire.status, ThrottleStatus), _held(wire))
    return throttle


def _held(wire: ThrottleWire) -> JoinThrottle | None:
    try:
        data = without_nulls(msgspec.json.decode(wire.spec))
        parts = {name: data[name] for name in ("nodes", "levers") if name in data}
        spec = msgspec.convert({**parts, "paused": True}, ThrottleSpec)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError):
        return None
    broken = (*selector_problems(spec.nodes, "spec.nodes"), *lever_problems(spec))
    return None if broken else JoinThrottle(wire.metadata, spec)
