"""What a scale-up is measured by."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from benchmarks.scaleup import trial
from benchmarks.scaleup.pacers import AtOnce
from lab.cloud.kubelet_joiner import JoinerSettings, JoinRecord
from lab.scaleup.innocent_client import Met


class Watchful(AtOnce):
    """A pacer that watches idle servers before the machines come, as the law does."""

    def __init__(self, seen: list[str]) -> None:
        self._seen = seen

    @contextlib.asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:  # type: ignore[override]
        self._seen.append("idle servers watched")
        yield


class Machines:
    async def join(self, settings: JoinerSettings) -> JoinRecord:
        now_s = asyncio.get_running_loop().time()
        return JoinRecord(name=settings.name, requested_s=now_s, admitted_s=now_s, ready_s=now_s, daemons_ready_s=now_s)


class Plane:
    def access(self, *_: object, **__: object) -> None:
        return None


async def test_others_are_not_asked_while_a_pacer_watches_idle_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @contextlib.asynccontextmanager
    async def bystander(*_: object) -> AsyncIterator[Met]:
        seen.append("others ask")
        yield Met(latencies_s=[0.01])

    @contextlib.asynccontextmanager
    async def machines(_: object) -> AsyncIterator[Machines]:
        yield Machines()

    async def errors_answered(_: object) -> float:
        return 0.0

    monkeypatch.setattr(trial, "bystander", bystander)
    monkeypatch.setattr(trial, "errors_answered", errors_answered)
    plane: Any = Plane()
    await trial.run_trial(trial.Setup(nodes=2), Watchful(seen), plane, machines)
    assert seen == ["idle servers watched", "others ask"]
