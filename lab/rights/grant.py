"""The rights of one account, one by one, expanded from Roles and their bindings. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

PREFIX = "system:serviceaccount:"
"""Of the user name that the server gives a ServiceAccount; `namespace:name` follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one request needed, as the authorizer sees it."""

    account: str
    """`namespace:name` of the ServiceAccount."""
    verb: str
    group: str = ""
    resource: str
    """With its subresource, as rules name it; or the path of a request that is about no resource."""
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One verb on one resource; an empty namespace means everywhere, an empty name any."""

    account: str
    verb: str
    group: str = ""
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As in `patch pods in kube-balloons`, or `get leases/ours.coordination.k8s.io in kube-balloons`."""
        what = f"{self.resource}/{self.name}" if self.name else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{'.' if self.group else ''}{self.group}{where}"

    def allows(self, asked: Asked) -> bool:
        """Whether this right alone lets the request pass."""
        is_same = (self.account, self.verb, self.group, self.resource) == (
            (asked.account, asked.verb, asked.group, asked.resource)
        )
        return is_same and self.namespace in ("", asked.namespace) and self.name in ("", asked.name)


def grants_of(account: str, objects: Iterable[Mapping[str, Any]]) -> frozenset[Grant]:
    """All rights that the bindings among these objects give the account (`namespace:name`) by name.

    Raises KeyError for a binding whose role is not among them.
    """
    objects = list(objects)
    rules = {_role_key(each): each.get("rules") or () for each in objects if each["kind"] in ("Role", "ClusterRole")}
    bindings = [each for each in objects if each["kind"].endswith("Binding") and _binds(each, account)]
    return frozenset(
        grant
        for binding in bindings
        for rule in rules[_referred(binding)]
        for grant in _expanded(account, rule, binding["metadata"].get("namespace", ""))
    )


def _role_key(role: Mapping[str, Any]) -> tuple[str, str, str]:
    return role["kind"], role["metadata"]["name"], role["metadata"].get("namespace", "")


def _referred(binding: Mapping[str, Any]) -> tuple[str, str, str]:
    kind = binding["roleRef"]["kind"]
    return kind, binding["roleRef"]["name"], binding["metadata"].get("namespace", "") if kind == "Role" else ""


def _binds(binding: Mapping[str, Any], account: str) -> bool:
    if "roleRef" not in binding:
        return False
    subjects = binding.get("subjects") or ()
    return any(f"{each.get('namespace', '')}:{each['name']}" == account for each in subjects)


def _expanded(account: str, rule: Mapping[str, Any], namespace: str) -> Iterator[Grant]:
    paths = rule.get("nonResourceURLs") or ()
    yield from (Grant(account=account, verb=verb, resource=path) for verb, path in product(rule["verbs"], paths))
    parts = (
        rule["verbs"],
        rule.get("apiGroups") or (),
        rule.get("resources") or (),
        rule.get("resourceNames") or ("",),
    )
    for verb, group, resource, name in product(*parts):
        yield Grant(account=account, verb=verb, group=group, resource=resource, namespace=namespace, name=name)
