"""A throttle's status: what kstatus makes of it, when it is written, and that nothing found costs the whole of it."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.api.throttle import JoinThrottle, LearnedStatus, ThrottleSpec, ThrottleStatus
from throttler.api.throttle_rules import RefusedThrottle, StoredThrottle
from throttler.joins.joins import Joins
from throttler.kube.metadata import Metadata
from throttler.kube.reasons_and_events import because
from throttler.kube.write_queue_and_status import status_manifest
from throttler.law.law_memory import Learned
from throttler.law.verdict import Phase, ThrottleReason, Verdict
from throttler.levers.admission_queue import AdmissionReason
from throttler.levers.lever_and_reasons import LeverDecision, LeverState
from throttler.service.throttle_status import Findings, next_status
from throttler.service.throttle_watches import THROTTLES
from throttler.signals.reading import Reading, Signals, SilentServer
from throttler.signals.servers import OWN_REQUESTS

WALL = datetime(2026, 11, 21, 7, 0, tzinfo=UTC)
LATER = WALL + timedelta(minutes=5)
METADATA = Metadata("default", uid="u1", generation=7)
FRESH = Reading(server="10.0.0.1:6443", ended_s=995, span_s=10, requests=100, errors=0)
OLD = Reading(server="10.0.0.2:6443", ended_s=900, span_s=10, requests=100, errors=0)
SILENT = SilentServer(server="10.0.0.3:6443", problem="no answer within 8 s", since_s=900)


def stored(status: ThrottleStatus | None = None, **spec: object) -> JoinThrottle:
    return JoinThrottle(METADATA, ThrottleSpec(**spec), status or ThrottleStatus())  # type: ignore[arg-type]


def verdict(phase: Phase = Phase.AVOID, **changes: object) -> Verdict:
    why = because(ThrottleReason.NO_DEMAND, window=40.4)
    figures = {"window": 40.4, "admit": 1, "allowance": 6, "pace_per_min": 30.2, "index": 4.25}
    return Verdict(phase=phase, because=why, **{**figures, **changes})  # type: ignore[arg-type]


def lever(state: LeverState, name: str = "NodePool/gpu") -> LeverDecision:
    return LeverDecision(name=name, state=state, because=because(AdmissionReason.NOTHING_HELD), ceiling="cpu: 64")


def found(**changes: object) -> Findings:
    known = {"now_s": 1000.0, "verdict": verdict(), "signals": Signals(readings=(FRESH,))}
    return Findings(**{**known, **changes})  # type: ignore[arg-type]


def written(throttle: StoredThrottle, findings: Findings, wall: datetime = WALL) -> ThrottleStatus:
    status = next_status(throttle, findings, wall)
    assert status is not None
    return status


def conditions(status: ThrottleStatus) -> dict[str, str]:
    return {each.type: each.status for each in status.conditions}


GOOD = {"Ready": "True", "SignalsFresh": "True", "LeversConfirmed": "True"}
STUCK = {"Ready": "False", "Stalled": "True"}
BLIND = {"Ready": "Unknown", "Reconciling": "True"}


@pytest.mark.parametrize(
    ("spec", "findings", "expected"),
    [
        ({}, found(), GOOD),
        ({}, found(levers=(lever(LeverState.CONFIRMED),)), GOOD),
        ({}, found(levers=(lever(LeverState.HANDED_BACK),)), GOOD),
        ({}, found(levers=(lever(LeverState.PENDING),)), {**GOOD, "LeversConfirmed": "Unknown"}),
        ({}, found(levers=(lever(LeverState.CONTESTED),)), {**GOOD, **STUCK, "LeversConfirmed": "False"}),
        ({}, found(levers=(lever(LeverState.UNCONFIRMED),)), {**GOOD, **STUCK, "LeversConfirmed": "False"}),
        ({}, found(levers=(lever(LeverState.LOST),)), {**GOOD, **STUCK, "LeversConfirmed": "False"}),
        ({}, found(levers=(lever(LeverState.REFUSED),)), {**GOOD, **STUCK, "LeversConfirmed": "False"}),
        ({}, found(problem="could not apply: no"), {**GOOD, **STUCK}),
        ({}, found(verdict=None, missing=("nodes",)), {**GOOD, **BLIND}),
        ({}, found(verdict=None, missing=("nodes",), is_given_up=True), {**GOOD, **STUCK}),
        ({"paused": True}, found(verdict=None, missing=("nodes",), is_given_up=True), GOOD),
        ({}, found(verdict=None), {**GOOD, **BLIND}),
        ({}, found(verdict=verdict(Phase.STALE)), {**GOOD, "Ready": "False", "Reconciling": "True"}),
        ({}, found(signals=Signals(readings=(FRESH, OLD))), {**GOOD, "SignalsFresh": "False"}),
        ({}, found(signals=Signals(readings=(FRESH,), silent=(SILENT,))), {**GOOD, "SignalsFresh": "False"}),
        ({}, found(signals=Signals()), {**GOOD, "SignalsFresh": "False"}),
        ({"paused": True}, found(verdict=None), GOOD),
    ],
)
def test_conditions_say_what_kstatus_reads(
    spec: dict[str, object], findings: Findings, expected: dict[str, str]
) -> None:
    assert conditions(written(stored(**spec), findings)) == expected


def test_what_is_left_out_as_not_ours_is_a_condition_for_as_long_as_it_is() -> None:
    errors = because(ThrottleReason.ERRORS_NOT_OURS, server="a")
    unseen = because(ThrottleReason.NEVER_SEEN, servers="unseen-1")
    told = {}
    for reasons in ((), (errors,), (errors, unseen)):
        status = written(stored(), found(verdict=replace(verdict(), left_out=reasons)))
        told[len(reasons)] = [each for each in status.conditions if each.type == "ForeignTrouble"]
    assert told[0] == []
    assert [(each.status, each.reason, each.message) for each in told[1]] == [
        ("True", "ErrorsNotOurs", errors.sentence)
    ]
    assert [(each.reason, each.message) for each in told[2]] == [
        ("NotOurs", f"joins cause none of this: {errors.sentence}; {unseen.sentence}")
    ]


def test_counts_are_those_of_the_tick() -> None:
    joins = Joins(waiting=30, booting=9, held=2, joining=5)
    status = written(stored(), found(joins=joins, learned=Learned(window=33)))
    assert (status.window, status.pace_per_minute, status.allowance, status.index) == (40, 30, 6, "4.2")
    assert (status.in_flight, status.booting, status.held, status.joining, status.waiting) == (16, 9, 2, 5, 30)
    assert (status.phase, status.because, status.learned.window) == ("Avoid", "NoDemand", 33)
    assert status.message == because(ThrottleReason.NO_DEMAND, window=40.4).sentence


def test_servers_and_levers_are_listed_by_name() -> None:
    signals = Signals(readings=(OLD, FRESH), silent=(SILENT,))
    status = written(
        stored(), found(signals=signals, levers=(lever(LeverState.LOST, "b"), lever(LeverState.LOST, "a")))
    )
    assert [(each.name[-6], each.state) for each in status.servers] == [("1", "Fresh"), ("2", "Stale"), ("3", "Silent")]
    assert [(each.name, each.state, each.ceiling) for each in status.levers] == [
        ("a", "Lost", "cpu: 64"),
        ("b", "Lost", "cpu: 64"),
    ]
    told = {each.type: each.message for each in status.conditions}
    assert told["SignalsFresh"].endswith("10.0.0.3:6443: no answer within 8 s, 10.0.0.2:6443: no newer reading")
    assert told["LeversConfirmed"].startswith("b Lost: ")


@pytest.mark.parametrize(
    ("levers", "words"),
    [((), "the throttle uses no lever"), ((lever(LeverState.CONFIRMED),), "1 lever is in force or given back")],
)
def test_levers_of_which_there_is_nothing_to_say_are_told_in_few_words(
    levers: tuple[LeverDecision, ...], words: str
) -> None:
    status = written(stored(), found(levers=levers))
    assert [each.message for each in status.conditions if each.type == "LeversConfirmed"] == [words]


def test_node_groups_of_which_nothing_tells_whose_they_are_are_named() -> None:
    groups = ("asg-1", "https://compute.test/zones/z/instanceGroups/mig-2")
    status = written(stored(), found(levers=(lever(LeverState.CONFIRMED),), guessed_groups=groups))
    (told,) = [each for each in status.conditions if each.type == "LeversConfirmed"]
    assert told.status == "True"
    assert "the groups asg-1, mig-2 make" in told.message


def test_daemon_sets_that_joins_do_not_wait_for_any_more_are_named() -> None:
    joins = Joins(unawaited=("kube-system/logs", "kube-system/ids"))
    status = written(stored(), found(levers=(lever(LeverState.CONFIRMED),), joins=joins))
    (message,) = (each.message for each in status.conditions if each.type == "LeversConfirmed")
    assert "joins waited in vain for pods of DaemonSet kube-system/logs, kube-system/ids, and" in message


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"unpaced_pools": ("general", "spot")},
            "the lever leaves out NodePool general, spot, where growth is not paced",
        ),
        ({"covered_by": "all"}, "JoinThrottle all comes first on all of these nodes: they count for both"),
        ({"joins": Joins(late_booting=1)}, "1 machine is late and uses no place in the window until it comes"),
        ({"joins": Joins(late_joining=2)}, "2 machines are late and use no place in the window until they come"),
    ],
)
def test_growth_that_is_not_paced_and_machines_that_do_not_come_are_told(more: dict[str, object], words: str) -> None:
    status = written(stored(), found(levers=(lever(LeverState.CONFIRMED),), **more))
    (told,) = [each for each in status.conditions if each.type == "LeversConfirmed"]
    assert told.status == "True"
    assert told.message.endswith(f"; {words}")


def test_an_autoscaler_that_fell_silent_is_named() -> None:
    status = written(stored(), found(is_autoscaler_silent=True))
    (told,) = [each for each in status.conditions if each.type == "LeversConfirmed"]
    assert told.status == "True"
    assert "cluster-autoscaler is silent" in told.message


def own_requests(errors: float) -> Reading:
    return Reading(server=OWN_REQUESTS, ended_s=998, span_s=5, requests=40, errors=errors)


def signals_condition(*readings: Reading) -> tuple[str, str]:
    status = written(stored(), found(signals=Signals(readings=readings)))
    return next((each.status, each.message) for each in status.conditions if each.type == "SignalsFresh")


def test_own_requests_are_no_api_server() -> None:
    status = written(stored(), found(signals=Signals(readings=(FRESH, own_requests(0)))))
    assert [each.name for each in status.servers] == [FRESH.server]
    told = ("True", "1 of 1 API server gave a usable reading within 30 s")
    assert signals_condition(FRESH, own_requests(0)) == told


def test_own_requests_are_told_of_where_they_met_errors() -> None:
    status, message = signals_condition(FRESH, own_requests(3))
    assert (status, message.partition("; ")[2]) == ("True", "own requests: 3 of 40 met 429 or 5xx")
    assert "; own requests" not in signals_condition(FRESH, replace(own_requests(3), ended_s=900))[1]


def test_sources_that_cannot_be_used_are_told_of_while_all_servers_are_read() -> None:
    """Alarms need Prometheus, and nobody else says that it does not answer."""
    problem = "alarm cni: Prometheus did not answer within 8 s"
    status = written(stored(), found(signals=Signals(readings=(FRESH,), problems=(problem,))))
    (told,) = [each for each in status.conditions if each.type == "SignalsFresh"]
    assert (told.status, told.message.partition("; ")[2]) == ("True", problem)


def test_a_server_that_falls_silent_is_one_server() -> None:
    """It keeps its last reading: of three servers one was away, and 3 of 4 were said to have answered."""
    others = (replace(FRESH, server=f"10.0.0.{at}:6443") for at in (2, 3))
    fallen = SilentServer(server=FRESH.server, problem="no answer within 8 s", since_s=996)
    status = written(stored(), found(signals=Signals(readings=(FRESH, *others), silent=(fallen,))))
    (told,) = [each for each in status.conditions if each.type == "SignalsFresh"]
    said = "2 of 3 API servers gave a usable reading within 30 s: 10.0.0.1:6443: no answer within 8 s"
    assert (told.status, told.reason, told.message) == ("False", "ServersUnread", said)
    alone = written(stored(), found(signals=Signals(readings=(FRESH,), silent=(fallen,))))
    assert "; ".join(each.message for each in alone.conditions if each.type == "SignalsFresh").startswith("0 of 1 API")


def test_no_server_has_been_read_where_only_own_requests_were_heard_of() -> None:
    assert signals_condition(own_requests(0)) == ("False", "no API server has been read: nothing has answered yet")


def test_a_server_that_never_answered_is_named_with_what_it_lacks() -> None:
    status = written(stored(), found(signals=Signals(silent=(SILENT,))))
    told = [each.message for each in status.conditions if each.type == "SignalsFresh"]
    assert told == ["no API server has been read: 10.0.0.3:6443: no answer within 8 s"]


def test_the_slowest_source_says_how_old_a_reading_may_be() -> None:
    slow = replace(FRESH, server="10.0.0.2:6443", span_s=40.0)
    assert signals_condition(FRESH, slow) == ("True", "2 of 2 API servers gave a usable reading within 60 s")


def test_an_index_below_the_baseline_is_told_as_it_is() -> None:
    assert written(stored(), found(verdict=verdict(index=0.4))).index == "0.4"


def test_unchanged_status_is_not_written_again() -> None:
    first = written(stored(), found())
    assert next_status(stored(first), found(now_s=1004.0), LATER) is None


def test_idle_cluster_sees_no_writes_though_its_index_and_memory_tremble() -> None:
    first = written(stored(), found(verdict=verdict(Phase.IDLE), learned=Learned(window=50, baseline_s=0.008)))
    quiet = found(verdict=verdict(Phase.IDLE, index=7.9), learned=Learned(window=51, baseline_s=0.0081))
    assert first.index == ""
    assert next_status(stored(first), quiet, WALL + timedelta(seconds=20)) is None


def test_transition_time_moves_only_with_the_condition() -> None:
    first = written(stored(), found())
    counted = written(stored(first), found(joins=Joins(booting=3)), LATER)
    stuck = written(stored(first), found(problem="no"), LATER)
    assert counted.conditions[0].last_transition_time == "2026-11-21T07:00:00Z"
    assert stuck.conditions[0].last_transition_time == "2026-11-21T07:05:00Z"


def test_pending_lever_leaves_confirmed_as_it_was() -> None:
    """Every move of a ceiling is pending for a moment: that must not flap."""
    first = written(stored(), found(levers=(lever(LeverState.CONFIRMED),)))
    moved = written(stored(first), found(levers=(lever(LeverState.PENDING),)))
    assert conditions(moved)["LeversConfirmed"] == "True"


def test_a_lever_that_was_never_confirmed_stays_unknown_while_it_is_pending() -> None:
    first = written(stored(), found(levers=(lever(LeverState.PENDING),)))
    later = written(stored(first), found(levers=(lever(LeverState.PENDING),), joins=Joins(waiting=1)))
    assert conditions(later) == {**GOOD, "LeversConfirmed": "Unknown"}


def test_nothing_decided_keeps_the_figures() -> None:
    before = ThrottleStatus(
        window=40, in_flight=12, learned=LearnedStatus(window=33, learned_at="2026-11-21T06:00:00Z")
    )
    blind = written(stored(before), found(verdict=None, missing=("pods",)))
    assert (blind.window, blind.in_flight, blind.learned.window) == (40, 12, 33)
    assert (blind.because, blind.message) == (
        "IncompleteView",
        "the view is incomplete (pods): nothing is raised and nothing is lowered",
    )


def test_a_paused_throttle_says_so_whatever_the_law_found() -> None:
    status = written(stored(paused=True), found())
    assert (status.phase, status.because) == ("Paused", "Paused")


def test_a_view_that_was_given_up_is_no_reason_to_wait() -> None:
    status = written(stored(), found(verdict=None, missing=("nodeclaims (may not)",), is_given_up=True))
    assert (status.because, status.message) == (
        "ViewGivenUp",
        "the view stays incomplete (nodeclaims (may not)): everything is given back, and growth is not paced",
    )


def test_refused_throttle_says_so_and_keeps_its_memory() -> None:
    before = ThrottleStatus(learned=LearnedStatus(window=33, learned_at="2026-11-21T06:00:00Z"))
    status = written(RefusedThrottle(METADATA, "window 0; accepted: 1", before), found(verdict=None))
    assert (status.phase, status.because, status.message) == ("Invalid", "Invalid", "window 0; accepted: 1")
    assert conditions(status)["Stalled"] == "True"
    assert status.learned == before.learned


def test_status_belongs_to_the_generation_that_is_stored() -> None:
    status = written(stored(), found())
    assert {status.observed_generation, *(each.observed_generation for each in status.conditions)} == {7}


def test_manifest_names_the_very_throttle() -> None:
    status = written(stored(), found())
    body = status_manifest(THROTTLES, stored().metadata, status)
    assert body["metadata"] == {"name": "default", "uid": "u1"}
    assert msgspec.convert(body["status"], ThrottleStatus) == status


ODD = st.floats() | st.integers(-(10**12), 10**12).map(float)


@given(ODD, ODD, ODD, st.integers(-5, 10**12), st.text(max_size=3000))
def test_whatever_was_found_fits_the_api(window: float, pace: float, index: float, count: int, text: str) -> None:
    why = because(AdmissionReason.NOTHING_HELD)
    lever = LeverDecision(name=text, state=LeverState.LOST, because=why, original=text)
    odd = found(
        verdict=verdict(window=window, pace_per_min=pace, index=index, allowance=count),
        joins=Joins(waiting=count),
        signals=Signals(silent=(SilentServer(server=text, problem=text, since_s=0),) * 2, problems=(text,)),
        levers=(lever,) * 200,
        problem=text,
    )
    status = written(stored(), odd)
    assert all(0 <= each < 2**31 for each in (status.window, status.pace_per_minute, status.waiting, status.allowance))
    assert all(len(each.message) <= 1024 for each in (*status.conditions, *status.servers, *status.levers))
    assert len({each.name for each in status.levers}) == len(status.levers) == 1
    assert status.index == "" or math.isfinite(float(status.index))
    assert len(status.index) <= 32
