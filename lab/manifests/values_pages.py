"""What the pages say of the chart's values: all of them, each platform's, and docs/install.md's rows of both."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.manifests.values import Value, read_values

CHART_HEAD = """# The chart kube-balloons

The same objects as `manifests/overlays/default`, in any namespace, with switches for the rest. How to install it is in
`docs/install.md`. One installation per cluster, whatever it is called.

Written from `values.yaml` by `make manifests`; a test compares the two.
"""
PAGE_HEAD = """# Values of the chart

Every value, its default and what it is for, by the group that it stands in. A misspelt one is refused.
[Install](install.md) says how to set them, [platforms.md](platforms.md) which to set where.

Written from the chart's `values.yaml` by `make manifests`; a test compares the two.
"""
_ALONE = "Names, labels and other objects"
_BEGIN, _END = "<!-- {}: written by make manifests -->\n", "<!-- end of {} -->"
_URL = re.compile(r"\((https://\S+)\)")
_PAGE = re.compile(r"\bdocs/([\w-]+\.md)\b")


def values_page(values: Sequence[Value], head: str) -> str:
    """All values below `head`: a section for each group, and one for those that are in none."""
    alone = [value for value in values if not value.below]
    groups = [value for value in values if value.below]
    sections = [_section(_ALONE, "", alone), *(_section(group.key, group.text, group.below) for group in groups)]
    return "\n".join([head, *sections])


def groups_part(values: Sequence[Value], page: str) -> str:
    """A row for each section of `page`, which `values_page` wrote, with a link to it."""
    alone = ", ".join(f"`{value.key}`" for value in values if not value.below)
    rows = [f"| [`{group.key}`]({page}#{group.key.lower()}) | {group.text} |\n" for group in values if group.below]
    anchor = re.sub(r"[^\w -]", "", _ALONE.lower()).replace(" ", "-")
    return "".join(["| values | for |\n|---|---|\n", f"| [{_ALONE.lower()}]({page}#{anchor}) | {alone} |\n", *rows])


def _section(heading: str, text: str, values: Sequence[Value]) -> str:
    rows = "".join(f"{row}\n" for row in _rows(values))
    return (
        f"## {heading}\n\n" + (f"{text}\n\n" if text else "") + f"| value | default | meaning |\n|---|---|---|\n{rows}"
    )


def _rows(values: Sequence[Value]) -> Iterator[str]:
    for value in values:
        if value.below:
            yield f"| **{value.dotted}** | | {value.text} |"
            yield from _rows(value.below)
        else:
            yield f"| `{value.dotted}` | `{json.dumps(value.default)}` | {value.text} |"


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """A page with each part anew between its two marks; raises ValueError where a mark is missing."""
    for name, part in parts.items():
        front, begin, rest = text.partition(_BEGIN.format(name))
        _, end, back = rest.partition(_END.format(name))
        if not end:
            raise ValueError(f"the page has no place for {name}: {_BEGIN.format(name)}{_END.format(name)}")
        text = f"{front}{begin}\n{part}\n{end}{back}"
    return text


def platforms_part(files: Sequence[Path]) -> str:
    """Each file of values as a table, line by line with its reason."""
    return "\n".join(_platform(path) for path in files)


def platform_rows(files: Sequence[Path], page: str) -> str:
    """A row for each file of values with a link to where `page`, which has `platforms_part`, explains it."""
    rows = (f"| [{path.name}]({page}#{path.stem}) | {_first_sentence(path)} |\n" for path in files)
    return "| file | for |\n|---|---|\n" + "".join(rows)


def _platform(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    rows = "".join(
        f"| `{value.dotted}` | `{json.dumps(value.default)}` | {_linked(value.text)} |\n" for value in reasoned(text)
    )
    return f"## {path.stem}\n\n{_linked(_head(path))}\n\n| value | set to | because |\n|---|---|---|\n{rows}"


def _head(path: Path) -> str:
    comment = path.read_text(encoding="utf-8").partition("\n\n")[0]
    return " ".join(line.removeprefix("#").strip() for line in comment.splitlines())


def _first_sentence(path: Path) -> str:
    return _head(path).partition(". ")[0].removesuffix(".")


def _linked(text: str) -> str:
    """The text with addresses and pages of ours as links."""
    return _PAGE.sub(r"[\1](\1)", _URL.sub(r"([source](\1))", text))


def reasoned(text: str) -> Iterator[Value]:
    """What a file of values sets, with the reason above it; raises ValueError for a line without one."""
    return (leaf for value in read_values(text) for leaf in _reasoned(value))


def _reasoned(value: Value) -> Iterator[Value]:
    if value.text:
        yield value
    elif value.below:
        for part in value.below:
            yield from _reasoned(part)
    else:
        raise ValueError(f"{value.dotted} is set without a reason")
