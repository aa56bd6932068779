"""`balloons guard` and `give-back`: their options.

`balloons give-back`: what it refuses before it starts, and what it asks a guard to do. `balloons guard`: what it
refuses before it starts.
"""

import asyncio
import json
import signal
from pathlib import Path
from typing import cast

import pytest

from balloons.cli.guard_and_give_back_command import _await_silence, _settings
from balloons.cli.main import main
from balloons.cli.terminal import ExitCode
from balloons.service.run import stop_on_signals
from throttler.kube.election import LEASE_S, RENEW_DEADLINE_S
from throttler.kube.kube_client import KubeClient
from throttler.service.guard import GuardSettings


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
    assert settings.after_s > LEASE_S > RENEW_DEADLINE_S
    assert settings.waits_for_silence
    assert settings.lets_nodes_go
    assert settings.once_timeout_s == 90.0


def test_a_server_that_does_not_answer_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And not for each kind of object that would be read."""
    user = {"name": "a", "user": {"token": "t"}}
    cluster = {"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "a"}
    (tmp_path / "config").write_text(json.dumps(config))
    assert exit_code("--dry-run", "--kubeconfig", str(tmp_path / "config")) == ExitCode.FAILED
    said = capsys.readouterr()
    assert said.err.count("nobody listens at that port") == 1
    assert "would be given back" not in said.out + said.err


def guard_exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["guard", *arguments])
    return int(str(ended.value.code))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--after", "10", "--period", "3"), "--period: 3; accepted: at most a quarter of --after, which is 2.5"),
        (("--after", "0"), "--after"),
        (("--after", "nan"), "--after"),
        (("--period", "-1"), "--period"),
        (("--period", "nan"), "--period"),
        (("--max-calls-per-second", "0"), "--max-calls-per-second"),
        (("--log-format", "xml"), "--log-format"),
    ],
)
def test_setting_out_of_range_is_refused(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard_exit_code(*arguments) == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err


def test_missing_kubeconfig_is_bad_input_for_the_guard(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard_exit_code("--kubeconfig", "nowhere.yaml") == ExitCode.BAD_INPUT
    assert "nowhere.yaml" in capsys.readouterr().err


def test_help_says_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert guard_exit_code("--help") == ExitCode.DONE
    assert "Exit codes:" in capsys.readouterr().out


async def test_a_second_interrupt_ends_at_once() -> None:
    """The first waits for the round under way, which takes minutes where a server does not answer."""
    stop = stop_on_signals()
    signal.raise_signal(signal.SIGINT)
    async with asyncio.timeout(10):
        await stop.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


async def test_after_the_first_signal_sigterm_does_what_it_did_before() -> None:
    """In a container's first process it would else be ignored; and Ctrl-C after a SIGTERM is a second signal, too."""
    ends = []
    usual = signal.signal(signal.SIGTERM, lambda number, frame: ends.append(number))
    try:
        stop = stop_on_signals()
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(10):
            await stop.wait()
        assert ends == []
        signal.raise_signal(signal.SIGTERM)
        assert ends == [signal.SIGTERM]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGTERM, usual)


async def test_who_breaks_off_a_give_back_hears_that_the_service_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hanging:
        def __init__(self, *_: object) -> None: ...

        async def run(self, stop: asyncio.Event) -> bool:
            return await asyncio.Event().wait()

    monkeypatch.setattr("throttler.service.guard.Guard", Hanging)
    client, settings = cast("KubeClient", None), cast("GuardSettings", None)
    waiting = asyncio.create_task(_await_silence(client, client, settings, is_scaled=True))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().remove_signal_handler(number)
    assert capsys.readouterr().err == "stopped before everything was given back; the service stays at zero replicas\n"
