"""The documented ways to install and to remove, as the commands of the documentation, and what happens just before."""

import asyncio
import enum
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lab.binaries import find_binary
from lab.controlplane import ControlPlane
from lab.manifests import CHART, MANIFESTS

LEVERS = {"nodePoolLimits": "node-pools", "capacityQuota": "capacity-quota", "nodes": "nodes"}
LEVERS |= {"schedulingGates": "scheduling-gates"}
"""Every lever, as the chart and as the kustomizations name it."""
ROLLED_OUT = "\n".join(
    f"kubectl -n kube-balloons rollout status deployment/{name} --timeout=120s"
    for name in ("kube-balloons", "kube-balloons-guard")
)
COMMAND_TIMEOUT_S = 420.0


class Way(enum.StrEnum):
    """How it is removed. `KILLED`: every process of ours is killed first, as by the kernel, and none gives back."""

    HELM = "helm uninstall"
    HELM_KILLED = "killed, helm uninstall"
    COMMAND = "balloons give-back, kubectl delete -k"
    COMMAND_KILLED = "killed, balloons give-back, kubectl delete -k"
    KUBECTL = "kubectl alone"
    KUBECTL_KILLED = "killed, kubectl alone"

    @property
    def is_helm(self) -> bool:
        """Whether Helm installed it."""
        return self in (Way.HELM, Way.HELM_KILLED)

    @property
    def is_killed(self) -> bool:
        """Whether no replica is there to give anything back."""
        return self.value.startswith("killed")


TURNS = (
    Way.HELM,
    Way.COMMAND,
    Way.HELM_KILLED,
    Way.KUBECTL,
    Way.HELM,
    Way.COMMAND_KILLED,
    Way.HELM,
    Way.KUBECTL_KILLED,
    Way.HELM_KILLED,
    Way.COMMAND,
)
"""By how often people will do so; again from the start after the last."""

_BY_KUBECTL = """
kubectl -n kube-balloons scale deployment/kube-balloons --replicas=0
kubectl -n kube-balloons wait --for=delete pod --selector app.kubernetes.io/name=kube-balloons --timeout=60s
[ -z "$(kubectl get nodepools,capacityquotas -l kube-balloons.github.io/throttle -o name)" ] || sleep 130
kubectl delete --ignore-not-found -k .
for node in $(kubectl get nodes -o go-template='{{range .items}}{{if index .metadata.annotations \
"kube-balloons.github.io/held-by"}}{{.metadata.name}} {{end}}{{end}}'); do
  kubectl annotate node "$node" cluster-autoscaler.kubernetes.io/scale-down-disabled- karpenter.sh/do-not-disrupt- \
    kube-balloons.github.io/held-by-
done
"""
_REMOVALS = {
    Way.HELM: "helm uninstall kube-balloons --namespace kube-balloons",
    Way.COMMAND: "balloons give-back && kubectl delete --ignore-not-found -k .",
    Way.KUBECTL: _BY_KUBECTL,
}


class Shell:
    """Runs commands as a user would: kubectl, helm and balloons on the PATH, $KUBECONFIG set, in a folder."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._folder = folder
        tools = [find_binary("kubectl").parent, find_binary("helm").parent, Path(sys.executable).parent]
        own = {name: value for name, value in os.environ.items() if not name.startswith(("BALLOONS_", "KUBE"))}
        self._environment = {
            **own,
            "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
            "KUBECONFIG": str(plane.kubeconfig()),
            "KUBECACHEDIR": str(plane.directory / "kubectl-cache"),
            "HOME": str(folder),
        }

    async def run(self, script: str, folder: Path | None = None) -> str:
        """Run it with bash, ending at the first command that fails; returns what it prints, raises with it."""
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", script),
            cwd=folder or self._folder,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), COMMAND_TIMEOUT_S)
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode != 0:
            raise RuntimeError(f"exit code {process.returncode} of\n{script}\n{output.decode()}")
        return output.decode()

    async def install(self, way: Way) -> None:
        """Install with every lever, and wait until both replicas and the guard are ready."""
        await self.run(f"{_with_helm() if way.is_helm else self._with_kustomize()}\n{ROLLED_OUT}")

    async def remove(self, way: Way) -> str:
        """Remove it as documented; returns what the commands print."""
        plain = Way(way.value.removeprefix("killed, "))
        return await self.run(_REMOVALS[plain])

    def _with_kustomize(self) -> str:
        components = [MANIFESTS / "levers" / name for name in LEVERS.values()]
        overlay: Mapping[str, object] = {
            "resources": [_relative(MANIFESTS / "overlays" / "default", self._folder)],
            "components": [_relative(component, self._folder) for component in components],
        }
        (self._folder / "kustomization.yaml").write_text("".join(f"{key}: {value}\n" for key, value in overlay.items()))
        return "kubectl apply --server-side --force-conflicts -k ."


def _with_helm() -> str:
    levers = ",".join(f"levers.{name}=true" for name in LEVERS)
    where = "--namespace kube-balloons --create-namespace"
    restricted = "kubectl label --overwrite namespace kube-balloons pod-security.kubernetes.io/enforce=restricted"
    image = "image.registry=registry.example.com"
    return f"helm install kube-balloons {CHART} {where} --set {image},{levers},annotateNodes=true\n{restricted}"


def _relative(path: Path, folder: Path) -> str:
    return os.path.relpath(path, folder.resolve())
