"""`python -m lab`: get the binaries, or start a control plane to play with."""

from __future__ import annotations

import sys

import click

from lab.binaries.command import binaries
from lab.demo.command import demo
from lab.errors import LabError
from lab.image.command import image
from lab.monitoring.boards import dashboards
from lab.monitoring.proof import proof
from lab.monitoring.recording import record
from lab.up import up


@click.group()
def lab() -> None:
    """A real Kubernetes control plane on loopback, with simulated machines."""


lab.add_command(binaries)
lab.add_command(dashboards)
lab.add_command(demo)
lab.add_command(image)
lab.add_command(proof)
lab.add_command(record)
lab.add_command(up)


def main() -> None:
    """Run the command; a LabError is shown as one message, without a traceback."""
    try:
        lab(prog_name="python -m lab")
    except LabError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
