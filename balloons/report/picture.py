"""A plan as PNG or SVG: equal bytes for equal input, whatever the machine, its fonts or its settings are."""

import enum
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure

from balloons.report.comparison import draw_comparison
from balloons.report.document import Document
from balloons.report.drawing import SLIDE, Format, draw, words_only
from balloons.report.palette import DARK, VARIABLES
from balloons.report.series import courses_of, series_of

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
