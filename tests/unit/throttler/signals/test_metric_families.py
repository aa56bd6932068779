"""From bytes to rows: what is kept, what is refused, and the same result as the official parser."""

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.recorded_metrics import recorded
from throttler.signals.metric_families import (
    FAMILIES,
    JOIN_RESOURCES,
    MAX_LINE_BYTES,
    MAX_ROWS,
    BadTextError,
    Row,
    WantedLines,
    parse_rows,
)

LONG = 2_000_000
LINE = 'apiserver_request_total{code="200",verb="GET"} 7'


def rows_of(text: str | bytes) -> list[Row]:
    lines = WantedLines()
    lines.feed(text if isinstance(text, bytes) else text.encode())
    return parse_rows(lines.finish())


@pytest.mark.parametrize("body", ["healthy-1", "herd-2", "restarted"])
def test_a_recorded_body_reads_as_the_official_parser_reads_it(body: str) -> None:
    text, series = recorded(body), {name for family in FAMILIES for name in family.series}
    official = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name in series and is_wanted(sample.name, sample.labels)
    }
    ours = {(row.name, tuple(sorted(row.labels.items()))): row.value for row in rows_of(text)}
    assert ours == official
    assert len(ours) > 100


def is_wanted(series: str, labels: dict[str, str]) -> bool:
    of_joins = {name for family in FAMILIES if family.is_of_joins for name in family.series}
    return series not in of_joins or labels["resource"] in {"", *(name for _, name in JOIN_RESOURCES)}


def test_how_long_requests_for_custom_resources_take_is_not_read() -> None:
    """A cluster of three thousand kinds has more such series than are read of all together."""
    texts = ('verb="GET",resource="nodes"', 'resource=""', *(f'resource="things{number}"' for number in range(9)))
    name = "apiserver_request_duration_seconds_count"
    body = "".join(f"{name}{{{text}}} {number}\n" for number, text in enumerate(texts))
    assert [row.labels["resource"] for row in rows_of(f"#\n{body}")] == ["nodes", ""]
    lines = WantedLines()
    lines.feed(f'#\n{name}{{subresource="",resource="things"}} 1\n'.encode() * (MAX_ROWS + 1))
    assert lines.finish() == []


LABEL_VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.floats(min_value=0, max_value=2.0**53)


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@given(st.dictionaries(st.sampled_from(["code", "verb", "group", "x_1"]), LABEL_VALUES, max_size=4), VALUES)
def test_any_labels_and_value_come_back_as_written(labels: dict[str, str], value: float) -> None:
    inside = ",".join(f'{name}="{escaped(text)}"' for name, text in labels.items())
    assert rows_of(f"apiserver_request_total{{{inside}}} {value!r}\n") == [
        Row("apiserver_request_total", labels, value)
    ]


@given(st.binary(max_size=400))
def test_garbage_is_refused_or_reads_as_finite_numbers(tail: bytes) -> None:
    with contextlib.suppress(BadTextError):
        rows = rows_of(LINE.encode() + b"\napiserver_request_total" + tail + b"\n")
        assert all(math.isfinite(row.value) and row.value >= 0 for row in rows)


@given(st.lists(st.integers(min_value=1, max_value=400), max_size=12))
def test_pieces_of_any_size_give_the_same_lines(sizes: list[int]) -> None:
    body = recorded("healthy-1")[:3000] + b"\n"
    whole, in_pieces = WantedLines(), WantedLines()
    whole.feed(body)
    at = 0
    for size in sizes:
        in_pieces.feed(body[at : at + size])
        at += size
    in_pieces.feed(body[at:])
    assert sorted(in_pieces.finish()) == sorted(whole.finish())
    assert whole.finish()


@pytest.mark.parametrize(
    "number", ["NaN", "+Inf", "-Inf", "Inf", "1e308", "-0", "-1", "1e400", "1_000", "٣", "0x10", "infinity", ""]
)
def test_a_number_that_no_counter_has_is_refused(number: str) -> None:
    with pytest.raises(BadTextError, match="apiserver_request_total"):
        rows_of(f'{LINE}\napiserver_request_total{{code="500"}} {number}\n')


@pytest.mark.parametrize(
    "line",
    [
        'apiserver_request_total{code="200} 7',
        'apiserver_request_total{code="200" verb="GET"} 7',
        'apiserver_request_total{code="1",code="2"} 7',
        'apiserver_request_total{code="200"} 7 8 9',
        "apiserver_request_total{code='200'} 7",
        'apiserver_request_total{="200"} 7',
        'apiserver_request_total{code="200"}',
        'apiserver_request_total{,code="200"} 7',
    ],
)
def test_a_malformed_line_is_refused(line: str) -> None:
    with pytest.raises(BadTextError):
        rows_of(f"{line}\n")


def test_a_series_that_is_there_twice_is_refused_in_any_order_of_labels() -> None:
    with pytest.raises(BadTextError, match="twice"):
        rows_of(f'{LINE}\napiserver_request_total{{verb="GET",code="200"}} 8\n')


def test_longer_names_comments_and_other_families_are_left_out() -> None:
    text = f"# HELP apiserver_request_total x\napiserver_request_total_more 1\ngo_threads NaN\n{LINE}\n"
    assert rows_of(text) == [Row("apiserver_request_total", {"code": "200", "verb": "GET"}, 7.0)]


def test_an_unfinished_last_line_does_not_count() -> None:
    assert rows_of(f"{LINE}\nprocess_cpu_seconds_total 12") == rows_of(f"{LINE}\n")


def test_timestamps_and_spaces_are_understood() -> None:
    assert rows_of("process_cpu_seconds_total  12.5 1700000000000\n")[0].value == 12.5
    assert rows_of('apiserver_request_total { operation = "get" , } 1\n')[0].labels == {"operation": "get"}


def test_a_line_without_end_is_refused_before_it_fills_memory() -> None:
    lines = WantedLines()
    with pytest.raises(BadTextError, match="line"):
        lines.feed(b"x" * (MAX_LINE_BYTES + 1))


def test_too_many_series_are_refused() -> None:
    lines = WantedLines()
    block = b"".join(b'apiserver_request_total{code="%d"} 1\n' % number for number in range(60_000))
    lines.feed(block)
    with pytest.raises(BadTextError, match="more than"):
        lines.feed(block)


@pytest.mark.parametrize(
    "tail",
    ["{" + "}" + "1" + "\r" * LONG + "}", " " * LONG + "}", "{" + "} " * LONG, "{} 1" + " " * LONG + "}"],
    ids=["returns", "blanks", "braces", "blanks after the value"],
)
def test_no_line_costs_more_than_its_length(tail: str) -> None:
    """A line that is given back character by character would take hours here; one that is not takes milliseconds."""
    with pytest.raises(BadTextError):
        parse_rows([b"apiserver_request_total" + tail.encode()])


@pytest.mark.parametrize("number", [str(2**53), "9007199254740992.0", "9.007199254740992e15"])
def test_a_counter_is_exact_up_to_its_largest_value(number: str) -> None:
    assert rows_of(f"process_cpu_seconds_total {number}\n")[0].value == 2**53
    with pytest.raises(BadTextError, match="has the value 9007199254740994"):
        rows_of("process_cpu_seconds_total 9007199254740994\n")


def test_what_is_shown_of_a_bad_line_is_short() -> None:
    with pytest.raises(BadTextError) as error:
        rows_of(f"process_cpu_seconds_total {'9' * 40}x\n")
    assert str(error.value) == f"process_cpu_seconds_total has the value {'9' * 32}"
    with pytest.raises(BadTextError) as error:
        parse_rows([b"x" * 100 + b" 1 2 3"])
    assert str(error.value) == f"{'x' * 80} is no series"


def test_a_line_may_be_as_long_as_the_longest() -> None:
    name = b"process_cpu_seconds_total 1"
    longest = name + b" " * (MAX_LINE_BYTES - len(name))
    assert [row.value for row in parse_rows([longest])] == [1.0]
    with pytest.raises(BadTextError, match="is no series"):
        parse_rows([longest + b" "])
    lines = WantedLines()
    lines.feed(b"x" * (MAX_LINE_BYTES - 1))
    with pytest.raises(BadTextError, match="line of more than"):
        lines.feed(b"xx")


def test_as_many_series_as_may_be_are_read() -> None:
    block = b"".join(b'apiserver_request_total{code="%d"} 1\n' % number for number in range(MAX_ROWS))
    lines = WantedLines()
    lines.feed(block)
    assert len(lines.finish()) == MAX_ROWS
    with pytest.raises(BadTextError, match="more than"):
        lines.feed(b"process_cpu_seconds_total 1\n")


@pytest.mark.parametrize("blank", ["\t", " ", "  \t"])
def test_blanks_between_a_name_and_its_value_are_of_either_kind(blank: str) -> None:
    assert rows_of(f"process_cpu_seconds_total{blank}5\n")[0].value == 5.0


def test_escapes_in_a_label_are_undone_and_others_left_as_the_letter() -> None:
    (row,) = rows_of('apiserver_request_total{a="x\\\\y",b="x\\"y",c="x\\ny",d="x\\ty"} 1\n')
    assert row.labels == {"a": "x\\y", "b": 'x"y', "c": "x\ny", "d": "xty"}
    with pytest.raises(BadTextError, match="is not UTF-8"):
        rows_of(b'apiserver_request_total{a="\xff"} 1\n')
