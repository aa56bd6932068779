"""`python -m lab.pictures`: draws docs/pictures anew from the example cluster, which it writes first."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from lab.pictures.example import write
from lab.pictures.paced_and_unpaced import draw
from lab.pictures.terminal import picture

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"
EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example" / "cluster.tar.gz"
FROM = ("--from", EXAMPLE.name)
ASKED = ("--to", "500")
COMMANDS = {
    "plan": ("plan", *ASKED),
    "status": ("status",),
    "doctor": ("doctor",),
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE_SIZE = "1100,1500"


@click.command()
@click.option("--page", "has_page", is_flag=True, help="Also the page as a browser shows it (needs Chromium).")
def main(has_page: bool) -> None:
    """Draw every picture of a command."""
    EXAMPLE.parent.mkdir(exist_ok=True)
    write(EXAMPLE)
    for name, command in COMMANDS.items():
        given = [str(EXAMPLE) if each == EXAMPLE.name else each for each in (*command, *FROM)]
        file = PICTURES / f"{name}.svg"
        file.write_text(picture(given, " ".join(("balloons", *command, *FROM)), name))
        click.echo(f"{file.name}: {file.stat().st_size:,} bytes", err=True)
    _balloons("report", *ASKED, "--from", str(EXAMPLE), "-o", str(PICTURES / "report.svg"))
    (PICTURES / "paced-and-unpaced.svg").write_text(draw())
    if has_page:
        _photograph(PICTURES / "report-page.png")


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
