"""What a kubeconfig says about one context, checked so that a mistake is named by file and field."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from throttler.client.errors import ConfigError

SECTIONS = ("clusters", "contexts", "users")
CLUSTER_DATA = ("certificate-authority-data",)
USER_DATA = ("client-certificate-data", "client-key-data")


@dataclass(frozen=True, slots=True)
class ContextSummary:
    """The chosen context: its default namespace, its server, and whether a command gives the credentials."""

    name: str
    server: str
    namespace: str
    user: str
    runs_command: bool


def merge_documents(documents: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Several kubeconfigs (path, parsed document) as one: the first entry of a name wins, as in kubectl."""
    merged: dict[str, Any] = {section: {} for section in SECTIONS}
    merged["current-context"] = ""
    for path, document in documents:
        if not isinstance(document, Mapping):
            raise ConfigError(f"{path}: not a kubeconfig (a mapping is needed)")
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        for section in SECTIONS:
            for name, entry in _named(path, section, document.get(section)):
                merged[section].setdefault(name, entry)
    return merged


def summarize_context(merged: Mapping[str, Any], context: str | None, path: str) -> ContextSummary:
    """The context to use (None: the current one); raises ConfigError naming the field that is wrong."""
    name = context or merged["current-context"]
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{path}: current-context is empty; choose one of {_known(merged, 'contexts')}")
    chosen = _entry(merged, "contexts", name, "context", f"{path}: {'--context' if context else 'current-context'}")
    at = f"{path}: contexts[{name}].context"
    cluster_name, user_name = _text(chosen, "cluster", at), _text_or(chosen, "user", "", at)
    cluster = _entry(merged, "clusters", cluster_name, "cluster", f"{at}.cluster")
    user = _entry(merged, "users", user_name, "user", f"{at}.user") if user_name else {}
    _check_base64(cluster, CLUSTER_DATA, f"{path}: clusters[{cluster_name}].cluster")
    _check_base64(user, USER_DATA, f"{path}: users[{user_name}].user")
    return ContextSummary(
        name=name,
        server=check_server(
            _text(cluster, "server", f"{path}: clusters[{cluster_name}].cluster"),
            f"{path}: clusters[{cluster_name}].cluster.server",
        ),
        namespace=_text_or(chosen, "namespace", "default", at),
        user=user_name,
        runs_command="exec" in user,
    )


def check_server(url: str, at: str) -> str:
    """The URL without a slash at its end; raises ConfigError unless it is http(s) with a host."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        raise ConfigError(f"{at}: {url!r} is not an http(s) URL")
    return url.rstrip("/")


def _named(path: str, section: str, entries: Any) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if entries is None:
        return
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: {section} must be a list")
    for index, entry in enumerate(entries):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"{path}: {section}[{index}] needs a name")
        yield entry["name"], entry


def _entry(merged: Mapping[str, Any], section: str, name: str, part: str, at: str) -> Mapping[str, Any]:
    if name not in merged[section]:
        raise ConfigError(f"{at}: {name!r} is not among the {section} ({_known(merged, section)})")
    found = merged[section][name].get(part)
    if not isinstance(found, Mapping):
        raise ConfigError(f"{at}: {section}[{name}].{part} must be a mapping")
    return found


def _known(merged: Mapping[str, Any], section: str) -> str:
    return ", ".join(merged[section]) or f"there are no {section}"


def _text(mapping: Mapping[str, Any], key: str, at: str) -> str:
    value = mapping.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{at}.{key} is missing or empty")
    return value


def _text_or(mapping: Mapping[str, Any], key: str, otherwise: str, at: str) -> str:
    return _text(mapping, key, at) if mapping.get(key) else otherwise


def _check_base64(mapping: Mapping[str, Any], keys: Iterable[str], at: str) -> None:
    for key in keys:
        try:
            base64.b64decode(str(mapping.get(key) or ""), validate=True)
        except binascii.Error as error:
            raise ConfigError(f"{at}.{key} is not base64: {error}") from error
