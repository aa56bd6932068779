"""When a Lease counts as abandoned: by what was read, when it was read, and nothing else."""

from itertools import chain, pairwise

from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.election import SETTLED_PERIODS, LeaseSpec, LeaseWatch
from throttler.kube.lease import ABSENT

AFTER_S, PERIOD_S = 100.0, 5.0


def face(number: int, holder: str = "a") -> LeaseSpec:
    return LeaseSpec(holder_identity=holder, renew_time=f"t{number}")


def watched(*reads: tuple[float, LeaseSpec | None]) -> LeaseWatch:
    """The memory after reads at these moments; None is one that failed."""
    watch = LeaseWatch(PERIOD_S)
    for now_s, found in reads:
        watch = watch.failed() if found is None else watch.read(found, now_s)
    return watch


def steadily(found: LeaseSpec, begin_s: int, end_s: int) -> list[tuple[float, LeaseSpec | None]]:
    return [(float(t), found) for t in range(begin_s, end_s + 1, int(PERIOD_S))]


def test_silent_lease_is_abandoned_after_the_time_and_not_before() -> None:
    assert not watched(*steadily(face(1), 0, 95)).is_abandoned(AFTER_S)
    assert watched(*steadily(face(1), 0, 100)).is_abandoned(AFTER_S)


def test_lease_that_does_not_exist_is_abandoned_as_well() -> None:
    assert watched(*steadily(ABSENT, 0, 100)).is_abandoned(AFTER_S)


def test_first_read_alone_proves_nothing() -> None:
    assert not LeaseWatch(PERIOD_S).is_abandoned(AFTER_S)
    assert not watched((1_000_000.0, face(1))).is_abandoned(AFTER_S)


def test_change_of_any_part_starts_the_count_anew() -> None:
    for other in (face(2), face(1, "b"), LeaseSpec("a", "t1", 1), ABSENT):
        watch = watched(*steadily(face(1), 0, 100), (105.0, other))
        assert watch.is_moving
        assert not watch.is_abandoned(AFTER_S)
        assert watch.silent_s() == 0.0


def test_first_look_is_no_movement() -> None:
    assert not watched((0.0, face(1))).is_moving
    assert not watched((0.0, face(1)), (5.0, face(1))).is_moving


def test_holder_gets_time_to_renew_after_an_outage_of_the_server() -> None:
    outage: list[tuple[float, LeaseSpec | None]] = [(float(t), None) for t in range(10, 400, 5)]
    back = [*steadily(face(1), 0, 5), *outage, (400.0, face(1))]
    assert not watched(*back).is_abandoned(AFTER_S)
    assert not watched(*back, (405.0, face(1)), (410.0, face(1))).is_abandoned(AFTER_S)
    assert not watched(*back, (405.0, face(2)), (410.0, face(2)), (415.0, face(2))).is_abandoned(AFTER_S)
    assert watched(*back, *steadily(face(1), 405, 415)).is_abandoned(AFTER_S)


def test_single_failures_do_not_keep_the_dead_alive() -> None:
    every_second: list[tuple[float, LeaseSpec | None]] = [
        (float(t), face(1) if t % 10 == 0 else None) for t in range(0, 101, 5)
    ]
    assert watched(*every_second).is_abandoned(AFTER_S)
    assert not watched(*every_second, (105.0, None)).is_abandoned(AFTER_S)


def test_holder_gets_the_same_time_after_the_guard_itself_was_frozen() -> None:
    frozen = [*steadily(face(1), 0, 10), (600.0, face(1))]
    assert not watched(*frozen).is_abandoned(AFTER_S)
    assert watched(*frozen, *steadily(face(1), 605, 615)).is_abandoned(AFTER_S)


READS = st.tuples(st.floats(0.1, 60), st.sampled_from([None, 1, 2, 3]))
STRETCHES = st.tuples(st.integers(1, 30), st.floats(0.1, 12), st.sampled_from([None, 1, 1, 2])).map(
    lambda stretch: [stretch[1:]] * stretch[0]
)
"""Reads that are alike, which is what a Lease that nobody renews looks like."""


@given(st.lists(READS, max_size=60) | st.lists(STRETCHES, max_size=5).map(lambda parts: list(chain(*parts))))
def test_abandoned_means_that_the_same_lease_was_read_for_all_that_time(reads: list[tuple[float, int | None]]) -> None:
    now_s, history, watch = 0.0, [], LeaseWatch(PERIOD_S)
    for gap_s, found in reads:
        now_s += gap_s
        watch = watch.failed() if found is None else watch.read(face(found), now_s)
        history.append((now_s, found))
    if watch.is_abandoned(AFTER_S):
        last = history[-1][1]
        assert last is not None
        changes = [at for at, found in history if found not in (None, last)]
        same = [at for at, found in history if found == last and at > max(changes, default=-1.0)]
        assert now_s - same[0] >= AFTER_S
        good = [at for at, found in history if found is not None]
        gaps = [later for earlier, later in pairwise(good) if later - earlier > SETTLED_PERIODS * PERIOD_S]
        assert now_s - max(gaps, default=good[0]) >= SETTLED_PERIODS * PERIOD_S
