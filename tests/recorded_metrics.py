"""The recorded /metrics bodies, and hand-made ones in the spelling of other versions."""

import gzip
from pathlib import Path

from throttler.signals.metric_families import WantedLines, parse_rows
from throttler.signals.sample import Sample, sample_from_rows

FOLDER = Path(__file__).parent / "recorded" / "metrics"


def recorded(name: str) -> bytes:
    return gzip.decompress((FOLDER / f"{name}.txt.gz").read_bytes())


def sample_of(body: bytes, at_s: float = 0.0, wall_s: float | None = None) -> Sample:
    """The whole way from bytes to a sample, asked for and taken at `at_s`."""
    lines = WantedLines()
    lines.feed(body)
    return sample_from_rows(parse_rows(lines.finish()), asked_s=at_s, taken_s=at_s, wall_s=wall_s)


def small_body(
    *,
    requests: float = 100,
    started: str = "1.7e+09",
    extra: str = "",
    cpu: float | None = None,
    dispatched: float | None = None,
) -> bytes:
    """A body of a dozen lines that grows with `requests`."""
    pods = 'verb="PATCH",group="",resource="pods",subresource="status"'
    text = f"""# HELP apiserver_request_total [STABLE] Counter of requests.
# TYPE apiserver_request_total counter
apiserver_request_total{{code="200",{pods}}} {requests}
apiserver_request_duration_seconds_bucket{{{pods},le="+Inf"}} {requests}
apiserver_request_duration_seconds_sum{{{pods}}} {requests / 100}
apiserver_request_duration_seconds_count{{{pods}}} {requests}
apiserver_flowcontrol_current_limit_seats{{priority_level="system"}} 10
apiserver_flowcontrol_current_executing_seats{{flow_schema="system-nodes",priority_level="system"}} 5
apiserver_flowcontrol_dispatched_requests_total{{flow_schema="exempt",priority_level="exempt"}} {dispatched or requests}
process_cpu_seconds_total {cpu if cpu is not None else requests / 100}
process_start_time_seconds {started}
go_sched_gomaxprocs_threads 2
{extra}"""
    return text.encode() if text.endswith("\n") else text.encode() + b"\n"
