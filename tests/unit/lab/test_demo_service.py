"""The demo's service is that of a user who has exported options for a cluster of theirs."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.demo.rush_scene import small_share
from lab.demo.service import run_service
from lab.processes import ProcessGroup


@pytest.fixture
def processes() -> Iterator[ProcessGroup]:
    with ProcessGroup() as group:
        yield group


async def test_options_that_a_user_has_exported_do_not_reach_it(
    processes: ProcessGroup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, str]] = []

    def spawn(command: object, *, log: Path, env: dict[str, str] | None = None) -> Any:
        told.append(dict(os.environ if env is None else env))
        return processes.spawn([sys.executable, "-c", "import time; time.sleep(600)"], log=log, env=env)

    plane: Any = SimpleNamespace(directory=tmp_path, processes=SimpleNamespace(spawn=spawn))
    (tmp_path / "logs").mkdir()
    for name in ("BALLOONS_CONTEXT", "BALLOONS_NAMESPACE", "BALLOONS_DRY_RUN", "KUBECONFIG"):
        monkeypatch.setenv(name, "theirs")
    async with run_service(plane, kubeconfig=tmp_path / "kubeconfig"):
        pass
    (environment,) = told
    assert not [name for name in environment if name.startswith(("BALLOONS_", "KUBE"))]
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("start_s", "cores", "share"),
    [(2.4, 2, 0.5), (1.2, 2, 0.25), (0.1, 2, 0.2), (5.0, 2, 0.8), (3.84, 64, 0.8), (9.0, 64, 1.0)],
    ids=["measured", "quick", "very quick", "slow", "slow, many cores", "very slow"],
)
def test_a_demo_has_an_api_server_as_small_on_any_machine(start_s: float, cores: int, share: float) -> None:
    assert small_share(start_s, cores) == pytest.approx(share)
