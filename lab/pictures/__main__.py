"""`python -m lab.pictures`: draws docs/pictures anew from the example cluster, which it writes first."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from lab.pictures.example import write
from lab.pictures.terminal import picture

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example" / "cluster.tar.gz"
ASKED = ("--to", "1500")
COMMANDS = {
    "plan": ("plan", *ASKED),
    "status": ("status",),
    "doctor": ("doctor",),
    "explain": ("explain", "pool/gpu"),
}
"""In the terminal."""
CHARTS = {
    "report": (*ASKED, "--from", str(EXAMPLE)),
    "paced-and-unpaced": ("--offline", "--add", "2000", "--daemonsets", "10", "--chart", "compared"),
}
"""Options of `report`."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE_SIZE = "1100,1500"


@click.command()
@click.option("--page/--no-page", "has_page", default=True, help="Also the page as a browser shows it (Chromium).")
def main(has_page: bool) -> None:
    """Draw every picture of a command."""
    EXAMPLE.parent.mkdir(exist_ok=True)
    write(EXAMPLE)
    for name in (*COMMANDS, *CHARTS):
        file = PICTURES / f"{name}.svg"
        file.write_bytes(drawn(name))
        click.echo(f"{file.name}: {file.stat().st_size:,} bytes", err=True)
    if has_page:
        _photograph(PICTURES / "report-page.png")


def drawn(name: str) -> bytes:
    """What docs/pictures/NAME.svg is to be: the commands as they print now."""
    if name in COMMANDS:
        command, source = COMMANDS[name], ("--from", EXAMPLE.name)
        return picture((*command, "--from", str(EXAMPLE)), " ".join(("balloons", *command, *source)), name).encode()
    with tempfile.TemporaryDirectory(prefix="kube-balloons-chart-") as folder:
        file = Path(folder, f"{name}.svg")
        _balloons("report", *CHARTS[name], "-o", str(file))
        return file.read_bytes()


def _balloons(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "balloons", *arguments], check=True, timeout=120)


def _photograph(file: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise click.ClickException(f"no browser: {file.name} is left as it is; accepted: {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory(prefix="kube-balloons-page-") as folder:
        page = Path(folder, "report.html")
        _balloons("report", *ASKED, "--from", str(EXAMPLE), "-o", str(page))
        options = ("--headless=new", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder}/profile")
        size, target = f"--window-size={PAGE_SIZE}", f"--screenshot={file}"
        command = [browser, *options, size, target, page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    click.echo(f"{file.name}: {file.stat().st_size:,} bytes", err=True)


if __name__ == "__main__":
    main()
