"""The dashboards as Grafana reads them: the rules of grafana/dashboard-linter, as far as they concern Prometheus.

Left out: its rules that demand `job` and `instance` variables. Every series of ours carries one prefix, so no job has
to be chosen, and replicas are aggregated, because one leads and the others stand by.
"""

import itertools
import json
from typing import Any

import pytest

from lab.monitoring.board import Board
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
