"""Tables as kubectl prints them: upper-case headers, two spaces between columns, no borders. Pure."""

import textwrap
from collections.abc import Mapping, Sequence

from balloons.printable import printable

GAP = "  "
NONE = "<none>"
"""A cell without a value, as kubectl has it."""

Row = Mapping[str, str]
"""Header -> cell."""


def fitting(headers: Sequence[str], rows: Sequence[Row], width: int | None, kept: int = 1) -> list[str]:
    """The headers that fit in `width` columns: columns without a value go first, then from the right.

    The first `kept` stay, and no cell is cut.
    """
    found = list(headers)
    while width is not None and len(found) > kept and _total(found, rows) > width:
        empty = [each for each in found[kept:] if all(row[each] == NONE for row in rows)]
        found.remove(empty[-1] if empty else found[-1])
    return found


def dropped(headers: Sequence[str], shown: Sequence[str], width: int | None) -> list[str]:
    """What a narrow terminal does not show is named, in lines that fit it."""
    missing = [header.upper() for header in headers if header not in shown]
    return textwrap.wrap(f"(no room for {', '.join(missing)})", width or 80) if missing else []


def lines(
    headers: Sequence[str], rows: Sequence[Row], *, has_headers: bool = True, colours: Mapping[str, str] | None = None
) -> list[str]:
    """The table's lines, without trailing blanks. `colours` maps whole cells to terminal sequences around them."""
    texts = [[header.upper() for header in headers]] if has_headers else []
    texts += [[printable(row[header]) for header in headers] for row in rows]
    widths = [max((len(line[i]) for line in texts), default=0) for i in range(len(headers))]
    return [_line(line, widths, colours or {}) for line in texts]


def _line(cells: Sequence[str], widths: Sequence[int], colours: Mapping[str, str]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[-1] = cells[-1]
    return GAP.join(_painted(cell, text, colours) for cell, text in zip(cells, padded, strict=True)).rstrip()


def _painted(cell: str, text: str, colours: Mapping[str, str]) -> str:
    return f"{colours[cell]}{text}\x1b[0m" if cell in colours else text


def _total(headers: Sequence[str], rows: Sequence[Row]) -> int:
    widths = [max([len(header), *(len(printable(row[header])) for row in rows)]) for header in headers]
    return sum(widths) + len(GAP) * (len(widths) - 1)
