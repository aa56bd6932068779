"""What accounts asked for, from the audit log, and which of their rights let them. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.rights.grant import PREFIX, Asked, Grant

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
