"""A board as Grafana's classic JSON (schema 39), which every Grafana since 11 imports. Pure.

Own code instead of grafana-foundation-sdk: its releases sort behind one that writes the format of Grafana 10.1, so that
every tool would have to be told not to take that one, and four kinds of panels need little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from balloons.text_and_colours import COLOURS, WARNING_LIGHT
from lab.monitoring.board import WORDS, Annotation, Board, Kind, Panel, Query, Row, Variable, Word, thing_of

SCHEMA = 39
COLUMNS = 24
TAGS = ["kubernetes", "kube-balloons"]
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

Json = dict[str, Any]


def board_text(board: Board) -> str:
    """The file's whole text; the same board gives the same bytes."""
    return json.dumps(board_json(board), indent=2) + "\n"


def board_json(board: Board) -> Json:
    """The dashboard object."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": TAGS,
        "schemaVersion": SCHEMA,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [_annotation(annotation) for annotation in board.annotations]},
        "links": [_links()],
        "templating": {"list": [_datasource(), *(_variable(variable) for variable in board.variables)]},
        "panels": list(_placed(board.rows)),
    }


def _placed(rows: tuple[Row, ...]) -> Iterator[Json]:
    number, y = 0, 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        x, y, deepest = 0, y + 1, 0
        for panel in row.panels:
            number += 1
            if x + panel.width > COLUMNS:
                x, y, deepest = 0, y + deepest, 0
            yield _panel(panel, number, x, y)
            x, deepest = x + panel.width, max(deepest, panel.height)
        y += deepest


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    return {
        "id": number,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": _field(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        "targets": [_target(query, panel, chr(ord("A") + n)) for n, query in enumerate(panel.queries)],
    }


def _field(panel: Panel) -> Json:
    steps: list[Json] = [{"color": panel.base, "value": None}]
    steps += [{"color": step.colour, "value": step.least} for step in panel.steps]
    field: Json = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind is not Kind.STATES:
        field["min"] = 0
    if panel.kind is Kind.LINES:
        mode = {"mode": "normal" if panel.is_stacked else "none", "group": "A"}
        field["custom"] = {"fillOpacity": 30 if panel.is_stacked else 8, "lineWidth": 1, "stacking": mode}
        field["custom"]["showPoints"] = "never"
    if panel.kind is Kind.NUMBER and panel.unit == "short":
        field["decimals"] = 0
    if panel.words:
        field["mappings"] = [{"type": "value", "options": _words(panel.words)}]
    return field


def _overrides(panel: Panel) -> list[Json]:
    """Colours by the last word of a series' name, whatever comes before it; `{{found}}` becomes words of a list."""
    if panel.kind is not Kind.LINES:
        return []
    shown: set[str] = set()
    for thing in (thing_of(query.legend) for query in panel.queries):
        shown.update(WORDS.get(thing, (thing,)))
    return [
        {
            "matcher": {"id": "byRegexp", "options": f"/(^| ){name}$/"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": COLOURS[name].line}}],
        }
        for name in COLOURS
        if name in shown
    ]


def _words(words: tuple[Word, ...]) -> Json:
    return {str(n): {"text": word.text, "color": word.colour, "index": n} for n, word in enumerate(words)}


def _options(panel: Panel) -> Json:
    if panel.kind is Kind.LINES:
        legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
        return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind is Kind.STATES:
        return {"mergeValues": True, "showValue": "auto" if panel.words else "never", "rowHeight": 0.8}
    shown: Json = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    if panel.kind is Kind.BARS:
        return {**shown, "orientation": "horizontal", "displayMode": "basic"}
    return {**shown, "colorMode": "value", "graphMode": "none", "textMode": "auto"}


def _target(query: Query, panel: Panel, letter: str) -> Json:
    return {
        "refId": letter,
        "datasource": DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        "instant": panel.is_instant,
        "range": not panel.is_instant,
    }


def _annotation(annotation: Annotation) -> Json:
    return {
        "name": annotation.name,
        "datasource": DATASOURCE,
        "enable": True,
        "iconColor": WARNING_LIGHT,
        "expr": annotation.query.expr,
        "titleFormat": annotation.query.legend,
        "step": "15s",
    }


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "refresh": 1,
        "hide": 0,
    }


def _variable(variable: Variable) -> Json:
    # `.*` also matches series that have no such label: a single cluster without a cluster label is not left out.
    return {
        "name": variable.name,
        "label": variable.name.capitalize(),
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": variable.query, "refId": "A"},
        "definition": variable.query,
        "refresh": 2,
        "sort": 1,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "hide": 0,
    }


def _links() -> Json:
    return {
        "title": "kube-balloons",
        "type": "dashboards",
        "tags": ["kube-balloons"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
    }
