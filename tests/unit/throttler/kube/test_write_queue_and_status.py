"""Own writes: nobody is acted on before the caches show our last write."""

from throttler.kube.metadata import ObjectKey
from throttler.kube.write_queue_and_status import OwnWrites

POOL, OTHER = ObjectKey("ns", "gpu"), ObjectKey("ns", "cpu")


class Caches:
    def __init__(self, **versions: str) -> None:
        self.versions = versions
        self.pods: set[str] = set()

    def version_of(self, plural: str) -> str:
        return self.versions.get(plural, "")

    def is_there(self, node: str, uid: str) -> bool:
        return uid in self.pods


def may_act(own: OwnWrites, caches: Caches, now_s: float = 0.0, pool: ObjectKey = POOL) -> bool:
    return own.may_act(pool, caches.version_of, caches.is_there, now_s)


def test_pool_that_was_never_written_is_open() -> None:
    assert may_act(OwnWrites(), Caches())


def test_pool_rests_until_the_watch_has_passed_our_write() -> None:
    own, caches = OwnWrites(), Caches(deployments="99")
    own.wrote(POOL, "deployments", "100", 0.0)
    assert not may_act(own, caches)
    caches.versions["deployments"] = "100"
    assert may_act(own, caches)


def test_versions_are_compared_as_numbers() -> None:
    own = OwnWrites()
    own.wrote(POOL, "deployments", "1000", 0.0)
    assert not may_act(own, Caches(deployments="999"))


def test_older_answer_does_not_lower_what_is_awaited() -> None:
    own = OwnWrites()
    own.wrote(POOL, "pods", "20", 0.0)
    own.wrote(POOL, "pods", "10", 0.0)
    assert not may_act(own, Caches(pods="15"))


def test_other_pools_are_not_held_up() -> None:
    own = OwnWrites()
    own.wrote(POOL, "deployments", "100", 0.0)
    assert may_act(own, Caches(), pool=OTHER)


def test_pool_rests_until_deleted_balloons_are_gone() -> None:
    own, caches = OwnWrites(), Caches()
    caches.pods = {"b1", "b2"}
    own.deleted(POOL, "n1", "b1", 0.0)
    own.deleted(POOL, "n2", "b2", 0.0)
    caches.pods = {"b2"}
    assert not may_act(own, caches)
    caches.pods = set()
    assert may_act(own, caches)


def test_rest_after_failures_doubles_up_to_the_longest() -> None:
    own, now_s, rests = OwnWrites(), 0.0, []
    for _ in range(9):
        own.failed(POOL, 0.0, now_s)
        rest = next(s for s in range(1, 100) if may_act(own, Caches(), now_s + s))
        rests.append(rest)
        now_s += rest
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_success_makes_the_next_rest_short_again() -> None:
    own = OwnWrites()
    for _ in range(5):
        own.failed(POOL, 0.0, 0.0)
    own.succeeded(POOL)
    own.failed(POOL, 0.0, 100.0)
    assert may_act(own, Caches(), 101.0)


def test_rest_is_at_least_what_the_error_asks_for() -> None:
    own = OwnWrites()
    own.failed(POOL, 30.0, 0.0)
    assert not may_act(own, Caches(), 29.0)
    assert may_act(own, Caches(), 30.0)


def test_write_that_is_never_shown_is_given_up_in_the_end() -> None:
    own, caches = OwnWrites(), Caches(deployments="1")
    caches.pods = {"b1"}
    own.wrote(POOL, "deployments", "100", 0.0)
    own.deleted(POOL, "n1", "b1", 0.0)
    assert own.give_up(119.0) == set()
    assert not may_act(own, caches, 119.0)
    assert own.give_up(120.0) == {POOL}
    assert may_act(own, caches, 120.0)
    assert own.give_up(121.0) == set()


def test_forgotten_pool_waits_for_nothing() -> None:
    own = OwnWrites()
    own.wrote(POOL, "deployments", "100", 0.0)
    own.forget(set())
    assert may_act(own, Caches())
