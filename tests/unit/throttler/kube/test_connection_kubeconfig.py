import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from throttler.kube.connection import check_server, merge_documents, summarize_context
from throttler.kube.errors import ConfigError

GOOD = {
    "current-context": "prod",
    "contexts": [
        {"name": "prod", "context": {"cluster": "c1", "user": "u1", "namespace": "team"}},
        {"name": "bare", "context": {"cluster": "c1"}},
    ],
    "clusters": [{"name": "c1", "cluster": {"server": "https://host:6443/"}}],
    "users": [{"name": "u1", "user": {"exec": {"command": "login"}}}],
}


def summary(document=GOOD, context=None):
    return summarize_context(merge_documents([("FILE", document)]), context, "FILE")


def test_the_current_context_is_summarized():
    found = summary()
    assert (found.name, found.server, found.namespace) == ("prod", "https://host:6443", "team")
    assert found.runs_command


def test_a_context_without_user_and_namespace_is_fine():
    found = summary(context="bare")
    assert (found.namespace, found.user, found.runs_command) == ("default", "", False)


def changed(change):
    document = copy.deepcopy(GOOD)
    change(document)
    return document


def test_the_first_file_wins_by_name_and_the_first_current_context():
    second = changed(lambda d: d["clusters"][0]["cluster"].update(server="https://other"))
    third = {"current-context": "x", "clusters": None}
    merged = merge_documents([("A", GOOD), ("B", second), ("C", third)])
    assert merged["clusters"]["c1"]["cluster"]["server"] == "https://host:6443/"
    assert merged["current-context"] == "prod"


mistakes = {
    "no current context": (lambda d: d.pop("current-context"), "current-context is empty.*prod, bare"),
    "unknown context": (lambda d: d.update({"current-context": "x"}), "current-context: 'x' is not among"),
    "contexts no list": (lambda d: d.update(contexts={}), "FILE: contexts must be a list"),
    "nameless user": (lambda d: d["users"].append({"user": {}}), r"users\[1\] needs a name"),
    "no cluster": (lambda d: d["contexts"][0]["context"].pop("cluster"), r"contexts\[prod\].context.cluster"),
    "unknown cluster": (lambda d: d.update(clusters=[]), "'c1' is not among the clusters .there are no clusters"),
    "unknown user": (lambda d: d.update(users=None), r"contexts\[prod\].context.user: 'u1' is not among"),
    "context null": (lambda d: d["contexts"][0].update(context=None), r"contexts\[prod\].context must be a mapping"),
    "no server": (lambda d: d["clusters"][0]["cluster"].clear(), r"clusters\[c1\].cluster.server is missing"),
    "bad server": (
        lambda d: d["clusters"][0]["cluster"].update(server="host:6443"),
        r"clusters\[c1\].cluster.server: 'host:6443' is not an http",
    ),
    "bad authority": (
        lambda d: d["clusters"][0]["cluster"].update({"certificate-authority-data": "%%%"}),
        r"clusters\[c1\].cluster.certificate-authority-data is not base64",
    ),
    "bad key": (
        lambda d: d["users"][0]["user"].update({"client-key-data": "abc"}),
        r"users\[u1\].user.client-key-data is not base64",
    ),
}


@pytest.mark.parametrize(("change", "message"), mistakes.values(), ids=mistakes.keys())
def test_a_mistake_is_named_by_file_and_field(change, message):
    with pytest.raises(ConfigError, match=message) as caught:
        summary(changed(change))
    assert "FILE" in str(caught.value)


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_what_is_no_mapping_is_no_kubeconfig(document):
    with pytest.raises(ConfigError, match="FILE: not a kubeconfig"):
        summary(document)


@pytest.mark.parametrize(
    "url", ["https://h", "https://h:1/k8s/clusters/c", "http://127.0.0.1:8001", "https://[::1]:6443"]
)
def test_good_servers(url):
    assert check_server(url + "/", "at") == url


@pytest.mark.parametrize(
    "url", ["", "h:6443", "ftp://h", "https://", "https://h:port", "https://h:99999", "https://[::1"]
)
def test_bad_servers(url):
    with pytest.raises(ConfigError, match=r"^at:"):
        check_server(url, "at")


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
sections = st.dictionaries(st.sampled_from(["current-context", "contexts", "clusters", "users", "kind"]), json_like)


@given(sections | json_like)
def test_no_document_raises_anything_but_our_own_error(document):
    with pytest.raises(ConfigError):
        summary(document)


@given(st.sampled_from(["contexts", "clusters", "users"]), st.sampled_from(["context", "cluster", "user"]), json_like)
def test_no_entry_raises_anything_but_our_own_error(section, part, value):
    document = changed(lambda d: d[section][0].update({part: value}))
    try:
        summary(document)
    except ConfigError:
        return


@given(st.sampled_from(["cluster", "user", "namespace"]), json_like)
def test_no_field_of_a_context_raises_anything_but_our_own_error(name, value):
    try:
        summary(changed(lambda d: d["contexts"][0]["context"].update({name: value})))
    except ConfigError:
        return
