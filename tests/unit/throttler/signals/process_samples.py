"""Samples of one process with few figures."""

from throttler.signals.sample import Sample

EPOCH = 1_700_000_000.0
FIRST, SECOND = EPOCH - 5000, EPOCH - 3000


def sample(at_s: float, requests: float, started_at: float | None = FIRST, wall_s: float | None = None) -> Sample:
    return Sample(
        asked_s=at_s,
        taken_s=at_s,
        wall_s=EPOCH + at_s if wall_s is None else wall_s,
        started_at=started_at,
        requests=requests,
        failures=0.0,
        pulse=requests,
    )
