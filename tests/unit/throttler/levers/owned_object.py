"""A fake API server for one object: versions, generations, server-side apply, merge patches and who owns which field.

Only what ceilings use: maps of plain values. The contract tests hold the same stories against the real server.
"""

import copy
from typing import Any

import msgspec

from throttler.kube.cluster_autoscaler import CapacityQuota
from throttler.kube.karpenter import NodePool
from throttler.levers.lever_and_reasons import How, LeverWrite

Json = dict[str, Any]
Path = tuple[str, ...]
Owner = tuple[str, str]
UNTRACKED: Path = ("spec", "template")
"""Stands for all that a user owns besides: his entry outlives the loss of a limit."""
TRACKED = (("metadata", "labels"), ("metadata", "annotations"), ("spec", "limits"))


class ConflictError(Exception):
    """A precondition does not hold, or another manager owns a field."""


class OwnedObject:
    """One object by its name; `body` is None while there is none."""

    def __init__(self, body: Json | None = None, *, manager: str = "kubectl", operation: str = "Update") -> None:
        self.body: Json | None = None
        self.writes = 0
        if body is not None:
            self._store({**body, "metadata": {**body["metadata"], "generation": 0, "managedFields": []}})
            self._own((manager, operation), {**leaves(body), UNTRACKED: None})

    def carry_out(self, write: LeverWrite) -> None:
        self.writes += 1
        body = copy.deepcopy(write.body)
        assert isinstance(body, dict)
        self._check(body["metadata"])
        match write.how:
            case How.APPLY:
                self.apply(body, write.field_manager, is_forced=write.is_forced)
            case How.MERGE:
                self.merge(body, write.field_manager)
            case How.DELETE:
                self.body = None
            case _:
                raise AssertionError(write.how)

    def apply(self, intent: Json, manager: str, *, is_forced: bool = False) -> None:
        wanted, owner = leaves(intent), (manager, "Apply")
        before = leaves(self.body or {})
        mine = [path for path in self._owned_by(owner) if path != UNTRACKED]
        dropped = [path for path in mine if path not in wanted and not self._others(path, owner)]
        for path in wanted:
            rivals = self._others(path, owner)
            if rivals and before.get(path) != wanted[path] and not is_forced:
                raise ConflictError(f"{path} is owned by {rivals}")
        new = copy.deepcopy(self.body) or {**{k: intent[k] for k in ("apiVersion", "kind")}, "metadata": {}, "spec": {}}
        for path, value in wanted.items():
            _put(new, path, value)
        for path in dropped:
            _drop(new, path)
        if "selector" in intent.get("spec", {}):
            new["spec"]["selector"] = intent["spec"]["selector"]
        new["metadata"]["name"] = intent["metadata"]["name"]
        changed = {path for path in wanted if before.get(path) != wanted[path]} | set(dropped)
        self._store(new)
        self._disown(changed)
        self._own(owner, wanted, is_whole=True)

    def merge(self, patch: Json, manager: str) -> None:
        assert self.body is not None
        before = leaves(self.body)
        new = _merged(copy.deepcopy(self.body), patch)
        fields = patch["metadata"].get("managedFields")
        if fields is not None:
            new["metadata"]["managedFields"] = fields
        after = leaves(new)
        changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        self._store(new)
        self._disown(changed)
        self._own((manager, "Update"), {path: after[path] for path in changed if path in after})

    def pool(self) -> NodePool:
        return msgspec.convert(self.body, NodePool)

    def quota(self) -> CapacityQuota | None:
        return msgspec.convert(self.body, CapacityQuota) if self.body else None

    def observed(self, **status: Any) -> None:
        """The autoscaler has looked at it."""
        assert self.body is not None
        condition = {"type": "Valid", "status": "True", "observedGeneration": self.body["metadata"]["generation"]}
        self.body["status"] = {**self.body.get("status", {}), "conditions": [condition], **status}

    def essence(self) -> Json | None:
        """What must be the same before and after: all but versions."""
        if self.body is None:
            return None
        metadata = {k: v for k, v in self.body["metadata"].items() if k not in ("generation", "resourceVersion") and v}
        return {**self.body, "metadata": metadata, "status": None}

    def _check(self, metadata: Json) -> None:
        stands = self.body["metadata"] if self.body else {}
        for name in ("resourceVersion", "uid"):
            if name in metadata and metadata[name] != stands.get(name):
                raise ConflictError(f"{name} is {stands.get(name)}, not {metadata[name]}")

    def _store(self, new: Json) -> None:
        metadata = new["metadata"]
        version = int(self.body["metadata"]["resourceVersion"]) if self.body else 0
        is_changed = (self.body or {}).get("spec") != new["spec"]
        metadata |= {"resourceVersion": str(version + 1), "uid": "u1"}
        metadata["generation"] = metadata.get("generation", 0) + is_changed
        metadata.setdefault("managedFields", [])
        self.body = new

    def _fields(self) -> list[Json]:
        assert self.body is not None
        fields: list[Json] = self.body["metadata"]["managedFields"]
        return fields

    def _owned_by(self, owner: Owner) -> list[Path]:
        entries = self._fields() if self.body else []
        mine = [entry for entry in entries if (entry["manager"], entry["operation"]) == owner]
        return [path for entry in mine for path in _paths(entry["fieldsV1"])]

    def _others(self, path: Path, owner: Owner) -> list[Owner]:
        entries = [(entry["manager"], entry["operation"], entry) for entry in (self._fields() if self.body else [])]
        return [(m, o) for m, o, entry in entries if (m, o) != owner and path in _paths(entry["fieldsV1"])]

    def _disown(self, paths: set[Path]) -> None:
        assert self.body is not None
        entries = [(e, [p for p in _paths(e["fieldsV1"]) if p not in paths]) for e in self._fields()]
        self.body["metadata"]["managedFields"] = [{**e, "fieldsV1": _tree(kept)} for e, kept in entries if kept]

    def _own(self, owner: Owner, paths: dict[Path, Any], *, is_whole: bool = False) -> None:
        assert self.body is not None
        if not paths and not is_whole:
            return
        known = [path for path in self._owned_by(owner) if not is_whole or path == UNTRACKED]
        others = [e for e in self._fields() if (e["manager"], e["operation"]) != owner]
        tree = _tree([*known, *paths])
        entry = {"manager": owner[0], "operation": owner[1], "fieldsV1": tree}
        self.body["metadata"]["managedFields"] = sorted(
            [*others, *([entry] if paths else [])], key=lambda e: (e["manager"], e["operation"])
        )


def leaves(body: Json) -> dict[Path, Any]:
    """Path -> value of every tracked field."""
    found: dict[Path, Any] = {}
    for path in TRACKED:
        tree: Any = body
        for name in path:
            tree = (tree or {}).get(name) or {}
        for name, value in tree.items():
            if isinstance(value, dict):
                found |= {(*path, name, inner): leaf for inner, leaf in value.items()}
            else:
                found[(*path, name)] = value
    return found


def _paths(tree: Json, start: Path = ()) -> list[Path]:
    found: list[Path] = []
    for name, inner in tree.items():
        path = (*start, name.removeprefix("f:"))
        found += _paths(inner, path) if inner else [path]
    return found


def _tree(paths: list[Path]) -> Json:
    tree: Json = {}
    for path in sorted(set(paths)):
        level = tree
        for name in path:
            level = level.setdefault(f"f:{name}", {})
    return tree


def _put(body: Json, path: Path, value: Any) -> None:
    for name in path[:-1]:
        body = body.setdefault(name, {})
    body[path[-1]] = value


def _drop(body: Json, path: Path) -> None:
    for name in path[:-1]:
        body = body[name]
    body.pop(path[-1], None)


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    target = target if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif name != "managedFields":
            target[name] = _merged(target.get(name), value)
    return target
