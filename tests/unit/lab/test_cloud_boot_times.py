import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.cloud import BootTime
from lab.cloud.boot_times import BootDraws
from lab.errors import LabError


def draw(boot_time: BootTime, count: int) -> list[tuple[float, bool]]:
    draws = BootDraws(boot_time)
    return [(boot.seconds, boot.registers) for boot in (draws.draw() for _ in range(count))]


def test_same_seed_gives_the_same_fates() -> None:
    model = BootTime(median_s=30, jitter=0.4, failure_share=0.1, seed=7)
    assert draw(model, 20) == draw(model, 20)
    assert draw(model, 20) != draw(BootTime(median_s=30, jitter=0.4, failure_share=0.1, seed=8), 20)


def test_no_jitter_means_the_median_every_time() -> None:
    assert {seconds for seconds, _ in draw(BootTime(median_s=12, jitter=0), 10)} == {12}


def test_half_of_the_machines_boot_within_the_median() -> None:
    times = [seconds for seconds, _ in draw(BootTime(median_s=40, jitter=0.3, seed=1), 4000)]
    assert statistics.median(times) == pytest.approx(40, rel=0.03)
    assert sum(t > 1.6 * 40 for t in times) / len(times) == pytest.approx(0.058, abs=0.015)


def test_failure_share_leaves_the_boot_times_alone() -> None:
    sound, failing = BootTime(median_s=5, seed=3), BootTime(median_s=5, seed=3, failure_share=0.25)
    assert [t for t, _ in draw(sound, 100)] == [t for t, _ in draw(failing, 100)]
    assert all(registers for _, registers in draw(sound, 100))
    assert sum(not registers for _, registers in draw(failing, 2000)) == pytest.approx(500, abs=60)


@given(median_s=st.floats(0, 1000), jitter=st.floats(0, 2), seed=st.integers())
def test_boot_times_are_never_negative(median_s: float, jitter: float, seed: int) -> None:
    assert all(seconds >= 0 for seconds, _ in draw(BootTime(median_s=median_s, jitter=jitter, seed=seed), 5))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"median_s": -1}, "median_s is -1"),
        ({"jitter": -0.1}, "jitter"),
        ({"failure_share": 1.5}, "failure_share is 1.5"),
    ],
)
def test_impossible_models_are_refused_by_name(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(LabError, match=named):
        BootTime(**wrong)  # type: ignore[arg-type]
