"""Runs the checks: which findings there are, and which checks could not say anything."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from balloons.cluster import kinds
from balloons.cluster.kinds import Kind
from balloons.cluster.seen_cluster import SeenCluster, Unread
from balloons.doctor import autoscaler_checks, balloon_checks, pool_and_throttle_checks, server_and_daemon_set_checks
from balloons.doctor.check import Check, Facts, Finding, Severity
from throttler.kube.quantities_and_durations import count

ALL_CHECKS: tuple[Check, ...] = (
    *balloon_checks.PRIORITY_CHECKS,
    *balloon_checks.CHECKS,
    *autoscaler_checks.CHECKS,
    *autoscaler_checks.KARPENTER_CHECKS,
    *server_and_daemon_set_checks.CHECKS,
    *pool_and_throttle_checks.CHECKS,
)
"""By code."""

DETECTION = (kinds.NODES, kinds.PODS, kinds.DEPLOYMENTS, kinds.AUTOSCALER_STATUS, kinds.API_SERVERS, kinds.NODE_POOLS)
"""What tells what runs the cluster."""
NEEDS_CLUSTER = "needs a cluster"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`findings` from the worst to the least, by code and object; `skipped`: a check's code -> why nothing is said."""

    detected: str
    findings: tuple[Finding, ...]
    passed: tuple[Check, ...]
    """Those that looked and found nothing."""
    checked: int
    skipped: dict[str, str]

    def unable(self, least: Severity) -> list[str]:
        """Codes of checks of this severity or worse that ought to have looked and could not.

        Those that need a cluster are no part of a look at manifests.
        """
        severity = {check.code: check.severity for check in ALL_CHECKS}
        return [code for code, why in self.skipped.items() if why != NEEDS_CLUSTER and severity[code] >= least]


def diagnose(cluster: SeenCluster, checks: Iterable[Check] = ALL_CHECKS, *, is_live: bool = True) -> Diagnosis:
    """The same cluster gives the same diagnosis. `is_live` is False for a folder of manifests."""
    facts, chosen = Facts(cluster, is_live=is_live), tuple(checks)
    skipped = {check.code: why for check in chosen if (why := _why_not(check, cluster, is_live=is_live))}
    able = [check for check in chosen if check.code not in skipped]
    findings = [Finding(check, trouble) for check in able for trouble in check.find(facts)]
    findings.sort(
        key=lambda finding: (
            -finding.check.severity,
            finding.check.code,
            finding.trouble.object,
            finding.trouble.sentence,
        )
    )
    troubled = {finding.check.code for finding in findings}
    passed = tuple(check for check in able if check.code not in troubled)
    return Diagnosis(_looked_at(facts), tuple(findings), passed, len(able), skipped)


def kinds_of(checks: Iterable[Check]) -> tuple[Kind, ...]:
    """The kinds to read: what the checks need, and what tells what runs the cluster."""
    by_name = {
        kind.name: kind for kind in (*DETECTION, *(kind for check in checks for kind in (*check.needs, *check.also)))
    }
    return tuple(by_name.values())


def chosen_checks(only: Collection[str], skip: Collection[str]) -> tuple[Check, ...]:
    """The checks with these codes (none: all) but for those to skip; raises KeyError with a code that is none."""
    known = {check.code for check in ALL_CHECKS}
    if unknown := sorted({*only, *skip} - known):
        raise KeyError(unknown[0])
    return tuple(check for check in ALL_CHECKS if (not only or check.code in only) and check.code not in skip)


def _looked_at(facts: Facts) -> str:
    if facts.is_live:
        return facts.detected.in_words
    objects = sum(len(listed.objects) for listed in facts.cluster.lists.values())
    return f"manifests with {count(objects, 'object')} that checks look at"


def _why_not(check: Check, cluster: SeenCluster, *, is_live: bool) -> str:
    """Why a check has nothing to say; empty where it has. In manifests a kind that is not there is an empty list."""
    if not is_live:
        return NEEDS_CLUSTER if check.is_live_only else ""
    unread = ((kind, cluster.listed(kind).unread) for kind in check.needs)
    return next((f"{kind.name} {why.value}" for kind, why in unread if why not in (None, Unread.NOT_SERVED)), "")
