"""Tables and what is in them."""

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.cli.look import Look
from balloons.cli.pool_rows import COLUMNS, WIDE, age, document, names, row
from balloons.cli.status_text import table as status_table
from balloons.cli.table import Row, lines, table
from balloons.printable import printable
from balloons.view.snapshot import RefusedPool
from throttler.kube.metadata import Condition, Metadata
from throttler.kube.selectors import LabelSelector

NOW = datetime(2026, 11, 21, 5, 0, tzinfo=UTC)
ROWS = [{"NAME": "gpu", "WARM": "12", "WHY": "Steady"}, {"NAME": "cpu-large", "WARM": "3", "WHY": "Paused"}]


def pool(name: str = "gpu", **status: object) -> BalloonPool:
    spec = PoolSpec(PoolNodes(LabelSelector({"a": "b"})), Mode.HOLD, max_size=9)
    metadata = Metadata(name, "ml", creation_timestamp=NOW - timedelta(minutes=5))
    ready = Condition("Ready", "True", "Steady", "")
    return BalloonPool(metadata, spec, PoolStatus(conditions=(ready,), **status))  # type: ignore[arg-type]


def test_columns_stand_two_spaces_apart_and_end_without_blanks() -> None:
    assert lines(["NAME", "WARM", "WHY"], ROWS) == [
        "NAME       WARM  WHY",
        "gpu        12    Steady",
        "cpu-large  3     Paused",
    ]


def test_headers_can_be_left_out() -> None:
    assert lines(["NAME"], ROWS, has_headers=False) == ["gpu", "cpu-large"]


def test_columns_stand_closer_before_one_is_left_out() -> None:
    assert fitted(ROWS, 21)[0] == "NAME      WARM WHY"
    assert fitted(ROWS, 19)[0] == "NAME       WARM"
    assert fitted(ROWS, 3)[0] == "NAME"
    assert fitted(ROWS, None)[0] == "NAME       WARM  WHY"


def test_long_texts_are_cut_before_a_column_is_left_out_and_names_never() -> None:
    rows = [{"NAME": "a-very-long-name-of-a-pool", "WHY": "w" * 30, "AGE": "12d"}]
    assert fitted(rows, 55)[1] == f"a-very-long-name-of-a-pool {'w' * 23}… 12d"
    name, cut = "a-very-long-name-of-a-pool", f"{'w' * 19}…"
    assert fitted(rows, 48) == [f"NAME{' ' * 24}WHY", f"{name}  {cut}", "(no room for AGE)"]


def test_what_matters_least_goes_first() -> None:
    text = table(["NAME", "WARM", "WHY"], ROWS, width=17, first_to_go=("WARM",))
    assert (text[0], " ".join(text[3:])) == ("NAME       WHY", "(no room for WARM)")


def fitted(rows: Sequence[Row], width: int | None) -> list[str]:
    return table(list(rows[0]), rows, width=width)


@given(st.integers(1, 200))
def test_no_line_is_longer_than_the_terminal_while_a_column_can_be_dropped(width: int) -> None:
    text = table(list(WIDE), [row(pool(message="m" * 50), NOW, {})], width=width)
    assert len(text[0].split()) == 1 or max(map(len, text[:2])) <= width


def test_colour_surrounds_the_cell_and_does_not_move_columns() -> None:
    plain = lines(["NAME", "WARM"], ROWS)
    coloured = lines(["NAME", "WARM"], ROWS, colours={"gpu": "\x1b[32m"})
    assert [line.replace("\x1b[32m", "").replace("\x1b[0m", "") for line in coloured] == plain
    assert "\x1b[32m" in coloured[1]


def test_terminal_escapes_of_the_cluster_are_spelled_out() -> None:
    text = "\n".join(lines(["NAME"], [{"NAME": "a\x1b[2J\u202eb\nc"}], has_headers=False))
    assert text == "a\\x1b[2J\\u202eb\\x0ac"


@given(st.text())
def test_printable_text_never_controls_a_terminal(text: str) -> None:
    shown = printable(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["gpu-a", "Größe ✓ 日本"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (301, "5m1s"),
        (10_799, "179m"),
        (10_800, "3h"),
        (12_000, "3h20m"),
        (86_400, "24h"),
        (200_000, "2d7h"),
        (864_000, "10d"),
        (64_000_000, "2y10d"),
        (320_000_000, "10y"),
    ],
)
def test_age_is_what_kubectl_would_show(seconds: int, text: str) -> None:
    assert age(Metadata("x", creation_timestamp=NOW - timedelta(seconds=seconds)), NOW) == text


def test_pool_is_one_row() -> None:
    shown = status_table([pool(warm=3, target=4, busy=2, pending=1, because="Warming")], "ml", Look(), NOW)
    assert shown[0].split() == list(COLUMNS)
    assert shown[1].split() == ["gpu", "3", "4", "2", "1", "9", "Hold", "True", "Warming", "5m"]


def test_namespace_is_shown_when_all_are() -> None:
    assert status_table([pool()], None, Look(), NOW)[1].split()[:2] == ["ml", "gpu"]


def test_refused_pool_says_so_before_the_service_does() -> None:
    refused = RefusedPool(Metadata("bad", "ml"), "size -1; accepted: 0 or more")
    cells = row(refused, NOW, {})
    assert (cells["READY"], cells["BECAUSE"], cells["MESSAGE"]) == (
        "Unknown",
        "Invalid",
        "size -1; accepted: 0 or more",
    )


def test_glyphs_are_for_terminals() -> None:
    plain = "\n".join(status_table([pool()], "ml", Look(), NOW))
    coloured = "\n".join(status_table([pool()], "ml", Look(is_coloured=True), NOW))
    assert "✓" not in plain
    assert "\x1b" not in plain
    assert "\x1b[32m✓ True" in coloured


def test_document_is_a_list_even_when_empty() -> None:
    assert document([]) == {
        "apiVersion": "balloons.kube-balloons.github.io/v1",
        "kind": "PoolStatusList",
        "items": [],
    }
    (item,) = document([pool(warm=3)])["items"]
    assert (item["createdAt"], item["maxSize"], item["status"]["warm"]) == ("2026-11-21T04:55:00Z", 9, 3)


def test_names_are_what_kubectl_takes() -> None:
    assert names([pool()]) == ["balloonpool.kube-balloons.github.io/gpu"]


def test_columns_without_a_value_go_first_and_what_is_missing_is_named() -> None:
    rows = [{"NAME": "a", "MAX": "<none>", "BECAUSE": "Steady", "AGE": "12d"}]
    headers = ("NAME", "MAX", "BECAUSE", "AGE")
    assert table(headers, rows, width=16)[:2] == ["NAME BECAUSE AGE", "a    Steady  12d"]
    assert " ".join(table(headers, rows, width=16)[2:]) == "(no room for MAX)"
    assert table(headers, rows, width=20) == ["NAME MAX BECAUSE AGE", "a    -   Steady  12d"]
