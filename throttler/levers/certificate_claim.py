"""Which node identity a certificate request asks for, or why it is none that may be approved without a human.

An allow-list: every check must pass, and what is not understood is left alone. Approving means minting a node identity,
so this is stricter than what Kubernetes itself approves (k8s.io/kubernetes pkg/apis/certificates/helpers.go,
ValidateKubeletClientCSR): exactly one PEM block, exactly two subject attributes, no extensions and no other attributes.
"""

import binascii
import enum
import re
from base64 import b64decode
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import CertificateSigningRequest

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
ORGANIZATION = "system:nodes"
NODE_USER = "system:node:"
BOOTSTRAP_GROUP = "system:bootstrappers"
LARGEST_PEM = 64 * 1024
"""Bytes; a kubelet's request is about 500."""
USAGES = (
    frozenset({"digital signature", "client auth"}),
    frozenset({"digital signature", "client auth", "key encipherment"}),
)
"""What kubelets ask for: with the third usage where the key is RSA, or the kubelet older than 1.27."""

_PEM = re.compile(
    rb"-----BEGIN CERTIFICATE REQUEST-----\n((?:[A-Za-z0-9+/=]{1,76}\n)+)-----END CERTIFICATE REQUEST-----\n?"
)
"""One block as Go's encoder writes it: no headers, nothing before it and nothing after."""
_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""A name that a Node can have (RFC 1123 subdomain, at most 253 characters)."""
_SUBJECT_OIDS = {"2.5.4.10", "2.5.4.3"}
"""Organization and common name."""


class Doubt(enum.Enum):
    """The first check that a request does not pass, in words."""

    OTHER_SIGNER = "its signer is another one"
    USAGES = "its usages are not exactly those of a kubelet's client certificate"
    REQUESTOR = "its requestor is not in the bootstrap group, or is a node already"
    TOO_LARGE = "it is larger than 64 KiB"
    NOT_ONE_PEM_BLOCK = "it is not exactly one PEM block"
    UNREADABLE = "it is no readable certificate request, or its signature does not fit its key"
    ALTERNATIVE_NAMES = "it asks for alternative names, other extensions or attributes"
    SUBJECT = "its subject is not exactly O=system:nodes and CN=system:node:NAME"


class DoubtError(Exception):
    """The request is left alone; `doubt` says why."""

    def __init__(self, doubt: Doubt) -> None:
        super().__init__(doubt.value)
        self.doubt = doubt


def check_request(signer: str, usages: Sequence[str], requestor: str, groups: Sequence[str]) -> None:
    """What the API server says about a request; raises DoubtError.

    A node that renews its certificate is its own requestor: renewals are never ours to hold or to approve.
    """
    _demand(signer == SIGNER, Doubt.OTHER_SIGNER)
    _demand(frozenset(usages) in USAGES and len(usages) == len(frozenset(usages)), Doubt.USAGES)
    is_node = requestor.startswith(NODE_USER) or ORGANIZATION in groups
    _demand(BOOTSTRAP_GROUP in groups and bool(requestor) and not is_node, Doubt.REQUESTOR)


def node_of(request: str) -> str:
    """The node that `request` (`spec.request`: base64 of PEM) asks to become; raises DoubtError.

    Raises ImportError where the `cryptography` library is not installed (extra `csr`).
    """
    return _node_name(_parse(_der(_pem(request))))


def _demand(holds: bool, doubt: Doubt) -> None:
    if not holds:
        raise DoubtError(doubt)


def _pem(request: str) -> bytes:
    # Before decoding, so that a huge one costs nothing.
    _demand(len(request) <= LARGEST_PEM * 4 // 3 + 4, Doubt.TOO_LARGE)
    try:
        pem = b64decode(request, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DoubtError(Doubt.UNREADABLE) from error
    _demand(len(pem) <= LARGEST_PEM, Doubt.TOO_LARGE)
    return pem


def _der(pem: bytes) -> bytes:
    block = _PEM.fullmatch(pem)
    if block is None:
        raise DoubtError(Doubt.NOT_ONE_PEM_BLOCK)
    try:
        return b64decode(block[1].replace(b"\n", b""), validate=True)
    except binascii.Error as error:
        raise DoubtError(Doubt.NOT_ONE_PEM_BLOCK) from error


def _parse(der: bytes) -> "CertificateSigningRequest":
    # Imported here: only whoever turns this lever on needs the library.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import InvalidVersion, load_der_x509_csr

    try:
        csr = load_der_x509_csr(der)
        # Written out again it must be the same bytes: nothing hides behind it or in another encoding of it.
        is_whole = csr.public_bytes(Encoding.DER) == der
        is_sound = is_whole and csr.is_signature_valid and bool(csr.subject)
        # Alternative names, like all extensions, are asked for by an attribute.
        has_more = bool(list(csr.attributes))
    except (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion) as error:
        raise DoubtError(Doubt.UNREADABLE) from error
    _demand(is_sound, Doubt.UNREADABLE)
    _demand(not has_more, Doubt.ALTERNATIVE_NAMES)
    return csr


def _node_name(csr: "CertificateSigningRequest") -> str:
    found = [(each.oid.dotted_string, each.value) for each in csr.subject]
    _demand(len(found) == 2 and {oid for oid, _ in found} == _SUBJECT_OIDS, Doubt.SUBJECT)
    subject = dict(found)
    user = subject["2.5.4.3"]
    _demand(subject["2.5.4.10"] == ORGANIZATION and isinstance(user, str), Doubt.SUBJECT)
    name = str(user).removeprefix(NODE_USER)
    _demand(str(user) == NODE_USER + name and _NODE_NAME.fullmatch(name) is not None, Doubt.SUBJECT)
    return name
