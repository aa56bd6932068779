"""What whoever runs the service may say, checked before anything starts."""

from dataclasses import dataclass, field

from balloons.api.pool_rules import image_in_words, secret_in_words
from balloons.balloon_manifest import ImageSettings
from balloons.view.tenancy_and_claim import Tenancy
from throttler.scraping.promql_client import PrometheusAccess


class SettingsError(ValueError):
    """A setting cannot be used; the message names it, its value and what is accepted."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where to listen; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTls:
    """PEM files by which metrics and probes are served. Raises SettingsError that names the option of the command."""

    cert_file: str
    """The certificate, with those between it and its authority."""
    key_file: str
    """Its private key, without a password."""
    client_ca_file: str | None = None
    """Authorities whose clients may read the metrics; None lets everybody."""

    def __post_init__(self) -> None:
        if not (self.cert_file and self.key_file):
            raise SettingsError("accepted are --metrics-cert-file and --metrics-key-file, both or none of the options")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """How the service runs. Raises SettingsError when an image or a name cannot be used."""

    kubeconfig: str | None = None
    """Path of a kubeconfig; None: $KUBECONFIG, else the pod's own files, else ~/.kube/config."""
    context: str | None = None
    """A context of the kubeconfig; None is its current one."""
    tenancy: Tenancy = field(default_factory=Tenancy)
    """Whose pools are served, and what they may ask for."""
    interval_s: float = 10.0
    """Seconds between decisions while nothing changes; changes are answered at once."""
    is_dry_run: bool = False
    """Whether to decide and log only: nothing is written, not even status."""
    is_once: bool = False
    """Whether to end after one decision on a complete view."""
    max_calls_per_s: float = 5.0
    """Ceiling of our own writes, averaged over a minute. Releases and deletes have ten times as much to themselves,
    annotations of nodes as much, status and Events half as much: `balloons/service/run.py` adds it all up."""
    metrics_address: ListenAddress | None = ListenAddress("127.0.0.1", 8080)
    """Where /metrics, /healthz and /readyz are served; None serves nothing."""
    metrics_tls: MetricsTls | None = None
    """How they are served by TLS; None is plain HTTP."""
    lease_namespace: str = "kube-balloons"
    """Where the Lease is by which replicas agree who leads; `balloons guard` looks for it there."""
    deployment: str = ""
    """The service's own Deployment, in the namespace of the Lease. While it wants replicas, a leader that is told to
    stop hands over to another; empty: it always gives everything back."""
    is_alone: bool = False
    """Whether there is no other replica: then nobody is waited for."""
    prometheus: PrometheusAccess | None = None
    """Files for the one Prometheus that asks for more than its address; throttles name only its URL."""
    images: ImageSettings = field(default_factory=ImageSettings)
    """What balloons run where their pool does not say, and which images pools may name."""

    def __post_init__(self) -> None:
        if words := image_in_words(self.images.image):
            raise SettingsError(words)
        for name in self.images.image_pull_secrets:
            if words := secret_in_words(name):
                raise SettingsError(f"image pull secret: {words}")
