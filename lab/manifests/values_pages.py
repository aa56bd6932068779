"""What the pages say of the chart's values: the chart's README.md, and the parts of docs/install.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.manifests.values import Value, read_values

_HEAD = """# The chart kube-balloons

The same objects as `manifests/overlays/default`, in any namespace, with switches for the rest. How to install, upgrade
and uninstall is in `docs/install.md`. One installation per cluster, whatever it is called.

Written from `values.yaml` by `make manifests`; a test compares the two.

"""
_BEGIN, _END = "<!-- {}: written by make manifests -->\n", "<!-- end of {} -->"
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


def install_page(text: str, parts: Mapping[str, str]) -> str:
    """The page with each part anew between its two marks; raises ValueError where a mark is missing."""
    for name, part in parts.items():
        front, begin, rest = text.partition(_BEGIN.format(name))
        _, end, back = rest.partition(_END.format(name))
        if not end:
            raise ValueError(f"docs/install.md has no place for {name}: {_BEGIN.format(name)}{_END.format(name)}")
        text = f"{front}{begin}\n{part}\n{end}{back}"
    return text


def platforms_part(files: Sequence[Path]) -> str:
    """Each file of values as a table, line by line with its reason."""
    return "\n".join(_platform(path) for path in files)


def _platform(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    head = " ".join(line.removeprefix("#").strip() for line in text.partition("\n\n")[0].splitlines())
    rows = "".join(f"| `{each.dotted}` | `{json.dumps(each.default)}` | {each.text} |\n" for each in reasoned(text))
    return f"### {path.name}\n\n{head}\n\n| value | set to | because |\n|---|---|---|\n{rows}"


def reasoned(text: str) -> Iterator[Value]:
    """What a file of values sets, with the reason above it; raises ValueError for a line without one."""
    return (found for value in read_values(text) for found in _reasoned(value))


def _reasoned(value: Value) -> Iterator[Value]:
    if value.text:
        yield value
    elif value.below:
        for each in value.below:
            yield from _reasoned(each)
    else:
        raise ValueError(f"{value.dotted} is set without a reason")
