"""A namespace for a whole module: the tests here only read or dry-run, and there are many of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.controlplane import ControlPlane

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture(scope="session")
def balloonpool_crd(control_plane: ControlPlane) -> str:
    """The CRD, applied and served."""
    return _served(control_plane, "balloonpools")


@pytest.fixture(scope="session")
def jointhrottle_crd(control_plane: ControlPlane) -> str:
    """The CRD, applied and served."""
    return _served(control_plane, "jointhrottles")


def _served(plane: ControlPlane, plural: str) -> str:
    name = f"{plural}.kube-balloons.github.io"
    plane.kubectl("apply", "--server-side", f"--filename={MANIFESTS}/crds/{plural}.yaml")
    plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    return name


@pytest.fixture(scope="module")
def pool_namespace(control_plane: ControlPlane, balloonpool_crd: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace in which BalloonPools are served."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    control_plane.kubectl("create", "namespace", name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
