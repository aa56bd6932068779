"""`balloons guard`: what it refuses before it starts."""

import pytest

from balloons.cli.failing import ExitCode
from balloons.cli.main import main


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["guard", *arguments])
    return int(str(ended.value.code))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--after", "10", "--period", "3"), "a quarter of --after"),
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
    assert exit_code(*arguments) == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err


def test_missing_kubeconfig_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--kubeconfig", "nowhere.yaml") == ExitCode.BAD_INPUT
    assert "nowhere.yaml" in capsys.readouterr().err


def test_help_says_what_the_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--help") == ExitCode.DONE
    assert "Exit codes:" in capsys.readouterr().out
