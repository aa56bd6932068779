"""An API server that runs no validations stores pools that break our rules; the service refuses what it reads back.

The same CRD less its validations, under a group of its own, stands for that server.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloons.api.decode import Invalid, decode_pool
from lab.controlplane import ControlPlane
from tests.contract.balloonpool_table import Case, refused

CRD = Path(__file__).parents[2] / "manifests" / "crds" / "balloonpools.yaml"
GROUP = "older.example"
LET_IN = [case for case in refused() if case.server == case.says]
"""What only a validation refuses: the schema check of an older server finds nothing wrong with these."""


def without_validations(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: without_validations(part) for k, part in schema.items() if k != "x-kubernetes-validations"}
    return [without_validations(part) for part in schema] if isinstance(schema, list) else schema


@pytest.fixture(scope="module")
def older_crd(control_plane: ControlPlane) -> str:
    crd = without_validations(yaml.safe_load(CRD.read_text(encoding="utf-8")))
    name = crd["metadata"]["name"] = f"balloonpools.{GROUP}"
    crd["spec"]["group"] = GROUP
    # The short names belong to the real one, which may be served at the same time.
    crd["spec"]["names"].pop("shortNames")
    crd["spec"]["names"].pop("categories")
    control_plane.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(crd))
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    return name


@pytest.mark.parametrize("case", LET_IN, ids=lambda case: case.name)
def test_the_service_refuses_what_an_older_server_stores_in_the_same_words(
    control_plane: ControlPlane, older_crd: str, case: Case
) -> None:
    manifest = {**case.manifest, "apiVersion": f"{GROUP}/v1alpha1"}
    create = ("create", "--namespace=default", "--dry-run=server", "--output=json", "--filename=-")
    stored = control_plane.kubectl(*create, input=json.dumps(manifest))
    found = decode_pool(stored.encode())
    assert isinstance(found, Invalid)
    assert case.says in found.message


def test_the_table_has_enough_of_them() -> None:
    assert len(LET_IN) >= 40
