"""Why a pool or throttle is paused, as `balloons pause` wrote it. Pure."""

from balloons.explain import PAUSE_REASON
from throttler.kube.metadata import Metadata


def pause_reason(metadata: Metadata, *, is_paused: bool) -> str | None:
    """None while it goes on, whatever was left on it, and where nobody said why."""
    return metadata.annotations.get(PAUSE_REASON) or None if is_paused else None
