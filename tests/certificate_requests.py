"""Certificate requests as kubelets file them, and forgeries of them, for unit tests and the real API server alike."""

import base64
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
USAGES = ("digital signature", "client auth")
REQUESTOR = "system:bootstrap:join01"
GROUPS = ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated")


@lru_cache(maxsize=1)
def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def names_of(node: str, given: tuple[str, ...] | None) -> tuple[str, ...]:
    return (f"system:node:{node}",) if given is None else given


@lru_cache(maxsize=512)
def pem(
    node: str = "node-1",
    *,
    organizations: tuple[str, ...] = ("system:nodes",),
    common_names: tuple[str, ...] | None = None,
    more: tuple[tuple[str, str], ...] = (),
    names: tuple[x509.GeneralName, ...] = (),
    is_ca: bool = False,
    password: bytes = b"",
) -> bytes:
    """A signed request in PEM; `more` are further subject attributes by dotted OID."""
    found = [(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    found += [(NameOID.COMMON_NAME, each) for each in names_of(node, common_names)]
    found += [(x509.ObjectIdentifier(oid), value) for oid, value in more]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([x509.NameAttribute(*a) for a in found]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if is_ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if password:
        builder = builder.add_attribute(x509.oid.AttributeOID.CHALLENGE_PASSWORD, password)
    return builder.sign(_key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def encoded(request: bytes) -> str:
    """As `spec.request` carries it."""
    return base64.b64encode(request).decode()


def broken_signature() -> bytes:
    """A request whose signature does not fit."""
    der = bytearray(base64.b64decode(b"".join(pem().splitlines()[1:-1])))
    der[-1] ^= 1
    return pem_of(bytes(der))


def of_another_version() -> bytes:
    """A request that says it is of a version which does not exist."""
    der = base64.b64decode(b"".join(pem().splitlines()[1:-1]))
    return pem_of(der.replace(b"\x02\x01\x00", b"\x02\x01\x02", 1))


def pem_of(der: bytes, label: str = "CERTIFICATE REQUEST") -> bytes:
    """Any bytes as a PEM block."""
    text = base64.b64encode(der)
    lines = b"\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label.encode(), lines, label.encode())


def spec(request: bytes | None = None, **changes: Any) -> dict[str, Any]:
    """The spec of a request that may be approved, but for `changes`."""
    return {
        "request": encoded(pem() if request is None else request),
        "signerName": SIGNER,
        "usages": list(USAGES),
        "username": REQUESTOR,
        "groups": list(GROUPS),
        **changes,
    }


def forgeries() -> dict[str, tuple[str, dict[str, Any]]]:
    """What is wrong -> the doubt it must raise, and the spec."""
    der = base64.b64decode(b"".join(pem().splitlines()[1:-1]))
    return {
        "another signer": ("OTHER_SIGNER", spec(signerName="kubernetes.io/kube-apiserver-client")),
        "kubelet serving": ("OTHER_SIGNER", spec(signerName="kubernetes.io/kubelet-serving")),
        "no signer": ("OTHER_SIGNER", spec(signerName="")),
        "server auth": ("USAGES", spec(usages=[*USAGES, "server auth"])),
        "any usage": ("USAGES", spec(usages=["any"])),
        "one usage": ("USAGES", spec(usages=["client auth"])),
        "a usage twice": ("USAGES", spec(usages=[*USAGES, "client auth"])),
        "no usages": ("USAGES", spec(usages=[])),
        "a renewal": ("REQUESTOR", spec(username="system:node:node-1", groups=["system:nodes"])),
        "a node in the bootstrap group": ("REQUESTOR", spec(username="system:node:node-1")),
        "a member of system:nodes": ("REQUESTOR", spec(groups=[*GROUPS, "system:nodes"])),
        "a ServiceAccount": (
            "REQUESTOR",
            spec(username="system:serviceaccount:a:b", groups=["system:serviceaccounts"]),
        ),
        "nobody": ("REQUESTOR", spec(username="", groups=[])),
        "1 MB of PEM": ("TOO_LARGE", spec(pem_of(b"x" * 1_000_000))),
        "64 KiB and more": ("TOO_LARGE", spec(b"x" * (64 * 1024 + 1))),
        "trailing text": ("NOT_ONE_PEM_BLOCK", spec(pem() + b"more")),
        "two blocks": ("NOT_ONE_PEM_BLOCK", spec(pem() + pem("node-2"))),
        "leading text": ("NOT_ONE_PEM_BLOCK", spec(b"hello\n" + pem())),
        "PEM headers": ("NOT_ONE_PEM_BLOCK", spec(pem().replace(b"-----\n", b"-----\nA: b\n\n", 1))),
        "the old label": ("NOT_ONE_PEM_BLOCK", spec(pem_of(der, "NEW CERTIFICATE REQUEST"))),
        "a certificate's label": ("NOT_ONE_PEM_BLOCK", spec(pem_of(der, "CERTIFICATE"))),
        "nothing": ("NOT_ONE_PEM_BLOCK", spec(b"")),
        "trailing DER": ("UNREADABLE", spec(pem_of(der + b"\x05\x00"))),
        "DER cut short": ("UNREADABLE", spec(pem_of(der[:-4]))),
        "noise": ("UNREADABLE", spec(pem_of(b"\x30\x82" + b"x" * 300))),
        "a wrong signature": ("UNREADABLE", spec(broken_signature())),
        "a DNS name": ("ALTERNATIVE_NAMES", spec(pem(names=(x509.DNSName("api.example"),)))),
        "an IP address": ("ALTERNATIVE_NAMES", spec(pem(names=(x509.IPAddress(ip_address("10.0.0.1")),)))),
        "an e-mail address": ("ALTERNATIVE_NAMES", spec(pem(names=(x509.RFC822Name("a@b.example"),)))),
        "a URI": ("ALTERNATIVE_NAMES", spec(pem(names=(x509.UniformResourceIdentifier("spiffe://a/b"),)))),
        "a CA": ("ALTERNATIVE_NAMES", spec(pem(is_ca=True))),
        "a challenge password": ("ALTERNATIVE_NAMES", spec(pem(password=b"secret"))),
        "no organization": ("SUBJECT", spec(pem(organizations=()))),
        "system:masters": ("SUBJECT", spec(pem(organizations=("system:masters",)))),
        "system:masters as well": ("SUBJECT", spec(pem(organizations=("system:nodes", "system:masters")))),
        "no node's name": ("SUBJECT", spec(pem(common_names=("system:kube-controller-manager",)))),
        "a bare name": ("SUBJECT", spec(pem(common_names=("node-1",)))),
        "no common name": ("SUBJECT", spec(pem(common_names=()))),
        "a unit instead of a name": ("SUBJECT", spec(pem(common_names=(), more=(("2.5.4.11", "system:node:node-1"),)))),
        "an empty name": ("SUBJECT", spec(pem(common_names=("system:node:",)))),
        "two names": ("SUBJECT", spec(pem(common_names=("system:node:a", "system:node:b")))),
        "a unit as well": ("SUBJECT", spec(pem(more=(("2.5.4.11", "x"),)))),
        "capitals": ("SUBJECT", spec(pem(common_names=("system:node:Node-1",)))),
        "a line break": ("SUBJECT", spec(pem(common_names=("system:node:node-1\n",)))),
        "a blank in front": ("SUBJECT", spec(pem(common_names=(" system:node:node-1",)))),
        "a name too long": ("SUBJECT", spec(pem(common_names=("system:node:" + "a" * 50 + "/b",)))),
    }


def manifest(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A CertificateSigningRequest to create; who asks is for the server to say."""
    own = {key: value for key, value in spec.items() if key not in ("username", "groups")}
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": own,
    }


def stored(
    name: str, spec: dict[str, Any], *, created_s: int = 0, version: int = 1, conditions: Sequence[str] = ()
) -> dict[str, Any]:
    """The same as the server stores it."""
    minute, second = divmod(created_s, 60)
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": f"1970-01-01T{minute // 60:02}:{minute % 60:02}:{second:02}Z",
    }
    status = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
    return {"metadata": metadata, "spec": spec, "status": status}
