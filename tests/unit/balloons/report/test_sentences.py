"""The answer on top: what others feel, what pacing costs or spares, and when it is no."""

from dataclasses import replace

import pytest

from balloons.preview.scale_up_plan import Side
from balloons.report.sentences import Level, felt, hurts, risks, verdict_of_sides, when
from tests.unit.balloons.report.a_plan import document

CALM = Side(policy="none", eta_s=600.0, peak_requests_per_s=50, peak_utilisation=0.4, error_share=0.0, slower_by=1.0)
PACED = replace(CALM, policy="throttle", eta_s=660.0)
HURTING = replace(CALM, slower_by=17.8, peak_utilisation=1.0, hurt_s=240.0)


@pytest.mark.parametrize(
    ("change", "is_felt"),
    [
        ({"peak_utilisation": 0.949}, False),
        ({"peak_utilisation": 0.95}, True),
        ({"slower_by": 1.99}, False),
        ({"slower_by": 2.0}, True),
        ({"error_share": 0.001}, True),
    ],
)
def test_warns_from_95_percent_load_or_twice_the_latency_on(change: dict[str, float], is_felt: bool) -> None:
    assert hurts(replace(CALM, **change)) is is_felt  # type: ignore[arg-type]


def test_says_what_others_feel_and_for_how_long() -> None:
    assert felt(CALM) == "others feel nothing"
    assert felt(HURTING) == "others wait 18x longer, for 4m"
    busy = replace(CALM, peak_utilisation=0.97, error_share=0.02)
    assert felt(busy) == "the API servers are 97 % busy, and 2.0 % of all requests are refused"


def test_says_the_price_of_pacing_where_it_helps_and_that_it_is_not_needed_where_not() -> None:
    helps = verdict_of_sides([HURTING, PACED])
    assert helps.level is Level.HURTS
    assert helps.sentence == (
        "No pacing: 10m, and other users of the API wait 18x longer, for 4m. "
        "A JoinThrottle avoids that and takes 1m longer (10 %)."
    )
    assert verdict_of_sides([CALM, PACED]).sentence.endswith("No JoinThrottle is needed for this.")


RISKY = replace(CALM, hurt_share=0.444, slower_by_high=135.6)


def test_warns_of_what_happens_in_some_possible_worlds_only() -> None:
    found = verdict_of_sides([RISKY, PACED])
    assert found.level is Level.HURTS
    assert found.sentence == (
        "No pacing: 10m, and other users of the API feel nothing in most cases; in 44 % of the possible worlds they "
        "wait up to 136x longer. "
        "A JoinThrottle avoids that and takes 1m longer (10 %)."
    )
    rarer = verdict_of_sides([RISKY, replace(PACED, hurt_share=0.111, slower_by_high=1.0)])
    said = "A JoinThrottle avoids that in most cases (not in 11 % of the possible worlds) and takes 1m longer (10 %)."
    assert rarer.sentence.endswith(said)
    same = verdict_of_sides([RISKY, replace(RISKY, policy="throttle", eta_s=660.0)])
    assert same.sentence.endswith("does not avoid that in 44 % of the possible worlds and takes 1m longer (10 %).")


def test_does_not_hold_a_price_against_an_end_that_is_a_lower_bound() -> None:
    collapse = replace(HURTING, error_share=0.04)
    found = verdict_of_sides([collapse, PACED])
    assert found.level is Level.NO
    assert found.sentence.endswith("A JoinThrottle avoids that and takes 11m instead of > 10m.")


def test_without_an_unpaced_run_names_the_quickest_of_those_that_spare_others() -> None:
    named = [replace(PACED, policy=name, eta_s=eta_s) for name, eta_s in (("a", 900.0), ("b", 700.0), ("c", None))]
    for sides in (named, named[::-1], [*named, replace(HURTING, policy="d", eta_s=60.0)]):
        found = verdict_of_sides(sides)
        assert (found.level, found.sentence) == (Level.YES, "Of those that spare others b ends first: 11m40s.")


def test_where_nothing_has_to_come_it_is_ready_now() -> None:
    request = {"pool": "gpu", "addNodes": 0, "toNodes": 8, "withinSeconds": None, "inWords": "--to 8"}
    assert (
        when(document(request=request, nodesComing=0)) == "Ready: now; 8 nodes are there, and --to 8 asks for no more"
    )


@pytest.mark.parametrize(
    ("lost", "lost_high", "said"),
    [
        (None, None, None),
        (0.0, 0.4, None),
        (0.0, 0.5, "destroys 0 machines or more"),
        (None, 3.0, "destroys 3 machines or more that have not registered after 15m"),
        (0.9, 3.0, "destroys 3 machines or more"),
        (1.0, 3.0, None),
    ],
)
def test_a_risk_is_what_one_in_twenty_meets_and_most_do_not(
    lost: float | None, lost_high: float | None, said: str | None
) -> None:
    told = risks(document(killTimer={"seconds": 900, "lost": lost, "lostHigh": lost_high}))
    assert [said is not None and said in text for text in told] == ([True] if said else [])
