"""The audit replay of rights: it must see what was refused, what passed by somebody else's right, and what lay idle."""

from typing import Any

import pytest

from lab.rights import Grant, asked_in, grants_of, replay

ACCOUNT = "ours:service"
ROLE = {
    "kind": "ClusterRole",
    "metadata": {"name": "writer"},
    "rules": [{"apiGroups": ["", "apps"], "resources": ["pods"], "verbs": ["patch", "list"]}],
}
NAMED = {
    "kind": "Role",
    "metadata": {"name": "lease", "namespace": "ours"},
    "rules": [
        {"apiGroups": ["c.io"], "resources": ["leases"], "resourceNames": ["one"], "verbs": ["get"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ],
}


def binding(role: dict[str, Any], namespace: str = "", account: str = "service") -> dict[str, Any]:
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {
        "kind": kind,
        "metadata": {"name": "b", **({"namespace": namespace} if namespace else {})},
        "roleRef": {"kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "ours"}, {"kind": "Group", "name": "g"}],
    }


def event(verb: str, resource: str, *, code: int = 200, user: str = ACCOUNT, **about: str) -> dict[str, Any]:
    found = {"resource": resource, "apiVersion": "v1", **about}
    return {
        "verb": verb,
        "user": {"username": f"system:serviceaccount:{user}"},
        "requestURI": "/",
        "objectRef": found,
        "responseStatus": {"code": code},
    }


def grant(verb: str = "patch", namespace: str = "", **more: str) -> Grant:
    return Grant(account=ACCOUNT, verb=verb, resource="pods", namespace=namespace, **more)


def test_rules_become_single_rights_where_they_are_bound() -> None:
    found = grants_of(
        ACCOUNT, [ROLE, NAMED, binding(ROLE, "there"), binding(NAMED, "ours"), binding(ROLE, "", "other")]
    )
    assert {str(each) for each in found} == {
        "patch pods in there",
        "list pods in there",
        "patch pods.apps in there",
        "list pods.apps in there",
        "get leases/one.c.io in ours",
        "get /metrics",
    }


def test_a_binding_without_its_role_is_an_error() -> None:
    with pytest.raises(KeyError):
        grants_of(ACCOUNT, [binding(ROLE)])


def test_a_request_counts_for_the_narrowest_right() -> None:
    grants = {grant(), grant(namespace="there")}
    assert replay([event("patch", "pods", namespace="there")], grants).used == {grant(namespace="there")}
    assert replay([event("patch", "pods", namespace="elsewhere")], grants).used == {grant()}


@pytest.mark.parametrize(
    "passed",
    [
        event("delete", "pods", namespace="there"),
        event("patch", "pods", namespace="elsewhere"),
        event("patch", "pods", namespace="there", subresource="status"),
        event("patch", "pods", namespace="there", apiGroup="apps"),
    ],
    ids=["verb", "namespace", "subresource", "group"],
)
def test_what_passed_by_somebody_elses_right_is_found(passed: dict[str, Any]) -> None:
    found = replay([passed], {grant(namespace="there")})
    assert (len(found.foreign), found.used) == (1, frozenset())


def test_a_name_opens_only_what_bears_it() -> None:
    grants = {grant(name="one")}
    assert replay([event("patch", "pods", name="one")], grants).used == grants
    assert replay([event("patch", "pods", name="two"), event("patch", "pods")], grants).used == frozenset()


def test_what_was_refused_is_found_whatever_was_granted() -> None:
    found = replay([event("patch", "pods", code=403)], {grant()})
    assert (len(found.refused), found.used) == (1, frozenset())


def test_applying_what_is_not_there_needs_two_rights() -> None:
    assert [each.verb for each in asked_in(event("patch", "pods", code=201))] == ["patch", "create"]
    assert [each.verb for each in asked_in(event("patch", "pods"))] == ["patch"]


def test_a_streamed_list_needs_the_right_to_list_as_well() -> None:
    """Older servers stream none: without that right the service would be blind there."""
    streamed = {**event("watch", "pods"), "requestURI": "/api/v1/pods?watch=true&sendInitialEvents=true"}
    assert [asked.verb for asked in asked_in(streamed)] == ["watch", "list"]


def test_others_and_what_everybody_may_read_do_not_count() -> None:
    discovery = {**event("get", "", code=200), "requestURI": "/apis/apps/v1?timeout=1s"}
    del discovery["objectRef"]
    stranger = event("delete", "pods", user="ours:stranger")
    admin = {**event("delete", "pods"), "user": {"username": "admin"}}
    found = replay([discovery, stranger, admin], {grant()})
    assert (found.used, found.refused, found.foreign) == (frozenset(), (), ())


def test_a_path_is_a_right_as_well() -> None:
    scrape = {**event("get", "", code=200), "requestURI": "/metrics"}
    del scrape["objectRef"]
    metrics = Grant(account=ACCOUNT, verb="get", resource="/metrics")
    assert replay([scrape], {metrics}).used == {metrics}
