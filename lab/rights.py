"""The rights of our accounts, one by one, held against what the audit log says that they asked for. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    rules = {_role_key(role): role.get("rules") or () for role in objects if role["kind"] in ("Role", "ClusterRole")}
    bindings = [binding for binding in objects if binding["kind"].endswith("Binding") and _binds(binding, account)]
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
    return any(f"{subject.get('namespace', '')}:{subject['name']}" == account for subject in subjects)


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


EVERYBODYS = ("/api", "/apis", "/version", "/openapi")
"""Paths that every account may read (system:discovery): what the server is and which kinds it serves."""
FORBIDDEN, CREATED = 403, 201


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Requests and rights held against each other."""

    used: frozenset[Grant]
    refused: tuple[Asked, ...]
    """The server refused them: *used minus granted*, as far as it was felt."""
    foreign: tuple[Asked, ...]
    """They passed, and by none of these rights: somebody else's role was needed."""


def replay(events: Iterable[Mapping[str, Any]], grants: Collection[Grant]) -> Replay:
    """Hold what the grants' accounts asked for against the grants.

    A request counts for the narrowest right that allows it: one that is bound in the namespace before one that is
    bound everywhere, one for the name before one for any. What only a wide right allows is then told apart.
    """
    accounts = {grant.account for grant in grants}
    used, refused, foreign = set[Grant](), dict[Asked, None](), dict[Asked, None]()
    for event in events:
        for asked in asked_in(event):
            if asked.account not in accounts or _is_everybodys(asked):
                continue
            allowing = [grant for grant in grants if grant.allows(asked)]
            if event["responseStatus"]["code"] == FORBIDDEN:
                refused[asked] = None
            elif allowing:
                used.add(min(allowing, key=lambda grant: (not grant.namespace, not grant.name, str(grant))))
            else:
                foreign[asked] = None
    return Replay(used=frozenset(used), refused=tuple(refused), foreign=tuple(foreign))


def asked_in(event: Mapping[str, Any]) -> Iterator[Asked]:
    """What a ServiceAccount's request needed; nothing for anybody else's, nor before it is answered."""
    user = event["user"]["username"]
    if not user.startswith(PREFIX) or "responseStatus" not in event:
        return
    account, about = user.removeprefix(PREFIX), event.get("objectRef")
    if about is None:
        yield Asked(account=account, verb=event["verb"], resource=event["requestURI"].partition("?")[0])
        return
    parts = (about.get("resource", ""), about.get("subresource", ""))
    verbs = [event["verb"]]
    # Applying what is not there needs both rights, and only the code tells.
    if event["verb"] == "patch" and event["responseStatus"]["code"] == CREATED:
        verbs.append("create")
    # A streamed list. Where the server offers none, the same kind is listed in pages, by the right to list.
    if event["verb"] == "watch" and "sendInitialEvents=true" in event["requestURI"]:
        verbs.append("list")
    for verb in verbs:
        yield Asked(
            account=account,
            verb=verb,
            group=about.get("apiGroup", ""),
            resource="/".join(filter(None, parts)),
            namespace=about.get("namespace", ""),
            name=about.get("name", ""),
        )


def _is_everybodys(asked: Asked) -> bool:
    return asked.verb == "get" and any(
        asked.resource == path or asked.resource.startswith(f"{path}/") for path in EVERYBODYS
    )
