"""Whatever JSON may hold where a manifest expects something else."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=10,
)


def with_value_at(manifest: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The manifest with this value at that place; the given one stays as it is."""
    changed: dict[str, Any] = json.loads(json.dumps(manifest))
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return changed
