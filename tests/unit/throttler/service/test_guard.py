"""The guard: idle beside a living service, active after a dead one, harmless in between."""

import asyncio
from typing import Any

import pytest

from tests.unit.throttler.service.fake_writable_cluster import FakeCluster
from throttler.kube.errors import ForbiddenError, UnreachableError
from throttler.kube.lease import LEASE_NAME
from throttler.levers.scheduling_gate import PACED_GATE
from throttler.service.guard import AGAIN_PERIODS, STUCK_S, Guard, GuardSettings

pytestmark = pytest.mark.virtual_time


class Stage:
    """A guard beside a service that may be alive, and pods that nobody but we release."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = FakeCluster()
        self.cluster.put("leases", LEASE_NAME, spec={"holderIdentity": "pod-1", "renewTime": "t0"})
        self.put_pod("p1")
        self.settings = GuardSettings(namespace="kube-balloons", **settings)
        self.stop = asyncio.Event()
        self.clock = asyncio.get_running_loop().time
        self.guard = Guard(self.cluster.client, self.cluster.client, self.settings, self.clock)
        self.renewals = 0

    def put_pod(self, name: str) -> None:
        gates = [{"name": PACED_GATE}]
        self.cluster.put(
            "pods", name, metadata={"namespace": "team"}, spec={"containers": [], "schedulingGates": gates}
        )

    def renew(self) -> None:
        self.renewals += 1
        self.cluster.put("leases", LEASE_NAME, spec={"holderIdentity": "pod-1", "renewTime": f"t{self.renewals}"})

    async def keep_renewing(self, period_s: float = 2.0) -> None:
        while True:
            self.renew()
            await asyncio.sleep(period_s)

    async def run_for(self, seconds: float) -> None:
        task = asyncio.create_task(self.guard.run(self.stop))
        await asyncio.sleep(seconds)
        self.stop.set()
        await task
        self.stop.clear()

    def metric(self, name: str, **labels: str) -> float | None:
        return self.guard.metrics.registry.get_sample_value(f"kube_balloons_guard_{name}", labels)

    @property
    def is_held(self) -> bool:
        return any(each["spec"]["schedulingGates"] for each in self.cluster.objects["pods"].values())


async def test_living_service_is_left_alone() -> None:
    stage = Stage()
    service = asyncio.create_task(stage.keep_renewing())
    await stage.run_for(3600.0)
    service.cancel()
    assert stage.cluster.written() == []
    assert {plural for _, plural, _ in stage.cluster.calls} == {"leases"}


async def test_everything_is_given_back_within_two_minutes_of_silence() -> None:
    stage = Stage()
    await stage.run_for(stage.settings.after_s - 1)
    assert stage.is_held
    await stage.run_for(0.0)
    stage = Stage()
    await stage.run_for(120.0)
    assert not stage.is_held


async def test_guard_that_starts_anew_counts_anew() -> None:
    stage = Stage()
    await stage.run_for(90.0)
    stage.guard = Guard(stage.cluster.client, stage.cluster.client, stage.settings, stage.clock)
    await stage.run_for(90.0)
    assert stage.is_held
    await stage.run_for(30.0)
    assert not stage.is_held


async def test_what_comes_after_the_death_of_the_service_is_given_back_as_well() -> None:
    stage = Stage()
    await stage.run_for(120.0)
    stage.put_pod("p2")
    await stage.run_for((AGAIN_PERIODS + 2) * stage.settings.period_s)
    assert not stage.is_held


async def test_what_could_not_be_given_back_is_tried_again_at_the_next_look() -> None:
    stage = Stage()
    stage.cluster.faults["patch", "pods"] = UnreachableError("no answer")
    await stage.run_for(111.0)
    assert stage.is_held
    del stage.cluster.faults["patch", "pods"]
    await stage.run_for(6.0)
    assert not stage.is_held


async def test_nothing_is_even_looked_for_while_the_lease_cannot_be_read() -> None:
    stage = Stage()
    await stage.run_for(98.0)
    stage.cluster.faults["get", "leases"] = UnreachableError("no answer")
    await stage.run_for(300.0)
    assert {verb for verb, _, _ in stage.cluster.calls} == {"get"}


async def test_lists_are_rare_while_nobody_renews() -> None:
    stage = Stage()
    await stage.run_for(3600.0)
    lists = sum(verb == "list" and plural == "pods" for verb, plural, _ in stage.cluster.calls)
    assert 50 <= lists <= 60


async def test_lists_become_rare_while_what_is_left_cannot_be_given_back() -> None:
    stage = Stage()
    stage.cluster.faults["patch", "pods"] = ForbiddenError("may not patch pods", status=403)
    await stage.run_for(3600.0)
    lists = sum(verb == "list" and plural == "pods" for verb, plural, _ in stage.cluster.calls)
    assert 50 <= lists <= 65


async def test_news_about_what_is_left_end_the_patience() -> None:
    stage = Stage()
    forbidden = ForbiddenError("may not patch pods", status=403)
    stage.cluster.faults["patch", "pods"] = forbidden
    await stage.run_for(600.0)
    del stage.cluster.faults["patch", "pods"]
    stage.cluster.before_write = lambda plural, name: stage.cluster.faults.update({("patch", "pods"): forbidden})
    stage.put_pod("p2")
    await stage.run_for((AGAIN_PERIODS + 1) * stage.settings.period_s)
    del stage.cluster.faults["patch", "pods"]
    await stage.run_for(2 * stage.settings.period_s)
    assert not stage.is_held


async def test_service_that_comes_back_stops_the_guard_before_its_next_write() -> None:
    stage = Stage()
    for number in range(2, 20):
        stage.put_pod(f"q{number:02}")
    stage.cluster.before_write = lambda plural, name: stage.renew() if name == "q05" else None
    await stage.run_for(130.0)
    written = [name for _, _, name in stage.cluster.written()]
    assert written == ["p1", "q02", "q03", "q04", "q05"]


async def test_guard_stops_before_its_next_write_when_it_can_no_longer_read_the_lease() -> None:
    stage = Stage()
    stage.put_pod("q02")
    unreadable = UnreachableError("no answer")
    stage.cluster.before_write = lambda plural, name: stage.cluster.faults.update({("get", "leases"): unreadable})
    await stage.run_for(130.0)
    assert [name for _, _, name in stage.cluster.written()] == ["p1"]


async def test_nothing_is_written_while_the_lease_cannot_be_read() -> None:
    stage = Stage()
    stage.cluster.faults["get", "leases"] = UnreachableError("no answer")
    await stage.run_for(1000.0)
    assert stage.cluster.written() == []


async def test_service_has_time_to_renew_after_an_outage() -> None:
    stage = Stage()
    await stage.run_for(20.0)
    stage.cluster.faults["get", "leases"] = UnreachableError("no answer")
    await stage.run_for(300.0)
    del stage.cluster.faults["get", "leases"]
    running = asyncio.create_task(stage.guard.run(stage.stop))
    await asyncio.sleep(6.0)
    service = asyncio.create_task(stage.keep_renewing())
    await asyncio.sleep(300.0)
    service.cancel()
    stage.stop.set()
    await running
    assert stage.cluster.written() == []


async def test_service_that_released_its_lease_and_never_came_back_is_dead_too() -> None:
    stage = Stage()
    stage.cluster.put("leases", LEASE_NAME, spec={"holderIdentity": "", "renewTime": "t9"})
    await stage.run_for(120.0)
    assert not stage.is_held


async def test_missing_lease_is_silence() -> None:
    stage = Stage()
    del stage.cluster.objects["leases"][LEASE_NAME]
    await stage.run_for(120.0)
    assert not stage.is_held


async def test_once_ends_at_the_first_renewal() -> None:
    stage = Stage(is_once=True)
    service = asyncio.create_task(stage.keep_renewing())
    begun_at = stage.clock()
    assert await stage.guard.run(stage.stop)
    service.cancel()
    assert stage.clock() - begun_at <= 10.0
    assert stage.cluster.written() == []


async def test_once_ends_after_giving_back() -> None:
    stage = Stage(is_once=True)
    begun_at = stage.clock()
    assert await stage.guard.run(stage.stop)
    assert stage.clock() - begun_at == pytest.approx(stage.settings.after_s, abs=stage.settings.period_s)
    assert not stage.is_held


async def test_once_fails_when_something_is_left() -> None:
    stage = Stage(is_once=True)
    stage.cluster.faults["patch", "pods"] = UnreachableError("no answer")
    assert not await stage.guard.run(stage.stop)


async def test_once_fails_when_the_lease_cannot_be_read_in_time() -> None:
    stage = Stage(is_once=True)
    stage.cluster.faults["get", "leases"] = UnreachableError("no answer")
    begun_at = stage.clock()
    assert not await stage.guard.run(stage.stop)
    assert stage.clock() - begun_at == pytest.approx(stage.settings.once_timeout_s, abs=10.0)


async def test_dry_run_writes_nothing() -> None:
    stage = Stage(is_dry_run=True)
    await stage.run_for(300.0)
    assert stage.cluster.written() == []


PATIENT = {"is_once": True, "waits_for_silence": True, "after_s": 10.0, "period_s": 1.0, "give_up_s": 120.0}
"""As before an uninstallation: the service was told to stop and takes its time."""


async def test_patient_guard_waits_until_the_service_has_ended() -> None:
    stage = Stage(**PATIENT)
    service = asyncio.create_task(stage.keep_renewing())
    guard = asyncio.create_task(stage.guard.run(stage.stop))
    await asyncio.sleep(40.0)
    assert stage.is_held
    assert stage.cluster.written() == []
    service.cancel()
    assert await guard
    assert not stage.is_held


async def test_patient_guard_tries_again_until_all_is_given_back() -> None:
    stage = Stage(**PATIENT)
    stage.cluster.faults["patch", "pods"] = UnreachableError("no answer")
    guard = asyncio.create_task(stage.guard.run(stage.stop))
    await asyncio.sleep(30.0)
    assert stage.is_held
    del stage.cluster.faults["patch", "pods"]
    assert await guard
    assert not stage.is_held


async def test_patient_guard_gives_up_beside_a_service_that_does_not_end() -> None:
    stage = Stage(**PATIENT)
    service = asyncio.create_task(stage.keep_renewing())
    begun_at = stage.clock()
    assert not await stage.guard.run(stage.stop)
    service.cancel()
    assert stage.clock() - begun_at == pytest.approx(120.0, abs=3.0)
    assert stage.cluster.written() == []


async def test_patient_guard_fails_when_something_is_left_in_the_end() -> None:
    stage = Stage(**PATIENT)
    stage.cluster.faults["patch", "pods"] = ForbiddenError("may not patch pods", status=403)
    assert not await stage.guard.run(stage.stop)


async def test_patient_guard_goes_on_when_somebody_renewed_in_between() -> None:
    stage = Stage(**PATIENT)
    stage.put_pod("q2")
    stage.cluster.before_write = lambda plural, name: stage.renew() if name == "p1" and not stage.renewals else None
    assert await stage.guard.run(stage.stop)
    assert stage.renewals == 1
    assert not stage.is_held


# --- its sign of life ---


async def test_it_is_ready_while_it_reads_the_lease() -> None:
    stage = Stage()
    assert stage.guard.not_ready() == "lease kube-balloons/kube-balloons-throttle: not read yet"
    await stage.run_for(1.0)
    assert stage.guard.not_ready() == ""
    stage.cluster.faults["get", "leases"] = ForbiddenError("no right to get leases")
    await stage.run_for(6.0)
    assert stage.guard.not_ready() == "lease kube-balloons/kube-balloons-throttle: no right to get leases"
    assert stage.guard.not_alive() == ""


async def test_it_is_alive_until_it_makes_no_progress() -> None:
    stage = Stage()
    await stage.run_for(3600.0)
    assert stage.guard.not_alive() == ""
    await asyncio.sleep(STUCK_S + 6.0)
    assert "no progress for 6" in stage.guard.not_alive()


async def test_every_write_is_progress() -> None:
    stage = Stage()
    pods = 40
    for number in range(pods):
        stage.put_pod(f"slow-{number}")
    stage.cluster.patch_s = STUCK_S / 10
    running = asyncio.create_task(stage.guard.run(stage.stop))
    while stage.is_held:
        await asyncio.sleep(STUCK_S / 20)
        assert stage.guard.not_alive() == ""
    stage.stop.set()
    await running


async def test_metrics_tell_reads_silence_and_what_is_left() -> None:
    stage = Stage()
    stage.cluster.faults["patch", "pods"] = ForbiddenError("no right to patch pods")
    await stage.run_for(120.0)
    assert stage.metric("lease_reads_total", outcome="read") == 24
    assert stage.metric("lease_silent_seconds") == 115
    assert (stage.metric("left_objects"), stage.metric("given_back_objects_total")) == (1, 0)
    del stage.cluster.faults["patch", "pods"]
    await stage.run_for(120.0)
    assert (stage.metric("left_objects"), stage.metric("given_back_objects_total")) == (0, 1)


async def test_nothing_is_left_once_somebody_renews() -> None:
    stage = Stage()
    stage.cluster.faults["patch", "pods"] = ForbiddenError("no right to patch pods")
    await stage.run_for(120.0)
    assert stage.metric("left_objects") == 1
    stage.renew()
    await stage.run_for(6.0)
    assert stage.metric("left_objects") == 0
