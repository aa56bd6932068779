"""A namespace for a whole module: the tests here only read or dry-run, and there are many of them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.controlplane import ControlPlane
from tests.contract.waiting import make_namespace, serve
from tests.crd_and_types import older_crd

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
    serve(plane, MANIFESTS / "crds" / f"{plural}.yaml")
    return f"{plural}.kube-balloons.github.io"


@pytest.fixture(scope="session")
def serve_older(control_plane: ControlPlane) -> Callable[[str, str], None]:
    """Serve a CRD, by its plural, as a server without validations has it, under another group."""

    def serve_it(plural: str, group: str) -> None:
        serve(control_plane, json.dumps(older_crd(plural, group)))

    return serve_it


@pytest.fixture(scope="module")
def pool_namespace(control_plane: ControlPlane, balloonpool_crd: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace in which BalloonPools are served."""
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    make_namespace(control_plane, name)
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false")
