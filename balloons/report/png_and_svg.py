"""A plan as PNG or SVG, and paced and unpaced side by side: equal bytes for equal input, whatever the machine.

The product in one picture: nodes, API load and what others wait over time, paced and not.
"""

import enum
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

import matplotlib
import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from balloons.preview.forecast import NONE
from balloons.preview.overload import BUSY_FROM, SLOW_FROM
from balloons.report.chart import (
    DARK,
    HURT,
    PACED,
    PAPER,
    SLIDE,
    UNPACED,
    VARIABLES,
    Format,
    draw,
    head,
    head_height,
    label_axis,
    time_axis,
    words_only,
)
from balloons.report.document import Document, PolicyCourse, courses_of, end_of, series_of
from balloons.text_and_colours import duration

DOTS_PER_INCH = 160
"""Of a PNG: 1600 pixels wide, sharp on a slide."""
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
_RULES = {
    "font.family": "DejaVu Sans",  # comes with the library: letters have the same width everywhere
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a pool's name is a dollar
}
_UNUSED_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
"""Names of the drawing's parts, which nothing refers to: two drawings in a page must not share any."""
LEAST_SLOWER, FEW_DECADES, HEADROOM = 3.0, 30.0, 1.3
"""Of the axis of waiting: calm is drawn as calm; below how many times as long there are marks between the powers of
ten; and room above what is highest."""


class Chart(enum.Enum):
    """What is drawn of a plan."""

    STAGES = "stages"
    """Its nodes over time by stage, with its waves, pace and API load."""
    COMPARED = "compared"
    """Paced and not paced: nodes, API load and what others wait."""


class NothingToDrawError(ValueError):
    """Nothing happens over time in this plan; the message says why."""


def png(plan: Document, chart: Chart = Chart.STAGES) -> bytes:
    """For slides and chats."""
    return _saved(plan, chart, SLIDE, "png", {"Software": None}, dpi=DOTS_PER_INCH)


def svg(plan: Document, chart: Chart = Chart.STAGES) -> bytes:
    """For documents, light and dark. A viewer that knows no media queries shows the light one."""
    text = _with_fonts(_svg(plan, chart, SLIDE))
    rules = "".join(
        f'[style*="{kind}: {light}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media(prefers-color-scheme:dark){{{rules}}}</style>\n <defs>"
    return text.replace("<defs>", style, 1).encode()


def can_draw(plan: Document, chart: Chart) -> bool:
    """Whether the plan holds what the chart shows."""
    return bool(courses_of(plan)) if chart is Chart.COMPARED else series_of(plan) is not None


def inline_svg(plan: Document, form: Format, chart: Chart = Chart.STAGES) -> str:
    """For a page that sets the colours' variables, and that says by itself where nothing happens over time.

    Raises NothingToDrawError there.
    """
    if not can_draw(plan, chart):
        raise NothingToDrawError("nothing comes over time in this plan: there is no chart to draw")
    text = _with_fonts(_svg(plan, chart, form))
    text = _UNUSED_ID.sub("", text[text.index("<svg") :])
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return text


def _svg(plan: Document, chart: Chart, form: Format) -> str:
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    return _saved(plan, chart, form, "svg", metadata).decode()


def _with_fonts(text: str) -> str:
    return text.replace("'DejaVu Sans'", FONTS)


def _saved(
    plan: Document, chart: Chart, form: Format, kind: str, metadata: dict[str, None], dpi: float = 100.0
) -> bytes:
    series = series_of(plan)
    out = BytesIO()
    with _rules(chart, form):
        figure: Figure
        if chart is Chart.COMPARED and courses_of(plan):
            figure = draw_comparison(plan, form)
        else:
            figure = draw(plan, series, form) if series is not None else words_only(plan, form)
        figure.savefig(out, format=kind, dpi=dpi, metadata=metadata)
    return out.getvalue()


@contextmanager
def _rules(chart: Chart, form: Format) -> Iterator[None]:
    """The library's own defaults and ours, not the user's; a letter that no font has is a box, and no warning."""
    salt = {"svg.hashsalt": f"kube-balloons {chart.value} {form.width:g}"}  # identifiers of one drawing are no other's
    with matplotlib.style.context(["default", _RULES | salt]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@dataclass(frozen=True, slots=True)
class _Panel:
    """One figure over time: its name, and where others begin to notice."""

    name: str
    values: Callable[[PolicyCourse], Sequence[float]]
    hurts_from: float | None = None


PANELS = (
    _Panel("nodes ready", lambda course: course.ready),
    _Panel("API load", lambda course: [100.0 * share for share in course.load], 100.0 * BUSY_FROM),
    _Panel("others wait", lambda course: course.slower_by, SLOW_FROM),
)


def draw_comparison(plan: Document, form: Format) -> Figure:
    """All that the courses of the plan's policies have in common, at one time axis; there must be two of them."""
    courses = courses_of(plan)
    figure = Figure(figsize=(form.width, form.height), facecolor=PAPER)
    line = form.type * 1.6 / 72 / form.height
    above = head_height(plan, form) if form.has_title else 0.4 * line
    grid = figure.add_gridspec(
        3, 1, height_ratios=(4, 3, 3), hspace=0.16, left=form.left, right=0.985, top=1.0 - above, bottom=1.8 * line
    )
    end_s = end_of(courses)
    for row, panel in enumerate(PANELS):
        axes = figure.add_subplot(grid[row])
        _lines(axes, panel, courses, form)
        axes.set_xlim(0.0, end_s)
        if row == len(PANELS) - 1:
            time_axis(axes, end_s, form)
        else:
            axes.tick_params(axis="x", length=0, labelbottom=False)
        if row == 0:
            _names(axes, plan, courses, form)
    figure.align_ylabels()
    if form.has_title:
        head(figure, plan, form)
    return figure


def _lines(axes: Axes, panel: _Panel, courses: Sequence[PolicyCourse], form: Format) -> None:
    most = max(max(panel.values(course)) for course in courses)
    if panel.name == "others wait":
        axes.set_yscale("log")
        axes.set_ylim(0.9, max(LEAST_SLOWER, most * HEADROOM))
        label_axis(axes, panel.name, form)
        axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0,) if most >= FEW_DECADES else (1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}x"))
    elif panel.name == "API load":
        axes.set_ylim(0, max(108.0, most * 1.08))
        label_axis(axes, panel.name, form, unit=" %")
        axes.yaxis.set_major_locator(FixedLocator([0, 50, 100]))
    else:
        axes.set_ylim(0, max(1.0, most) * HEADROOM)
        label_axis(axes, panel.name, form)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    if panel.hurts_from is not None:
        axes.axhspan(panel.hurts_from, axes.get_ylim()[1], color=HURT, alpha=0.14, linewidth=0)
        axes.annotate(
            "others notice",
            (0.005, panel.hurts_from),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=form.type - 2,
            color=HURT,
            va="bottom",
        )
    for course in courses:
        colour = UNPACED if course.policy == NONE else PACED
        axes.plot(course.times_s, panel.values(course), color=colour, linewidth=2.0)


def _names(axes: Axes, plan: Document, courses: Sequence[PolicyCourse], form: Format) -> None:
    """Each line's name with its end, the median of all worlds; they never meet, as they stand in rows of their own."""
    rows = (0.93, 0.82)
    for place, course in zip(rows, sorted(courses, key=lambda course: course.policy == NONE), strict=True):
        is_unpaced = course.policy == NONE
        done = "not within 12 h" if course.end_s is None else duration(course.end_s)
        now = ", as now" if course.policy == plan.pacing.policy else ""
        axes.text(
            0.012,
            place,
            f"{'not paced' if is_unpaced else 'paced'}{now}: {'> ' if course.is_collapse else ''}{done}",
            transform=axes.transAxes,
            fontsize=form.type,
            fontweight="bold",
            color=UNPACED if is_unpaced else PACED,
            va="center",
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1.0},
        )
