"""The chart in its colours: nodes over time by stage, the plan's waves beneath, then pace and the API servers' load.

In a page each colour is a CSS variable, so that one drawing serves light and dark.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from balloons.report.document import Document, SavedBand, SavedWave, Series, marks
from balloons.report.sentences import answer_of, arrowed, band, ends, shown, title, when
from balloons.text_and_colours import BAD_LIGHT, COLOURS, GOOD_LIGHT, WARNING_LIGHT, duration

MEANINGS = {
    "ready": "ready",
    "joining": "joining",
    "held": "booted, held back",
    "booting": "booting",
    "waiting": "not asked for yet",
}
"""Of the stages, in the order in which they lie on each other."""
STAGES = {name: COLOURS[name].light for name in MEANINGS}
PACE, LOAD = COLOURS["pace"].light, COLOURS["load"].light
PACED, UNPACED, HURT = COLOURS["paced"].light, COLOURS["not paced"].light, COLOURS["hurts"].light
"""Of the picture of both; and where others notice."""
LEVELS = {"yes": GOOD_LIGHT, "hurts": WARNING_LIGHT, "no": BAD_LIGHT}
"""The answer's lights, as on the page."""
INK, FAINT, LINE, PAPER, BAND = "#1f2933", "#5b6770", "#c9d0d6", "#ffffff", "#8d99a3"
WAVES = ("#eef2f6", "#dde4eb")
"""In turn; the number of a wave stands in it."""
DARK = {
    **{COLOURS[name].light: COLOURS[name].dark for name in (*STAGES, "pace", "load", "not paced", "hurts")},
    INK: "#e6eaee",
    FAINT: "#a4afb9",
    LINE: "#47525d",
    PAPER: "#171c21",
    BAND: "#8d99a3",
    WAVES[0]: "#242b32",
    WAVES[1]: "#303942",
}
HEADROOM = 1.13
"""Above the nodes, for the end's time."""
WIDEST_BAND = 1.4
"""Of the run's own length."""
MOST_ANSWER_LINES, _ANSWER_LINE = 4, 1.05
"""Of the answer, and their height over that of a line."""
LETTER = 0.62
"""Width of a usual letter over the size of its font."""


VARIABLES = {
    **{colour: f"--{name}" for name, colour in STAGES.items()},
    PACE: "--pace",
    LOAD: "--load",
    UNPACED: "--unpaced",
    HURT: "--hurt",
    INK: "--ink",
    FAINT: "--faint",
    LINE: "--line",
    PAPER: "--paper",
    BAND: "--band",
    WAVES[0]: "--wave-a",
    WAVES[1]: "--wave-b",
}
"""Colour of the drawing -> variable of the page."""


@dataclass(frozen=True, slots=True)
class Format:
    """Sizes in inches; type in points."""

    width: float
    height: float
    type: float
    marks: int
    """Of the time axis, at most."""
    names: int
    """Of stages in a row."""
    has_title: bool

    def letters(self, number: float) -> float:
        """The width of so many, as a share of the picture's."""
        return number * self.type * LETTER / 72 / self.width

    @property
    def left(self) -> float:
        """For an axis with its name."""
        return self.letters(8.8)

    @property
    def right(self) -> float:
        """The last time stands out a little."""
        return 1.0 - self.letters(2.0)


SLIDE = Format(width=10.0, height=6.2, type=10.0, marks=12, names=5, has_title=True)
"""A picture of its own."""


WIDE = Format(width=10.0, height=5.4, type=10.0, marks=12, names=5, has_title=False)


NARROW = Format(width=4.4, height=5.6, type=9.0, marks=5, names=3, has_title=False)
"""The page's, for a screen and for a telephone."""


def draw(plan: Document, series: Series, form: Format) -> Figure:
    """The whole chart."""
    figure = Figure(figsize=(form.width, form.height), facecolor=PAPER)
    end_s = _end_s(plan, series)
    letter_s = form.letters(1) / (form.right - form.left) * end_s
    names = _names(plan.waves, letter_s, end_s)
    unnamed = [f"wave {number}: {name}" for number, (name, is_short) in enumerate(names, start=1) if is_short]
    above = head_height(plan, form) + _line(form) if form.has_title else 0.2 * _line(form)
    nodes, waves, *below = _panels(figure, series, form, above, has_note=bool(unnamed))
    _nodes(nodes, plan, series, form, end_s)
    _waves(waves, plan.waves, names, form, letter_s, end_s)
    _pace(below[0], series, form)
    if series.load:
        _load(below[1], series, form)
    for axes in (nodes, waves, *below):
        axes.set_xlim(0.0, end_s)
        axes.tick_params(axis="x", length=0, labelbottom=False)
    time_axis(below[-1], end_s, form)
    if unnamed:
        note = cut(", ".join(unnamed), form.type, form)
        figure.text(form.left, 0.35 * _line(form), note, fontsize=form.type - 1, color=FAINT, va="center")
    _legend(nodes, series, form)
    figure.align_ylabels([nodes, *below])
    if form.has_title:
        head(figure, plan, form)
        limit = f"; limited by: {shown(plan.limit.name)}" if plan.limit else ""
        place = 1.0 - head_height(plan, form) - 0.1 * _line(form)
        told = cut(f"{when(plan)}{limit}", form.type, form)
        figure.text(0.012, place, told, fontsize=form.type, color=FAINT, va="center")
    return figure


def words_only(plan: Document, form: Format) -> Figure:
    """Where nothing happens over time: the answer is all there is to show."""
    low = replace(form, height=form.height / 4)
    figure = Figure(figsize=(low.width, low.height), facecolor=PAPER)
    head(figure, plan, low)
    return figure


def head(figure: Figure, plan: Document, form: Format) -> None:
    """What was asked, and the answer behind its light."""
    line = _line(form)
    top = 1.0 - 1.1 * line
    asked = cut(arrowed(title(plan)), form.type + 5, form)
    figure.text(0.012, top, asked, fontsize=form.type + 4, fontweight="bold", color=INK, va="center")
    for number, text in enumerate(_answer(plan, form)):
        place = top - line * (1.25 + _ANSWER_LINE * number)
        if not number:
            light = LEVELS[answer_of(plan).level.value]
            figure.text(0.012, place, "●", fontsize=form.type + 3, color=light, va="center")
        figure.text(0.012 + form.letters(2.4), place, text, fontsize=form.type, color=INK, va="center")


def head_height(plan: Document, form: Format) -> float:
    """As a share of the picture's."""
    return _line(form) * (2.4 + _ANSWER_LINE * len(_answer(plan, form)))


def _answer(plan: Document, form: Format) -> list[str]:
    return wrap(answer_of(plan).sentence, int(0.95 / form.letters(1)))[:MOST_ANSWER_LINES]


def _line(form: Format) -> float:
    """The height of a line of text, as a share of the picture's."""
    return form.type * 1.6 / 72 / form.height


def _panels(figure: Figure, series: Series, form: Format, above: float, *, has_note: bool) -> Sequence[Axes]:
    """Nodes, waves, pace and load, below the head and the legend, above the times and the names of short waves."""
    line = _line(form)
    heights = (6, 0.55, 2, 2) if series.load else (6, 0.55, 2.9)
    grid = figure.add_gridspec(
        len(heights),
        1,
        height_ratios=heights,
        hspace=0.16,
        left=form.left,
        right=form.right,
        top=1.0 - above - 1.4 * line * _legend_rows(series, form),
        bottom=(2.6 if has_note else 1.8) * line,
    )
    return [figure.add_subplot(grid[row]) for row in range(len(heights))]


def _end_s(plan: Document, series: Series) -> float:
    """Room for the band, unless it is so wide that nothing else would be seen."""
    end_s = series.times_s[-1]
    high_s = plan.eta.high_seconds if plan.eta else None
    return end_s if high_s is None else min(max(end_s, 1.03 * high_s), WIDEST_BAND * end_s)


def _nodes(axes: Axes, plan: Document, series: Series, form: Format, end_s: float) -> None:
    times = (*series.times_s, max(end_s, series.times_s[-1]))
    below: Sequence[int] = [0] * len(times)
    for name, tops in series.tops.items():
        top = (*tops, tops[-1])
        axes.fill_between(times, below, top, color=STAGES[name], linewidth=0)
        axes.plot(times, top, color=PAPER, linewidth=0.8)
        below = top
    axes.set_ylim(0, max(1, plan.nodes_coming) * HEADROOM)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    label_axis(axes, "new nodes", form)
    if plan.eta is not None and plan.eta.median_seconds is not None:
        _eta(axes, plan, plan.eta, plan.eta.median_seconds, form, end_s)


def _eta(axes: Axes, plan: Document, eta: SavedBand, median_s: float, form: Format, end_s: float) -> None:
    if eta.low_seconds is not None:
        high_s = end_s if eta.high_seconds is None else min(end_s, eta.high_seconds)
        # Not above the nodes, where the label stands.
        axes.axvspan(eta.low_seconds, high_s, ymax=1.0 / HEADROOM, color=BAND, alpha=0.25, linewidth=0)
    axes.axvline(median_s, color=INK, linewidth=1.2, linestyle=(0, (4, 2)))
    is_left = median_s > end_s / 2
    axes.annotate(
        f"{ends(plan)} (90 %: {band(eta)})" if eta.low_seconds is not None else ends(plan),
        (median_s, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-5 if is_left else 5, -0.75 * form.type),
        textcoords="offset points",
        ha="right" if is_left else "left",
        va="center",
        fontsize=form.type,
        color=INK,
        bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.5},
    )


def _span_s(wave: SavedWave, end_s: float) -> float:
    return min(end_s, end_s if wave.until_seconds is None else wave.until_seconds) - wave.from_seconds


def _names(waves: Sequence[SavedWave], letter_s: float, end_s: float) -> list[tuple[str, bool]]:
    """Of each wave its limit, and whether there is no room for it in its stretch."""
    return [((name := shown(wave.limit)), (len(name) + 2) * letter_s > _span_s(wave, end_s)) for wave in waves]


def _waves(
    axes: Axes,
    waves: Sequence[SavedWave],
    names: Sequence[tuple[str, bool]],
    form: Format,
    letter_s: float,
    end_s: float,
) -> None:
    for index, (wave, (limit, is_short)) in enumerate(zip(waves, names, strict=True)):
        span_s = _span_s(wave, end_s)
        if span_s <= 0:
            continue
        axes.add_patch(Rectangle((wave.from_seconds, 0), span_s, 1, facecolor=WAVES[index % 2], linewidth=0))
        text = str(index + 1) if is_short else f"{index + 1} {limit}"
        if len(text) * letter_s <= span_s:
            middle_s = wave.from_seconds + span_s / 2
            axes.text(middle_s, 0.45, text, ha="center", va="center", fontsize=form.type - 1, color=INK)
    axes.set(ylim=(0, 1), yticks=[], xticks=[])
    axes.set_ylabel("wave", rotation=0, ha="right", va="center", fontsize=form.type, color=FAINT)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _pace(axes: Axes, series: Series, form: Format) -> None:
    axes.stairs(series.pace, series.edges_s, fill=True, color=PACE, alpha=0.55)
    axes.set_ylim(0, max(1.0, *series.pace) * 1.1)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    label_axis(axes, "joins/min", form)


def _load(axes: Axes, series: Series, form: Format) -> None:
    axes.plot(series.times_s, [100 * share for share in series.load], color=LOAD, linewidth=1.6)
    axes.set_ylim(0, max(105.0, 105 * max(series.load)))
    label_axis(axes, "API load", form, unit=" %")
    axes.yaxis.set_major_locator(FixedLocator([0, 50, 100]))


def label_axis(axes: Axes, name: str, form: Format, *, unit: str = "") -> None:
    """Its name, its figures and faint lines at them."""
    axes.set_ylabel(name, fontsize=form.type, color=FAINT)
    axes.tick_params(labelsize=form.type, labelcolor=FAINT, color=LINE, length=3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}{unit}"))
    axes.set_axisbelow(False)
    axes.yaxis.grid(color=LINE, linewidth=0.5, alpha=0.7)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(LINE)


def time_axis(axes: Axes, end_s: float, form: Format) -> None:
    """Round times below."""
    axes.tick_params(axis="x", length=3, labelbottom=True)
    axes.xaxis.set_major_locator(FixedLocator(marks(end_s, form.marks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))


def _legend_rows(series: Series, form: Format) -> int:
    return -(-len(series.stages) // form.names)


def _legend(axes: Axes, series: Series, form: Format) -> None:
    names = list(series.stages)
    axes.legend(
        [Patch(color=STAGES[name]) for name in names],
        [MEANINGS[name] for name in names],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=form.names,
        fontsize=form.type,
        labelcolor=INK,
        frameon=False,
        borderpad=0,
        borderaxespad=0.3,
        handlelength=1.0,
        handleheight=0.9,
        columnspacing=1.4,
    )


def cut(text: str, size: float, form: Format) -> str:
    """As much of it as the picture is wide."""
    most = int(0.97 * form.width * 72 / (size * LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"
