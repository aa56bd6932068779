"""The parts of the control plane that need no binaries: settings, ports, certificates, kubeconfigs, audit log."""

import base64
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from lab.controlplane import ApiAccess, ApiServerSettings, ControlPlaneSettings
from lab.controlplane.credentials import CertificateAuthority
from lab.controlplane.plane import read_audit_log
from lab.controlplane.ports import _is_free, free_port
from lab.errors import LabError


def test_ports_are_free_distinct_and_below_the_ephemeral_range() -> None:
    ports = {free_port() for _ in range(50)}
    assert len(ports) == 50
    assert max(ports) < 32_768


@pytest.mark.whole
def test_a_port_is_kept_from_other_processes_before_anybody_listens_and_until_its_own_ends() -> None:
    take = "import sys; from lab.controlplane.ports import _take; print(_take(int(sys.argv[1])))"
    answers = [
        subprocess.run([sys.executable, "-c", take, str(port)], capture_output=True, text=True, check=True).stdout
        for port in (free_port(), 40_000, 40_000)
    ]
    assert answers == ["False\n", "True\n", "True\n"]


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_port_on_which_somebody_listens_is_not_free(address: str) -> None:
    with socket.socket() as server:
        server.bind((address, 0))
        server.listen()
        assert not _is_free(server.getsockname()[1])


def test_server_without_seats_is_refused() -> None:
    with pytest.raises(LabError, match="at least one seat"):
        ApiServerSettings(max_requests_inflight=0, max_mutating_requests_inflight=0)


def test_gomaxprocs_of_zero_is_refused() -> None:
    with pytest.raises(LabError, match="gomaxprocs is 0"):
        ApiServerSettings(gomaxprocs=0)


def test_control_plane_without_server_is_refused() -> None:
    with pytest.raises(LabError, match="at least one API server"):
        ControlPlaneSettings(api_servers=())


def test_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    pair = CertificateAuthority(tmp_path).issue_client("c", "alice", ["team-a", "team-b"])
    subject = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
    groups = [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert sorted(str(group) for group in groups) == ["team-a", "team-b"]


def test_keys_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    keys = [authority.pair.key, authority.issue_server("s").key, authority.new_key("sa")]
    assert {oct(key.stat().st_mode & 0o777) for key in keys} == {"0o600"}


def test_kubeconfig_holds_all_it_needs(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    access = ApiAccess("https://127.0.0.1:1", authority.pair.certificate, authority.issue_client("c", "bob", []))
    config = json.loads(access.write_kubeconfig(tmp_path / "sub" / "config").read_text())
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    assert ca == authority.pair.certificate.read_bytes()
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:1"
    token = json.loads(access.write_token_kubeconfig(tmp_path / "token", "t0k3n").read_text())
    assert token["users"][0]["user"] == {"token": "t0k3n"}


def test_a_kubeconfig_that_is_written_anew_is_whole_for_who_is_just_reading_it(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    access = ApiAccess("https://127.0.0.1:1", authority.pair.certificate, authority.pair)
    with access.write_token_kubeconfig(tmp_path / "config", "old").open() as reading:
        access.write_token_kubeconfig(tmp_path / "config", "new")
        assert json.load(reading)["users"][0]["user"] == {"token": "old"}
    assert oct((tmp_path / "config").stat().st_mode & 0o777) == "0o600"


def test_server_and_client_trust_each_other_and_no_other_authority(tmp_path: Path) -> None:
    ours, theirs = CertificateAuthority(tmp_path / "a"), CertificateAuthority(tmp_path / "b")
    client = ApiAccess("", ours.pair.certificate, ours.issue_client("c", "bob", [])).ssl_context()
    assert handshake(client, ours) == "kubernetes"
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client, theirs)


def handshake(client: ssl.SSLContext, server_authority: CertificateAuthority) -> object:
    """Shake hands in memory, and return the common name that the client saw."""
    pair = server_authority.issue_server("serving")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    certificate = ends[0].getpeercert()
    assert certificate is not None
    return dict(entry[0] for entry in certificate["subject"])["commonName"]  # type: ignore[misc]


def test_audit_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_text('{"verb": "get"}\n{"verb": "del')
    assert list(read_audit_log(log)) == [{"verb": "get", "user": {"username": ""}}]
    assert list(read_audit_log(log, "get")) == list(read_audit_log(log))
    assert list(read_audit_log(log, "create")) == []
    assert list(read_audit_log(tmp_path / "absent")) == []
