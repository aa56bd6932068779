"""Real certificate requests by a bootstrap token: the valid ones are approved, in turn, and nothing is ever denied."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.controlplane import ControlPlane
from lab.joiner import Herd, JoinerSettings
from lab.machines import PaperMachines, PaperNode
from tests.certificate_requests import forgeries, manifest, pem, spec
from tests.lab.hold_view import View, eventually, room, this_moment, view
from throttler.client.connection import ConnectionOptions, load_connection
from throttler.client.errors import ApiError
from throttler.client.kube_client import KubeClient, open_client
from throttler.levers.certificate_request import CertificateSettings, approve_requests, heard_of
from throttler.levers.held import HeldSince
from throttler.service.leftovers import REQUESTS
from throttler.service.lever_writer import WriteOutcome

pytestmark = pytest.mark.lab

TOKEN_ID, TOKEN_SECRET = "paced1", "0123456789abcdef"
SETTINGS = CertificateSettings(max_wait_s=600.0, kill_timer_s=900.0)


@pytest.fixture
def bootstrap_token(control_plane: ControlPlane) -> Iterator[str]:
    """As kubeadm makes it, without the binding that approves everything."""
    values = {"token-id": TOKEN_ID, "token-secret": TOKEN_SECRET, "usage-bootstrap-authentication": "true"}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{TOKEN_ID}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }
    control_plane.kubectl("create", "-f", "-", input=json.dumps(secret))
    binding = ("--clusterrole=system:node-bootstrapper", "--group=system:bootstrappers")
    control_plane.kubectl("create", "clusterrolebinding", "paced-bootstrap", *binding)
    yield f"{TOKEN_ID}.{TOKEN_SECRET}"
    control_plane.kubectl("delete", "clusterrolebinding", "paced-bootstrap")
    control_plane.kubectl("delete", "secret", "-n", "kube-system", f"bootstrap-token-{TOKEN_ID}")


@asynccontextmanager
async def bootstrapper(plane: ControlPlane, token: str, folder: Path) -> AsyncIterator[KubeClient]:
    """A client that shows nothing but the token."""
    kubeconfig = plane.access().write_token_kubeconfig(folder / "bootstrap.kubeconfig", token)
    connection = await load_connection(ConnectionOptions(kubeconfig=str(kubeconfig)))
    async with open_client(connection, "kubelet") as client:
        yield client


async def decide(seen: View, places: int, since: HeldSince) -> HeldSince:
    """One tick of the lever."""
    taken = heard_of(await seen.nodes())
    outcome, since = approve_requests(await seen.requests(), taken, SETTINGS, room(places), since, this_moment())
    for result in await seen.carry_out(outcome):
        assert result in (WriteOutcome.DONE, WriteOutcome.CONFLICT)
    return since


async def test_kubelets_join_as_they_are_admitted(
    control_plane: ControlPlane, namespace: str, bootstrap_token: str
) -> None:
    names = [f"{namespace}-{i}" for i in range(6)]
    settings = [JoinerSettings(name=each, bootstrap_token=bootstrap_token) for each in names]
    async with view(control_plane) as seen, Herd(control_plane.access()) as herd:
        joins = asyncio.ensure_future(herd.join_all(settings))
        await eventually(lambda: _all_asked(seen, set(names)))
        assert not [node for node in await seen.nodes() if node.name in names]
        since = HeldSince()
        for admitted in (2, 4, 6):
            since = await decide(seen, 2, since)
            await eventually(partial(_heard_of, seen, names, admitted))
        assert all(record.is_complete for record in await joins)
        await herd.remove(*names)


@pytest.mark.filterwarnings("ignore:Sending a large body")
async def test_forgeries_are_left_alone_and_duplicates_get_one_answer(
    control_plane: ControlPlane, namespace: str, bootstrap_token: str, tmp_path: Path
) -> None:
    living, good = f"{namespace}-living", f"{namespace}-good"
    async with (
        view(control_plane) as seen,
        bootstrapper(control_plane, bootstrap_token, tmp_path) as kubelet,
        PaperMachines(control_plane.access()) as machines,
    ):
        await machines.add([PaperNode(name=living, allocatable={"cpu": "8", "memory": "32Gi", "pods": "110"})])
        filed = await _file_forgeries(kubelet, namespace)
        assert len(filed) > 12
        for name, node in (("living", living), ("first", good), ("second", good)):
            await kubelet.create(REQUESTS, manifest(f"{namespace}-{name}", spec(pem(node))))
            # Creation counts in whole seconds.
            await asyncio.sleep(1.1)
        since = HeldSince()
        for _ in range(3):
            since = await decide(seen, 99, since)
        issued = await eventually(lambda: _issued(seen, namespace))
        await machines.remove(living)
        found = {each["metadata"]["name"]: each for each in (await seen.get("csr"))["items"]}
    assert issued == [f"{namespace}-second"]
    own = {name: each for name, each in found.items() if name.startswith(namespace)}
    answered = {name for name, each in own.items() if each["status"].get("conditions")}
    assert answered == {f"{namespace}-second"}
    assert own.keys() == {*filed, *(f"{namespace}-{each}" for each in ("living", "first", "second"))}


async def _file_forgeries(kubelet: KubeClient, namespace: str) -> set[str]:
    """Those that the server itself lets in. Who asks is told by the token: forged requestors are a unit test's."""
    filed = set()
    for number, (doubt, forged) in enumerate(forgeries().values()):
        name = f"{namespace}-forged-{number}"
        if doubt != "REQUESTOR" and await _is_filed(kubelet, name, forged):
            filed.add(name)
    return filed


async def _is_filed(kubelet: KubeClient, name: str, forged: dict[str, Any]) -> bool:
    try:
        await kubelet.create(REQUESTS, manifest(name, forged))
    except ApiError:
        return False
    return True


async def _all_asked(seen: View, names: set[str]) -> bool:
    return names <= {each.node for each in await seen.requests()}


async def _heard_of(seen: View, names: list[str], count: int) -> bool:
    return len(heard_of(await seen.nodes()) & set(names)) == count


async def _issued(seen: View, namespace: str) -> list[str]:
    found = (await seen.get("csr"))["items"]
    return [
        each["metadata"]["name"]
        for each in found
        if each["metadata"]["name"].startswith(namespace) and each["status"].get("certificate")
    ]
