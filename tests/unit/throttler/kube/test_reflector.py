"""The watch cache against a fake API server, in virtual time."""

import asyncio
import json
import math
from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest

from tests.unit.throttler.kube.fake_list_and_watch import (
    THINGS,
    FakeApi,
    FakeResponse,
    FakeWatch,
    Thing,
    client_for,
    down,
    status_answer,
)
from throttler.kube.reflector import Reflector
from throttler.kube.requests import Selection
from throttler.kube.store import CacheEvent

pytestmark = pytest.mark.virtual_time


def positive(thing: Thing) -> int:
    if thing.size < 0:
        raise ValueError(f"size {thing.size} is below zero")
    return thing.size


@asynccontextmanager
async def running(api, **options):
    events: Counter[CacheEvent] = Counter()
    reflector = Reflector(
        client_for(api),
        THINGS,
        Thing,
        positive,
        observer=lambda plural, event: events.update([event]),
        **options,
    )
    reflector.events = events
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def api_with(*names: str) -> FakeApi:
    api = FakeApi()
    for size, name in enumerate(names):
        api.put(name, size=size)
    return api


def seen(reflector) -> dict[str, int]:
    return {name: size for (_, name), size in reflector.store.items.items()}


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_is_incomplete_until_the_first_list_has_ended():
    api = api_with(*(f"n{i}" for i in range(1200)))
    async with running(api) as reflector:
        assert not reflector.store.is_complete
        assert reflector.age_s == math.inf
        await reflector.wait_complete()
        assert api.verbs()[:2] == ["watchlist", "watch"][: len(api.verbs())]
        assert len(reflector.store.items) == 1200


async def test_reads_pages_where_the_server_streams_no_lists():
    api = api_with(*(f"n{i}" for i in range(1200)))
    api.streams_lists = False
    async with running(api) as reflector:
        await reflector.wait_complete()
        assert [verb for verb in api.verbs() if verb != "watch"] == ["watchlist", "list", "list", "list"]
        assert len(reflector.store.items) == 1200
        api.compact()
        api.say(GONE)
        await asyncio.sleep(20)
        assert api.verbs().count("watchlist") == 1
        assert reflector.store.is_complete


async def test_a_list_that_is_cut_short_is_read_in_pages_the_next_time():
    """Two in a row were tried again before: 15 s of a service that starts while a gang comes."""
    api = api_with("a", "b")
    api.faults.append(FakeResponse(200, event("a", 101)))
    async with running(api) as reflector:
        await reflector.wait_complete()
        assert [verb for verb in api.verbs() if verb != "watch"] == ["watchlist", "list"]
        assert seen(reflector) == {"a": 0, "b": 1}


async def test_a_streamed_list_may_hold_changes_too():
    api = api_with("a")
    end = {"resourceVersion": "120", "annotations": {"k8s.io/initial-events-end": "true"}}
    changes = event("a", 101) + event("b", 102) + event("b", 110, "MODIFIED", size=4) + event("a", 111, "DELETED")
    bookmark = json.dumps({"type": "BOOKMARK", "object": {"metadata": end}}).encode() + b"\n"
    api.faults.append(FakeResponse(200, changes + bookmark))
    async with running(api) as reflector:
        await reflector.wait_complete()
        assert seen(reflector) == {"b": 4}
        assert reflector.store.resource_version == "120"


async def test_a_list_that_says_nothing_is_given_up():
    api = api_with("a")
    api.faults.append(lambda request: FakeWatch(api, api.version, 1000.0))
    api.is_frozen = True
    async with running(api) as reflector:
        await asyncio.sleep(69)
        assert api.lists() == 1
        await asyncio.sleep(5)
        assert reflector.store.is_complete


async def test_follows_what_happens():
    api = api_with("a", "b")
    async with running(api) as reflector:
        await reflector.wait_complete()
        version = reflector.store.version
        api.put("c", size=7)
        version = await reflector.wait_changed(version)
        api.put("a", size=9)
        version = await reflector.wait_changed(version)
        api.remove("b")
        await reflector.wait_changed(version)
        assert seen(reflector) == {"a": 9, "c": 7}


async def test_wakes_the_consumer_once_for_a_chunk_with_many_events():
    woken = []
    api = api_with("a")
    async with running(api, on_change=lambda: woken.append(now())) as reflector:
        await reflector.wait_complete()
        woken.clear()
        lines = b"".join(event(f"x{i}", 1000 + i) for i in range(50))
        await asyncio.sleep(1)
        api.say(lines)
        await asyncio.sleep(1)
        assert len(reflector.store.items) == 51
        assert len(woken) == 1


def event(name: str, version: int, kind: str = "ADDED", **fields) -> bytes:
    thing = {"metadata": {"name": name, "resourceVersion": str(version)}, **fields}
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"


async def test_goes_on_from_where_it_was_when_the_server_ends_the_watch():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        api.put("b", size=1)
        await asyncio.sleep(500)
        api.put("c", size=2)
        await asyncio.sleep(1)
        assert seen(reflector) == {"a": 0, "b": 1, "c": 2}
        assert api.lists() == 1
        assert api.verbs().count("watch") >= 2
        assert reflector.events[CacheEvent.BROKEN] == 0


async def test_stays_complete_and_fresh_for_hours_on_a_quiet_resource():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        for _ in range(4 * 360):
            await asyncio.sleep(10)
            assert reflector.store.is_complete
            assert reflector.age_s <= 61
        assert api.lists() == 1


async def test_stays_complete_where_a_quiet_watch_gets_no_bookmarks_at_all():
    api = api_with("a")
    api.has_bookmarks = False
    async with running(api) as reflector:
        await reflector.wait_complete()
        for _ in range(360):
            await asyncio.sleep(10)
            assert reflector.store.is_complete
            assert reflector.age_s <= 61
        assert reflector.events[CacheEvent.SILENT] == 0
        assert api.verbs().count("watch") <= 3600 / 45 + 10


async def test_stays_complete_where_bookmarks_come_only_while_somebody_lists():
    """What it was before: a long watch after one of them, 70 s without a word, and seconds of an incomplete view."""
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        for _ in range(6):
            api.has_bookmarks = True
            await asyncio.sleep(60)  # no watch ends in less than 45 s: two at the most
            api.has_bookmarks = False
            for _ in range(60):
                await asyncio.sleep(10)
                assert reflector.store.is_complete
        assert reflector.events[CacheEvent.SILENT] == 0


async def test_a_watch_that_was_silent_once_is_kept_short_for_an_hour():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(600)
        api.is_frozen = True
        await asyncio.sleep(80)
        api.is_frozen = False
        await reflector.wait_complete()
        since = now()
        await asyncio.sleep(7200)
    watches = [(at - since, request) for at, request, _ in api.sent if request.verb == "watch" and at > since]
    lifetimes = [(at, int(request.query["timeoutSeconds"])) for at, request in watches]
    assert all(lifetime <= 60 for at, lifetime in lifetimes if at < 3500)
    assert all(lifetime >= 240 for at, lifetime in lifetimes if at > 3900)


async def test_a_silent_watch_is_dead_after_70_s_and_the_store_says_so():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        api.is_frozen = True
        opened_at = now()
        while reflector.store.is_complete:
            await reflector.wait_changed(reflector.store.version)
        assert now() - opened_at == pytest.approx(70, abs=0.01)
        assert reflector.events[CacheEvent.SILENT] == 1
        assert api.lists() == 1
        await reflector.wait_complete()
        assert now() - opened_at < 75


async def test_bytes_that_never_complete_an_event_count_as_silence():
    api = api_with("a")
    api.is_frozen = True
    async with running(api) as reflector:
        await reflector.wait_complete()
        opened_at = now()
        while reflector.store.is_complete:
            api.say(b'{"type":')
            await asyncio.sleep(1)
        assert 69 <= now() - opened_at <= 72


GONE = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'


async def test_after_a_410_that_ends_a_silence_it_is_not_complete_until_all_is_listed():
    api = api_with("a", "b")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(30)
        api.lose("b")
        api.compact()
        complete_with_b = []
        api.say(GONE)
        await reflector.wait_changed(reflector.store.version)
        assert not reflector.store.is_complete
        while not reflector.store.is_complete:
            await reflector.wait_changed(reflector.store.version)
            complete_with_b.append(reflector.store.is_complete and "b" in seen(reflector))
        assert complete_with_b[-1] is False
        assert seen(reflector) == {"a": 0}
        assert reflector.events[CacheEvent.GONE] == 1
        assert api.lists() == 2


async def test_after_a_410_in_the_midst_of_events_it_goes_on_seeing_while_it_lists():
    """What was a minute of deafness in a large cluster: three pages of four seconds each."""
    api = api_with(*(f"n{i:04}" for i in range(1200)))
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(30)
        api.put("n0000", size=7)
        await asyncio.sleep(1)
        api.lose("n1199")
        api.compact()
        api.page_s = 4.0
        api.say(GONE)
        await asyncio.sleep(5)
        api.put("gang", size=8)
        api.put("n0600", size=9)
        api.remove("n0601")
        await asyncio.sleep(0.1)
        assert reflector.store.is_complete
        assert reflector.is_listing
        assert (seen(reflector)["gang"], seen(reflector)["n0600"]) == (8, 9)
        assert "n0601" not in seen(reflector)
        assert "n1199" in seen(reflector), "the last page will tell"
        await asyncio.sleep(8)
        assert not reflector.is_listing
        assert reflector.store.is_complete
        assert seen(reflector) == {name: thing.get("size", 0) for name, thing in api.objects.items()}
        assert api.lists() == 2


async def test_a_list_that_fails_beneath_the_watch_leaves_it_going_and_says_so():
    api = api_with(*(f"n{i:04}" for i in range(1200)))
    api.streams_lists = False
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(10)
        api.put("n0000", size=7)
        await asyncio.sleep(1)
        api.page_s = 1.0
        api.compact()
        api.say(GONE)
        await asyncio.sleep(1.5)
        api.refuse["list"] = status_answer(500)
        await asyncio.sleep(60)
        assert not reflector.store.is_complete
        assert reflector.last_error is not None
        api.put("later", size=3)
        await asyncio.sleep(0.1)
        assert seen(reflector)["later"] == 3
        del api.refuse["list"]
        await asyncio.sleep(40)
        assert reflector.store.is_complete
        assert reflector.last_error is None
        assert seen(reflector) == {name: thing.get("size", 0) for name, thing in api.objects.items()}


async def test_a_watch_that_breaks_while_pages_are_read_is_complete_when_both_have_caught_up():
    api = api_with(*(f"n{i:04}" for i in range(1200)))
    api.streams_lists, api.page_s = False, 8.0
    async with running(api) as reflector:
        await asyncio.sleep(11)
        assert "n0000" in seen(reflector)
        api.faults.extend([down()] * 2)
        api.break_watches(down())
        api.put("n0001", size=99)
        # It is the third failure in a row: the waits are drawn up to 1.6, 3.2 and 6.4 s.
        await asyncio.sleep(11.3)
        assert seen(reflector)["n0001"] == 99
        assert not reflector.store.is_complete
        await asyncio.sleep(30)
        assert reflector.store.is_complete
        assert api.lists() == 1 + api.verbs().count("watchlist")


@pytest.mark.parametrize("after_s", [11, 60], ids=["in the midst of a list", "when all was listed"])
async def test_a_cache_that_is_run_again_shows_all_before_it_says_so(after_s):
    """As after a fault of ours in another cache, which ends all of them for a moment."""
    api = api_with(*(f"n{i:04}" for i in range(1200)))
    api.streams_lists, api.page_s = False, 8.0
    reflector = Reflector(client_for(api), THINGS, Thing, positive)
    first = asyncio.create_task(reflector.run())
    await asyncio.sleep(after_s)
    assert "n0000" in seen(reflector)
    first.cancel()
    await asyncio.wait([first])
    assert not reflector.store.is_complete
    api.remove("n0001")
    again = asyncio.create_task(reflector.run())
    async with asyncio.timeout(120):
        await reflector.wait_complete()
    assert seen(reflector) == {name: thing.get("size", 0) for name, thing in api.objects.items()}
    again.cancel()
    await asyncio.wait([again])


async def test_a_page_that_does_not_come_makes_the_view_incomplete():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.put("a", size=7)
        await asyncio.sleep(1)
        api.page_s = 8.0
        api.compact()
        api.say(GONE)
        await asyncio.sleep(4.9)
        assert reflector.store.is_complete
        await asyncio.sleep(0.2)
        assert not reflector.store.is_complete
        # It is the second failure in a row: the wait is drawn from 0.8 to 3.2 s.
        await asyncio.sleep(3.2)
        assert reflector.store.is_complete


async def test_a_410_again_and_again_is_no_storm_of_lists():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        for size in range(600):
            api.put("a", size=size)
            await asyncio.sleep(0.05)
            api.say(GONE)
            await asyncio.sleep(0.05)
        assert api.lists() <= 60


async def test_a_410_answer_to_the_resume_leads_to_one_list():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.compact()
        api.break_watches(down())
        await asyncio.sleep(20)
        assert reflector.store.is_complete
        assert api.lists() == 2
        assert reflector.store.resource_version == str(api.version)


async def test_an_outage_freezes_the_store_and_costs_no_list():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.faults.extend(down() for _ in range(10_000))
        api.break_watches(down())
        await asyncio.sleep(30)
        assert not reflector.store.is_complete
        assert seen(reflector) == {"a": 0}
        assert reflector.last_error is not None
        await asyncio.sleep(270)
        tries_at = api.times("watch")[1:]
        assert 8 <= len(tries_at) <= 60
        api.faults.clear()
        api.put("b", size=5)
        await reflector.wait_complete()
        assert seen(reflector) == {"a": 0, "b": 5}
        assert reflector.last_error is None
        assert api.lists() == 1


async def test_waits_between_tries_grow_and_differ():
    api = api_with("a")
    # Seeded: of the forty waits of an unlucky run, two are alike to the millisecond.
    async with running(api, random=Random(7)) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.faults.extend(down() for _ in range(10_000))
        api.break_watches(down())
        await asyncio.sleep(600)
    at = api.times("watch")[1:]
    gaps = [later - earlier for earlier, later in pairwise(at)]
    assert all(0.8 <= gap <= 30.001 for gap in gaps)
    assert max(gaps[:2]) < 8 < max(gaps)
    assert len({round(gap, 3) for gap in gaps}) == len(gaps)


async def test_is_complete_again_only_after_the_missed_events_are_in():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.is_mute = True
        api.break_watches(down())
        for size in range(100):
            api.put(f"missed-{size}", size=size)
        api.is_mute = False
        sizes_when_complete = []
        while not sizes_when_complete:
            await reflector.wait_changed(reflector.store.version)
            if reflector.store.is_complete:
                sizes_when_complete.append(len(reflector.store.items))
        assert sizes_when_complete == [101]


async def test_a_stream_that_is_never_quiet_is_trusted_after_five_seconds():
    api = api_with("a")

    async def chatter() -> None:
        while True:
            api.put("busy", size=1)
            await asyncio.sleep(0.2)

    task = asyncio.create_task(chatter())
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.break_watches(down())
        await asyncio.sleep(0.05)
        broken_at = now()
        await reflector.wait_complete()
        assert 5 <= now() - broken_at <= 8
    task.cancel()


async def test_a_watch_that_ends_at_once_again_and_again_is_not_a_hot_loop():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        for _ in range(600):
            await asyncio.sleep(0.1)
            api.break_watches()
        assert api.verbs().count("watch") < 40


async def test_an_unreadable_object_is_left_out_named_and_counted():
    api = api_with("a", "b")
    api.put("poison", size="not a number")
    api.put("below", size=-1)
    async with running(api) as reflector:
        await reflector.wait_complete()
        assert seen(reflector) == {"a": 0, "b": 1}
        assert set(reflector.store.skipped) == {("", "poison"), ("", "below")}
        assert "int" in reflector.store.skipped["", "poison"]
        assert "below zero" in reflector.store.skipped["", "below"]
        assert reflector.events[CacheEvent.SKIPPED] == 2


async def test_an_object_that_becomes_unreadable_leaves_the_items_and_may_come_back():
    api = api_with("a", "b")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.put("a", size="broken")
        api.put("c", size=3)
        await asyncio.sleep(1)
        assert seen(reflector) == {"b": 1, "c": 3}
        assert set(reflector.store.skipped) == {("", "a")}
        assert reflector.store.is_complete
        api.put("a", size=4)
        await asyncio.sleep(1)
        assert seen(reflector) == {"a": 4, "b": 1, "c": 3}
        assert not reflector.store.skipped
        api.put("c", size=-5)
        await asyncio.sleep(1)
        api.remove("c")
        await asyncio.sleep(1)
        assert not reflector.store.skipped


async def test_garbage_in_the_stream_leads_to_a_fresh_list():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.say(b"<html>a proxy's page</html>\n")
        await asyncio.sleep(10)
        assert reflector.store.is_complete
        assert api.lists() == 2


async def test_a_server_that_went_back_is_listed_anew_though_it_takes_the_watch():
    """Its etcd was restored from a backup: it accepts a watch from the future, and says nothing of what happens."""
    api = api_with("kept", "made-later")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.go_back(50, "kept")
        while reflector.store.is_complete:
            await reflector.wait_changed(reflector.store.version)
        await reflector.wait_complete()
        assert seen(reflector) == {"kept": 0}
        assert (reflector.store.went_back, reflector.events[CacheEvent.WENT_BACK], api.lists()) == (1, 1, 2)
        api.put("new", size=7)
        await reflector.wait_changed(reflector.store.version)


async def test_a_server_that_went_back_while_pages_were_read_is_listed_anew():
    api = api_with(*(f"n{i}" for i in range(1200)))
    api.streams_lists, api.page_s = False, 2.0
    async with running(api) as reflector:
        await asyncio.sleep(3)
        assert reflector.is_listing
        api.go_back(50, "n1")
        await reflector.wait_complete()
        assert seen(reflector) == {"n1": 1}


async def test_a_view_is_complete_only_when_the_server_is_known_not_to_have_gone_back():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.refuse["list"] = status_answer(429, "TooManyRequests")
        api.break_watches(down())
        await asyncio.sleep(30)
        assert not reflector.store.is_complete
        api.refuse.clear()
        await reflector.wait_complete()


async def test_an_event_older_than_the_stream_is_dropped_and_counted():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.say(event("a", 500, "MODIFIED", size=5) + event("a", 400, "MODIFIED", size=4))
        await asyncio.sleep(1)
        assert seen(reflector) == {"a": 5}
        assert reflector.events[CacheEvent.STALE_EVENT] == 1


async def test_retry_after_is_the_least_wait_of_the_watch():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.faults.append(status_answer(429, "TooManyRequests", Retry_After="25"))
        api.break_watches(down())
        await asyncio.sleep(60)
        second, third = api.times("watch")[1:3]
        assert third - second >= 25 - 1e-6


async def test_a_version_from_the_future_leads_to_a_fresh_list():
    api = api_with("a")
    async with running(api) as reflector:
        await reflector.wait_complete()
        await asyncio.sleep(1)
        api.faults.append(status_answer(504, "Timeout", "Timeout: Too large resource version: 101, current: 50"))
        api.break_watches(down())
        await asyncio.sleep(20)
        assert api.lists() == 2
        assert reflector.store.is_complete


async def test_missing_rights_or_a_missing_crd_are_waited_out():
    api = api_with("a")
    api.faults.extend([status_answer(403, "Forbidden"), status_answer(404, "NotFound")] * 3)
    async with running(api) as reflector:
        await asyncio.sleep(0.1)
        assert reflector.last_error is not None
        assert reflector.last_error.status == 403
        await reflector.wait_complete()
        assert seen(reflector) == {"a": 0}


async def test_asks_for_bookmarks_selectors_and_a_random_lifetime():
    api = api_with("a")
    async with running(api, selection=Selection(labels="pool=x", fields="spec.nodeName=")):
        await asyncio.sleep(3600)
    queries = [request.query for _, request, _ in api.sent if request.verb == "watch"]
    assert {query["allowWatchBookmarks"] for query in queries} == {"true"}
    assert {query["labelSelector"] for query in queries} == {"pool=x"}
    assert {query["fieldSelector"] for query in queries} == {"spec.nodeName="}
    lifetimes = [int(query["timeoutSeconds"]) for query in queries]
    short, long = lifetimes[:3], lifetimes[-5:]
    assert all(45 <= lifetime <= 60 for lifetime in short)
    assert all(240 <= lifetime <= 480 for lifetime in long)
    assert len(set(long)) > 2
