"""docs/rbac.md: every role that the manifests make, who has it, and what it allows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

_HEAD = """# Rights

Every role of the manifests, who has it, and what it allows. `make manifests` writes this page from `manifests/`, and a
test compares the two. A role cannot name fields of an object. The policies in `manifests/components/policies` say which
fields our accounts may write: see [SECURITY.md](../SECURITY.md).

Where a role belongs to nobody, you bind it yourself. Where it says "by" and a directory, that directory of `manifests`
binds it, or a switch of the chart does.

`tests/lab/test_rights_used.py` runs the service, the guard and every reading command on a real API server. They have
all of these rights except those for people. The audit log then shows that no request was refused, that each request
needed one of these rights, and that every right was used. The test does the same once for each lever, with only that
lever's roles.
"""
_FILES = ("base/*.yaml", "components/guard/*.yaml", "components/annotate-nodes/*.yaml", "levers/*/*.yaml")


def rights_page(manifests: Path) -> str:
    """The whole page."""
    objects = list(_objects(manifests))
    holders = _holders(objects)
    roles = [thing for _, thing in objects if thing["kind"] in ("Role", "ClusterRole")]
    return _HEAD + "".join(_section(role, holders) for role in roles)


def _objects(manifests: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object with the directory that brings it."""
    for pattern in _FILES:
        for path in sorted(manifests.glob(pattern)):
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                yield str(path.parent.relative_to(manifests)), document


def _key(kind: str, name: str, namespace: str) -> tuple[str, str, str]:
    return kind, name, namespace if kind == "Role" else ""


def _holders(objects: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[tuple[str, str, str], list[str]]:
    holders: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for directory, binding in objects:
        if "roleRef" not in binding:
            continue
        namespace = binding["metadata"].get("namespace", "")
        names = ", ".join(f"`{subject['name']}`" for subject in binding["subjects"])
        reach = f"in namespace `{namespace}`" if namespace else "in the whole cluster"
        by = "" if directory in ("base", "components/guard") else f", by `{directory}`"
        holders[_key(binding["roleRef"]["kind"], binding["roleRef"]["name"], namespace)].append(f"{names} {reach}{by}")
    return holders


def _section(role: Mapping[str, Any], holders: Mapping[tuple[str, str, str], list[str]]) -> str:
    name, namespace = role["metadata"]["name"], role["metadata"].get("namespace", "")
    held = holders.get(_key(role["kind"], name, namespace), ["nobody"])
    title = f"{role['kind']} {name}" + (f" in {namespace}" if namespace else "")
    added = [label.rpartition("-")[2] for label in role["metadata"]["labels"] if "/aggregate-to-" in label]
    who = f"added to the cluster's roles {', '.join(added)}" if added else "; ".join(held)
    rows = "".join(_row(rule) for rule in role["rules"])
    return f"\n## {title}\n\nHas it: {who}.\n\n| group | resources | only | verbs |\n|---|---|---|---|\n{rows}"


def _row(rule: Mapping[str, Any]) -> str:
    groups = ", ".join(group or "core" for group in rule.get("apiGroups", ()))
    resources = ", ".join(rule.get("resources", rule.get("nonResourceURLs", ())))
    return f"| {groups} | {resources} | {', '.join(rule.get('resourceNames', ()))} | {', '.join(rule['verbs'])} |\n"
