"""Checks of our own objects: pools, throttles, and what they hold back."""

from collections.abc import Iterator, Mapping
from typing import Any

from balloons.cluster import kinds, seen_cluster
from balloons.cluster.object_fields_and_flags import moment, name_of, namespace_of, part, parts, text, whole
from balloons.decide.decision_and_reasons import Reason
from balloons.doctor.check import Facts, Severity, Trouble, called, check, some
from balloons.view.tenancy_and_claim import Selectors
from throttler.api.throttle_rules import RefusedThrottle
from throttler.kube.cluster_autoscaler import MAX_SIZE
from throttler.kube.custom_objects import Invalid
from throttler.kube.metadata import owners_of
from throttler.kube.quantities_and_durations import count
from throttler.levers.lever_and_reasons import FIELD_MANAGER, HOLDER_ANNOTATION, THROTTLE_LABEL, Holder
from throttler.levers.saved_limits import ORIGINAL_ANNOTATION
from throttler.levers.scheduling_gate import PACED_GATE

LEASE_LIMIT_S = 100.0
"""As long as `balloons guard` waits by default."""
HOME = "kube-balloons"
"""The namespace whose Lease `balloons guard` watches by default."""


@check(
    "KB050",
    Severity.ERROR,
    about="What is refused has no effect; pools keep the balloons they had, throttles give back what they held.",
    needs=(kinds.BALLOON_POOLS, kinds.THROTTLES),
)
def refused(facts: Facts) -> Iterator[Trouble]:
    """A pool or throttle that breaks a rule."""
    for pool in seen_cluster.balloon_pools(facts.cluster):
        if isinstance(pool, Invalid):
            yield Trouble(
                f"balloonpool/{pool.key.name} -n {pool.key.namespace}", pool.message, "kubectl explain balloonpool.spec"
            )
    for throttle in seen_cluster.throttles(facts.cluster):
        if isinstance(throttle, RefusedThrottle):
            yield Trouble(
                f"jointhrottle/{throttle.metadata.name}", throttle.problem, "kubectl explain jointhrottle.spec"
            )


@check(
    "KB051",
    Severity.ERROR,
    about="The service writes the generation that it has acted on into the status. One that lags for a minute "
    "means that it does not run, lacks rights, or serves another namespace.",
    needs=(kinds.BALLOON_POOLS, kinds.THROTTLES),
    is_live_only=True,
)
def nobody_serves(facts: Facts) -> Iterator[Trouble]:
    """Nobody acts on pools or throttles."""
    for kind in (kinds.BALLOON_POOLS, kinds.THROTTLES):
        waiting = [thing for thing in facts.items(kind) if _is_unseen(thing, facts.now_s)]
        if waiting:
            yield Trouble(
                called(kind, waiting[0]),
                f"no service has acted for a minute on {some(map(name_of, waiting))}: it does not run, or not there",
                "kubectl get deployment -A -l app.kubernetes.io/part-of=kube-balloons",
            )


@check(
    "KB052",
    Severity.ERROR,
    about="The Lease is renewed only while decisions are made. When it stands still, `balloons guard` gives "
    "everything back.",
    needs=(kinds.LEASES,),
    is_live_only=True,
)
def silent_lease(facts: Facts) -> Iterator[Trouble]:
    """The service has stopped deciding."""
    for lease in facts.items(kinds.LEASES):
        renewed = moment(lease, "spec", "renewTime")
        age_s = facts.now_s - renewed.timestamp() if renewed else 0.0
        if name_of(lease) == kinds.OWN_LEASE and text(lease, "spec", "holderIdentity") and age_s > LEASE_LIMIT_S:
            yield Trouble(
                called(kinds.LEASES, lease),
                f"it was renewed {age_s:.0f} s ago: no decisions are made, and ceilings in force stay until the guard "
                "gives them back",
                _guard_once(namespace_of(lease)),
            )


@check(
    "KB053",
    Severity.ERROR,
    about="A ceiling of a throttle that is gone holds all growth. The service and the guard give such ceilings "
    "back; one that is still there means that neither runs, or that they lack the rights.",
    needs=(kinds.NODE_POOLS, kinds.QUOTAS, kinds.THROTTLES),
    also=(kinds.MACHINE_DEPLOYMENTS, kinds.LEASES),
    is_live_only=True,
)
def left_behind(facts: Facts) -> Iterator[Trouble]:
    """Ceilings left behind."""
    there = {Holder(throttle=name_of(throttle)).label for throttle in facts.items(kinds.THROTTLES) if name_of(throttle)}
    for kind in (kinds.NODE_POOLS, kinds.QUOTAS, kinds.MACHINE_DEPLOYMENTS):
        for thing in facts.items(kind):
            holder = text(thing, "metadata", "labels", THROTTLE_LABEL)
            is_held = ORIGINAL_ANNOTATION in part(thing, "metadata", "annotations") or bool(holder)
            if is_held and holder not in there:
                yield Trouble(
                    called(kind, thing),
                    f"it carries a ceiling of throttle {holder or '(no name)'}, which does not exist: growth is held "
                    "for ever",
                    _guard_once(text(thing, "metadata", "annotations", HOLDER_ANNOTATION).partition("/")[0], facts),
                )


@check(
    "KB054",
    Severity.ERROR,
    about="Gated pods are invisible to the scheduler and to autoscalers until the gate goes.",
    needs=(kinds.PODS, kinds.THROTTLES),
    also=(kinds.LEASES,),
    is_live_only=True,
)
def gates_left_behind(facts: Facts) -> Iterator[Trouble]:
    """Scheduling gates left behind."""
    has_lever = any(throttle.spec.levers.scheduling_gates is not None for throttle in facts.throttles)
    gated = [pod for pod in facts.pods if pod.scheduling is not None and PACED_GATE in pod.scheduling.gates]
    if gated and not has_lever:
        yield Trouble(
            f"pod/{gated[0].key.name} -n {gated[0].key.namespace}",
            f"{count(len(gated), 'pod')} behind {PACED_GATE}, and no throttle has the lever schedulingGates: stuck",
            _guard_once("", facts),
        )


@check(
    "KB055",
    Severity.WARNING,
    about="A GitOps tool that owns `spec.limits`, or the largest size of a MachineDeployment, reverts what the "
    "throttle writes, and the other way round.",
    needs=(kinds.NODE_POOLS, kinds.QUOTAS),
    also=(kinds.MACHINE_DEPLOYMENTS,),
)
def fought_over(facts: Facts) -> Iterator[Trouble]:
    """Two managers of one ceiling."""
    for kind in (kinds.NODE_POOLS, kinds.QUOTAS, kinds.MACHINE_DEPLOYMENTS):
        field = f"the annotation {MAX_SIZE}" if kind is kinds.MACHINE_DEPLOYMENTS else "spec.limits"
        for thing in facts.items(kind):
            owners = _owners_of_limits(thing)
            others = owners - {FIELD_MANAGER}
            if FIELD_MANAGER in owners and others:
                yield Trouble(
                    called(kind, thing),
                    f"{field} has two managers, {FIELD_MANAGER} and {some(others)}: each undoes what the other writes",
                    f"# let the other leave {field} alone (Argo CD: ignoreDifferences with managedFieldsManagers)",
                )


@check(
    "KB056",
    Severity.WARNING,
    about="A node belongs to one pool; the others count without it, and never become warm.",
    needs=(kinds.BALLOON_POOLS, kinds.NODES),
)
def claimed_twice(facts: Facts) -> Iterator[Trouble]:
    """Nodes of two pools."""
    pools = Selectors(pool for pool in seen_cluster.balloon_pools(facts.cluster) if not isinstance(pool, Invalid))
    twice: dict[tuple[str, ...], list[str]] = {}
    for node in facts.nodes:
        names = tuple(sorted(map(str, pools.of(node.labels))))
        if len(names) > 1:
            twice.setdefault(names, []).append(node.name)
    for names, nodes in sorted(twice.items()):
        space, _, name = names[0].rpartition("/")
        yield Trouble(
            f"balloonpool/{name} -n {space}",
            f"{count(len(nodes), 'node')} selected by {some(names)}: only one pool gets them ({some(nodes)})",
            "# make the selectors exclude each other",
        )


@check(
    "KB058",
    Severity.WARNING,
    about="The service serves the namespaces that it was started with, within the bounds of whoever runs it. "
    "Other pools claim no node and say so in their status.",
    needs=(kinds.BALLOON_POOLS,),
)
def turned_away(facts: Facts) -> Iterator[Trouble]:
    """Pools that are not served."""
    by_message: dict[str, list[str]] = {}
    for pool in facts.items(kinds.BALLOON_POOLS):
        why = text(pool, "status", "because")
        if why in (Reason.NOT_SERVED.code, Reason.BOUND.code):
            by_message.setdefault(text(pool, "status", "message"), []).append(called(kinds.BALLOON_POOLS, pool))
    for message, pools in sorted(by_message.items()):
        yield Trouble(
            pools[0],
            f"{count(len(pools), 'pool')} not served: {message}",
            "# add the namespace to poolNamespaces, or widen bounds (chart), or the flags of `balloons run`",
        )


@check(
    "KB057",
    Severity.WARNING,
    about="An object that cannot be decoded is skipped by every decision; a list beyond 250,000 objects is cut.",
    needs=(),
)
def not_read(facts: Facts) -> Iterator[Trouble]:
    """Objects that could not be read."""
    # Only decoding them tells which objects cannot be decoded.
    decoders = (seen_cluster.node_pools, seen_cluster.node_claims, seen_cluster.quotas, seen_cluster.throttles)
    _ = facts.nodes, facts.pods, *(decode(facts.cluster) for decode in decoders)
    for name, listed in sorted(facts.cluster.lists.items()):
        if listed.undecodable:
            (space, first), why = next(iter(listed.undecodable.items()))
            names = some("/".join(filter(None, key)) for key in listed.undecodable)
            yield Trouble(
                name,
                f"{names} could not be decoded ({why}): what is said here does not cover that",
                f"kubectl get {name} {first}{f' -n {space}' if space else ''} -o yaml",
            )
        if listed.unreadable or listed.left_out:
            yield Trouble(
                name,
                f"{listed.unreadable} of its objects could not be read and {listed.left_out} or more were left out: "
                "what is said here does not cover them",
                f"kubectl get {name} -A -o name | wc -l",
            )


def _guard_once(home: str, facts: Facts | None = None) -> str:
    """The command that gives back what a dead service left; next to one that lives it does nothing.

    `home` is the namespace of its Lease; where that is not known, one that there is.
    """
    leases = facts.items(kinds.LEASES) if facts is not None and not home else ()
    home = home or min((namespace_of(lease) for lease in leases if name_of(lease) == kinds.OWN_LEASE), default="")
    where = "" if home in ("", HOME) else f" --lease-namespace {home}"
    return f"balloons guard --once{where}  # while a service lives it does nothing: that one's log says what it lacks"


def _owners_of_limits(thing: Mapping[str, Any]) -> set[str]:
    entries = parts(thing, "metadata", "managedFields")
    limits, quota = part(thing, "spec", "limits"), part(thing, "spec", "limits", "resources")
    paths = [["spec", "limits", name] for name in limits] + [["spec", "limits", "resources", name] for name in quota]
    paths.append(["metadata", "annotations", MAX_SIZE])
    owners = (owners_of(entries, path) for path in paths)
    return {owner[0] for of_field in owners if len(of_field) > 1 for owner in of_field}


def _is_unseen(thing: Mapping[str, Any], now_s: float) -> bool:
    created = moment(thing, "metadata", "creationTimestamp")
    is_young = created is not None and now_s - created.timestamp() < 60
    observed, why = whole(thing, "status", "observedGeneration") or 0, text(thing, "status", "because")
    # The service tells once that it does not serve a pool, and not again at each edit.
    is_told = why == Reason.NOT_SERVED.code or (why == Reason.BOUND.code and observed > 0)
    return not is_young and not is_told and observed < (whole(thing, "metadata", "generation") or 1)


CHECKS = (
    refused,
    nobody_serves,
    silent_lease,
    left_behind,
    gates_left_behind,
    fought_over,
    claimed_twice,
    not_read,
    turned_away,
)
