"""The same cluster with its names hashed: consistently, and keyed, so that nobody can guess them back.

What is hashed: names of objects, namespaces, accounts and containers that are their users' own; values of
labels, selectors and taints under their users' own keys; machines' ids, addresses, URLs and queries. Every mention of
one of them becomes the same hash, so that the answers stay what they were. In messages, whatever is quoted or leads
somewhere (an address, an image, a URL) is hashed as well. Kubernetes' own words and names stay readable.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from balloons.cluster import kinds
from balloons.cluster.kinds import COMPONENTS
from balloons.cluster.object_fields_and_flags import name_of, namespace_of, pairs, part, parts, text, texts
from balloons.cluster.seen_cluster import Listed, SeenCluster
from throttler.joins.requested_machines import names_within, words_of
from throttler.kube.node import GROUP_LABELS, KARPENTER_POOL_LABEL

PREFIX = "h-"
DIGITS = 16
"""Of the hash: two of a million names meet with a chance of 1 in 30 million."""
_WORD = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PUBLIC = re.compile(
    r"(kube|system|kubernetes|karpenter|cluster-autoscaler|balloons)([-.].*)?|default|true|false|[0-9]{1,5}"
    r"|cpu|memory|exempt|probes|endpoint-controller|workload-leader-election|leader-election|service-accounts"
    r"|default-scheduler|global-default|catch-all|workload-high|workload-low|node-high"
)
"""Kubernetes' own names; the last are those of the FlowSchemas and priority levels that every API server makes."""
_PUBLIC_LABELS = re.compile(
    r"(?!app\.|.*\b(sigs|node-restriction|gateway\.networking)\.)"
    r"([^/]*\.)?(kubernetes\.io|k8s\.io|karpenter\.sh|k8s\.aws)/.*"
)
"""Keys whose values are architecture, zone, instance type and the like; host names are names anyway. Not what it merely
recommends (`app.kubernetes.io/name`) or keeps for its users (`node-restriction.kubernetes.io/tenant`), nor what others
of its projects say of users' objects."""
_LABELLED = ("labels", "matchLabels", "nodeSelector")
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_NAMED_LISTS = (*_CONTAINERS, "alarms")
_REFERENCES = frozenset(
    """regarding nodeClassRef imagePullSecrets serviceAccount resourceClaims capacityQuota
    priorityLevelConfiguration""".split()  # noqa: SIM905
)
"""Fields that name an object, which need not be in any list, or an item that is named so."""
_NAMING = frozenset(
    """nodeName nominatedNodeName priorityClassName runtimeClassName resourceClaimName resourceClaimTemplateName
    serviceAccountName serviceAccount namespace schedulerName podGroupName""".split()  # noqa: SIM905
)
"""Fields whose text is a name."""
_QUOTED = re.compile(r'"([^"]{1,256})"')
_LEADS = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"']+"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"
    r"|\b(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d{1,5})?/[^\s\"',;]+"
    r"|\b(?:[a-z0-9-]+\.){2,}[a-z]{2,}\b"
)
"""URLs, addresses, images and hosts within a message."""
_PLAIN = re.compile(
    r"h-[0-9a-f]{16}|cpu|memory|pods|nodes|ephemeral-storage|[0-9.]+[A-Za-z]{0,2}|([^/]*\.)?(kubernetes\.io|k8s\.io|karpenter\.sh)"
)
"""What may stand in quotes: hashes, resources and amounts, Kubernetes' own domains."""
_OF_CONTAINERS = re.compile(r"\b[Cc]ontainers?\b[^.;,]*")
"""What of a message speaks of containers. Elsewhere their names may be any word: `main`, `app`, `node`."""
_STATUS_LINE = re.compile(r"([ -]*([A-Za-z]+): *)(.*)")
_SAID_IN_WORDS = frozenset({"status", "autoscalerStatus"})
_COUNT_OR_TIME = re.compile(r"[-+0-9.: TUCZ\"']*")
"""Lines of what cluster-autoscaler says of itself: names of groups, words of its own, and what tells nothing but counts
and times. Anything else is a message of its cloud's, which may go on in the next line."""
_VOCABULARY = frozenset(
    """apiVersion kind type reason phase effect operator topologyKey whenUnsatisfiable key resourceVersion uid
    creationTimestamp deletionTimestamp eventTime lastTransitionTime preemptionPolicy""".split()  # noqa: SIM905
)
"""Fields that hold Kubernetes' words; whatever they say stays."""


def hashed(cluster: SeenCluster, key: bytes) -> SeenCluster:
    """The cluster with every name hashed under the key; equal keys give equal hashes."""
    private = frozenset(word for word in _private(cluster) if not _PUBLIC.fullmatch(word))
    containers = frozenset(_containers(cluster)) - {"balloon"}

    def one(match: re.Match[str]) -> str:
        word = match.group()
        if word in private:
            return _hash(word, key)
        # `pod_namespace`, as kubelets say; `node-1.` at the end of a sentence, or `pod.16af` as Events are called.
        for separator in "_.":
            head, mark, rest = word.partition(separator)
            if head in private:
                return _hash(head, key) + mark + words(rest)
        return word

    def of_containers(match: re.Match[str]) -> str:
        return _WORD.sub(lambda word: _hash(word[0], key) if word[0] in containers else word[0], match[0])

    def words(passage: str) -> str:
        return _WORD.sub(one, passage)

    hashing = _Hashing(
        lambda passage: _OF_CONTAINERS.sub(of_containers, words(passage)),
        words,
        lambda passage: _hash(passage, key),
        _groups_of_nodes(cluster),
    )

    lists = {name: _listed(listed, hashing) for name, listed in cluster.lists.items()}
    return replace(cluster, lists=lists, context=_hash(cluster.context, key) if cluster.context else "")


@dataclass(frozen=True, slots=True)
class _Hashing:
    """`said` and `words` replace the private words of a sentence and of a field, `whole` a text as it stands.

    `of_nodes` are the groups that nodes name, as `_groups_of_nodes` gives them.
    """

    said: Callable[[str], str]
    words: Callable[[str], str]
    whole: Callable[[str], str]
    of_nodes: Mapping[str, Sequence[str]]

    def told(self, message: str) -> str:
        """A message of anybody: besides known names, whatever is quoted in it or leads somewhere."""
        hidden = _QUOTED.sub(lambda match: f'"{self.unless_public(match[1])}"', self.said(message))
        return _LEADS.sub(lambda match: self.unless_public(match.group()), hidden)

    def address(self, url: str) -> str:
        """A URL, or a machine's id: only its scheme stays."""
        scheme, separator, rest = url.rpartition("://")
        return f"{scheme}{separator}{self.whole(rest)}" if rest else url

    def groups(self, status: str) -> str:
        """What cluster-autoscaler says: the names of its node groups are their clouds' and their users'."""
        return "\n".join(map(self._status_line, status.split("\n")))

    def _status_line(self, line: str) -> str:
        match = _STATUS_LINE.fullmatch(line)
        if match is None:
            said = line.strip()
            return line.replace(said, self.whole(said)) if said else line
        before, key, value = match.groups()
        if key.lower() == "name":
            return before + self.group(value.strip(" '\""))
        is_told = _COUNT_OR_TIME.fullmatch(value) or (key in _SAID_IN_WORDS and value.isalpha())
        return line if is_told else before + self.whole(value)

    def group(self, name: str) -> str:
        """A node group's name; what its nodes are labelled with stands in it as before, and tells whose it is."""
        within = names_within(name, self.of_nodes)
        own = sorted(group for group in within if len(group) == max(map(len, within)))
        return "-".join([self.whole(name), *map(self.words, own)])

    def unless_public(self, word: str) -> str:
        """The text if it is a word of Kubernetes', its hash otherwise."""
        is_public = _PUBLIC.fullmatch(word) or _PUBLIC_LABELS.fullmatch(word) or _PLAIN.fullmatch(word)
        return word if is_public else self.whole(word)


def _listed(listed: Listed, hashing: _Hashing) -> Listed:
    objects = (_walk(msgspec.json.decode(raw), hashing) for raw in listed.objects)
    encoded = tuple(msgspec.json.encode(thing, order="sorted") for thing in objects)
    return replace(listed, objects=encoded, message=hashing.told(listed.message))


def _walk(value: Any, hashing: _Hashing) -> Any:
    if isinstance(value, str):
        return hashing.words(value)
    if isinstance(value, list):
        return [_walk(item, hashing) for item in value]
    if isinstance(value, Mapping):
        return {key: _field(key, inner, hashing) for key, inner in value.items()}
    return value


def _field(key: str, value: Any, hashing: _Hashing) -> Any:
    if isinstance(value, str):
        return _TEXTS[key](hashing, value) if key in _TEXTS else hashing.words(value)
    if isinstance(value, list) and key in _LISTS:
        return [_LISTS[key](hashing, item) for item in value]
    if isinstance(value, Mapping) and key in _MAPS:
        return _MAPS[key](hashing, value)
    return _walk(value, hashing)


def _entry(hashing: _Hashing, value: Any) -> Any:
    """An item of a list of images."""
    return hashing.whole(value) if isinstance(value, str) else _walk(value, hashing)


def _server(hashing: _Hashing, value: Any) -> Any:
    """An item of a list of URLs."""
    return hashing.address(value) if isinstance(value, str) else _walk(value, hashing)


def _subject(hashing: _Hashing, value: Mapping[str, Any]) -> Any:
    """A user, or a group of users, of a FlowSchema."""
    name = text(value, "name")
    return {**_walk(value, hashing), "name": name if name.startswith("system:") else hashing.whole(name)}


def _by_name(hashing: _Hashing, value: Mapping[str, Any]) -> Any:
    """A map by names."""
    return {hashing.whole(name): _walk(inner, hashing) for name, inner in value.items()}


def _owned_fields(hashing: _Hashing, value: Mapping[str, Any]) -> Any:
    """What a field manager owns: `f:` is a field, `v:` and `k:` tell an item by what is in it."""
    return {
        f"{key[:2]}{hashing.whole(key[2:])}" if key.startswith(("v:", "k:")) else key: (
            _owned_fields(hashing, inner) if isinstance(inner, Mapping) else inner
        )
        for key, inner in value.items()
    }


def _annotations(hashing: _Hashing, value: Mapping[str, Any]) -> Any:
    return {key: _annotation(key, note, hashing) for key, note in value.items()}


def _annotation(key: str, value: Any, hashing: _Hashing) -> Any:
    """What we and the autoscalers note is read as it stands; a reason, a gang's name and what users note is theirs."""
    if not isinstance(value, str):
        return _walk(value, hashing)
    is_text = key in (kinds.PAUSE_REASON, kinds.GANG) or not kinds.is_kept_annotation(key)
    return hashing.whole(value) if is_text else hashing.words(value)


def _named(hashing: _Hashing, value: Any) -> Any:
    """A container, or an alarm: its name is its user's own."""
    walked = _walk(value, hashing)
    name = text(value, "name")
    if name and name != "balloon" and not _PUBLIC.fullmatch(name):
        walked["name"] = hashing.whole(name)
    return walked


def _component_image(image: str) -> str:
    """Program and tag of a component of the cluster, and the word `pause` of a placeholder; nothing of any other."""
    path = image.partition("@")[0]
    folder, _, program = path.rpartition("/")
    if folder.rpartition("/")[2] == "karpenter":
        return f"registry/karpenter/{program}"
    if program.startswith(kinds.PAUSE):
        return kinds.PAUSE
    return program if any(program.startswith(component) for component in COMPONENTS) else ""


_TEXTS: Mapping[str, Callable[[_Hashing, str], str]] = {
    **dict.fromkeys(_VOCABULARY, lambda _, word: word),
    "status": lambda hashing, passage: hashing.groups(passage) if "\n" in passage else passage,
    **dict.fromkeys(("note", "message"), _Hashing.told),
    **dict.fromkeys(("providerID", "url"), _Hashing.address),
    **dict.fromkeys(("query", "imageID"), lambda hashing, passage: hashing.whole(passage)),
    "image": lambda _, image: _component_image(image),
}
_LISTS: Mapping[str, Callable[[_Hashing, Any], Any]] = {
    **dict.fromkeys(_NAMED_LISTS, _named),
    "servers": _server,
    "prePull": _entry,
}
_MAPS: Mapping[str, Callable[[_Hashing, Mapping[str, Any]], Any]] = {
    "annotations": _annotations,
    "disruptedPods": _by_name,
    "fieldsV1": _owned_fields,
    "user": _subject,
    "group": _subject,
}
"""What is done to a field of this name, by what it holds; of others, private words are replaced at any depth."""


def _groups_of_nodes(cluster: SeenCluster) -> dict[str, list[str]]:
    """What nodes are labelled to be of, by its words."""
    labels = (pairs(node, "metadata", "labels") for node in cluster.plain(kinds.NODES))
    by_words: dict[str, list[str]] = {}
    for group in {own[key] for own in labels for key in GROUP_LABELS if key in own}:
        by_words.setdefault(words_of(group), []).append(group)
    return by_words


def _private(cluster: SeenCluster) -> Iterator[str]:
    for listed in cluster.lists.values():
        for raw in listed.objects:
            yield from _private_in(msgspec.json.decode(raw))


def _containers(cluster: SeenCluster) -> Iterator[str]:
    """The names of all containers that are somebody's own."""
    for kind in (kinds.PODS, kinds.DEPLOYMENTS, kinds.DAEMON_SETS):
        for raw in cluster.listed(kind).objects:
            spec = part(msgspec.json.decode(raw), "spec")
            for pod in (spec, part(spec, "template", "spec")):
                names = (text(container, "name") for key in _CONTAINERS for container in parts(pod, key))
                yield from (name for name in names if name and not _PUBLIC.fullmatch(name))


def _private_in(thing: Mapping[str, Any]) -> Iterator[str]:
    yield from filter(None, (name_of(thing), namespace_of(thing)))
    yield from (text(owner, "name") for owner in parts(thing.get("metadata"), "ownerReferences"))
    yield from (address for end in parts(thing, "endpoints") for address in texts(end, "addresses"))
    yield from _below(thing)


def _below(value: Any) -> Iterator[str]:
    """What is the users' own at any depth: values under their keys, accounts, and the machine's own id."""
    if isinstance(value, list):
        for item in value:
            yield from _below(item)
    if not isinstance(value, Mapping):
        return
    if _is_private(text(value, "key") or "k8s.io/"):
        yield from filter(None, (text(value, "value"), *texts(value, "values")))
    for key, inner in value.items():
        yield from _named_by(key, inner)
        yield from _below(inner)


def _is_private(key: str) -> bool:
    """Whether what stands under this key is the users' own; so are the names of their groups of nodes."""
    return key in (KARPENTER_POOL_LABEL, *GROUP_LABELS) or not _PUBLIC_LABELS.fullmatch(key)


def _named_by(key: str, value: Any) -> Iterator[str]:
    """What a field of this name holds of the users' own."""
    if key in _LABELLED:
        labels = pairs({key: value}, key)
        yield from (content for name, content in labels.items() if _is_private(name))
    elif key in _REFERENCES and not isinstance(value, str):
        named = value if isinstance(value, list) else [value]
        yield from filter(None, (text(reference, "name") for reference in named))
    elif key in _NAMING and isinstance(value, str):
        yield value
    elif key == "providerID" and isinstance(value, str):
        yield from _WORD.findall(value.rpartition("/")[2])


def _hash(word: str, key: bytes) -> str:
    return PREFIX + hmac.new(key, word.encode(), hashlib.sha256).hexdigest()[:DIGITS]
