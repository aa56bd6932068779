"""Which binaries the lab knows, and from which Go module each one is built."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.errors import LabError

MODULES_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class GoModule:
    """A folder with a go.mod and go.sum of ours that pins one upstream project.

    `pinned` is the upstream module whose version names the cache folder. `tags` are Go's build tags.
    """

    name: str
    pinned: str
    tags: str = ""

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum lie."""
        return MODULES_FOLDER / self.name

    @cached_property
    def version(self) -> str:
        """The pinned upstream version as go.mod states it, such as `v1.36.3`."""
        match = re.search(rf"^\s*{re.escape(self.pinned)} (v\S+)", self._go_mod, re.MULTILINE)
        if match is None:
            raise LabError(f"{self.folder}/go.mod does not require {self.pinned}")
        return match.group(1)

    @cached_property
    def minimum_go(self) -> tuple[int, ...]:
        """The oldest Go that may build this module (the `go` line of go.mod), such as (1, 26, 9)."""
        match = re.search(r"^go ([0-9.]+)$", self._go_mod, re.MULTILINE)
        if match is None:
            raise LabError(f"{self.folder}/go.mod has no go line")
        return tuple(int(part) for part in match.group(1).split("."))

    @cached_property
    def _go_mod(self) -> str:
        return (self.folder / "go.mod").read_text()


@dataclass(frozen=True)
class Binary:
    """One program of the lab: its Go package, and a call that proves that it runs."""

    name: str
    module: GoModule
    package: str
    check_arguments: tuple[str, ...]
    check_output: str


KUBERNETES = GoModule("kubernetes", "k8s.io/kubernetes")
ETCD = GoModule("etcd", "go.etcd.io/etcd/server/v3")
KARPENTER = GoModule("karpenter", "sigs.k8s.io/karpenter")
HELM = GoModule("helm", "helm.sh/helm/v3")
# Without the tag the SDKs of twenty clouds are compiled in, to find targets that no test has.
PROMETHEUS = GoModule("prometheus", "github.com/prometheus/prometheus", tags="remove_all_sd")


def _kubernetes_command(name: str) -> Binary:
    return Binary(name, KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", ("--version",), "Kubernetes v")


ALL_BINARIES: tuple[Binary, ...] = (
    Binary("etcd", ETCD, "go.etcd.io/etcd/server/v3", ("--version",), "etcd Version"),
    _kubernetes_command("kube-apiserver"),
    _kubernetes_command("kube-controller-manager"),
    _kubernetes_command("kube-scheduler"),
    _kubernetes_command("kubemark"),
    Binary("kubectl", KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", ("version", "--client"), "Client Version"),
    Binary("karpenter", KARPENTER, "sigs.k8s.io/karpenter/kwok", ("--help",), "disable-leader-election"),
)
"""What `python -m lab binaries` provides, in the order in which it is built."""

CONTROL_PLANE_BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")

MONITORING_BINARIES: tuple[Binary, ...] = tuple(
    Binary(name, PROMETHEUS, f"github.com/prometheus/prometheus/cmd/{name}", ("--version",), f"{name}, version")
    for name in ("prometheus", "promtool")
)
"""What the tests of alerts and dashboards need; the demo does not, so it need not wait for them."""

CHART_BINARIES = (Binary("helm", HELM, "helm.sh/helm/v3/cmd/helm", ("version",), "version.BuildInfo"),)
"""What the tests of the chart need."""

ON_REQUEST_ONLY: tuple[Binary, ...] = (_kubernetes_command("kubelet"),)
"""Known, but built only when somebody asks for it by name: the real kubelet needs a container runtime."""


def binary_named(name: str) -> Binary:
    """Return the binary called `name`; an unknown name is refused with the list of known ones."""
    known = {binary.name: binary for binary in ALL_BINARIES + MONITORING_BINARIES + CHART_BINARIES + ON_REQUEST_ONLY}
    if name not in known:
        raise LabError(f"no binary is called {name!r}; known: {', '.join(known)}")
    return known[name]
