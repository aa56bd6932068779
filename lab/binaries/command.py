"""`python -m lab binaries`: provide every binary of the lab."""

from __future__ import annotations

import click

from lab.binaries.building import say, trim_build_cache
from lab.binaries.catalogue import ALL_BINARIES, CHART_BINARIES, KUBERNETES, MONITORING_BINARIES
from lab.binaries.finding import find_binaries, find_karpenter_crds
from lab.binaries.go_toolchain import find_go


@click.command()
@click.option("--trim", is_flag=True, help="Empty Go's build cache afterwards (frees several GB).")
@click.option("--tests", is_flag=True, help="Also what only tests need: Prometheus, promtool and Helm.")
def binaries(trim: bool, tests: bool) -> None:
    """Find or build all binaries and print where they are."""
    wanted = (*ALL_BINARIES, *MONITORING_BINARIES, *CHART_BINARIES) if tests else ALL_BINARIES
    found = find_binaries(binary.name for binary in wanted)
    for name, path in found.items():
        click.echo(f"{name}\t{path}")
    click.echo(f"karpenter CRDs\t{find_karpenter_crds()}")
    if trim:
        trim_build_cache(find_go(KUBERNETES.minimum_go))
        say("Go's build cache is empty now; the binaries stay.")
