"""Tables as kubectl prints them: upper-case headers, two spaces between columns, no borders. Pure."""

import textwrap
from collections.abc import Mapping, Sequence

from balloons.printable import printable

GAP, NARROW_GAP = "  ", " "
NONE, SHORT_NONE = "<none>", "-"
"""A cell without a value, as kubectl has it."""
SHORTEST = 20
"""Characters of a text that is cut; codes, times and figures have fewer."""

Row = Mapping[str, str]
"""Header -> cell."""


def table(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    width: int | None = None,
    kept: int = 1,
    first_to_go: Sequence[str] = (),
    has_headers: bool = True,
    colours: Mapping[str, str] | None = None,
) -> list[str]:
    """The lines in at most `width` columns (None: no limit), and one that names the columns without room.

    What is narrow is shortened before a column is left out: `-` for no value, one space between columns, long texts
    cut. Then columns without a value go, then those of `first_to_go` in this order, then the others from the right.
    The first `kept` are names: they stay, and are never cut.
    """
    shown, gap, cells = list(headers), GAP, rows
    if width is not None and _total(shown, rows, GAP) > width:
        gap = NARROW_GAP
        cells = [{name: SHORT_NONE if text == NONE else text for name, text in row.items()} for row in rows]
        cells = _cut(shown, cells, width, kept)
        while len(shown) > kept and _total(shown, cells, gap) > width:
            shown.remove(_least(shown[kept:], cells, first_to_go))
        if _total(shown, cells, GAP) <= width:
            gap = GAP
    missing = [header.upper() for header in headers if header not in shown]
    note = (
        textwrap.wrap(f"(no room for {', '.join(missing)})", width or 80, break_on_hyphens=False)
        if missing and has_headers
        else []
    )
    return [*lines(shown, cells, has_headers=has_headers, colours=colours, gap=gap), *note]


def _least(headers: Sequence[str], rows: Sequence[Row], first_to_go: Sequence[str]) -> str:
    """The column that is missed least."""
    empty = [header for header in headers if all(row[header] == SHORT_NONE for row in rows)]
    return empty[-1] if empty else next((header for header in first_to_go if header in headers), headers[-1])


def _cut(headers: Sequence[str], rows: Sequence[Row], width: int, kept: int) -> list[Row]:
    """Texts as short as they must be for all columns to fit, and no shorter than they can be understood."""
    over, shorter = _total(headers, rows, NARROW_GAP) - width, list(rows)
    for header in sorted(headers[kept:], key=lambda name: -_width(name, rows)):
        now = _width(header, shorter)
        if over <= 0 or now <= SHORTEST:
            break
        most = max(SHORTEST, len(header), now - over)
        shorter = [{**row, header: _shortened(printable(row[header]), most)} for row in shorter]
        over -= now - most
    return shorter


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def lines(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    has_headers: bool = True,
    colours: Mapping[str, str] | None = None,
    gap: str = GAP,
) -> list[str]:
    """The table's lines, without trailing blanks. `colours` maps whole cells to terminal sequences around them."""
    texts = [[header.upper() for header in headers]] if has_headers else []
    texts += [[printable(row[header]) for header in headers] for row in rows]
    widths = [max((len(line[i]) for line in texts), default=0) for i in range(len(headers))]
    return [_line(line, widths, colours or {}, gap) for line in texts]


def _line(cells: Sequence[str], widths: Sequence[int], colours: Mapping[str, str], gap: str) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[-1] = cells[-1]
    return gap.join(_painted(cell, text, colours) for cell, text in zip(cells, padded, strict=True)).rstrip()


def _painted(cell: str, text: str, colours: Mapping[str, str]) -> str:
    return f"{colours[cell]}{text}\x1b[0m" if cell in colours else text


def _total(headers: Sequence[str], rows: Sequence[Row], gap: str) -> int:
    return sum(_width(header, rows) for header in headers) + len(gap) * (len(headers) - 1)


def _width(header: str, rows: Sequence[Row]) -> int:
    return max([len(header), *(len(printable(row[header])) for row in rows)])
