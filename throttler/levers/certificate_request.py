"""Certificate requests: a new kubelet's client certificate is approved as its join is admitted (facts.md 2.5).

Off by default, because it fails closed: while nobody approves, nobody joins. Nothing is ever denied. One request per
node name is approved, the newest: kubelets file new ones while they wait, and only the last one is still listened to.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from throttler.kube.because import because
from throttler.kube.metadata import Metadata, ObjectKey
from throttler.kube.node import Node
from throttler.levers.certificate_claim import Doubt, DoubtError, check_request, node_of
from throttler.levers.held import Held, HeldSince, Moment, let_in, queue
from throttler.levers.hold_because import HoldReason, hold_report, why_let_in
from throttler.levers.lever import How, LeverOutcome, LeverReport, LeverState, LeverWrite, Room

LONGEST_S = 210.0
"""Half a minute less than the 4 min of facts.md 2.5; `kubeadm join` gives up after 5."""
KILL_MARGIN_S = 300.0
"""What is left of the autoscaler's kill timer for booting, and for the join itself."""
NAME = "CertificateSigningRequest/kube-apiserver-client-kubelet"
_MESSAGE = "The node's join has been admitted by kube-balloons."


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    request: str = ""
    signer_name: str = ""
    usages: tuple[str, ...] = ()
    username: str = ""
    groups: tuple[str, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[dict[str, Any], ...] = ()


class CertificateRequestWire(msgspec.Struct, frozen=True):
    """What is decoded of a CertificateSigningRequest."""

    metadata: Metadata
    spec: _Spec
    status: _Status = _Status()


class CertificateRequest(msgspec.Struct, frozen=True):
    """What caches keep of one: the node it is for, or the doubt that leaves it to a human."""

    name: str
    uid: str
    resource_version: str
    created_s: float
    node: str = ""
    """Name of the node; empty where there is a doubt."""
    doubt: Doubt | None = None
    conditions: tuple[dict[str, Any], ...] = ()

    @property
    def is_approved(self) -> bool:
        """Whether somebody has approved it."""
        return any(each.get("type") == "Approved" for each in self.conditions)

    @property
    def is_pending(self) -> bool:
        """Whether nobody has approved it, denied it, or failed to sign it."""
        return not self.conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """The longest that a kubelet waits, and how many may wait at once."""

    max_wait_s: float
    kill_timer_s: float
    max_held: int = 50
    """Waiting is not free: a kubelet without its certificate sends about 1.8 refused requests/s (facts.md 2.5)."""

    @property
    def limit_s(self) -> float:
        """The longest that a request is held."""
        return min(self.max_wait_s, LONGEST_S, max(30.0, self.kill_timer_s - KILL_MARGIN_S))


def request_from_wire(wire: CertificateRequestWire) -> CertificateRequest:
    """The compact request, checked once; raises ImportError without the extra `csr`."""
    metadata, spec, conditions = wire.metadata, wire.spec, wire.status.conditions
    node, doubt = "", None
    try:
        check_request(spec.signer_name, spec.usages, spec.username, spec.groups)
        node = node_of(spec.request)
    except DoubtError as error:
        doubt = error.doubt
    return CertificateRequest(
        metadata.name,
        metadata.uid,
        metadata.resource_version,
        metadata.created_s,
        node,
        doubt,
        conditions,
    )


def approve_requests(
    requests: Iterable[CertificateRequest],
    heard_of: Collection[str] | None,
    settings: CertificateSettings,
    room: Room,
    since: HeldSince,
    moment: Moment,
) -> tuple[LeverOutcome, HeldSince]:
    """Which requests are approved now; `room.admit` is in nodes.

    `heard_of` is what the function of that name says about all nodes of the cluster: those identities are taken, and
    whoever asks for one again is left to a human. While it is None (nodes have never been listed) nothing is approved,
    not even what is overdue: that nobody has the identity yet is a check like the others.
    """
    taken = heard_of
    held = {} if taken is None else {name: own for name, own in _asked(list(requests)).items() if name not in taken}
    firsts = {name: min(each.created_s for each in own) for name, own in held.items()}
    since = since.seen(firsts, moment, is_complete=room.may_move)
    queued = queue((Held(name, since.age_s(name, moment.now_s)) for name in held), settings.limit_s)
    places = max(room.admit, len(queued) - settings.max_held)
    chosen = let_in(queued, places, room)
    writes = tuple(_approve(max(held[each.id], key=_filed), each, settings, room) for each in chosen)
    report = hold_report(NAME, queued, len(chosen), settings.limit_s, room)
    return LeverOutcome(report=report, writes=writes), since


def heard_of(nodes: Iterable[Node]) -> frozenset[str]:
    """Nodes whose kubelet has reported at least once; a Node object that was made in advance is not among them."""
    return frozenset(node.name for node in nodes if any(kind == "Ready" for kind, _ in node.conditions))


def without_library() -> LeverOutcome:
    """What is said where certificate requests cannot be read at all."""
    why = because(HoldReason.CERTIFICATE_LIBRARY_MISSING)
    return LeverOutcome(report=LeverReport(name=NAME, state=LeverState.REFUSED, because=why))


def _asked(requests: Sequence[CertificateRequest]) -> dict[str, list[CertificateRequest]]:
    """Node name -> its pending requests without doubt, those that were overtaken by an approved one left out.

    What is approved is approved for the kubelet that asked last: what it had filed before nobody waits for any more.
    """
    approved: dict[str, float] = {}
    for each in requests:
        if each.is_approved and each.node:
            approved[each.node] = max(each.created_s, approved.get(each.node, each.created_s))
    asked: dict[str, list[CertificateRequest]] = {}
    for each in requests:
        if each.is_pending and each.node and each.doubt is None and each.created_s > approved.get(each.node, -math.inf):
            asked.setdefault(each.node, []).append(each)
    return asked


def _filed(request: CertificateRequest) -> tuple[float, int]:
    """Order of filing: creation counts whole seconds, and a request that nobody touched keeps its first version."""
    version = request.resource_version
    return request.created_s, int(version) if version.isdecimal() else 0


def _approve(request: CertificateRequest, held: Held, settings: CertificateSettings, room: Room) -> LeverWrite:
    approved = {"type": "Approved", "status": "True", "reason": "JoinAdmitted", "message": _MESSAGE}
    return LeverWrite(
        api_version="certificates.k8s.io/v1",
        kind="CertificateSigningRequest",
        key=ObjectKey("", request.name),
        how=How.APPROVE,
        body={
            "metadata": {"resourceVersion": request.resource_version},
            "status": {"conditions": [*request.conditions, approved]},
        },
        because=why_let_in(held, settings.limit_s, room),
    )
