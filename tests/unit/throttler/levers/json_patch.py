"""A JSON patch applied as the API server does it, for the few operations that levers use."""

import copy
from typing import Any


class RefusedError(Exception):
    """A precondition or a test does not hold."""


def apply_patch(thing: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after the patch."""
    changed: Any = copy.deepcopy(thing)
    for operation in operations:
        *path, last = operation["path"].strip("/").split("/")
        place = changed
        for step in path:
            place = place[_at(place, step)]
        at = _at(place, last)
        if operation["op"] == "remove":
            del place[at]
        elif place[at] != operation["value"]:
            raise RefusedError(operation)
    return dict(changed)


def _at(place: Any, step: str) -> Any:
    return int(step) if isinstance(place, list) else step
