"""Equal values stored once: nodes of one kind share label texts, taints, sizes and conditions.

A cache only: losing it costs memory, never correctness. It forgets everything when it has grown past
its limit, so that label values without end (host names, for one) cannot fill the process.
"""

from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, cast

from throttler.kube.resources import Resources, parse_resources

H = TypeVar("H", bound=Hashable)

LIMIT = 50_000
"""Values kept before the cache starts anew; about 10 MB of short texts."""


class Shared:
    """Gives back the first equal value it was shown."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}

    def one(self, value: H) -> H:
        """The stored equal of `value`, or `value` itself the first time."""
        if len(self._values) > LIMIT:
            self._values.clear()
        return cast(H, self._values.setdefault(value, value))

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The same labels with shared texts; the dict itself is its owner's."""
        one = self.one
        return {one(key): one(value) for key, value in labels.items()}

    def resources(self, texts: Mapping[str, str]) -> Resources:
        """The parsed resource list, one dict for all nodes of the same size; raises QuantityError."""
        key = ("resources", *texts.items())
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = parse_resources(texts)
        return cast(Resources, found)

    def merged(self, amounts: Resources) -> Resources:
        """The stored equal of a parsed resource list."""
        key = ("merged", *sorted(amounts.items()))
        return cast(Resources, self._values.setdefault(key, amounts))
