"""`python -m lab dashboards`: writes the dashboards' JSON into the manifests."""

from __future__ import annotations

from pathlib import Path

import click

from lab.monitoring.grafana import board_text
from lab.monitoring.overview_dashboard import OVERVIEW
from lab.monitoring.plan_dashboard import PLAN
from lab.monitoring.throttle_dashboard import THROTTLE_BOARD

BOARDS = (OVERVIEW, THROTTLE_BOARD, PLAN)
FOLDER = Path(__file__).resolve().parents[2] / "manifests" / "components" / "monitoring" / "dashboards"


@click.command()
def dashboards() -> None:
    """Write the Grafana dashboards' JSON into manifests/components/monitoring/dashboards."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for board in BOARDS:
        file = FOLDER / f"{board.uid}.json"
        file.write_text(board_text(board))
        click.echo(f"{file.name}: {len(list(board.panels))} panels, {len(board.queries)} queries")
