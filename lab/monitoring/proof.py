"""`python -m lab proof`: one picture per dashboard, drawn from what a real Prometheus answers to its very queries.

No Grafana can be had where this is built; so a person can at least look at the figures and at their arrangement.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from lab.monitoring.prometheus import recorded_run
from lab.monitoring.write_dashboards import BOARDS

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


@click.command()
def proof() -> None:
    """Draw every dashboard over the recorded run into docs/pictures."""
    # Half a second that no other command of the lab should wait for.
    from lab.monitoring.drawing import draw

    with tempfile.TemporaryDirectory(prefix="kube-balloons-proof-") as folder, recorded_run(Path(folder)) as run:
        for board in BOARDS:
            file = PICTURES / f"{board.uid}.png"
            draw(board, run).savefig(file, dpi=80, metadata={"Software": None})
            click.echo(f"{file.name}: {file.stat().st_size / 1e3:.0f} kB")
