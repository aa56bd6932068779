"""A real Prometheus on loopback over a recorded run: what the queries of dashboards and alerts are tried on."""

from __future__ import annotations

import contextlib
import gzip
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.binaries import find_binaries
from lab.controlplane.ports import free_port
from lab.errors import LabError
from lab.processes import ProcessGroup, log_tail

RECORDING = Path(__file__).resolve().parents[2] / "tests" / "recorded" / "service" / "rush.om.gz"
STEP_S = 15
SCRAPED_AS = {"job": "kube-balloons", "pod": "kube-balloons-0", "instance": "10.0.0.7:8080"}
"""Labels that a scrape adds."""
START_S, ANSWER_S = 60.0, 30.0
LOOKBACK = f"{2 * STEP_S}s"
"""A series that a scrape no longer has ends at once in a live Prometheus; a file cannot say so, hence not 5 minutes."""
END = "# EOF"
NO_END = "100y"
"""Retention: a recording is older than Prometheus would keep it."""


@dataclass(frozen=True)
class Series:
    """One answer: labels, and (time, value) in order; times are seconds since the epoch."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RecordedRun:
    """A Prometheus that knows one run, from its first scrape to its last."""

    address: str
    start_s: float
    end_s: float

    def at_end(self, expr: str) -> list[Series]:
        """An instant query at the last scrape."""
        answer = self._ask("query", query=expr, time=f"{self.end_s:.3f}")
        return [Series(series["metric"], (_point(series["value"]),)) for series in answer]

    def over_run(self, expr: str, step_s: float = STEP_S) -> list[Series]:
        """A range query over all of it."""
        times = {"start": f"{self.start_s:.3f}", "end": f"{self.end_s:.3f}", "step": str(step_s)}
        answer = self._ask("query_range", query=expr, **times)
        return [Series(series["metric"], tuple(_point(value) for value in series["values"])) for series in answer]

    @property
    def window(self) -> str:
        """How long it lasts, as PromQL writes it: what Grafana puts in place of `$__range`."""
        return f"{self.end_s - self.start_s:.0f}s"

    def _ask(self, what: str, **arguments: str) -> list[dict[str, Any]]:
        body = urllib.parse.urlencode(arguments).encode()
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/{what}", body, timeout=ANSWER_S) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise LabError(f"{arguments['query']}: {error.read().decode(errors='replace')[:500]}") from error
        return result


@contextlib.contextmanager
def recorded_run(folder: Path, recording: Path = RECORDING, **labels: str) -> Iterator[RecordedRun]:
    """Load the recording with further labels and serve it until left; `folder` is empty and ours."""
    binaries = find_binaries(["prometheus", "promtool"])
    text = gzip.decompress(recording.read_bytes()).decode()
    _load(binaries["promtool"], text, folder, {**SCRAPED_AS, **labels})
    (folder / "prometheus.yml").write_text("{}\n")
    port, log = free_port(), folder / "prometheus.log"
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "storage.tsdb.retention.time": NO_END,
        "query.lookback-delta": LOOKBACK,
        "web.listen-address": f"127.0.0.1:{port}",
    }
    with ProcessGroup() as group:
        command = [str(binaries["prometheus"]), *(f"--{name}={value}" for name, value in options.items())]
        process = group.spawn(command, log=log)
        _wait_ready(process, f"http://127.0.0.1:{port}/-/ready", log)
        yield RecordedRun(f"http://127.0.0.1:{port}", *_span(text))


def _load(promtool: Path, text: str, folder: Path, labels: Mapping[str, str]) -> None:
    (folder / "run.om").write_text(text)
    added = [f"--label={name}={value}" for name, value in labels.items()]
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", *added, "run.om", "data"]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    if answer.returncode != 0:
        raise LabError(f"promtool cannot load the recording: {answer.stderr[-500:]}")


def _wait_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=ANSWER_S):
            return
        time.sleep(0.1)
    raise LabError(f"Prometheus did not become ready; its log ends:\n{log_tail(log)}")


def _span(text: str) -> tuple[float, float]:
    """The first scrape and the last."""
    times = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line and not line.startswith("#")]
    return min(times), max(times)


def _point(value: tuple[float, str]) -> tuple[float, float]:
    return float(value[0]), float(value[1])


class Scrapes:
    """Several scrapes of one /metrics page as one OpenMetrics text with times, as `promtool tsdb` loads it.

    A family's samples stay together, as the format demands.
    """

    def __init__(self) -> None:
        self._about: dict[str, list[str]] = {}
        self._samples: dict[str, list[str]] = {}

    def add(self, page: str, at_s: float) -> None:
        """One scrape; `at_s` is in seconds since the epoch."""
        family = ""
        about: dict[str, list[str]] = {}
        for line in page.splitlines():
            if line.startswith("# ") and line != END:
                family = line.split(" ")[2]
                about.setdefault(family, []).append(line)
            elif line and line != END:
                self._samples.setdefault(family, []).append(f"{line} {at_s:.3f}")
        self._about.update(about)

    def text(self) -> str:
        """All of it."""
        return "\n".join([*self._lines(), END, ""])

    def _lines(self) -> Iterable[str]:
        for family, samples in self._samples.items():
            # Sorted by series and then by time (the sort is stable): compresses to a third.
            yield from (*self._about[family], *sorted(samples, key=_series))


def _series(line: str) -> str:
    return line.rsplit(" ", 2)[0]
