"""The CRD on a real API server: what it refuses, in which words, and what it takes."""

import json

import pytest

from lab.controlplane import ControlPlane
from lab.errors import LabError
from tests.contract.balloonpool_table import Case, accepted, refused

REFUSED = [case for case in refused() if not case.is_for_service_only]
TAKEN = [*accepted(), *(case for case in refused() if case.is_for_service_only)]


def create(plane: ControlPlane, namespace: str, case: Case) -> str:
    """What the server would store, defaults included."""
    return json.dumps(plane.try_to_create(case.manifest, namespace))


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_the_server_refuses_with_field_value_and_what_is_accepted(
    control_plane: ControlPlane, pool_namespace: str, case: Case
) -> None:
    with pytest.raises(LabError) as refusal:
        create(control_plane, pool_namespace, case)
    assert case.at in str(refusal.value)
    assert case.server in str(refusal.value)


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.name)
def test_the_server_takes(control_plane: ControlPlane, pool_namespace: str, case: Case) -> None:
    stored = json.loads(create(control_plane, pool_namespace, case))
    assert stored["spec"]["mode"] == case.manifest["spec"]["mode"]


def test_the_table_is_large_enough() -> None:
    assert len(REFUSED) >= 40
    assert len(accepted()) >= 10
