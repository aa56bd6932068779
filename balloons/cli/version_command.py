"""`balloons version`."""

import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import click


def own_version() -> str:
    """The installed version, or `source` when run from a checkout that is not installed."""
    try:
        return installed_version("kube-balloons")
    except PackageNotFoundError:
        return "source"


@click.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def version(output: str) -> None:
    """Print the version of this program."""
    if output == "json":
        body = {"apiVersion": "balloons.kube-balloons.github.io/v1", "kind": "Version", "version": own_version()}
        click.echo(json.dumps(body))
    else:
        click.echo(f"balloons {own_version()}")
