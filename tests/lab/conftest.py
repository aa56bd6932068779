"""A plane of its own with kube-balloons installed, for tests that bring an autoscaler."""

from collections.abc import AsyncIterator

import pytest

from lab.controlplane import ControlPlane, start_control_plane
from lab.demo.service import install


@pytest.fixture
async def installed_plane() -> AsyncIterator[ControlPlane]:
    """A plane of one's own: Karpenter leaves NodeClaims behind."""
    async with start_control_plane() as plane:
        await install(plane)
        yield plane
