"""Which hosts a user's URL may lead to."""

import socket

import pytest
from aiohttp.abc import AbstractResolver

from throttler.scraping.allowed_hosts import (
    ForbiddenHostError,
    JudgingResolver,
    check_addresses,
    check_literal,
    is_loopback,
)

FORBIDDEN = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "168.63.129.16",
    "100.100.100.200",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "0.0.0.0",
    "::",
    "224.0.0.1",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_link_local_and_metadata_addresses_are_refused_in_every_spelling(address: str) -> None:
    with pytest.raises(ForbiddenHostError):
        check_addresses([address])
    with pytest.raises(ForbiddenHostError):
        check_literal(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.5", "8.8.8.8", "fd12::1"])
def test_addresses_of_a_cluster_are_allowed(address: str) -> None:
    check_addresses([address])
    check_literal(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"])
def test_our_own_host_is_refused_unless_the_api_server_is_there_too(address: str) -> None:
    with pytest.raises(ForbiddenHostError, match="own host"):
        check_literal(address)
    check_literal(address, allows_loopback=True)


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("https://127.0.0.1:6443", True),
        ("https://localhost:6443", True),
        ("https://[::1]:6443", True),
        ("https://10.96.0.1", False),
        ("https://localhost.attacker.example", False),
    ],
)
def test_where_the_api_server_is(url: str, is_here: bool) -> None:
    assert is_loopback(url) is is_here


def test_names_are_left_to_the_resolver() -> None:
    check_literal("metadata.google.internal")


class FixedDns(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {"hostname": host, "host": address, "port": port, "family": family, "proto": 0, "flags": 0}
            for address in self.addresses
        ]

    async def close(self) -> None:
        return None


async def test_a_name_is_refused_when_any_of_its_addresses_is() -> None:
    with pytest.raises(ForbiddenHostError):
        await JudgingResolver(FixedDns("10.0.0.1", "169.254.169.254")).resolve("innocent.example", 443)
    assert len(await JudgingResolver(FixedDns("10.0.0.1")).resolve("innocent.example", 443)) == 1


async def test_an_address_written_as_one_number_is_judged_after_resolution() -> None:
    with pytest.raises(ForbiddenHostError):
        await JudgingResolver().resolve("2852039166", 80)
