"""The answer on top: what others feel, what pacing costs or spares, and when it is no."""

from dataclasses import replace
from typing import Any

import pytest

from balloons.preview.inputs import NO_CLUSTER
from balloons.preview.scale_up_plan import Side
from balloons.report.sentences import (
    LONGEST,
    Level,
    answer_of,
    answer_of_sides,
    assumed,
    cost,
    ends,
    felt,
    first,
    hurts,
    is_collapse,
    limited_by,
    may_hurt,
    no_longer,
    nothing_seen,
    pods,
    reasons,
    risks,
    shown,
    side_row,
    title,
    wave_row,
    when,
)
from tests.unit.balloons.report.a_plan import body, document, side, wave

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
    helps = answer_of_sides([HURTING, PACED])
    assert helps.level is Level.HURTS
    assert helps.sentence == (
        "No pacing: 10m, and other users of the API wait 18x longer, for 4m. "
        "A JoinThrottle avoids that and takes 1m longer (10 %)."
    )
    calm = answer_of_sides([CALM, PACED])
    assert calm.level is Level.YES
    assert calm.sentence.endswith("No JoinThrottle is needed for this.")


RISKY = replace(CALM, hurt_share=0.444, slower_by_high=135.6)


def test_warns_of_what_happens_in_some_possible_worlds_only() -> None:
    found = answer_of_sides([RISKY, PACED])
    assert found.level is Level.HURTS
    assert found.sentence == (
        "No pacing: 10m, and other users of the API feel nothing in most cases; in 44 % of the possible worlds they "
        "wait up to 136x longer. "
        "A JoinThrottle avoids that and takes 1m longer (10 %)."
    )
    rarer = answer_of_sides([RISKY, replace(PACED, hurt_share=0.111, slower_by_high=1.0)])
    said = "A JoinThrottle avoids that in most cases (not in 11 % of the possible worlds) and takes 1m longer (10 %)."
    assert rarer.sentence.endswith(said)
    same = answer_of_sides([RISKY, replace(RISKY, policy="throttle", eta_s=660.0)])
    assert same.sentence.endswith("does not avoid that in 44 % of the possible worlds and takes 1m longer (10 %).")


def test_does_not_hold_a_price_against_an_end_that_is_a_lower_bound() -> None:
    collapse = replace(HURTING, error_share=0.04)
    found = answer_of_sides([collapse, PACED])
    assert found.level is Level.NO
    assert found.sentence.endswith("A JoinThrottle avoids that and takes 11m instead of > 10m.")


def test_without_an_unpaced_run_names_the_quickest_of_those_that_spare_others() -> None:
    named = [replace(PACED, policy=name, eta_s=eta_s) for name, eta_s in (("a", 900.0), ("b", 700.0), ("c", None))]
    for sides in (named, named[::-1], [*named, replace(HURTING, policy="d", eta_s=60.0)]):
        found = answer_of_sides(sides)
        assert (found.level, found.sentence) == (Level.YES, "Of those that spare others b ends first: 11m40s.")


def test_an_end_that_nobody_knows_is_no_number() -> None:
    assert ends(document()) == "4m"
    assert ends(document(eta=None)) == ends(document(eta={**body()["eta"], "medianSeconds": None}))
    assert "4m" not in ends(document(eta=None))


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


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST, LONGEST + 1, 10 * LONGEST])
def test_text_is_cut_where_it_is_longer_than_a_line_bears(length: int) -> None:
    text = shown("x" * length)
    assert text == ("x" * length if length <= LONGEST else "x" * (LONGEST - 1) + "…")
    assert shown("abcd", 3) == "ab…"
    assert shown("\x1b" * 50) == "\\x1b" * 39 + "\\x1…", "an escape is spelled out before it is cut"


@pytest.mark.parametrize(
    ("request_of", "words"),
    [
        ({"addNodes": 100, "toNodes": 108}, "100 nodes more: 8 -> 108 of gpu"),
        ({"addNodes": 1, "toNodes": 9, "pool": ""}, "1 node more: 8 -> 9"),
        ({"addNodes": 0, "toNodes": 8}, "No more nodes: 8 of gpu"),
    ],
)
def test_a_title_is_what_was_asked_for(request_of: dict[str, Any], words: str) -> None:
    assert title(document(request={**body()["request"], **request_of})) == words


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ({"gpu": 100}, "100 nodes more: 8 -> 108 of gpu"),
        ({"a": 30, "b": 70}, "100 nodes more: 70 of b, 30 of a"),
        ({"a": 20, "b": 20, "c": 20, "d": 20, "e": 20}, "100 nodes more: 20 of a, 20 of b, 20 of c, ... and 2 more."),
    ],
)
def test_a_title_names_each_pool_that_grows(pools: dict[str, int], words: str) -> None:
    found = {"pods": 100, "onNodesThere": 0, "onNewNodes": 100, "newNodes": pools}
    assert title(document(pods=found)) == words


def test_why_no_node_is_to_come() -> None:
    found = {"onNewNodes": 0, "gangs": [], "unplaceable": []}
    assert no_longer(document(pods={"pods": 4, "onNodesThere": 4, **found})) == "all pods fit nodes that are there"
    words = "8 nodes are there, and --add 100 asks for no more"
    assert no_longer(document(pods={"pods": 4, "onNodesThere": 3, **found})) == words
    silent = {**body()["request"], "inWords": ""}
    one = {**body()["cluster"], "poolNodes": 1}
    assert no_longer(document(request=silent, cluster=one)) == "1 node is there, and no more are asked for"


def eta(median_s: float | None, **more: Any) -> dict[str, Any]:
    return {"medianSeconds": median_s, "lowSeconds": 230.0, "highSeconds": 260.0, **more}


def of_side(**changes: Any) -> dict[str, Any]:
    """Pacing of a plan whose own policy has these figures."""
    return {"policy": "none", "sides": [{**side("none"), **changes}, side("throttle")]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "Ready: in 4m (nine in ten: 3m50s to 4m20s); the first after 1m02s"),
        ({"firstNode": None}, "Ready: in 4m (nine in ten: 3m50s to 4m20s)"),
        ({"eta": eta(240.0, highSeconds=None), "firstNode": None}, "Ready: in 4m (nine in ten: 3m50s to no end)"),
        ({"nodesComing": 60, "firstNode": None}, "Ready: 60 of them in 4m (nine in ten: 3m50s to 4m20s)"),
        ({"eta": eta(None)}, "Ready: not within 12 h (100 by the end)"),
        ({"eta": eta(None), "timeline": []}, "Ready: not within 12 h"),
        ({"eta": eta(None), "pacing": of_side(isStuck=True)}, "Ready: never (100 by the end)"),
        ({"eta": None}, "Ready: none of them can come"),
        (
            {"pacing": of_side(refusedShare=0.6), "firstNode": None},
            "Ready: in > 4m (nine in ten: 3m50s to 4m20s)",
        ),
    ],
)
def test_when_all_of_them_are_ready(changes: dict[str, Any], words: str) -> None:
    assert when(document(**changes)) == words


def test_what_another_policy_would_do_is_no_collapse_of_this_one() -> None:
    refused = {**side("throttle"), "refusedShare": 0.9, "isStuck": True}
    plan = document(pacing={"policy": "none", "sides": [side("none"), refused]}, eta=eta(None))
    assert not is_collapse(plan)
    assert when(plan).startswith("Ready: not within 12 h")


@pytest.mark.parametrize(
    ("without_s", "said"),
    [(228.0, " Without this limit: 3m48s."), (229.0, ""), (None, "")],
)
def test_what_lifting_a_limit_would_win_is_told_from_a_twentieth_on(without_s: float | None, said: str) -> None:
    limit = {**body()["limit"], "etaWithoutSeconds": without_s}
    assert limited_by(document(limit=limit)) == f"Limited by boot time: they boot.{said}"
    assert limited_by(document(limit=limit, eta=None)) == "Limited by boot time: they boot."
    assert limited_by(document(limit=None)) == ""


def test_each_reason_is_told_once_for_as_long_as_it_binds() -> None:
    join = {"limit": "joins", "because": "ApiServers"}
    waves = [
        wave(0.0, 60.0, 5, 5),
        wave(60.0, 90.0, 5, 10, **join),
        wave(90.0, 190.0, 5, 15, limit="other", because="Later"),
        wave(190.0, 250.0, 5, 20),
    ]
    found = reasons(document(waves=waves))
    assert [(each.because, each.limit, each.seconds) for each in found] == [
        ("BootTime", "boot time", 120.0),
        ("Later", "other", 100.0),
        ("ApiServers", "joins", 30.0),
    ]
    assert [bool(each.meaning) for each in found] == [True, False, True]
    for endless in ([*waves, wave(250.0, None, 5, 20, **join)], [wave(0.0, None, 5, 5, **join), *waves]):
        assert next((each.because, each.seconds) for each in reasons(document(waves=endless))) == ("ApiServers", None)


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, ("2", "1m", "4m", "+100", "100", "33", "boot time")),
        (
            {"until_s": None, "object": "NodePool/gpu"},
            ("2", "1m", "never", "100 missing", "100", "0", "boot time (NodePool/gpu)"),
        ),
        ({"until_s": 61.0}, ("2", "1m", "1m01s", "+100", "100", "6,000", "boot time")),
        ({"until_s": 60.9}, ("2", "1m", "1m01s", "+100", "100", "0", "boot time")),
        ({"nodes": -5}, ("2", "1m", "4m", "-5", "100", "-2", "boot time")),
    ],
)
def test_a_wave_in_a_row(changes: dict[str, Any], row: tuple[str, ...]) -> None:
    more = {name: value for name, value in changes.items() if name == "object"}
    found = wave(60.0, changes.get("until_s", 240.0), changes.get("nodes", 100), 100, **more)
    assert wave_row(2, document(waves=[found]).waves[0]) == row


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, "4m"),
        ({"refusedShare": 0.6}, "> 4m"),
        ({"etaSeconds": None}, "> 12h"),
        ({"etaSeconds": None, "isStuck": True}, "never"),
    ],
)
def test_a_side_in_a_row(changes: dict[str, Any], ends: str) -> None:
    row = side_row(document(pacing=of_side(**changes)).pacing.sides[0])
    refused = "60 %" if changes.get("refusedShare") else "0 %"
    assert row == ("no pacing", ends, "500", "50 %", refused, "1.5x")


def test_the_bill_is_for_the_nodes_that_come_and_for_warmth_where_it_costs() -> None:
    found = body()["cost"]
    assert cost(document(nodesComing=1)) == ("Cost: 3.00/h for 1 node, 6.00/h for 2 warm; waiting 9.60 once.",)
    assert cost(document(cost={**found, "warmPerHour": None, "waiting": None})) == (
        "Cost: 300.00/h for 100 nodes; waiting 0.00 once.",
    )
    assert cost(document(cost={**found, "pricePerNodeHour": None})) == ()


def test_how_much_of_a_plan_is_known() -> None:
    known = body()["inputs"][0]
    guessed = {**known, "source": "assumed"}
    assert assumed(document(inputs=[known])) == "Every figure was stated or learned in this cluster."
    assert assumed(document(inputs=[known, guessed])) == "1 of 2 figures is assumed, not known."
    assert assumed(document(inputs=[guessed, guessed])) == "2 of 2 figures are assumed, not known."


def test_a_cluster_without_a_node_says_so() -> None:
    found = body()["cluster"]
    assert nothing_seen(document()) == ""
    assert nothing_seen(document(cluster={**found, "nodes": 0})).startswith("No node was seen")
    assert nothing_seen(document(cluster={**found, "nodes": 0, "autoscaler": NO_CLUSTER})) == ""


def gang(**changes: Any) -> dict[str, Any]:
    return {"name": "/train", "pods": 3, "fitsNow": False, "podsOnNewNodes": 3, "isPlaceable": True, **changes}


@pytest.mark.parametrize(
    ("changes", "plan", "fits"),
    [
        ({}, {}, "can start in 4m"),
        ({"fitsNow": True}, {}, "can start now, on nodes that are there"),
        ({"isPlaceable": False, "fitsNow": True}, {}, "can never start: not all of it fits"),
        ({}, {"nodesComing": 99}, "can never start: not all nodes that it needs can come"),
        ({}, {"eta": None}, "can never start: not all nodes that it needs can come"),
        ({}, {"pacing": of_side(refusedShare=0.2)}, "can start in > 4m"),
        ({}, {"eta": eta(None)}, "can start in > 12h"),
        (
            {},
            {"eta": eta(None), "pacing": of_side(isStuck=True)},
            "can never start: machines are destroyed before they have joined",
        ),
    ],
)
def test_when_a_gang_can_start(changes: dict[str, Any], plan: dict[str, Any], fits: str) -> None:
    given = {"pods": 4, "onNodesThere": 1, "onNewNodes": 3, "gangs": [gang(**changes)], "unplaceable": []}
    assert pods(document(pods=given, **plan)) == (
        "4 pods: 1 on nodes that are there, 3 on new ones.",
        f"Gang train (3 pods) {fits}.",
    )


def test_pods_that_cannot_run_or_are_not_judged_are_told() -> None:
    nowhere = {"pods": 1, "requests": {"cpu": "1"}, "reason": "too large"}
    given = {"pods": 4, "onNodesThere": 1, "onNewNodes": 0, "gangs": [], "unplaceable": [nowhere], "unjudged": 2}
    assert pods(document(pods=given))[1:] == (
        "1 pod cannot run: too large.",
        "2 pods with rules that are not judged here (volumes, zones, other pods, claimed devices).",
    )
    assert pods(document()) == ()


def test_of_many_texts_the_first_and_how_many_more() -> None:
    assert first(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert first(["a", "b", "c", "d"], 3) == ["a", "b", "... and 2 more."]


# Figures of a side as plans save them: one that nobody feels, one that hurts, one that may.
QUIET: dict[str, Any] = {}
HURT = {"slowerBy": 17.8, "hurtSeconds": 240.0}
MAY = {"hurtShare": 0.444, "slowerByHigh": 3.0}
LATER = {"etaSeconds": 300.0}
WAITS = "wait 18x longer, for 4m"
SOME = "feel nothing in most cases; in 44 % of the possible worlds they wait up to 3.0x longer"


def two_sides(policy: str, unpaced: dict[str, Any], paced: dict[str, Any], **changes: Any) -> tuple[Level, str]:
    sides = [{**side("none"), **unpaced}, {**side("throttle"), **paced}]
    found = answer_of(document(pacing={"policy": policy, "sides": sides}, **changes))
    return found.level, found.sentence


def test_where_only_what_is_done_now_is_known_nothing_is_compared() -> None:
    for policy in ("none", "throttle"):
        found = answer_of(document(pacing={"policy": policy, "sides": [side(policy)]}))
        assert found.sentence == "Yes: 100 nodes are ready in 4m, and other users of the API feel nothing."


def test_of_a_plan_that_tells_no_worst_wait_the_usual_one_is_told() -> None:
    _, sentence = two_sides("none", {"hurtShare": 0.444}, LATER)
    assert "in 44 % of the possible worlds they notice" in sentence


@pytest.mark.parametrize(
    ("unpaced", "paced", "level", "compared"),
    [
        (QUIET, LATER, Level.YES, "No JoinThrottle is needed for this."),
        (QUIET, {**LATER, **HURT}, Level.YES, ""),
        (
            HURT,
            {**LATER, **HURT},
            Level.HURTS,
            f"A JoinThrottle takes 1m longer (25 %) and does not avoid that: others {WAITS}.",
        ),
        (
            HURT,
            {**LATER, **HURT, "refusedShare": 0.6},
            Level.HURTS,
            "A JoinThrottle takes > 5m instead of 4m and does not avoid that: "
            "others wait 18x longer, and 60 % of all requests are refused, for 4m.",
        ),
        (HURT, LATER, Level.HURTS, "A JoinThrottle avoids that and takes 1m longer (25 %)."),
        (HURT, QUIET, Level.HURTS, "A JoinThrottle avoids that and takes no longer."),
        (HURT, {"etaSeconds": 180.0}, Level.HURTS, "A JoinThrottle avoids that and takes 1m less (25 %)."),
        (HURT, {"etaSeconds": None}, Level.HURTS, "A JoinThrottle avoids that and takes > 12h instead of 4m."),
        (
            HURT,
            {**LATER, **MAY},
            Level.HURTS,
            "A JoinThrottle avoids that in most cases (not in 44 % of the possible worlds) and takes 1m longer (25 %).",
        ),
        (
            MAY,
            {**LATER, **MAY},
            Level.HURTS,
            "A JoinThrottle does not avoid that in 44 % of the possible worlds and takes 1m longer (25 %).",
        ),
        (
            MAY,
            {**LATER, **MAY, "hurtShare": 0.443},
            Level.HURTS,
            "A JoinThrottle avoids that in most cases (not in 44 % of the possible worlds) and takes 1m longer (25 %).",
        ),
    ],
)
def test_unpaced_the_answer_says_what_pacing_would_change(
    unpaced: dict[str, Any], paced: dict[str, Any], level: Level, compared: str
) -> None:
    how = {Level.YES: "Yes", Level.HURTS: "Yes, but it may hurt" if unpaced is MAY else "Yes, but it hurts"}[level]
    others = {id(QUIET): "feel nothing", id(HURT): WAITS, id(MAY): SOME}[id(unpaced)]
    said = f"{how}: 100 nodes are ready in 4m, and other users of the API {others}. {compared}".rstrip()
    assert two_sides("none", unpaced, paced) == (level, said)


@pytest.mark.parametrize(
    ("unpaced", "paced", "compared"),
    [
        (QUIET, QUIET, "Pacing changes nothing here."),
        (LATER, QUIET, "Without pacing: 5m, and others feel nothing."),
        ({"etaSeconds": None}, {"etaSeconds": None}, "Pacing changes nothing here."),
        (
            QUIET,
            LATER,
            "Without pacing: 4m, and others feel nothing either: pacing takes 1m longer (25 %) here and spares nobody.",
        ),
        (QUIET, {"etaSeconds": 240.9}, "Pacing changes nothing here."),
        (MAY, {"etaSeconds": 240.9}, f"Without pacing: 4m, and others {SOME}."),
        (
            QUIET,
            {"etaSeconds": 241.0},
            "Without pacing: 4m, and others feel nothing either: "
            "pacing takes 1s longer (0.4 %) here and spares nobody.",
        ),
        (HURT, LATER, f"Without pacing: 4m, and others {WAITS}. Pacing takes 1m longer (25 %) and spares them."),
        (
            HURT,
            {**LATER, **MAY},
            f"Without pacing: 4m, and others {WAITS}. Pacing takes 1m longer (25 %) and spares them in most cases.",
        ),
        (HURT, {**LATER, **HURT}, f"Without pacing: 4m, and others {WAITS}."),
        (MAY, {**LATER, **MAY}, f"Without pacing: 4m, and others {SOME}."),
        (
            {**HURT, "refusedShare": 0.6},
            LATER,
            "Without pacing: > 4m, and others wait 18x longer, and 60 % of all requests are refused, for 4m.",
        ),
        ({**HURT, "etaSeconds": None}, LATER, f"Without pacing: > 12h, and others {WAITS}."),
        (
            HURT,
            {"etaSeconds": None},
            f"Without pacing: 4m, and others {WAITS}. Pacing takes > 12h instead of 4m and spares them.",
        ),
    ],
)
def test_paced_the_answer_says_what_pacing_costs_and_spares(
    unpaced: dict[str, Any], paced: dict[str, Any], compared: str
) -> None:
    assert two_sides("throttle", unpaced, paced)[1].endswith(f". {compared}")


def test_promises_that_are_broken_come_first() -> None:
    broken = {"broken": ["60 of 100 can come"]}
    assert two_sides("none", QUIET, QUIET, **broken) == (Level.NO, "No: 60 of 100 can come.")
    refused = {**HURT, "refusedShare": 0.6}
    assert two_sides("none", refused, LATER, **broken)[1] == (
        "No: 60 of 100 can come. A JoinThrottle avoids that and takes 5m instead of > 4m."
    )
    fix = {**body()["limit"], "fix": "kubectl edit nodepool gpu"}
    assert answer_of(document(limit=fix, **broken)).command == "kubectl edit nodepool gpu"
    assert answer_of(document(limit=None, **broken)).command == ""


def test_where_nothing_is_asked_for_nothing_is_to_do() -> None:
    request = {**body()["request"], "addNodes": 0, "toNodes": 8}
    words = "Nothing to do: 8 nodes are there, and --add 100 asks for no more."
    assert two_sides("none", HURT, QUIET, request=request) == (Level.YES, words)
    assert answer_of(document(pacing={"policy": "other", "sides": []})).level is Level.YES


def test_of_policies_without_no_pacing_the_quickest_that_spares_others_is_named() -> None:
    other = replace(PACED, policy="herd", eta_s=650.0)
    assert answer_of_sides([PACED, other]).sentence == "Of those that spare others herd ends first: 10m50s."
    never = replace(other, eta_s=None, is_stuck=True)
    best = answer_of_sides([never, replace(other, slower_by=9.0), PACED])
    assert (best.level, best.sentence) == (Level.YES, "Of those that spare others JoinThrottle ends first: 11m.")
    assert answer_of_sides([never]).sentence == "None of these spares others."
    assert answer_of_sides([replace(PACED, slower_by=9.0)]).level is Level.NO


@pytest.mark.parametrize("change", [{"error_share": 0.6}, {"eta_s": None}])
def test_a_scale_up_that_collapses_or_never_ends_is_a_no(change: dict[str, Any]) -> None:
    assert answer_of_sides([replace(HURTING, **change), PACED]).level is Level.NO
    assert answer_of_sides([HURTING]).sentence == "No pacing: 10m, and other users of the API wait 18x longer, for 4m."


def test_what_hurts_in_most_worlds_does_not_only_may() -> None:
    assert may_hurt(RISKY)
    assert not may_hurt(replace(RISKY, slower_by=2.0))
    assert not may_hurt(CALM)
    for high, how in ((1.9, "notice"), (2.0, "wait up to 2.0x longer")):
        assert felt(replace(RISKY, slower_by_high=high)).endswith(f"in 44 % of the possible worlds they {how}")
