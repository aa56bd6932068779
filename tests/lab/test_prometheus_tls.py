"""A real Prometheus and TLS by a private CA, both ways: what it tells us, and what it reads of us, by certificates."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Gauge

from balloons.service.metrics import serve_health
from balloons.service.settings import ListenAddress, MetricsTls
from lab.binaries import find_binaries
from lab.controlplane.credentials import CertificateAuthority
from lab.controlplane.ports import free_port
from lab.processes import ProcessGroup, log_tail
from throttler.scraping.promql_client import PrometheusAccess, PromqlClient
from throttler.signals.reading import ReadError

pytestmark = pytest.mark.promtool

READY_S = 60.0


@contextlib.contextmanager
def prometheus(folder: Path, ca: CertificateAuthority, **config: object) -> Iterator[str]:
    """Its URL; only clients with a certificate of `ca` are let in. `config` is what is in its file."""
    server = ca.issue_server("server")
    tls = {
        "cert_file": str(server.certificate),
        "key_file": str(server.key),
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": str(ca.pair.certificate),
    }
    (folder / "web.yml").write_text(json.dumps({"tls_server_config": tls}))
    (folder / "prometheus.yml").write_text(json.dumps(config))
    port = free_port()
    options = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.config.file": folder / "web.yml",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    binary = find_binaries(["prometheus"])["prometheus"]
    with ProcessGroup() as group:
        group.spawn([str(binary), *(f"--{name}={value}" for name, value in options.items())], log=folder / "log")
        yield f"https://127.0.0.1:{port}"


async def value(url: str, query: str = "vector(7)", **files: Path) -> float:
    access = PrometheusAccess(url=url, **{f"{name}_file": str(path) for name, path in files.items()})
    ((point,), _) = await PromqlClient(url, access=access, allows_loopback=True).query(query)
    return point.value


async def value_when_ready(url: str, log: Path, query: str = "vector(7)", **files: Path) -> float:
    """The value once Prometheus listens and has read its storage."""
    end_s = asyncio.get_running_loop().time() + READY_S
    while True:
        try:
            return await value(url, query, **files)
        except (ReadError, ValueError) as error:
            if asyncio.get_running_loop().time() > end_s:
                raise AssertionError(f"{error}\n{log_tail(log)}") from error
            await asyncio.sleep(0.2)


async def test_a_real_prometheus_answers_over_mtls_and_its_refusals_are_named(tmp_path: Path) -> None:
    ca, foreign = CertificateAuthority(tmp_path / "ca"), CertificateAuthority(tmp_path / "foreign")
    ours, theirs = ca.issue_client("ours", "kube-balloons", ()), foreign.issue_client("theirs", "kube-balloons", ())
    trust = ca.pair.certificate
    with prometheus(tmp_path, ca) as url:
        good = {"ca": trust, "cert": ours.certificate, "key": ours.key}
        assert await value_when_ready(url, tmp_path / "log", **good) == 7.0
        for wrong, says in (
            ({"ca": trust}, "--prometheus-cert-file names one"),
            ({**good, "cert": theirs.certificate, "key": theirs.key}, "offered --prometheus-cert-file .*theirs"),
            (
                {**good, "ca": foreign.pair.certificate},
                "refused .* by the authorities of --prometheus-ca-file .*foreign",
            ),
        ):
            with pytest.raises(ReadError, match=says):
                await value(url, **wrong)


async def test_a_real_prometheus_reads_our_metrics_with_a_certificate_only(tmp_path: Path) -> None:
    ca = CertificateAuthority(tmp_path / "ca")
    own, scraper, trust = ca.issue_server("own"), ca.issue_client("scraper", "prometheus", ()), ca.pair.certificate
    tls = MetricsTls(cert_file=str(own.certificate), key_file=str(own.key), client_ca_file=str(trust))
    registry = CollectorRegistry()
    Gauge("seven", "Seven.", registry=registry).set(7)
    async with serve_health(ListenAddress("127.0.0.1", 0), registry, lambda: "", lambda: "", tls=tls) as served:
        known = {"ca_file": str(trust), "cert_file": str(scraper.certificate), "key_file": str(scraper.key)}
        jobs = {"known": known, "stranger": {"ca_file": str(trust)}}
        targets = {"scheme": "https", "scrape_interval": "1s", "static_configs": [{"targets": [str(served)]}]}
        scrapes = [{"job_name": name, "tls_config": how, **targets} for name, how in jobs.items()]
        with prometheus(tmp_path, ca, scrape_configs=scrapes) as url:
            files = {"ca": trust, "cert": scraper.certificate, "key": scraper.key}
            assert await value_when_ready(url, tmp_path / "log", 'seven{job="known"}', **files) == 7.0
            assert await value_when_ready(url, tmp_path / "log", 'up{job="known"}', **files) == 1.0
            assert await value_when_ready(url, tmp_path / "log", 'up{job="stranger"}', **files) == 0.0
