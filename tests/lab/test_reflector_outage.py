"""The watch cache while a real API server dies, forgets, and freezes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from lab.controlplane import ApiServerSettings, ControlPlane, ControlPlaneSettings, start_control_plane
from throttler.kube.connection import ConnectionOptions, load_connection
from throttler.kube.decoding import Identity
from throttler.kube.kube_client import Attempt, AttemptObserver, KubeClient, ignore_attempt, open_client
from throttler.kube.reflector import Reflector
from throttler.kube.requests import Resource, Selection
from throttler.kube.store import CacheEvent

pytestmark = pytest.mark.lab

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACE = "default"
SERVER = "kube-apiserver-0"
PATIENCE_S = 120


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: these tests kill its API server."""
    settings = ControlPlaneSettings(controller_manager=None, scheduler=None)
    async with start_control_plane(settings) as plane:
        yield plane


class Watching:
    """A running reflector with a record of what it did."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.happened: Counter[CacheEvent] = Counter()
        self.complete_views: list[set[str]] = []
        self.reflector = Reflector(
            client,
            CONFIG_MAPS,
            Identity,
            lambda found: found.metadata.name,
            Selection(namespace=NAMESPACE),
            on_change=self._note,
            observer=lambda plural, event: self.happened.update([event]),
        )
        self.store = self.reflector.store

    @property
    def names(self) -> set[str]:
        return set(self.store.items.values())

    def _note(self) -> None:
        if self.store.is_complete:
            self.complete_views.append(self.names)

    async def until(self, is_so) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await self.reflector.wait_changed(self.store.version)

    async def create(self, name: str) -> None:
        await self.client.create(CONFIG_MAPS, {"metadata": {"name": name}}, NAMESPACE)


@asynccontextmanager
async def watching(
    plane: ControlPlane, server: int = 0, observer: AttemptObserver = ignore_attempt
) -> AsyncIterator[Watching]:
    connection = await load_connection(ConnectionOptions(kubeconfig=str(plane.kubeconfig(server=server))))
    async with open_client(connection, "lab-test", observer=observer) as client:
        watcher = Watching(client)
        task = asyncio.create_task(watcher.reflector.run())
        try:
            await watcher.until(lambda: watcher.store.is_complete)
            yield watcher
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_cache_goes_on_after_the_server_was_killed_and_started_again(plane):
    async with watching(plane) as watcher:
        await watcher.create("before")
        await watcher.until(lambda: "before" in watcher.names)
        plane.kill(SERVER)
        await watcher.until(lambda: not watcher.store.is_complete)
        assert "before" in watcher.names
        await plane.restart(SERVER)
        await watcher.until(lambda: watcher.store.is_complete)
        await watcher.create("after")
        await watcher.until(lambda: {"before", "after"} <= watcher.names)
        assert watcher.happened[CacheEvent.LISTED] <= 2
        assert watcher.store.went_back == 0


async def test_what_happened_while_cut_off_is_in_before_the_view_counts_as_complete(plane):
    """The watch is resumed from a version that the new server's cache does not have: 410, one list."""
    async with watching(plane) as watcher:
        await watcher.create("old")
        await watcher.until(lambda: "old" in watcher.names)
        plane.kill(SERVER)
        await watcher.until(lambda: not watcher.store.is_complete)
        watcher.complete_views.clear()
        await plane.restart(SERVER)
        async with asyncio.TaskGroup() as group:
            for index in range(200):
                group.create_task(watcher.create(f"missed-{index}"))
            group.create_task(watcher.client.delete(CONFIG_MAPS, "old", NAMESPACE))
        await watcher.until(lambda: watcher.store.is_complete and len(watcher.names) >= 200)
        everything = {f"missed-{index}" for index in range(200)}
        assert everything <= watcher.names
        assert "old" not in watcher.names
        assert watcher.happened[CacheEvent.LISTED] <= 2


async def test_lists_are_streamed_where_the_server_offers_it_and_read_in_pages_where_not():
    without = ApiServerSettings(extra_flags=("--feature-gates=WatchList=false",))
    settings = ControlPlaneSettings(api_servers=(ApiServerSettings(), without), controller_manager=None, scheduler=None)
    async with start_control_plane(settings) as plane:
        for server, expected in enumerate(({"watchlist": "200"}, {"watchlist": "422", "list": "200"})):
            answers: dict[str, str] = {}
            async with watching(plane, server, partial(_note, answers)) as each:
                await each.create(f"seen-by-{server}")
                await each.until(lambda each=each, server=server: f"seen-by-{server}" in each.names)
            assert {verb: code for verb, code in answers.items() if "list" in verb} == expected


def _note(answers: dict[str, str], attempt: Attempt) -> None:
    answers[attempt.verb] = attempt.code


async def test_a_version_that_is_too_old_leads_to_one_list_and_what_was_deleted_meanwhile_is_gone(plane):
    async with watching(plane) as watcher:
        await watcher.create("kept")
        await watcher.create("deleted")
        await watcher.until(lambda: {"kept", "deleted"} <= watcher.names)
        plane.kill(SERVER)
        await watcher.until(lambda: not watcher.store.is_complete)
        watcher.store.advance("1")
        await plane.restart(SERVER)
        await watcher.client.delete(CONFIG_MAPS, "deleted", NAMESPACE)
        await watcher.until(lambda: watcher.store.is_complete and "deleted" not in watcher.names)
        assert "kept" in watcher.names
        assert watcher.happened[CacheEvent.GONE] == 1
        assert watcher.happened[CacheEvent.LISTED] == 2


async def test_a_quiet_cache_stays_complete_and_a_frozen_server_is_noticed():
    """Real time on purpose: the limit of 70 s rests on how often a real server speaks by itself.

    Both at once, on a server each: together they take little longer than one of them.
    """
    settings = ControlPlaneSettings(api_servers=(ApiServerSettings(),) * 2, controller_manager=None, scheduler=None)
    async with start_control_plane(settings) as plane, watching(plane) as quiet, watching(plane, server=1) as frozen:
        await frozen.create("seen-by-both")
        for watcher in (quiet, frozen):
            await watcher.until(lambda watcher=watcher: "seen-by-both" in watcher.names)
        async with asyncio.TaskGroup() as group:
            group.create_task(stays_complete(quiet, 85))
            group.create_task(is_noticed(frozen, plane, "kube-apiserver-1"))
        await frozen.create("thawed")
        await frozen.until(lambda: "thawed" in frozen.names)
        assert frozen.happened[CacheEvent.LISTED] <= 2


async def stays_complete(quiet: Watching, for_s: float) -> None:
    end = now_s() + for_s
    while now_s() < end:
        assert quiet.store.is_complete
        assert quiet.reflector.age_s < 70
        await asyncio.sleep(1)
    assert set(quiet.happened) == {CacheEvent.LISTED, CacheEvent.WATCHING}
    assert quiet.happened[CacheEvent.LISTED] == 1


async def is_noticed(frozen: Watching, plane: ControlPlane, server: str) -> None:
    heard_at = now_s() - frozen.reflector.age_s
    plane.pause(server)
    await frozen.until(lambda: not frozen.store.is_complete)
    assert now_s() - heard_at > 69
    assert frozen.happened[CacheEvent.SILENT] == 1
    plane.resume(server)
    await frozen.until(lambda: frozen.store.is_complete)


def now_s() -> float:
    return asyncio.get_running_loop().time()
