"""The parts of docs/install.md that come from the chart: what each value is for, and what to set on a platform."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lab.manifests.values import Value, read_values

_BEGIN, _END = "<!-- {}: written by make manifests -->\n", "<!-- end of {} -->"


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
