"""An API server that runs no validations stores pools that break our rules; the service refuses what it reads back.

The same CRD less its validations, under a group of its own, stands for that server.
"""

import json
from collections.abc import Callable

import pytest

from balloons.api.pool_rules import Invalid, decode_pool
from lab.controlplane import ControlPlane
from tests.contract.balloonpool_table import Case, refused

GROUP = "older.example"
LET_IN = [case for case in refused() if case.server == case.says]
"""What only a validation refuses: the schema check of an older server finds nothing wrong with these."""


@pytest.fixture(scope="module")
def older_server(control_plane: ControlPlane, serve_older: Callable[[str, str], None]) -> ControlPlane:
    serve_older("balloonpools", GROUP)
    return control_plane


@pytest.mark.parametrize("case", LET_IN, ids=lambda case: case.name)
def test_the_service_refuses_what_an_older_server_stores_in_the_same_words(
    older_server: ControlPlane, case: Case
) -> None:
    manifest = {**case.manifest, "apiVersion": f"{GROUP}/v1alpha1"}
    found = decode_pool(json.dumps(older_server.try_to_create(manifest)).encode())
    assert isinstance(found, Invalid)
    assert case.says in found.message


def test_the_table_has_enough_of_them() -> None:
    assert len(LET_IN) >= 40
