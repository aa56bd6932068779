"""The chart's README.md: every value with its default."""

import json
from collections.abc import Iterator, Sequence

from lab.manifests.values import Value

_HEAD = """# The chart kube-balloons

The same objects as `manifests/overlays/default`, in any namespace, with switches for the rest. How to install, upgrade
and uninstall is in `docs/install.md`. One installation per cluster, whatever it is called.

Written from `values.yaml` by `make manifests`; a test compares the two.

"""
_TABLE = "| value | default | meaning |\n|---|---|---|\n"


def values_page(values: Sequence[Value]) -> str:
    """The whole page."""
    return _HEAD + values_table(values)


def values_table(values: Sequence[Value]) -> str:
    """A row for every value and for every group of values."""
    return _TABLE + "".join(f"{row}\n" for row in _rows(values))


def _rows(values: Sequence[Value]) -> Iterator[str]:
    for value in values:
        if value.below:
            yield f"| **{value.dotted}** | | {value.text} |"
            yield from _rows(value.below)
        else:
            yield f"| `{value.dotted}` | `{json.dumps(value.default)}` | {value.text} |"
