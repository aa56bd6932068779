import json

import pytest

from throttler.kube.requests import (
    PatchKind,
    Resource,
    Selection,
    apply_request,
    create_request,
    delete_request,
    get_request,
    list_request,
    patch_request,
    raw_get_request,
    watch_request,
)

NODES = Resource("", "v1", "nodes", "Node", is_namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (NODES.collection_path(), "/api/v1/nodes"),
        (NODES.object_path("n1"), "/api/v1/nodes/n1"),
        (PODS.collection_path(), "/api/v1/pods"),
        (PODS.collection_path("ns"), "/api/v1/namespaces/ns/pods"),
        (DEPLOYMENTS.object_path("d", "ns", "scale"), "/apis/apps/v1/namespaces/ns/deployments/d/scale"),
        (PODS.object_path("a/../b?x", "ns"), "/api/v1/namespaces/ns/pods/a%2F..%2Fb%3Fx"),
    ],
)
def test_paths(path, expected):
    assert path == expected


@pytest.mark.parametrize(("name", "namespace"), [("", "ns"), (".", "ns"), ("..", "ns"), ("x", None), ("x", "")])
def test_no_object_path_may_mean_a_whole_collection(name, namespace):
    with pytest.raises(ValueError, match="needed"):
        PODS.object_path(name, namespace)


def test_a_namespace_on_a_cluster_scoped_resource_is_a_mistake():
    with pytest.raises(ValueError, match="no namespace"):
        NODES.object_path("n1", "ns")


def listing(**changes):
    arguments = {"limit": 500, "continue_token": "", "resource_version": None, **changes}
    return dict(list_request(NODES, Selection(labels="a=b"), **arguments).query)


def test_list_queries():
    assert listing() == {"labelSelector": "a=b", "limit": "500"}
    assert listing(resource_version="0") == {
        "labelSelector": "a=b",
        "limit": "500",
        "resourceVersion": "0",
        "resourceVersionMatch": "NotOlderThan",
    }
    assert listing(resource_version="0", continue_token="t") == {
        "labelSelector": "a=b",
        "limit": "500",
        "continue": "t",
    }


def delete(**changes):
    arguments = {"uid": None, "resource_version": None, "propagation": None, **changes}
    return delete_request(PODS, "p", "ns", **arguments)


def test_delete_carries_preconditions():
    request = delete(uid="u", resource_version="5", propagation="Background")
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
        "propagationPolicy": "Background",
    }
    assert json.loads(delete().body) == {"apiVersion": "v1", "kind": "DeleteOptions"}


def apply(**changes):
    arguments = {"field_manager": "us", "force": False, "subresource": None, **changes}
    return apply_request(DEPLOYMENTS, {"spec": {}}, "d", "ns", **arguments)


def test_apply_names_the_manager_and_never_forces_by_itself():
    request = apply()
    assert (request.method, request.query) == ("PATCH", {"fieldManager": "us", "force": "false"})
    assert request.content_type == "application/apply-patch+yaml"
    assert apply(force=True).query["force"] == "true"
    with pytest.raises(ValueError, match="field manager"):
        apply(field_manager="")


def patch(kind, subresource=None):
    return patch_request(DEPLOYMENTS, [], "d", "ns", kind=kind, field_manager=None, subresource=subresource)


@pytest.mark.parametrize(
    ("request_", "is_safe"),
    [
        (get_request(PODS, "p", "ns"), True),
        (list_request(PODS, Selection(), limit=1, continue_token="", resource_version=None), True),
        (watch_request(PODS, Selection(), resource_version="1", lifetime_s=300), False),
        (create_request(PODS, {}, "ns"), False),
        (apply(), True),
        (patch(PatchKind.MERGE), True),
        (patch(PatchKind.JSON), False),
        (delete(), False),
        (delete(resource_version="5"), False),
        (delete(uid="u"), True),
    ],
)
def test_only_what_may_be_sent_twice_is_retry_safe(request_, is_safe):
    assert request_.is_retry_safe is is_safe


def test_create_goes_to_the_collection():
    assert create_request(PODS, {}, "ns").path == "/api/v1/namespaces/ns/pods"
    with pytest.raises(ValueError, match="namespace is needed"):
        create_request(PODS, {}, None)


def test_labels_for_metrics_have_few_values():
    assert patch(PatchKind.MERGE, "scale").resource == "deployments/scale"
    assert raw_get_request("/readyz?verbose").resource == "/readyz"
    assert raw_get_request("/openapi/v3/apis/apps").resource == "/openapi"


def test_bodies_are_not_shown_in_logs():
    assert "secret" not in repr(create_request(PODS, {"secret": 1}, "ns"))
