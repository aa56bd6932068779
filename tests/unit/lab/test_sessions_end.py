"""The lab's clients leave nothing open, although the server that they talk to is frozen: tests have a loop each."""

import asyncio
import threading
from pathlib import Path

import pytest

from lab.cloud.kubelet_joiner.client import Connection, NodeClient, Turns
from lab.cloud.machines.api_client import ApiClient
from lab.controlplane.credentials import ApiAccess
from lab.scaleup.innocent_client import asking
from tests.unit.throttler.kube.frozen_server import cancelled, frozen_server, left_open_by
from tests.unit.throttler.kube.loopback_api import authority

NODES = "/api/v1/nodes"


async def give_up_a_joiners_watch(access: ApiAccess, is_frozen: threading.Event) -> None:
    async with Connection(access) as connection:
        client = NodeClient(connection, {}, Turns(10.0, 10, 0.0))
        await cancelled(client.watch(NODES, {}, lambda line: None), is_frozen)


async def give_up_a_clouds_watch(access: ApiAccess, is_frozen: threading.Event) -> None:
    async def follow() -> None:
        async for _ in client.watch(NODES):
            pass

    async with ApiClient(access, user_agent="test") as client:
        await cancelled(follow(), is_frozen)


async def go_away_as_a_bystander(access: ApiAccess, is_frozen: threading.Event) -> None:
    async def stand_by() -> None:
        async with asking(access):
            await asyncio.sleep(60)

    await cancelled(stand_by(), is_frozen)


@pytest.mark.parametrize("give_up", [give_up_a_joiners_watch, give_up_a_clouds_watch, go_away_as_a_bystander])
def test_nothing_is_left_open(tmp_path: Path, give_up) -> None:
    ca = authority(tmp_path)
    with frozen_server(ca.issue_server("server")) as (url, is_frozen):
        access = ApiAccess(url, ca.pair.certificate, ca.issue_client("client", "somebody", ()))
        assert left_open_by(give_up(access, is_frozen)) == []
