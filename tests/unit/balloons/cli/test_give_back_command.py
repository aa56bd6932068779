"""`balloons give-back`: what it refuses before it starts, and what it asks a guard to do."""

import pytest

from balloons.cli.failing import ExitCode
from balloons.cli.give_back_command import _settings
from balloons.cli.main import main
from throttler.kube.election import LeadTiming


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["give-back", *arguments])
    return int(str(ended.value.code))


@pytest.mark.parametrize("timeout", ["nan", "5", "999999"])
def test_timeout_out_of_range_is_refused(timeout: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--timeout", timeout) == ExitCode.BAD_INPUT
    assert "--timeout" in capsys.readouterr().err


def test_missing_kubeconfig_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--kubeconfig", "nowhere.yaml") == ExitCode.BAD_INPUT
    assert "nowhere.yaml" in capsys.readouterr().err


def test_it_waits_until_no_replica_may_write_any_more() -> None:
    settings = _settings({"namespace": "elsewhere", "timeout": 90.0})
    assert settings.lease == "elsewhere/kube-balloons-throttle"
    assert settings.after_s > LeadTiming().lease_s > LeadTiming().renew_deadline_s
    assert settings.waits_for_silence
    assert settings.lets_nodes_go
    assert settings.once_timeout_s == 90.0
