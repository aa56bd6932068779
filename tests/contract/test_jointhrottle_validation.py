"""The CRD on a real API server: what it refuses, in which words, and what it takes."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.jointhrottle_table import Case, accepted, refused
from throttler.api.throttle import JoinThrottle
from throttler.api.throttle_rules import decode_throttle
from throttler.kube.custom_objects import Invalid

REFUSED = [case for case in refused() if not case.is_for_service_only]
TAKEN = [*accepted(), *(case for case in refused() if case.is_for_service_only)]
LET_IN = [case for case in REFUSED if case.server == case.says]
"""What only a validation refuses: the schema check of an older server finds nothing wrong with these."""
OLDER_GROUP = "older-throttle.example"


def create(plane: ControlPlane, manifest: Any) -> str:
    """What the server would store, defaults included."""
    return json.dumps(plane.try_to_create(manifest))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_the_server_refuses_with_field_value_and_what_is_accepted(
    control_plane: ControlPlane, jointhrottle_crd: str, case: Case
) -> None:
    with pytest.raises(LabError) as refusal:
        create(control_plane, case.manifest)
    assert case.at in str(refusal.value)
    assert case.server in str(refusal.value)


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_both_read_the_same_throttle_with_the_server_s_defaults_and_without(
    control_plane: ControlPlane, jointhrottle_crd: str, case: Case
) -> None:
    stored, plain = decode_throttle(create(control_plane, case.manifest).encode()), decode_throttle(case.manifest)
    assert isinstance(stored, JoinThrottle), stored
    assert isinstance(plain, JoinThrottle)
    assert stored.spec == plain.spec


@pytest.fixture(scope="module")
def older_server(control_plane: ControlPlane, serve_older: Callable[[str, str], None]) -> ControlPlane:
    serve_older("jointhrottles", OLDER_GROUP)
    return control_plane


@pytest.mark.parametrize("case", LET_IN, ids=lambda case: case.name)
def test_the_service_refuses_what_an_older_server_stores_in_the_same_words(
    older_server: ControlPlane, case: Case
) -> None:
    found = decode_throttle(create(older_server, {**case.manifest, "apiVersion": f"{OLDER_GROUP}/v1alpha1"}).encode())
    assert isinstance(found, Invalid)
    assert case.says in found.message


def test_the_tables_are_large_enough() -> None:
    assert len(REFUSED) >= 60
    assert len(LET_IN) >= 40
    assert len(accepted()) >= 10
