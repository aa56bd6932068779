"""The rules of addresses in a JoinThrottle: what the service may be sent to by whoever may write one.

The service sends requests to these addresses from inside the cluster, so nothing in them may reach a cloud's metadata
service or carry credentials. Hosts are names, dotted quads or bracketed IPv6: no spelling of an address that only some
parsers read as one (0xa9fea9fe, 2852039166) fits the pattern. What a name resolves to is judged when it is dialled.
"""

import re
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv6Address

from throttler.kube.decoding import Problem

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
