"""The same cluster with its names hashed: consistently, and keyed, so that nobody can guess them back.

What is hashed: names of objects, namespaces, accounts, containers and metrics that are their users' own; values of
labels, selectors and taints under their users' own keys; machines' ids, addresses, URLs and queries. Every mention of
one of them becomes the same hash, so that the answers stay what they were. In messages, whatever is quoted or leads
somewhere (an address, an image, a URL) is hashed as well. Kubernetes' own words and names stay readable.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from balloons.cluster import kinds
from balloons.cluster.kinds import COMPONENTS
from balloons.cluster.plain_data import name_of, namespace_of, pairs, parts, text, texts
from balloons.cluster.seen_cluster import Listed, SeenCluster

PREFIX = "h-"
DIGITS = 16
"""Of the hash: two of a million names meet with a chance of 1 in 30 million."""
_WORD = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PUBLIC_KINDS = frozenset(
    each.name for each in (kinds.FLOW_SCHEMAS, kinds.PRIORITY_LEVELS, kinds.AUTOSCALER_STATUS, kinds.API_SERVERS)
)
"""Their names are Kubernetes', and say nothing about anybody."""
_PUBLIC = re.compile(
    r"(kube|system|kubernetes|karpenter|cluster-autoscaler|balloons)([-.].*)?|default|true|false|[0-9]{1,5}"
)
_PUBLIC_LABELS = re.compile(r"([^/]*\.)?(kubernetes\.io|k8s\.io|karpenter\.sh|k8s\.aws)/.*")
"""Keys whose values are architecture, zone, instance type and the like; host names are names anyway."""
_LABELLED = ("labels", "matchLabels", "nodeSelector")
_NAMED_LISTS = ("containers", "initContainers", "ephemeralContainers", "alarms")
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
_VOCABULARY = frozenset(
    """apiVersion kind type status reason phase effect operator topologyKey whenUnsatisfiable key resourceVersion uid
    creationTimestamp deletionTimestamp eventTime lastTransitionTime preemptionPolicy schedulerName""".split()  # noqa: SIM905
)
"""Fields that hold Kubernetes' words; whatever they say stays."""


def hashed(seen: SeenCluster, key: bytes) -> SeenCluster:
    """The cluster with every name hashed under the key; equal keys give equal hashes."""
    private = frozenset(word for word in _private(seen) if not _PUBLIC.fullmatch(word))

    def one(match: re.Match[str]) -> str:
        word = match.group()
        if word in private:
            return _hash(word, key)
        # `node-1.` at the end of a sentence, or `pod.16af` as Events are called.
        head, dot, rest = word.partition(".")
        return _hash(head, key) + dot + rest if head in private else word

    def words(found: str) -> str:
        return _WORD.sub(one, found)

    hashing = _Hashing(words, lambda found: _hash(found, key))

    lists = {name: _listed(listed, hashing) for name, listed in seen.lists.items()}
    return replace(seen, lists=lists, context=_hash(seen.context, key) if seen.context else "")


@dataclass(frozen=True, slots=True)
class _Hashing:
    """`words` replaces the private words of a text, `whole` a text as it stands."""

    words: Callable[[str], str]
    whole: Callable[[str], str]

    def told(self, message: str) -> str:
        """A message of anybody: besides known names, whatever is quoted in it or leads somewhere."""
        found = _QUOTED.sub(lambda match: f'"{self._unless_public(match[1])}"', self.words(message))
        return _LEADS.sub(lambda match: self._unless_public(match.group()), found)

    def address(self, url: str) -> str:
        """A URL, or a machine's id: only its scheme stays."""
        scheme, separator, rest = url.rpartition("://")
        return f"{scheme}{separator}{self.whole(rest)}" if rest else url

    def _unless_public(self, found: str) -> str:
        is_public = _PUBLIC.fullmatch(found) or _PUBLIC_LABELS.fullmatch(found) or _PLAIN.fullmatch(found)
        return found if is_public else self.whole(found)


def _listed(listed: Listed, hashing: _Hashing) -> Listed:
    objects = (_walk(msgspec.json.decode(each), hashing) for each in listed.objects)
    encoded = tuple(msgspec.json.encode(each, order="sorted") for each in objects)
    return replace(listed, objects=encoded, message=hashing.told(listed.message))


def _walk(value: Any, hashing: _Hashing) -> Any:
    if isinstance(value, str):
        return hashing.words(value)
    if isinstance(value, list):
        return [_walk(each, hashing) for each in value]
    if isinstance(value, Mapping):
        return {key: _field(key, each, hashing) for key, each in value.items()}
    return value


def _field(key: str, value: Any, hashing: _Hashing) -> Any:
    if isinstance(value, list) and key in _NAMED_LISTS:
        return [_named(each, hashing) for each in value]
    if isinstance(value, list) and key == "servers":
        return [hashing.address(each) if isinstance(each, str) else each for each in value]
    if not isinstance(value, str):
        return _walk(value, hashing)
    if key in _VOCABULARY:
        return value
    if key in ("note", "message"):
        return hashing.told(value)
    if key in ("providerID", "url"):
        return hashing.address(value)
    if key in ("query", "imageID"):
        return hashing.whole(value)
    return _component_image(value) if key == "image" else hashing.words(value)


def _named(value: Any, hashing: _Hashing) -> Any:
    """A container, or an alarm: its name is its user's own."""
    found = _walk(value, hashing)
    name = text(value, "name")
    if isinstance(found, dict) and name and name != "balloon" and not _PUBLIC.fullmatch(name):
        found["name"] = hashing.whole(name)
    return found


def _component_image(image: str) -> str:
    """The program and the tag where a component of the cluster is run, without the registry; nothing of any other."""
    path = image.partition("@")[0]
    folder, _, program = path.rpartition("/")
    if folder.rpartition("/")[2] == "karpenter":
        return f"registry/karpenter/{program}"
    return program if any(program.startswith(component) for component in COMPONENTS) else ""


def _private(seen: SeenCluster) -> Iterator[str]:
    for name, listed in seen.lists.items():
        if name in _PUBLIC_KINDS:
            continue
        for raw in listed.objects:
            yield from _private_in(msgspec.json.decode(raw))


def _private_in(each: Mapping[str, Any]) -> Iterator[str]:
    yield from filter(None, (name_of(each), namespace_of(each)))
    yield from (text(owner, "name") for owner in parts(each.get("metadata"), "ownerReferences"))
    yield from (address for end in parts(each, "endpoints") for address in texts(end, "addresses"))
    yield from _below(each)


def _below(value: Any) -> Iterator[str]:
    """What is the users' own at any depth: values under their keys, accounts, metrics, and the machine's own id."""
    if isinstance(value, list):
        for item in value:
            yield from _below(item)
    if not isinstance(value, Mapping):
        return
    if not _PUBLIC_LABELS.fullmatch(text(value, "key") or "k8s.io/"):
        yield from filter(None, (text(value, "value"), *texts(value, "values")))
    for key, each in value.items():
        yield from _named_by(key, each)
        yield from _below(each)


def _named_by(key: str, value: Any) -> Iterator[str]:
    """What a field of this name holds of the users' own."""
    if key in _LABELLED:
        labels = pairs({key: value}, key)
        yield from (found for name, found in labels.items() if found and not _PUBLIC_LABELS.fullmatch(name))
    elif key == "metric":
        yield text(value, "name")
    elif key in ("serviceAccountName", "serviceAccount") and isinstance(value, str):
        yield value
    elif key == "providerID" and isinstance(value, str):
        yield from _WORD.findall(value.rpartition("/")[2])


def _hash(word: str, key: bytes) -> str:
    return PREFIX + hmac.new(key, word.encode(), hashlib.sha256).hexdigest()[:DIGITS]
