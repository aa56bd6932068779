"""The page: everything in one file, small, and harmless whatever a cluster calls its objects."""

import re
from html.parser import HTMLParser

import pytest

from balloons.report.html_page import MOST_ROWS, page
from tests.unit.balloons.report.a_plan import EVIL, body, document, evil_document, moment, side, wave

pytestmark = pytest.mark.whole

VOID = {"meta", "br", "link"}


class Elements(HTMLParser):
    """All elements with their attributes, and the text; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def elements(text: str) -> Elements:
    return Elements(text)


def test_page_tells_what_doctor_found_and_escapes_it() -> None:
    finding = {
        "code": "KB011",
        "severity": "error",
        "object": "pdb/b",
        "message": f"it guards {EVIL}",
        "fix": "kubectl",
    }
    worst = {**finding, "severity": "warning", "code": "KB010"}
    drawn = page(document(findings=[finding, worst, worst]), "0.1.0")
    text = " ".join(elements(drawn).text.split())
    assert "What balloons doctor found in this cluster: 1 error, 2 warnings" in text
    assert "error KB011 pdb/b it guards" in text
    assert '<span class="shell">kubectl</span>' in drawn
    assert EVIL not in drawn
    assert "found in this cluster: nothing " in " ".join(elements(page(document(findings=[]), "")).text.split())
    assert "found in this cluster: not looked for" in " ".join(elements(page(document(), "")).text.split())


def test_page_tells_the_plan() -> None:
    text = " ".join(elements(page(document(), "0.1.0")).text.split())
    for words in (
        "100 nodes more: 8 → 108 of gpu",
        "Planned 2026-11-21 12:00:00 UTC",
        "4m nine in ten: 3m50s to 4m20s",
        "BootTime",
        "the machines are ordered and still booting",
        "waiting 9.60 once",
        "NodePool/gpu 900 limits.cpu",
        "machine boot 1m learned 8 nodes",
        "Every figure was stated or learned in this cluster.",
        "Everything that was asked for could be seen.",
        "kube-balloons 0.1.0",
    ):
        assert words in text


def test_page_says_what_is_assumed_broken_and_unseen() -> None:
    assumed = {"name": "join", "value": 60.0, "unit": "seconds", "source": "assumed", "detail": "usual"}
    given = document(inputs=[assumed], broken=["28 nodes cannot come", "it ends late"], unseen=["nodes: forbidden"])
    text = " ".join(elements(page(given, "0.1.0")).text.split())
    for words in (
        "1 of 1 figure is assumed, not known.",
        "No: 28 nodes cannot come.",
        "nodes: forbidden",
    ):
        assert words in text
    assert text.count("it ends late") == 2, "below the answer, and in the plan's own words"


@pytest.mark.parametrize(
    ("gang", "changes", "words"),
    [
        ({"fitsNow": True}, {}, "Gang jobs/train (4 pods) can start now, on nodes that are there."),
        ({"fitsNow": False}, {}, "Gang jobs/train (4 pods) can start in 4m."),
        ({"fitsNow": False, "isPlaceable": False}, {}, "Gang jobs/train (4 pods) can never start: not all of it fits."),
        ({"fitsNow": False}, {"nodesComing": 50}, "Gang jobs/train (4 pods) can never start: not all nodes that"),
    ],
)
def test_page_says_when_a_gang_can_start(gang: dict[str, bool], changes: dict[str, int], words: str) -> None:
    found = {"name": "jobs/train", "pods": 4, "podsOnNewNodes": 2, **gang}
    given = document(pods={"pods": 4, "onNodesThere": 2, "onNewNodes": 2, "gangs": [found], "unjudged": 1}, **changes)
    text = " ".join(elements(page(given, "0.1.0")).text.split())
    assert words in text
    assert "1 pod with rules that are not judged here" in text


@pytest.mark.parametrize("plan", [document(), evil_document()], ids=["usual", "hostile"])
def test_nothing_runs_and_nothing_is_loaded(plan: object) -> None:
    found = elements(page(plan, "0.1.0"))  # type: ignore[arg-type]
    assert not {tag for tag, _ in found.found} & {"script", "iframe", "img", "link", "object", "embed", "form", "a"}
    for _, attributes in found.found:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "xlink:href", "src"):
            assert (attributes.get(name) or "#").startswith("#")
    assert not re.search(r"url\((?!#)|@import", page(plan, "0.1.0"))  # type: ignore[arg-type]


def test_no_two_parts_of_the_page_have_the_same_name() -> None:
    """A clip path that is found in the drawing that is not shown would hide the one that is."""
    found = [attributes["id"] for _, attributes in elements(page(document(), "0.1.0")).found if "id" in attributes]
    assert found
    assert len(found) == len(set(found))


def test_hostile_names_are_shown_as_what_they_are() -> None:
    text = page(evil_document(), "0.1.0")
    assert EVIL[:8] not in text
    assert "&lt;script&gt;" in text
    assert not any(char in text for char in "\x1b\u202e")


def test_page_stays_small_whatever_is_in_the_plan() -> None:
    long = "x" * 20_000
    given = body(
        waves=[wave(float(n), n + 1.0, 1, n, limit=long, because=f"{n}{long}", object=long) for n in range(200)],
        timeline=[moment(float(n), max(0, n - 12), 10_000) for n in range(10_000)],
        inputs=[{"name": long, "value": 1.0, "unit": long, "source": long, "detail": long}] * 300,
        unseen=[long] * 300,
        broken=[long] * 300,
        ceilings=[{"name": long, "nodes": 1, "detail": long}] * 300,
        pacing={"policy": "none", "sides": [side(long)] * 300},
    )
    text = page(document(**given), "0.1.0")
    assert len(text.encode()) < 500_000
    assert f"... and {200 - MOST_ROWS} more" in text
    assert "Too large for this page" in text


def test_light_and_dark_and_paper_are_there() -> None:
    text = page(document(), "0.1.0")
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    for name in set(re.findall(r"var\((--[\w-]+)\)", text)):
        assert text.count(f"{name}: ") >= 2, name


def test_the_answer_stands_above_every_figure() -> None:
    text = page(document(), "0")
    assert text.index('class="answer') < text.index("<dl>") < text.index("<svg")


def said(**changes: object) -> str:
    """The text of a page without drawings, which take most of the time."""
    pacing = {"policy": "none", "sides": [{**side(name), "timeline": []} for name in ("none", "throttle")]}
    plan = document(**{"timeline": [], "pacing": pacing, **changes})
    return " ".join(elements(page(plan, "0.1.0")).text.split())


def test_what_a_plan_does_not_say_is_told_as_that() -> None:
    text = said()
    assert "the plan kube-balloons 0.1.0 detected Karpenter" in text
    assert "JoinThrottle none: nodes join as they come asked for --add 100" in text
    found = body()
    silent = said(
        madeBy="",
        request={**found["request"], "inWords": ""},
        cluster={**found["cluster"], "throttle": "gpu"},
    )
    assert "the plan kube-balloons (version not said)" in silent
    assert "JoinThrottle gpu asked for 100 nodes more: 8 -> 108 of gpu" in silent


@pytest.mark.parametrize(
    ("changes", "tile"),
    [
        (
            {},
            "all ready 4m nine in ten: 3m50s to 4m20s first node 1m02s 1m to 1m10s limited by boot time without it 2m",
        ),
        ({"nodesComing": 60}, "60 of them ready 4m nine in ten"),
        ({"eta": None, "firstNode": None, "limit": None}, "all ready never none of them can come peak API load 50"),
        (
            {"request": {**body()["request"], "addNodes": 0, "toNodes": 8}},
            "all ready now 8 nodes are there, and --add 100 asks for no more",
        ),
        ({"limit": {**body()["limit"], "etaWithoutSeconds": None}}, "limited by boot time peak API load"),
        ({}, "peak API load 50\N{NO-BREAK SPACE}% 500 requests/s, 0\N{NO-BREAK SPACE}% refused"),
    ],
)
def test_the_figures_on_top(changes: dict[str, object], tile: str) -> None:
    assert " ".join(tile.split()) in said(**changes)


def test_what_holds_now_is_marked_and_what_binds_for_ever_is_said() -> None:
    text = said(waves=[wave(0.0, None, 100, 0)])
    assert "no pacing * 4m" in text
    assert "JoinThrottle * " not in text
    assert "BootTime boot time for ever" in text
    assert "BootTime boot time 30s" in said(waves=[wave(0.0, 30.0, 100, 100)])
    assert text.count("peak API load") == 2, "a column of the table, and a figure of what holds now"


@pytest.mark.parametrize(
    ("number", "words"),
    [(MOST_ROWS, f"{MOST_ROWS} errors What"), (MOST_ROWS + 1, f"{MOST_ROWS + 1} errors; the first 50")],
)
def test_of_many_findings_the_first_are_shown(number: int, words: str) -> None:
    finding = {"code": "KB011", "severity": "error", "object": "pdb/b", "message": "it", "fix": "kubectl"}
    text = said(findings=[finding] * number)
    assert words.removesuffix(" What") in text
    assert ("; the first" in text) is (number > MOST_ROWS)
    assert text.count("KB011") == min(number, MOST_ROWS) + text.count('"code": "KB011"')


def test_a_table_of_pairs_is_one_line_a_row_on_a_phone() -> None:
    """There the first cell is hidden, and the second is named by it and not by its column."""
    cells = [attributes["data-name"] for tag, attributes in elements(page(document(), "0.1.0")).found if tag == "td"]
    assert cells[-2:] == ["schema", "schema"]
    assert "version" not in cells


def test_waves_beyond_the_first_are_counted() -> None:
    waves = [wave(float(at), at + 1.0, 1, at) for at in range(MOST_ROWS + 1)]
    assert "... and 1 more." in said(waves=waves)
    assert "... and" not in said(waves=waves[:MOST_ROWS])


def test_waves_are_numbered_from_one() -> None:
    waves = [wave(0.0, 60.0, 2, 2), wave(60.0, 120.0, 3, 5)]
    assert "1 0s 1m +2 2 2 boot time 2 1m 2m +3 5 3 boot time" in said(waves=waves)
