"""Throttles and pools as `balloons status` prints them: two tables, names, or one document. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from balloons.cli import pool_rows, throttle_rows
from balloons.cli.look import COLOURS, GLYPHS, Look
from balloons.cli.pool_rows import Pool
from balloons.cli.table import Row
from balloons.cli.table import table as table_lines
from throttler.api.throttle_decode import StoredThrottle


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to show; both in the order in which they are printed."""

    throttles: Sequence[StoredThrottle] = ()
    pools: Sequence[Pool] = ()

    def only(self, names: Sequence[str]) -> "Seen":
        """Those of these names; all where none is given."""
        if not names:
            return self
        return Seen(
            [each for each in self.throttles if each.metadata.name in names],
            [each for each in self.pools if each.metadata.name in names],
        )


def tables(seen: Seen, where: str | None, look: Look, now: datetime) -> list[str]:
    """The lines of the tables, an empty line between them; a kind of which there is none has no table."""
    found = [
        *([throttle_table(seen.throttles, look, now)] if seen.throttles else []),
        *([table(seen.pools, where, look, now)] if seen.pools else []),
    ]
    between = [""] if look.has_headers else []
    return [line for index, each in enumerate(found) for line in ([*between, *each] if index else each)]


def table(pools: Sequence[Pool], where: str | None, look: Look, now: datetime) -> list[str]:
    """The lines of the pools' table; `where` is the only namespace, None means all."""
    columns = pool_rows.WIDE if look.output == "wide" else pool_rows.COLUMNS
    headers = columns if where else ("NAMESPACE", *columns)
    rows = [pool_rows.row(pool, now, _glyphs(look)) for pool in pools]
    return _fitted(headers, rows, look, 1 if where else 2, pool_rows.FIRST_TO_GO)


def throttle_table(throttles: Sequence[StoredThrottle], look: Look, now: datetime) -> list[str]:
    """The lines of the throttles' table."""
    headers = throttle_rows.WIDE if look.output == "wide" else throttle_rows.COLUMNS
    rows = [throttle_rows.row(throttle, now, _glyphs(look)) for throttle in throttles]
    return _fitted(headers, rows, look, 1, throttle_rows.FIRST_TO_GO)


def names(seen: Seen) -> list[str]:
    """As `kubectl get -o name` prints them."""
    return [*throttle_rows.names(seen.throttles), *pool_rows.names(seen.pools)]


def document(seen: Seen) -> dict[str, Any]:
    """For machines: `items` are the pools; both lists are there even when they are empty."""
    return {**pool_rows.document(seen.pools), "throttles": [throttle_rows.item(each) for each in seen.throttles]}


def _glyphs(look: Look) -> dict[str, str]:
    return GLYPHS if look.is_coloured and look.is_unicode else {}


def _fitted(
    headers: Sequence[str], rows: Sequence[Row], look: Look, kept: int, first_to_go: Sequence[str]
) -> list[str]:
    return table_lines(
        headers,
        rows,
        width=look.width,
        kept=kept,
        first_to_go=first_to_go,
        has_headers=look.has_headers,
        colours=COLOURS if look.is_coloured else {},
    )
