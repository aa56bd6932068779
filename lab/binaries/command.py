"""`python -m lab binaries`: provide every binary of the lab."""

from __future__ import annotations

import click

from lab.binaries.building import say, trim_build_cache
from lab.binaries.catalogue import ALL_BINARIES, KUBERNETES
from lab.binaries.finding import find_binaries, find_karpenter_crds
from lab.binaries.go_toolchain import find_go


@click.command()
@click.option("--trim", is_flag=True, help="Empty Go's build cache afterwards (frees several GB).")
def binaries(trim: bool) -> None:
    """Find or build all binaries and print where they are."""
    found = find_binaries(binary.name for binary in ALL_BINARIES)
    for name, path in found.items():
        click.echo(f"{name}\t{path}")
    click.echo(f"karpenter CRDs\t{find_karpenter_crds()}")
    if trim:
        trim_build_cache(find_go(KUBERNETES.minimum_go))
        say("Go's build cache is empty now; the binaries stay.")
