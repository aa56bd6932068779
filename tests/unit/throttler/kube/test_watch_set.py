"""What the API server serves: an optional kind, in whichever of its group's versions."""

import pytest

from tests.unit.throttler.kube.fake_list_and_watch import FakeApi, FakeResponse, client_for, status_answer
from throttler.kube.watch_set import served_version

GROUP = "autoscaling.x-k8s.io"


class Discovery(FakeApi):
    """Answers what is asked about one group: its kinds by version, the version that is preferred first."""

    def __init__(self, kinds: dict[str, list[str]]) -> None:
        super().__init__()
        names = [f'{{"groupVersion": "{GROUP}/{version}"}}' for version in kinds]
        preferred = f'"preferredVersion": {names[0]}, ' if names else ""
        self.answers = {f"/apis/{GROUP}": f'{{{preferred}"versions": [{", ".join(names)}]}}'} if kinds else {}
        for version, plurals in kinds.items():
            resources = ", ".join(f'{{"name": "{plural}"}}' for plural in plurals)
            self.answers[f"/apis/{GROUP}/{version}"] = f'{{"resources": [{resources}]}}'

    def _answer(self, request):
        answer = self.answers.get(request.path)
        return FakeResponse(200, answer.encode()) if answer else status_answer(404, "NotFound")


BUFFERS, REQUESTS = "capacitybuffers", "provisioningrequests"


@pytest.mark.parametrize(
    ("kinds", "version"),
    [
        ({}, ""),
        ({"v1beta1": [BUFFERS, f"{BUFFERS}/status"]}, "v1beta1"),
        ({"v1": [REQUESTS], "v1beta1": [REQUESTS]}, ""),
        # GKE, and whoever installs Kueue's ProvisioningRequests: the group's preferred version is another kind's.
        ({"v1": [REQUESTS], "v1beta1": [BUFFERS, REQUESTS], "v1alpha1": [BUFFERS]}, "v1beta1"),
        ({"v1": [REQUESTS], "v1beta1": [REQUESTS], "v1alpha1": [BUFFERS]}, "v1alpha1"),
    ],
)
async def test_a_kind_is_found_in_whichever_version_of_its_group(kinds, version):
    expected = f"{GROUP}/{version}" if version else ""
    assert await served_version(client_for(Discovery(kinds)), GROUP, BUFFERS) == expected
