"""The dashboards as Grafana reads them: the rules of grafana/dashboard-linter, as far as they concern Prometheus.

Left out: its rules that demand `job` and `instance` variables. Every series of ours carries one prefix, so no job has
to be chosen, and replicas are aggregated, because one leads and the others stand by.
"""

import itertools
import json
import re
from typing import Any

import pytest

from balloons.text_and_colours import BAD_LIGHT, COLOURS, GOOD_LIGHT, WARNING_LIGHT
from lab.monitoring.board import WORDS, Board, Kind, thing_of
from lab.monitoring.grafana import board_json, board_text
from lab.monitoring.write_dashboards import BOARDS, FOLDER

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
each_board = pytest.mark.parametrize("board", BOARDS, ids=[board.uid for board in BOARDS])


def _panels(board: Board) -> list[dict[str, Any]]:
    return [panel for panel in board_json(board)["panels"] if panel["type"] != "row"]


@each_board
def test_file_is_what_the_builder_makes(board: Board) -> None:
    """If this fails: python -m lab dashboards && python -m lab.manifests (the chart has copies)."""
    assert (FOLDER / f"{board.uid}.json").read_text() == board_text(board)


def test_folder_holds_no_other_dashboard() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == {board.uid for board in BOARDS}


@each_board
def test_board_can_be_found_and_not_be_edited(board: Board) -> None:
    made = json.loads(board_text(board))
    assert made["uid"].startswith("kube-balloons-")
    assert len(made["uid"]) <= 40, "Grafana's limit"
    assert made["title"].startswith("Kubernetes / Balloons / ")
    assert made["tags"] == ["kubernetes", "kube-balloons"]
    assert made["schemaVersion"] == 39
    assert made["editable"] is False
    assert made["links"][0]["tags"] == ["kube-balloons"]


@each_board
def test_choices_begin_with_the_data_source_and_work_without_labels(board: Board) -> None:
    source, cluster, *others = board_json(board)["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert cluster["name"] == "cluster"
    for choice in (cluster, *others):
        assert choice["datasource"] == SOURCE
        assert choice["refresh"] == 2, "follows the time range"
        assert choice["allValue"] == ".*", "series without the label are not left out"
        assert choice["current"]["value"] == ["$__all"]
        assert choice["query"]["query"] == choice["definition"]


@each_board
def test_panels_say_what_they_show(board: Board) -> None:
    for panel in _panels(board):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == SOURCE
        assert panel["targets"], panel["title"]
        assert all(target["datasource"] == SOURCE and target["legendFormat"] for target in panel["targets"])
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@each_board
def test_panels_do_not_cover_each_other(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board_json(board)["panels"]:
        place = panel["gridPos"]
        across, down = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = set(itertools.product(across, down))
        assert max(x for x, _ in cells) < 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells


def test_titles_and_numbers_are_unique_on_a_board() -> None:
    for board in BOARDS:
        titles = [panel["title"] for panel in _panels(board)]
        numbers = [panel["id"] for panel in board_json(board)["panels"]]
        assert len(set(titles)) == len(titles)
        assert len(set(numbers)) == len(numbers)


NAMES_OF_USERS = {"{{cluster}}", "{{namespace}}/{{pool}}", "{{throttle}}", "{{server}}", "{{pod}}", "{{resource}}"}
OF_THE_SYSTEM = {"{{source}}", "{{code}}", "{{version}}"}


@each_board
def test_each_series_has_the_one_colour_of_what_it_shows(board: Board) -> None:
    """Names that a user gives, and those of the system, are told apart by Grafana's own colours."""
    for panel in (each for each in board.panels if each.kind is Kind.LINES):
        things = {thing_of(query.legend) for query in panel.queries} - NAMES_OF_USERS - OF_THE_SYSTEM
        shown = {word for thing in things for word in WORDS.get(thing, (thing,))}
        assert shown <= COLOURS.keys(), panel.title


@each_board
def test_grafana_gives_each_series_that_colour(board: Board) -> None:
    for panel in _panels(board):
        for each in panel["fieldConfig"]["overrides"]:
            (name,) = (thing for thing in COLOURS if re.search(each["matcher"]["options"].strip("/"), f"gpu {thing}"))
            assert each["properties"][0]["value"] == {"mode": "fixed", "fixedColor": COLOURS[name].line}


def test_no_panel_shows_two_things_in_one_colour() -> None:
    for board in BOARDS:
        for panel in (each for each in board.panels if each.kind is Kind.LINES):
            things = [thing_of(query.legend) for query in panel.queries]
            colours = [COLOURS[thing].line for thing in things if thing in COLOURS]
            assert len(set(colours)) == len(colours), panel.title


@each_board
def test_a_figure_is_judged_or_has_the_colour_of_what_it_counts(board: Board) -> None:
    lights = {GOOD_LIGHT, WARNING_LIGHT, BAD_LIGHT}
    for panel in (each for each in board.panels if each.kind is Kind.NUMBER):
        thing = COLOURS.get(thing_of(panel.queries[0].legend))
        allowed = lights if panel.steps else {thing.line if thing else "text"}
        assert {panel.base, *(step.colour for step in panel.steps)} <= allowed, panel.title
