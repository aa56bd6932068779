"""The same cluster with its names hashed: consistently, and keyed, so that nobody can guess them back.

What is hashed: names of objects and namespaces that are their users' own, label values under their users' own keys,
machines' ids and addresses. Every mention of one of them, in labels, selectors, messages and Events, becomes the same
hash, so that the answers stay what they were. Kubernetes' own words and names stay readable.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from balloons.cluster import kinds
from balloons.cluster.kept import COMPONENTS
from balloons.cluster.reach import name_of, namespace_of, parts, text, texts
from balloons.cluster.seen import Listed, SeenCluster

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

    lists = {name: _listed(listed, words) for name, listed in seen.lists.items()}
    return replace(seen, lists=lists, context=_hash(seen.context, key) if seen.context else "")


def _listed(listed: Listed, words: Callable[[str], str]) -> Listed:
    objects = (_walk(msgspec.json.decode(each), words) for each in listed.objects)
    encoded = tuple(msgspec.json.encode(each, order="sorted") for each in objects)
    return replace(listed, objects=encoded, message=words(listed.message))


def _walk(value: Any, words: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return words(value)
    if isinstance(value, list):
        return [_walk(each, words) for each in value]
    if isinstance(value, Mapping):
        return {key: _field(key, each, words) for key, each in value.items()}
    return value


def _field(key: str, value: Any, words: Callable[[str], str]) -> Any:
    if key in _VOCABULARY and isinstance(value, str):
        return value
    if key == "image" and isinstance(value, str):
        return value if any(component in value for component in COMPONENTS) else ""
    return _walk(value, words)


def _private(seen: SeenCluster) -> Iterator[str]:
    for name, listed in seen.lists.items():
        if name in _PUBLIC_KINDS:
            continue
        for raw in listed.objects:
            yield from _private_in(msgspec.json.decode(raw))


def _private_in(each: Mapping[str, Any]) -> Iterator[str]:
    metadata = each.get("metadata")
    yield from filter(None, (name_of(each), namespace_of(each)))
    yield from (text(owner, "name") for owner in parts(metadata, "ownerReferences"))
    yield from _label_values(metadata)
    yield from _label_values(each, "spec", "template", "metadata")
    yield from _WORD.findall(text(each, "spec", "providerID").rpartition("/")[2])
    yield from (address for end in parts(each, "endpoints") for address in texts(end, "addresses"))


def _label_values(holder: Any, *path: str) -> Iterator[str]:
    for step in path:
        holder = holder.get(step) if isinstance(holder, Mapping) else None
    labels = holder.get("labels") if isinstance(holder, Mapping) else None
    for key, value in labels.items() if isinstance(labels, Mapping) else ():
        if isinstance(value, str) and value and not _PUBLIC_LABELS.fullmatch(key):
            yield value


def _hash(word: str, key: bytes) -> str:
    return PREFIX + hmac.new(key, word.encode(), hashlib.sha256).hexdigest()[:DIGITS]
