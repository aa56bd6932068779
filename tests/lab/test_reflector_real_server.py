"""The client and its watch cache against a real API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from lab.controlplane import ControlPlane
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.decoding import Identity
from throttler.kube.errors import AlreadyExistsError, ConflictError, ForbiddenError, InvalidError, NotFoundError
from throttler.kube.kube_client import KubeClient, decode, open_client
from throttler.kube.reflector import Reflector
from throttler.kube.requests import PatchKind, Resource, Selection

pytestmark = pytest.mark.lab

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
PATIENCE_S = 120


class Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str = ""
    namespace: str = ""


class ConfigMap(msgspec.Struct):
    metadata: Meta
    data: dict[str, str] = {}


class Scale(msgspec.Struct):
    class Spec(msgspec.Struct):
        replicas: int = 0

    spec: Spec


@asynccontextmanager
async def client_of(kubeconfig: Path, **changes) -> AsyncIterator[KubeClient]:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(kubeconfig)))
    async with open_client(connection, "lab-test", **changes) as client:
        yield client


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[KubeClient]:
    async with client_of(control_plane.kubeconfig()) as client:
        yield client


@asynccontextmanager
async def reflecting(client: KubeClient, namespace: str, **selectors: str):
    reflector = Reflector(
        client,
        CONFIG_MAPS,
        ConfigMap,
        lambda found: found.data.get("size", ""),
        Selection(namespace=namespace, **selectors),
    )
    task = asyncio.create_task(reflector.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reflector.wait_complete()
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until_seen(reflector, expected: dict[str, str]) -> None:
    """Waits until our objects (not the root certificate) are as expected."""

    def seen() -> dict[str, str]:
        return {name: size for (_, name), size in reflector.store.items.items() if name != "kube-root-ca.crt"}

    async with asyncio.timeout(PATIENCE_S):
        while seen() != expected:
            await reflector.wait_changed(reflector.store.version)


def config_map(name: str, size: str = "", **metadata) -> dict[str, object]:
    return {"metadata": {"name": name, **metadata}, "data": {"size": size}}


async def create(client: KubeClient, namespace: str, name: str, size: str = "", **metadata) -> ConfigMap:
    return decode(await client.create(CONFIG_MAPS, config_map(name, size, **metadata), namespace), ConfigMap)


async def test_cache_sees_create_update_and_delete(client, namespace):
    await create(client, namespace, "before", "1")
    async with reflecting(client, namespace) as reflector:
        await until_seen(reflector, {"before": "1"})
        await create(client, namespace, "after", "2")
        await until_seen(reflector, {"before": "1", "after": "2"})
        await client.patch(CONFIG_MAPS, {"data": {"size": "3"}}, "before", namespace)
        await until_seen(reflector, {"before": "3", "after": "2"})
        await client.delete(CONFIG_MAPS, "after", namespace)
        await until_seen(reflector, {"before": "3"})
        assert reflector.store.is_complete
        assert reflector.store.went_back == 0


async def test_selected_objects_enter_and_leave_with_their_labels(client, namespace):
    await create(client, namespace, "ours", "1", labels={"pool": "a"})
    await create(client, namespace, "theirs", "2", labels={"pool": "b"})
    async with reflecting(client, namespace, labels="pool=a") as reflector:
        await until_seen(reflector, {"ours": "1"})
        await client.patch(CONFIG_MAPS, {"metadata": {"labels": {"pool": "a"}}}, "theirs", namespace)
        await until_seen(reflector, {"ours": "1", "theirs": "2"})
        await client.patch(CONFIG_MAPS, {"metadata": {"labels": {"pool": "b"}}}, "ours", namespace)
        await until_seen(reflector, {"theirs": "2"})


async def test_an_event_of_nearly_a_megabyte_passes(client, namespace):
    async with reflecting(client, namespace) as reflector:
        await create(client, namespace, "small", "1")
        await create(client, namespace, "large", "x" * 900_000)
        await until_seen(reflector, {"small": "1", "large": "x" * 900_000})


async def test_a_list_in_pages_is_whole_and_of_one_version(client, namespace, monkeypatch):
    monkeypatch.setattr("throttler.kube.kube_client.PAGE_LIMIT", 10)
    for index in range(25):
        await create(client, namespace, f"n{index:02}", labels={"mine": "yes"})
    selection = Selection(namespace=namespace, labels="mine=yes")
    pages = [page async for page in client.pages(CONFIG_MAPS, Identity, selection)]
    assert [len(page.items) for page in pages] == [10, 10, 5]
    assert len({page.resource_version for page in pages}) == 1
    names = [item.metadata.name for page in pages for item in page.items]
    assert names == [f"n{index:02}" for index in range(25)]


async def test_a_list_from_the_cache_is_to_be_had(client, namespace):
    await create(client, namespace, "one")
    selection = Selection(namespace=namespace)
    pages = [page async for page in client.raw_pages(CONFIG_MAPS, selection, resource_version="0")]
    assert pages[-1].continue_token == ""


async def test_an_apply_that_takes_a_foreign_field_is_refused_by_name(client, namespace):
    await client.apply(CONFIG_MAPS, applied("c", "1"), "c", namespace, field_manager="theirs")
    with pytest.raises(ConflictError) as caught:
        await client.apply(CONFIG_MAPS, applied("c", "2"), "c", namespace, field_manager="ours")
    assert ".data.size" in caught.value.message
    assert "theirs" in caught.value.message
    answer = await client.apply(CONFIG_MAPS, applied("c", "2"), "c", namespace, field_manager="ours", force=True)
    assert decode(answer, ConfigMap).data == {"size": "2"}


def applied(name: str, size: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name, size)}


async def test_the_same_apply_twice_changes_nothing(client, namespace):
    first = await client.apply(CONFIG_MAPS, applied("c", "1"), "c", namespace, field_manager="ours")
    second = await client.apply(CONFIG_MAPS, applied("c", "1"), "c", namespace, field_manager="ours")
    assert decode(first, ConfigMap).metadata == decode(second, ConfigMap).metadata


async def test_a_delete_of_another_incarnation_is_refused(client, namespace):
    old = await create(client, namespace, "c")
    await client.delete(CONFIG_MAPS, "c", namespace, uid=old.metadata.uid)
    new = await create(client, namespace, "c")
    with pytest.raises(ConflictError, match="UID"):
        await client.delete(CONFIG_MAPS, "c", namespace, uid=old.metadata.uid)
    with pytest.raises(ConflictError, match="ResourceVersion"):
        await client.delete(CONFIG_MAPS, "c", namespace, resource_version=old.metadata.resource_version)
    await client.delete(
        CONFIG_MAPS,
        "c",
        namespace,
        uid=new.metadata.uid,
        resource_version=new.metadata.resource_version,
    )
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "c", namespace)


@pytest.mark.parametrize("is_apply", [True, False])
async def test_a_write_on_an_old_version_is_refused(client, namespace, is_apply):
    old = await create(client, namespace, "c", "1")
    await client.patch(CONFIG_MAPS, {"data": {"size": "2"}}, "c", namespace)
    body = applied("c", "3")
    body["metadata"] = {"name": "c", "resourceVersion": old.metadata.resource_version}
    if is_apply:
        write = client.apply(CONFIG_MAPS, body, "c", namespace, field_manager="us", force=True)
    else:
        write = client.patch(CONFIG_MAPS, body, "c", namespace)
    with pytest.raises(ConflictError):
        await write
    assert decode(await client.get(CONFIG_MAPS, "c", namespace), ConfigMap).data == {"size": "2"}


async def test_refusals_have_their_own_errors(client, namespace):
    await create(client, namespace, "c")
    with pytest.raises(AlreadyExistsError):
        await create(client, namespace, "c")
    with pytest.raises(InvalidError) as caught:
        await create(client, namespace, "Not_A_Name")
    assert "metadata.name" in caught.value.message
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "absent", namespace)
    with pytest.raises(InvalidError):
        await client.patch(CONFIG_MAPS, [{"op": "remove", "path": "/no"}], "c", namespace, kind=PatchKind.JSON)


async def test_a_dry_run_is_checked_and_keeps_nothing(control_plane, client, namespace):
    async with client_of(control_plane.kubeconfig(), is_dry_run=True) as dry:
        await create(dry, namespace, "c")
        with pytest.raises(InvalidError):
            await create(dry, namespace, "Not_A_Name")
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "c", namespace)


async def test_the_scale_subresource_is_set(client, namespace):
    container = {"name": "c", "image": "example.invalid/none"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, namespace)
    answer = await client.patch(DEPLOYMENTS, {"spec": {"replicas": 2}}, "d", namespace, subresource="scale")
    assert decode(answer, Scale).spec.replicas == 2
    await client.delete(DEPLOYMENTS, "d", namespace, propagation="Background")


async def test_a_service_account_without_rights_is_told_so(control_plane, namespace):
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "default")
    async with client_of(kubeconfig) as client:
        with pytest.raises(ForbiddenError, match="system:serviceaccount"):
            await client.get(CONFIG_MAPS, "c", namespace)


async def test_impersonation_limits_what_one_may(control_plane, namespace):
    options = ConnectionOptions(kubeconfig=str(control_plane.kubeconfig()), as_user="jane", as_groups=("readers",))
    async with open_client(await load_connection(options), "lab-test") as client:
        with pytest.raises(ForbiddenError, match='User "jane"'):
            await client.get(CONFIG_MAPS, "c", namespace)


async def test_every_attempt_is_counted_as_the_server_answered_it(control_plane, namespace):
    seen = []
    async with client_of(control_plane.kubeconfig(), observer=seen.append) as client:
        await create(client, namespace, "c")
        with pytest.raises(AlreadyExistsError):
            await create(client, namespace, "c")
        assert json.loads(await client.get_raw("/version"))["major"] == "1"
    assert [(attempt.verb, attempt.resource, attempt.code) for attempt in seen] == [
        ("create", "configmaps", "201"),
        ("create", "configmaps", "409"),
        ("get", "/version", "200"),
    ]
    assert all(attempt.seconds > 0 for attempt in seen)
