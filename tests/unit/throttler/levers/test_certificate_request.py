"""Certificate requests: exactly the valid ones, one per node name, paced, never denied, never held for too long."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.certificate_requests import (
    GROUPS,
    REQUESTOR,
    SIGNER,
    USAGES,
    encoded,
    forgeries,
    of_another_version,
    pem,
    spec,
    stored,
)
from tests.world import a_node
from throttler.kube.metadata import ObjectKey
from throttler.levers.certificate_claim import BOOTSTRAP_GROUP, Doubt, DoubtError, check_request, node_of
from throttler.levers.certificate_request import (
    LONGEST_S,
    CertificateRequest,
    CertificateRequestWire,
    CertificateSettings,
    approve_requests,
    heard_of,
    request_from_wire,
    without_library,
)
from throttler.levers.held import HeldSince, Moment
from throttler.levers.lever import How, LeverOutcome, LeverState, Room

SETTINGS = CertificateSettings(max_wait_s=600.0, kill_timer_s=900.0)
FORGERIES = forgeries()


def room(admit: int = 0, *, may_move: bool = True, is_stopping: bool = False) -> Room:
    return Room(existing=3, booting=0, allowance=0, admit=admit, waiting=9, may_move=may_move, is_stopping=is_stopping)


def read(thing: dict[str, Any]) -> CertificateRequest:
    return request_from_wire(msgspec.convert(thing, CertificateRequestWire, strict=False))


def request(name: str, node: str, created_s: int = 0, version: int = 1, *conditions: str) -> CertificateRequest:
    return read(stored(name, spec(pem(node)), created_s=created_s, version=version, conditions=conditions))


def decide(
    *requests: CertificateRequest, how: Room, now_s: float = 10.0, taken: frozenset[str] | None = frozenset()
) -> LeverOutcome:
    moment = Moment(now_s, now_s)
    return approve_requests(requests, taken, SETTINGS, how, HeldSince(), moment)[0]


def names(outcome: LeverOutcome) -> list[str]:
    return [write.key.name for write in outcome.writes]


def test_request_of_a_kubelet_names_its_node() -> None:
    found = request("csr-1", "node-1")
    assert (found.node, found.doubt, found.is_pending) == ("node-1", None, True)


def test_rsa_usages_are_accepted_as_well() -> None:
    found = read(stored("csr-1", spec(usages=["key encipherment", *USAGES])))
    assert found.node == "node-1"


@pytest.mark.parametrize("what", FORGERIES)
def test_forgery_is_left_alone(what: str) -> None:
    doubt, forged = FORGERIES[what]
    found = read(stored("csr-1", forged))
    assert (found.node, found.doubt) == ("", Doubt[doubt])
    for how in (room(admit=9), room(is_stopping=True)):
        assert decide(found, how=how, now_s=10_000.0).writes == ()


def test_identity_of_a_living_node_is_left_alone() -> None:
    found = request("csr-1", "node-1")
    taken = heard_of([a_node("node-1"), a_node("made-in-advance", conditions=frozenset())])
    assert taken == {"node-1"}
    assert decide(found, how=room(is_stopping=True), taken=taken).writes == ()
    assert names(decide(request("csr-2", "made-in-advance"), how=room(admit=1), taken=taken)) == ["csr-2"]


def test_nothing_is_approved_before_nodes_were_listed() -> None:
    found = request("csr-1", "node-1")
    assert decide(found, how=room(admit=9), now_s=10_000.0, taken=None).writes == ()


def test_answered_request_is_left_alone() -> None:
    for condition in ("Approved", "Denied", "Failed"):
        found = request("csr-1", "node-1", 0, 1, condition)
        assert decide(found, how=room(is_stopping=True)).writes == ()


def test_approval_adds_one_condition_under_the_version_that_was_decided_on() -> None:
    write = decide(request("csr-1", "node-1", version=7), how=room(admit=1)).writes[0]
    assert (write.how, write.kind, write.key) == (How.APPROVE, "CertificateSigningRequest", ObjectKey("", "csr-1"))
    assert isinstance(write.body, dict)
    assert write.body["metadata"] == {"resourceVersion": "7"}
    assert [each["type"] for each in write.body["status"]["conditions"]] == ["Approved"]
    assert set(write.body) == {"metadata", "status"}
    assert set(write.body["status"]) == {"conditions"}


def test_newest_request_of_a_node_is_the_one_approved() -> None:
    own = [request("csr-a", "node-1", 1, 5), request("csr-c", "node-1", 3, 7), request("csr-b", "node-1", 3, 8)]
    assert names(decide(*own, how=room(admit=9))) == ["csr-b"]


def test_what_was_filed_before_an_approved_one_is_never_approved() -> None:
    own = [request("csr-a", "node-1", 1, 5), request("csr-b", "node-1", 3, 9, "Approved")]
    assert decide(*own, how=room(is_stopping=True)).writes == ()


def test_kubelet_that_starts_anew_after_its_approval_is_let_in_again() -> None:
    own = [request("csr-a", "node-1", 1, 9, "Approved"), request("csr-b", "node-1", 60, 10)]
    assert names(decide(*own, how=room(admit=1))) == ["csr-b"]


def test_oldest_waiting_node_goes_first_however_often_it_asks() -> None:
    found = [request("a-1", "a", 1, 1), request("a-2", "a", 9, 9), request("b-1", "b", 5, 5)]
    assert names(decide(*found, how=room(admit=1))) == ["a-2"]


def test_waiting_nodes_beyond_the_bound_are_let_in_at_once() -> None:
    found = [request(f"csr-{i:02}", f"node-{i:02}", i, i + 1) for i in range(60)]
    outcome = decide(*found, how=room(admit=0), now_s=70.0)
    assert names(outcome) == [f"csr-{i:02}" for i in range(10)]
    assert outcome.report.ceiling == "50 held"


def test_duplicates_do_not_count_towards_the_bound() -> None:
    found = [request(f"csr-{i:03}", f"node-{i % 50:02}", i, i + 1) for i in range(150)]
    assert decide(*found, how=room(admit=0), now_s=150.0).writes == ()


def test_request_is_never_held_for_four_minutes() -> None:
    assert LONGEST_S < 240.0
    found = request("csr-1", "node-1", 0)
    for how in (room(), room(may_move=False)):
        assert decide(found, how=how, now_s=LONGEST_S - 1).writes == ()
        assert names(decide(found, how=how, now_s=LONGEST_S)) == ["csr-1"]


@pytest.mark.parametrize(("max_wait_s", "kill_timer_s", "limit_s"), [(60, 900, 60), (600, 400, 100), (600, 60, 30)])
def test_hold_time_keeps_within_what_the_user_says(max_wait_s: float, kill_timer_s: float, limit_s: float) -> None:
    assert CertificateSettings(max_wait_s=max_wait_s, kill_timer_s=kill_timer_s).limit_s == limit_s


def test_missing_library_is_reported() -> None:
    outcome = without_library()
    assert (outcome.writes, outcome.report.state) == ((), LeverState.REFUSED)
    assert "kube-balloons[csr]" in outcome.report.because.sentence


MUTATIONS: dict[str, list[Any]] = {
    "signerName": [SIGNER, "kubernetes.io/kube-apiserver-client", ""],
    "usages": [list(USAGES), ["client auth"], [*USAGES, "server auth"]],
    "username": [REQUESTOR, "system:node:a", ""],
    "groups": [list(GROUPS), ["system:authenticated"], [*GROUPS, "system:nodes"]],
    "request": [encoded(pem()), encoded(pem(organizations=("system:masters",))), encoded(pem() + b"x"), "?", ""],
}


@given(st.fixed_dictionaries({key: st.sampled_from(values) for key, values in MUTATIONS.items()}), st.booleans())
def test_approval_implies_every_check(found: dict[str, Any], is_stopping: bool) -> None:
    outcome = decide(read(stored("csr-1", found)), how=room(admit=1, is_stopping=is_stopping), now_s=10_000.0)
    is_valid = all(found[key] == values[0] for key, values in MUTATIONS.items())
    assert bool(outcome.writes) == is_valid


@given(st.text(), st.lists(st.text()), st.text(), st.lists(st.text()), st.booleans())
def test_no_text_passes_the_server_side_checks_by_accident(
    signer: str, usages: list[str], requestor: str, groups: list[str], is_bootstrapper: bool
) -> None:
    groups = [*groups, BOOTSTRAP_GROUP] if is_bootstrapper else groups
    with pytest.raises(DoubtError):
        check_request(signer, usages, requestor, groups)


@given(st.one_of(st.text(), st.binary().map(encoded)))
def test_noise_is_doubted_and_nothing_else(noise: str) -> None:
    with pytest.raises(DoubtError):
        node_of(noise)


def test_request_of_a_version_that_does_not_exist_is_doubted() -> None:
    with pytest.raises(DoubtError):
        node_of(encoded(of_another_version()))


@given(st.data())
def test_flipped_bit_never_names_another_node(data: st.DataObject) -> None:
    whole = bytearray(pem("node-1"))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        assert node_of(encoded(bytes(whole))) == "node-1"
    except DoubtError:
        return
