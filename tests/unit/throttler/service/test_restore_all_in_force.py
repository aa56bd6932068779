"""What is given back on a stop, by whom, and which epoch is written meanwhile."""

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.throttler.service.throttle_scene import a_pool, a_throttle
from throttler.kube.karpenter import NodePool
from throttler.levers.lever_and_reasons import EPOCH_ANNOTATION, HOLDER_ANNOTATION
from throttler.service import restore_all as room
from throttler.service.restore_all import DRAIN_S, LOOK_AGAIN_S, GivenBack, InForce

pytestmark = pytest.mark.virtual_time

LEASE = "kube-balloons/kube-balloons-throttle"


class FakeElector:
    """Leads as long as it is told to."""

    lease = LEASE
    epoch = 7

    def __init__(self) -> None:
        self.is_leader = True
        self.outgrown: list[int] = []

    def may_write(self) -> bool:
        return self.is_leader

    async def retire(self) -> None:
        """There is nobody to campaign against."""

    def outgrow(self, epoch: int) -> None:
        self.outgrown.append(epoch)


class Scene:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.elector = FakeElector()
        self.steps: list[str] = []
        self.given: list[GivenBack | Exception] = [GivenBack()]
        """How it goes, or what is raised, the last one for ever."""
        self.holding = self.another()

        async def give_back(
            self_: InForce, elector: Any, lease: str | None, may_go_on: Any, gone: Any = ()
        ) -> GivenBack:
            self.steps.append("given back" if lease == LEASE else "swept")
            self.steps += [throttle.metadata.name for throttle in gone]
            given = self.given.pop(0) if len(self.given) > 1 else self.given[0]
            if isinstance(given, Exception):
                raise given
            return given

        monkeypatch.setattr(InForce, "_give_back", give_back)

    def another(self) -> InForce:
        elector: Any = self.elector
        nobody: Any = None
        return InForce(nobody, elector)

    async def drain(self, timeout_s: float) -> None:
        assert timeout_s == DRAIN_S
        self.steps.append("drained")


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_the_leader_gives_back_when_its_writes_have_ended(scene: Scene) -> None:
    scene.holding.follow(is_needed=True)
    await scene.holding.stop(scene.drain)
    assert scene.steps == ["drained", "given back"]


async def test_what_a_throttle_left_that_is_gone_is_not_handed_over(scene: Scene) -> None:
    scene.holding.follow(is_needed=True)
    await scene.holding.stop(scene.drain, may_hand_over=True, gone=[a_throttle("gone")])
    assert scene.steps == ["drained", "given back", "gone"]


async def test_who_stands_by_gives_nothing_back_for_it_is_anothers(scene: Scene) -> None:
    scene.holding.follow(is_needed=True)
    scene.elector.is_leader = False
    await scene.holding.stop(scene.drain)
    assert scene.steps == ["drained"]


async def test_where_there_never_was_a_throttle_a_stop_looks_for_nothing(scene: Scene) -> None:
    scene.holding.follow(is_needed=False)
    await scene.holding.stop(scene.drain)
    assert scene.steps == ["drained"]


async def test_what_the_last_throttle_left_is_given_back_once_under_each_leadership(scene: Scene) -> None:
    """It was deleted while no replica ran; the guard leaves alone what a renewed Lease keeps in force."""
    for _ in range(3):
        scene.holding.follow(is_needed=False)
        await asyncio.sleep(1.0)
    assert scene.steps == ["swept"]
    scene.elector.epoch += 1
    scene.holding.follow(is_needed=False)
    await asyncio.sleep(1.0)
    assert scene.steps == ["swept"] * 2


async def test_what_the_last_throttle_did_not_give_back_is_given_back_whenever_it_was_deleted(scene: Scene) -> None:
    """A webhook refused each write for a minute, or the CRD went with all throttles."""
    for times in (1, 2):
        scene.holding.follow(is_needed=True)
        await asyncio.sleep(1.0)
        for _ in range(3):
            scene.holding.follow(is_needed=False)
            await asyncio.sleep(1.0)
        assert scene.steps == ["swept"] * times


@pytest.mark.parametrize(
    "at_first", [GivenBack(problems=("NodePool pool-a: no answer",)), PermissionError("the token's file")]
)
async def test_leftovers_that_could_not_be_given_back_are_tried_again(
    scene: Scene, at_first: GivenBack | Exception
) -> None:
    scene.given = [at_first, GivenBack(done=1)]
    scene.holding.follow(is_needed=False)
    await asyncio.sleep(5 * LOOK_AGAIN_S)
    assert scene.steps == ["swept"] * 2


async def test_leftovers_are_left_alone_once_a_throttle_holds_or_another_replica_leads(scene: Scene) -> None:
    scene.given = [GivenBack(problems=("NodePool pool-a: no answer",))]
    scene.holding.follow(is_needed=False)
    await asyncio.sleep(1.0)
    scene.holding.follow(is_needed=True)
    await asyncio.sleep(5 * LOOK_AGAIN_S)
    assert scene.steps == ["swept"]
    scene.elector.is_leader, scene.holding = False, scene.another()
    scene.holding.follow(is_needed=False)
    await asyncio.sleep(1.0)
    assert scene.steps == ["swept"]


async def test_a_dry_run_holds_nothing() -> None:
    nobody: Any = None
    dry = InForce(nobody, None)
    dry.saw([held_by(LEASE, "9")])
    assert (dry.lease, dry.epoch) == ("", 0)


def held_by(lease: str, epoch: str) -> NodePool:
    pool = a_pool("pool-a")
    notes = {HOLDER_ANNOTATION: lease, EPOCH_ANNOTATION: epoch}
    return msgspec.structs.replace(pool, metadata=msgspec.structs.replace(pool.metadata, annotations=notes))


@pytest.mark.parametrize(
    ("things", "outgrown"),
    [
        ([], []),
        ([held_by(LEASE, "7")], []),
        ([held_by(LEASE, "8"), held_by(LEASE, "12")], [12]),
        ([held_by("elsewhere/lease", "12")], []),
        ([held_by(LEASE, "twelve")], []),
    ],
)
def test_only_a_higher_epoch_of_our_own_lease_is_outgrown(
    scene: Scene, things: list[NodePool], outgrown: list[int]
) -> None:
    scene.holding.saw(things)
    assert scene.elector.outgrown == outgrown


async def test_giving_back_stops_when_the_lease_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    elector = FakeElector()
    asked: dict[str, Any] = {}

    async def restore_all(client: Any, **how: Any) -> GivenBack:
        asked.update(how, may_send=client)
        return GivenBack()

    class Opened:
        def __init__(self, connection: Any, component: str, **how: Any) -> None:
            self.fence = how["may_send"]

        async def __aenter__(self) -> Any:
            return self.fence

        async def __aexit__(self, *error: object) -> None:
            """Nothing to close."""

    monkeypatch.setattr(room, "restore_all", restore_all)
    monkeypatch.setattr(room, "open_client", Opened)
    some: Any = elector
    nobody: Any = None

    async def drain(timeout_s: float) -> None:
        """Nothing is under way."""

    holding = InForce(nobody, some)
    holding.follow(is_needed=True)
    await holding.stop(drain)
    assert asked["lease"] == LEASE
    elector.is_leader = False
    assert not await asked["may_go_on"]()
    assert not asked["may_send"]()
