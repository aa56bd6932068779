"""Tables and what is in them."""

import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, Mode, PoolNodes, PoolSpec, PoolStatus
from balloons.cli.look import Look
from balloons.cli.pool_rows import COLUMNS, WIDE, age, document, names, row
from balloons.cli.status_text import table
from balloons.cli.table import dropped, fitting, lines
from balloons.printable import printable
from balloons.view.index import RefusedPool
from throttler.kube.condition import Condition
from throttler.kube.metadata import Metadata
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


def test_columns_that_do_not_fit_are_dropped_from_the_right() -> None:
    assert fitting(["NAME", "WARM", "WHY"], ROWS, 22) == ["NAME", "WARM"]
    assert fitting(["NAME", "WARM", "WHY"], ROWS, 3) == ["NAME"]
    assert fitting(["NAME", "WARM", "WHY"], ROWS, None) == ["NAME", "WARM", "WHY"]


@given(st.integers(1, 200))
def test_no_line_is_longer_than_the_terminal_while_a_column_can_be_dropped(width: int) -> None:
    shown = fitting(list(WIDE), [row(pool(message="m" * 50), NOW, {})], width)
    text = lines(shown, [row(pool(message="m" * 50), NOW, {})])
    assert len(shown) == 1 or max(map(len, text)) <= width


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
    shown = table([pool(warm=3, target=4, busy=2, pending=1, because="Warming")], "ml", Look(), NOW)
    assert shown[0].split() == list(COLUMNS)
    assert shown[1].split() == ["gpu", "3", "4", "2", "1", "9", "Hold", "True", "Warming", "5m"]


def test_namespace_is_shown_when_all_are() -> None:
    assert table([pool()], None, Look(), NOW)[1].split()[:2] == ["ml", "gpu"]


def test_refused_pool_says_so_before_the_service_does() -> None:
    refused = RefusedPool(Metadata("bad", "ml"), "size -1; accepted: 0 or more")
    cells = row(refused, NOW, {})
    assert (cells["READY"], cells["BECAUSE"], cells["MESSAGE"]) == (
        "Unknown",
        "Invalid",
        "size -1; accepted: 0 or more",
    )


def test_glyphs_are_for_terminals() -> None:
    plain = "\n".join(table([pool()], "ml", Look(), NOW))
    coloured = "\n".join(table([pool()], "ml", Look(is_coloured=True), NOW))
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
    assert fitting(headers, rows, 20) == ["NAME", "BECAUSE", "AGE"]
    assert dropped(headers, fitting(headers, rows, 20), 20) == ["(no room for MAX)"]
    assert dropped(headers, headers, 20) == []
