"""The fence: nobody is acted on before the caches show our last write."""

from throttler.kube.metadata import ObjectKey
from throttler.kube.writes import Fence

POOL, OTHER = ObjectKey("ns", "gpu"), ObjectKey("ns", "cpu")


class Caches:
    def __init__(self, **versions: str) -> None:
        self.versions = versions
        self.pods: set[str] = set()

    def version_of(self, plural: str) -> str:
        return self.versions.get(plural, "")

    def is_there(self, node: str, uid: str) -> bool:
        return uid in self.pods


def is_open(fence: Fence, caches: Caches, now_s: float = 0.0, pool: ObjectKey = POOL) -> bool:
    return fence.is_open(pool, caches.version_of, caches.is_there, now_s)


def test_pool_that_was_never_written_is_open() -> None:
    assert is_open(Fence(), Caches())


def test_pool_rests_until_the_watch_has_passed_our_write() -> None:
    fence, caches = Fence(), Caches(deployments="99")
    fence.wrote(POOL, "deployments", "100", 0.0)
    assert not is_open(fence, caches)
    caches.versions["deployments"] = "100"
    assert is_open(fence, caches)


def test_versions_are_compared_as_numbers() -> None:
    fence = Fence()
    fence.wrote(POOL, "deployments", "1000", 0.0)
    assert not is_open(fence, Caches(deployments="999"))


def test_older_answer_does_not_lower_what_is_awaited() -> None:
    fence = Fence()
    fence.wrote(POOL, "pods", "20", 0.0)
    fence.wrote(POOL, "pods", "10", 0.0)
    assert not is_open(fence, Caches(pods="15"))


def test_other_pools_are_not_held_up() -> None:
    fence = Fence()
    fence.wrote(POOL, "deployments", "100", 0.0)
    assert is_open(fence, Caches(), pool=OTHER)


def test_pool_rests_until_deleted_balloons_are_gone() -> None:
    fence, caches = Fence(), Caches()
    caches.pods = {"b1", "b2"}
    fence.deleted(POOL, "n1", "b1", 0.0)
    fence.deleted(POOL, "n2", "b2", 0.0)
    caches.pods = {"b2"}
    assert not is_open(fence, caches)
    caches.pods = set()
    assert is_open(fence, caches)


def test_rest_after_failures_doubles_up_to_the_longest() -> None:
    fence, now_s, rests = Fence(), 0.0, []
    for _ in range(9):
        fence.failed(POOL, 0.0, now_s)
        rest = next(s for s in range(1, 100) if is_open(fence, Caches(), now_s + s))
        rests.append(rest)
        now_s += rest
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_success_makes_the_next_rest_short_again() -> None:
    fence = Fence()
    for _ in range(5):
        fence.failed(POOL, 0.0, 0.0)
    fence.succeeded(POOL)
    fence.failed(POOL, 0.0, 100.0)
    assert is_open(fence, Caches(), 101.0)


def test_rest_is_at_least_what_the_error_asks_for() -> None:
    fence = Fence()
    fence.failed(POOL, 30.0, 0.0)
    assert not is_open(fence, Caches(), 29.0)
    assert is_open(fence, Caches(), 30.0)


def test_write_that_is_never_shown_is_given_up_in_the_end() -> None:
    fence, caches = Fence(), Caches(deployments="1")
    caches.pods = {"b1"}
    fence.wrote(POOL, "deployments", "100", 0.0)
    fence.deleted(POOL, "n1", "b1", 0.0)
    assert fence.give_up(119.0) == set()
    assert not is_open(fence, caches, 119.0)
    assert fence.give_up(120.0) == {POOL}
    assert is_open(fence, caches, 120.0)
    assert fence.give_up(121.0) == set()


def test_forgotten_pool_waits_for_nothing() -> None:
    fence = Fence()
    fence.wrote(POOL, "deployments", "100", 0.0)
    fence.forget(set())
    assert is_open(fence, Caches())
