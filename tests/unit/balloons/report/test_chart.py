"""What the chart draws and where: axes, bands, waves and words, read off the drawing before it is a picture."""

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from balloons.report.chart import (
    BAND,
    LEVELS,
    LOAD,
    NARROW,
    PACE,
    SLIDE,
    STAGES,
    WAVES,
    WIDE,
    Format,
    cut,
    draw,
    words_only,
)
from balloons.report.document import Document, Series, series_of
from tests.unit.balloons.report.a_plan import body, document, wave

pytestmark = pytest.mark.whole


def drawn(plan: Document | None = None, form: Format = WIDE, **changes: Any) -> Figure:
    plan = plan or document()
    series = series_of(plan)
    assert series is not None
    return draw(plan, replace(series, **changes), form)


def panels(figure: Figure) -> list[Axes]:
    """Nodes, waves, pace and, where it is known, load."""
    return figure.axes


def with_eta(median_s: float | None, low_s: float | None = None, high_s: float | None = None) -> Document:
    return document(eta={"medianSeconds": median_s, "lowSeconds": low_s, "highSeconds": high_s})


@pytest.mark.parametrize(
    ("high_s", "end_s"), [(260.0, 1.03 * 260.0), (200.0, 240.0), (1e9, 1.4 * 240.0), (None, 240.0)]
)
def test_every_panel_shows_the_band_unless_it_would_hide_the_rest(high_s: float | None, end_s: float) -> None:
    """The course itself takes 240 s."""
    found = panels(drawn(with_eta(240.0, 230.0, high_s)))
    assert len(found) == 4
    for axes in found:
        assert axes.get_xlim() == (0.0, pytest.approx(end_s))


def test_nodes_lie_on_each_other_up_to_all_that_come() -> None:
    nodes = panels(drawn())[0]
    series = series_of(document())
    assert series is not None
    assert nodes.get_ylim() == (0.0, pytest.approx(113.0))
    filled = [to_hex(each.get_facecolor()[0]) for each in nodes.collections]
    assert filled == [STAGES[name] for name in series.stages]
    lines = nodes.lines[: len(series.stages)]
    for line, tops in zip(lines, series.tops.values(), strict=True):
        assert list(line.get_ydata()) == [*tops, tops[-1]], "the last state holds until the drawing ends"
        assert list(line.get_xdata()) == [*series.times_s, pytest.approx(1.03 * 260.0)]
    bottom = nodes.collections[1].get_paths()[0].get_extents()
    assert bottom.y0 == 0, "the second lies on the first, which is empty at the end"
    assert panels(drawn(document(nodesComing=0)))[0].get_ylim() == (0.0, pytest.approx(1.13))


def band_of(figure: Figure) -> list[tuple[float, float]]:
    found = [each for each in panels(figure)[0].patches if to_hex(each.get_facecolor()) == BAND]
    return [(each.get_x(), each.get_x() + each.get_width()) for each in found if isinstance(each, Rectangle)]


def test_the_end_is_a_line_and_its_band_ends_with_the_drawing() -> None:
    nodes = panels(drawn())[0]
    assert list(nodes.lines[-1].get_xdata()) == [240.0, 240.0]
    assert band_of(drawn()) == [(230.0, pytest.approx(260.0))]
    assert band_of(drawn(with_eta(240.0, 230.0, 1e9))) == [(230.0, pytest.approx(336.0))]
    assert band_of(drawn(with_eta(240.0, 230.0))) == [(230.0, pytest.approx(240.0))]
    assert band_of(drawn(with_eta(240.0))) == []
    without = panels(drawn(with_eta(None)))[0]
    assert len(without.lines) == len(nodes.lines) - 1
    assert [each.get_text() for each in without.texts] == []


@pytest.mark.parametrize(("median_s", "side", "offset"), [(121.0, "right", -5.0), (120.0, "left", 5.0)])
def test_the_ends_time_stands_where_there_is_room(median_s: float, side: str, offset: float) -> None:
    (words,) = panels(drawn(with_eta(median_s)))[0].texts
    assert (words.get_ha(), words.xyann) == (side, (offset, -0.75 * WIDE.type))
    assert "90 %" not in words.get_text()


def test_the_ends_time_tells_its_band() -> None:
    (words,) = panels(drawn())[0].texts
    assert words.get_text() == "4m (90 %: 3m50s to 4m20s)"


def waves_of(figure: Figure) -> tuple[list[tuple[float, float, str]], list[str]]:
    axes = panels(figure)[1]
    patches = [each for each in axes.patches if isinstance(each, Rectangle)]
    bars = [(each.get_x(), each.get_width(), to_hex(each.get_facecolor())) for each in patches]
    return bars, [each.get_text() for each in axes.texts]


def test_waves_alternate_and_name_their_limit_where_there_is_room() -> None:
    figure = drawn()
    bars, names = waves_of(figure)
    assert bars == [(0.0, 60.0, WAVES[0]), (60.0, 180.0, WAVES[1])]
    assert names == ["1 boot time", "2 boot time"]
    assert [each.get_position()[0] for each in panels(figure)[1].texts] == [30.0, 150.0]
    assert figure.texts == []


def test_a_short_wave_has_its_number_and_a_shorter_one_nothing() -> None:
    short = [wave(0, 10, 0, 0, limit="autoscaler"), wave(10, 11, 0, 0), wave(11, None, 100, 100)]
    figure = drawn(document(waves=short))
    bars, names = waves_of(figure)
    assert bars[-1] == (11.0, pytest.approx(1.03 * 260.0 - 11.0), WAVES[0])
    assert names == ["1", "3 boot time"]
    (note,) = figure.texts
    assert note.get_text() == "wave 1: autoscaler, wave 2: boot time"
    assert note.get_fontsize() == WIDE.type - 1


def test_a_wave_that_has_no_length_or_comes_after_the_drawing_is_left_out() -> None:
    odd = [wave(0, 0, 0, 0), wave(0, 1e9, 0, 0), wave(300, 400, 0, 0)]
    bars, _ = waves_of(drawn(document(waves=odd)))
    assert bars == [(0.0, pytest.approx(1.03 * 260.0), WAVES[1])]


def letters_of_a_wave(form: Format, end_s: float, span_s: float) -> float:
    return span_s / end_s * (form.right - form.left) / form.letters(1)


def test_a_limit_needs_room_for_its_number_too() -> None:
    """Both ends of a wave's name at the edge: one letter more finds no room."""
    end_s = 240.0
    room = int(letters_of_a_wave(WIDE, end_s, 120.0))
    for length, is_named in ((room - 2, True), (room - 1, False)):
        limit = "x" * length
        halves = [wave(0, 120, 0, 0, limit=limit), wave(120, 240, 0, 0, limit="y")]
        figure = drawn(document(waves=halves, eta=None))
        assert waves_of(figure)[1][0] == (f"1 {limit}" if is_named else "1")
        assert bool(figure.texts) != is_named


def test_pace_and_load_have_room_above_their_largest() -> None:
    _, _, pace, load = panels(drawn(pace=(30.0, 60.0), edges_s=(0.0, 100.0, 240.0)))
    assert pace.get_ylim() == (0.0, pytest.approx(66.0))
    assert to_hex(pace.patches[0].get_facecolor()) == PACE
    assert load.get_ylim() == (0.0, 105.0)
    assert set(load.lines[0].get_ydata()) == {50.0}
    assert to_hex(load.lines[0].get_color()) == LOAD
    assert list(load.get_yticks()) == [0, 50, 100]
    _, _, slow, busy = panels(drawn(pace=(0.2,), edges_s=(0.0, 240.0), load=tuple([0.5] * 48 + [2.0])))
    assert slow.get_ylim() == (0.0, pytest.approx(1.1))
    assert busy.get_ylim() == (0.0, pytest.approx(210.0))


def test_where_the_load_is_unknown_the_pace_has_its_place() -> None:
    found = panels(drawn(load=()))
    assert len(found) == 3
    assert [each.get_text() for each in found[-1].get_xticklabels()] != []


def test_axes_say_what_they_count() -> None:
    nodes, waves, pace, load = panels(drawn())
    assert [each.get_ylabel() for each in (nodes, waves, pace, load)] == ["new nodes", "wave", "joins/min", "API load"]
    assert nodes.yaxis.get_major_formatter()(12345.4, 0) == "12,345"
    assert load.yaxis.get_major_formatter()(50.0, 1) == "50 %"
    assert load.xaxis.get_major_formatter()(120.0, 2) == "2m"
    assert [axes.spines["bottom"].get_visible() for axes in (nodes, waves, pace, load)] == [True, False, True, True]
    assert [nodes.spines[side].get_visible() for side in ("left", "right", "top")] == [False] * 3
    assert all(tick == round(tick) for tick in nodes.get_yticks())
    labelled = [bool(axes.xaxis.get_tick_params()["labelbottom"]) for axes in (nodes, waves, pace, load)]
    assert labelled == [False, False, False, True]


def legend_of(figure: Figure) -> list[str]:
    legend = panels(figure)[0].get_legend()
    assert legend is not None
    return [each.get_text() for each in legend.get_texts()]


def test_the_legend_names_the_stages_in_which_nodes_ever_are() -> None:
    assert legend_of(drawn()) == ["ready", "joining", "booting", "not asked for yet"]
    assert legend_of(drawn(stages={"ready": tuple([1] * 49)})) == ["ready"]


def heads(form: Format, series_stages: int) -> float:
    stages = dict.fromkeys(list(STAGES)[:series_stages], tuple([1] * 49))
    top: float = panels(drawn(form=form, stages=stages))[0].get_position().y1
    return (1.0 - top) / (form.type * 1.6 / 72 / form.height)


def test_the_legends_rows_and_the_title_have_their_lines_above() -> None:
    assert [heads(NARROW, stages) for stages in (3, 4)] == pytest.approx([1.6, 3.0])
    assert [heads(WIDE, stages) for stages in (1, 5)] == pytest.approx([1.6, 1.6])
    assert heads(SLIDE, 5) == pytest.approx(5.85), "the question, one line of the answer, and when"


def test_names_of_short_waves_have_a_line_below() -> None:
    line = WIDE.type * 1.6 / 72 / WIDE.height
    short = document(waves=[wave(0, 5, 0, 0, limit="autoscaler"), wave(5, 240, 100, 100)])
    below = [panels(drawn(plan))[-1].get_position().y0 / line for plan in (document(), short)]
    assert below == pytest.approx([1.8, 2.6])


def test_only_a_picture_of_its_own_has_a_head() -> None:
    """The question, the answer behind its light, and when."""
    assert [each.get_text() for each in drawn(form=WIDE).texts] == []
    asked, light, answer, line = drawn(form=SLIDE).texts
    assert asked.get_text().startswith("100 nodes more: 8 \N{RIGHTWARDS ARROW} 108")
    assert (light.get_text(), light.get_color(), answer.get_text()[:4]) == ("●", LEVELS["yes"], "Yes:")
    assert line.get_text().endswith("; limited by: boot time")
    assert (asked.get_fontsize(), answer.get_fontsize(), line.get_fontsize()) == (14.0, 10.0, 10.0)
    heights = [each.get_position()[1] for each in (asked, answer, line)]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] > panels(drawn(form=SLIDE))[0].get_position().y1
    unlimited = drawn(document(limit=None), SLIDE).texts[3].get_text()
    assert "limited by" not in unlimited


def test_where_nothing_happens_the_head_is_all_there_is() -> None:
    figure = words_only(document(), SLIDE)
    asked, light, answer = figure.texts
    assert (asked.get_fontsize(), answer.get_fontsize()) == (14.0, 10.0)
    assert 0.0 < answer.get_position()[1] == light.get_position()[1] < asked.get_position()[1] < 1.0
    assert list(figure.get_size_inches()) == [10.0, 6.2 / 4]


def test_a_text_is_cut_where_the_picture_ends() -> None:
    """Ten inches of letters of 6.2 points, less three in a hundred."""
    assert cut("x" * 112, 10.0, WIDE) == "x" * 112
    assert cut("x" * 113, 10.0, WIDE) == "x" * 111 + "…"
    assert len(cut("x" * 113, 20.0, WIDE)) == 56


def test_the_axis_has_room_for_its_name_and_the_last_time() -> None:
    assert WIDE.letters(10) == pytest.approx(10 * 6.2 / 720)
    position = panels(drawn())[0].get_position()
    assert (position.x0, position.x1) == (pytest.approx(8.8 * 6.2 / 720), pytest.approx(1 - 2 * 6.2 / 720))


def test_times_below_are_round_and_few() -> None:
    assert [len(panels(drawn(form=form))[-1].get_xticks()) - 1 for form in (WIDE, NARROW)] == [8, 4]


def test_the_plan_of_the_test_has_what_the_test_needs() -> None:
    series: Series | None = series_of(document())
    assert series is not None
    assert (series.times_s[-1], len(series.times_s), body()["nodesComing"]) == (240.0, 49, 100)
