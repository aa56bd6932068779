"""What time it is at the API servers: our own clock where one of them agrees with it, theirs where none does."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.unit.throttler.kube.fake_list_and_watch import THINGS, FakeApi, FakeResponse, client_for
from throttler.kube.connection import AGREED_FOR_S, CLOCKS_AGREE_S, ServerClock

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
HOUR_S = 3600.0


class Scene:
    """A process whose clock is `ahead_s` of the true time."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s, self.passed_s = ahead_s, 0.0
        self.clock = ServerClock(lambda: self.true_s + self.ahead_s, lambda: 1000.0 + self.passed_s)

    @property
    def true_s(self) -> float:
        return NOW.timestamp() + self.passed_s

    def hear(self, ahead_s: float = 0.0) -> None:
        """An answer of an API server whose clock is so much ahead of the true time."""
        self.clock.heard(datetime.fromtimestamp(self.true_s + ahead_s, UTC))

    @property
    def error_s(self) -> float:
        return self.clock.now_s() - self.true_s


def test_before_the_first_answer_it_is_our_own_clock() -> None:
    assert Scene(ahead_s=600.0).error_s == 600.0


@pytest.mark.parametrize("ahead_s", [-HOUR_S, -600.0, 600.0, HOUR_S, 20 * 365 * 24 * HOUR_S])
def test_a_clock_that_was_set_wrong_is_put_right_by_the_first_answer(ahead_s: float) -> None:
    scene = Scene(ahead_s)
    scene.hear()
    assert scene.error_s == 0.0
    scene.passed_s += HOUR_S
    assert scene.error_s == 0.0


def test_where_the_clocks_agree_ours_counts_to_the_fraction() -> None:
    """A Date has whole seconds: how long joins take would be told to the second only."""
    scene = Scene()
    scene.hear(ahead_s=-0.9)
    assert scene.error_s == 0.0
    scene.ahead_s = CLOCKS_AGREE_S - 1.0
    scene.hear()
    assert scene.error_s == CLOCKS_AGREE_S - 1.0


@pytest.mark.parametrize("step_s", [-HOUR_S, HOUR_S])
def test_a_step_of_our_clock_is_never_seen(step_s: float) -> None:
    scene = Scene()
    scene.hear()
    scene.ahead_s = step_s
    assert scene.error_s == 0.0
    for _ in range(100):
        scene.passed_s += 2.0
        scene.hear()
        assert scene.error_s == 0.0


def test_one_server_of_several_whose_clock_is_wrong_changes_nothing() -> None:
    scene = Scene()
    for _ in range(100):
        scene.hear(ahead_s=-600.0)
        scene.hear()
        assert scene.error_s == 0.0
        scene.passed_s += AGREED_FOR_S - 1.0
        scene.hear(ahead_s=-600.0)
        assert scene.error_s == 0.0


@pytest.mark.parametrize("second_s", [-600.0, 20.0])
def test_where_all_clocks_differ_it_goes_by_one_server_as_long_as_that_one_answers(second_s: float) -> None:
    """Each answer set it: nodes aged by ten minutes and back from one second to the next."""
    scene = Scene(ahead_s=HOUR_S)
    for _ in range(100):
        scene.hear()
        assert scene.error_s == 0.0
        scene.passed_s += AGREED_FOR_S / 2.0
        scene.hear(ahead_s=second_s)
        assert scene.error_s == 0.0
    scene.passed_s += AGREED_FOR_S + 1.0
    scene.hear(ahead_s=second_s)
    assert scene.error_s == second_s
    scene.hear()
    assert scene.error_s == second_s


def test_servers_that_are_all_set_take_the_ages_with_them() -> None:
    """They date what is made from then on."""
    scene = Scene()
    scene.hear()
    scene.passed_s += AGREED_FOR_S + 1.0
    scene.hear(ahead_s=-600.0)
    assert scene.error_s == -600.0


@pytest.mark.parametrize(
    "date",
    [
        None,
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-12))),
    ],
)
def test_a_date_that_no_clock_shows_says_nothing(date: datetime | None) -> None:
    scene = Scene()
    scene.clock.heard(date)
    assert scene.error_s == 0.0


@pytest.mark.virtual_time
async def test_every_answer_tells_what_time_it_is() -> None:
    scene, api = Scene(ahead_s=-600.0), FakeApi()
    api.faults.append(FakeResponse(200, b"{}", {"Date": "Fri, 27 Nov 2026 12:00:00 GMT"}))
    await client_for(api, server_clock=scene.clock).get(THINGS, "n1")
    assert scene.error_s == 0.0
