"""Equal values stored once: nodes of one kind share label texts, taints, sizes and conditions.

A cache only: losing it costs memory, never correctness. It forgets everything when it has grown past
its limit, so that label values without end (host names, for one) cannot fill the process.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from throttler.kube.resources import Resources, parse_resources

H = TypeVar("H", bound=Hashable)
V = TypeVar("V")

LIMIT = 50_000
"""Values kept before the cache starts anew; about 10 MB of short texts."""

_texts = msgspec.json.Decoder(dict[str, str])


class Shared:
    """Gives back the first equal value it was shown."""

    def __init__(self) -> None:
        self._values: dict[Hashable, Any] = {}
        self._made: dict[Hashable, Any] = {}

    def one(self, value: H) -> H:
        """The stored equal of `value`, or `value` itself the first time."""
        values = self._values
        if len(values) > LIMIT:
            values.clear()
        return cast(H, values.setdefault(value, value))

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The same labels with shared texts; the dict itself is its owner's."""
        values = self._values
        if len(values) > LIMIT:
            values.clear()
        # The hottest lines of every list, so no Python code runs per label: nodes of a kind have equal keys, and a
        # copied dict needs only its values looked up.
        texts = labels.values()
        found = self.made(("keys", *labels), lambda: {values.setdefault(key, key): "" for key in labels}).copy()
        found.update(zip(found, map(values.setdefault, texts, texts), strict=True))
        return found

    def mapping(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The stored equal of a small mapping that many objects have alike, as a whole."""
        return self.made(("mapping", *texts, *texts.values()), lambda: dict(texts))

    def made(self, source: Hashable, make: Callable[[], V]) -> V:
        """What `make` gives for this source, called once for equal sources; `source` must tell kinds apart."""
        found = self._made.get(source)
        if found is None:
            if len(self._made) > LIMIT:
                self._made.clear()
            found = self._made[source] = make()
        return cast(V, found)

    def resources(self, texts: Mapping[str, str]) -> Resources:
        """The parsed resource list, one dict for all nodes of the same size; raises QuantityError."""
        return self.made(("resources", *texts, *texts.values()), lambda: parse_resources(texts))

    def raw_resources(self, raw: msgspec.Raw) -> Resources:
        """As `resources`, of JSON; equal bytes are decoded once. Raises msgspec.ValidationError as well."""
        found = self._made.get(text := bytes(raw))
        return found if found is not None else self.made(text, lambda: self.resources(_texts.decode(text)))

    def merged(self, amounts: Resources) -> Resources:
        """The stored equal of a parsed resource list."""
        return self.made(("merged", *sorted(amounts.items())), lambda: amounts)
