"""What is written and reported of a CapacityQuota."""

from typing import Any

import msgspec

from throttler.kube.because import Because
from throttler.kube.cluster_autoscaler import CAPACITY_QUOTA_KIND
from throttler.kube.metadata import ObjectKey
from throttler.levers.clamp import shown
from throttler.levers.holder import Holder
from throttler.levers.lever import How, LeverOutcome, LeverReport, LeverState, LeverWrite
from throttler.levers.original import Mark, marked
from throttler.levers.quota_seen import QuotaSeen


def quota_write(seen: QuotaSeen, mark: Mark, holder: Holder, reason: Because) -> LeverWrite:
    """One apply with the ceiling and the value to restore: neither is ever there without the other.

    The selector is written on a quota of our own only; a user's quota keeps its own.
    """
    version = seen.api_version or ""
    metadata = marked(seen.quota.metadata if seen.quota else None, seen.name, mark, holder)
    spec: dict[str, Any] = {"limits": {"resources": dict(mark.ceiling)}}
    if mark.is_made:
        spec["selector"] = msgspec.to_builtins(seen.selector)
    body = {"apiVersion": version, "kind": CAPACITY_QUOTA_KIND, "metadata": metadata, "spec": spec}
    return LeverWrite(
        api_version=version,
        kind=CAPACITY_QUOTA_KIND,
        key=ObjectKey("", seen.name),
        how=How.APPLY,
        body=body,
        because=reason,
        is_forced=True,
    )


def quota_outcome(
    name: str, mark: Mark | None, state: tuple[LeverState, Because], writes: tuple[LeverWrite, ...] = ()
) -> LeverOutcome:
    """The report of a look, and its writes; without a mark nothing of ours is in force."""
    ceiling = mark.ceiling if mark else {}
    original = {name: mark.original.get(name) for name in ceiling} if mark else {}
    title = f"{CAPACITY_QUOTA_KIND}/{name}"
    report = LeverReport(name=title, state=state[0], because=state[1], ceiling=shown(ceiling), original=shown(original))
    return LeverOutcome(report=report, writes=writes)
