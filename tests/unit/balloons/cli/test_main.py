"""The command line from outside: what is imported for help, exit codes, and one sentence for each error."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from balloons.cli.main import balloons as commands
from balloons.cli.main import program_name
from balloons.cli.options_and_values import HostPort
from balloons.cli.run_command import DEFAULT_ADDRESS, IN_CLUSTER_ADDRESS, run
from balloons.cli.terminal import CommandError, ExitCode, explain
from balloons.service.settings import ListenAddress, ServiceSettings, SettingsError
from tests.commands import balloons
from throttler.kube.errors import ConfigError, ForbiddenError
from throttler.scraping.promql_client import PrometheusAccess

EXAMPLE = str(Path(__file__).parents[4] / "docs" / "example" / "cluster.tar.gz")
HEAVY = (
    "kubernetes",
    "aiohttp",
    "asyncio",
    "numpy",
    "msgspec",
    "prometheus_client",
    "rich",
    "structlog",
    "asyncio_throttle",
    "matplotlib",
    "jinja2",
)
INTERRUPTED = """
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.argv = ["balloons", "plan", "--offline", "--add", "5"]
from balloons.__main__ import main
main()
"""
TOLD_TO_STOP = """
import os, signal, sys
os.getpid = lambda: 1
class Stops:
    def find_spec(self, name, path=None, target=None):
        if name == "balloons.cli.main":
            signal.raise_signal(signal.SIGTERM)
sys.meta_path.insert(0, Stops())
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.argv = ["balloons", "version"]
from balloons.__main__ import main
main()
"""
MODULES_AFTER = """
import sys
from balloons.cli.main import main
try:
    main({arguments!r})
except SystemExit as ended:
    assert not ended.code, ended.code
print("LOADED", *[m for m in {heavy!r} if m in sys.modules])
"""


@pytest.mark.whole
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *([name, "--help"] for name in ("run", "guard", "status", "dump", "doctor", "explain", "top", "pause")),
        ["version"],
    ],
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = MODULES_AFTER.format(arguments=arguments, heavy=HEAVY)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize("name", ["status", "top"])
def test_of_a_dump_no_server_is_asked(name: str) -> None:
    """The client takes longer to load than a dump to read."""
    code = MODULES_AFTER.format(arguments=[name, "--from", EXAMPLE], heavy=("aiohttp", "throttler.kube.kube_client"))
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.parametrize("name", sorted(commands.commands))
def test_help_of_a_command_fits_eighty_columns_and_names_what_a_value_is(name: str) -> None:
    shown = CliRunner().invoke(commands, [name, "--help"], terminal_width=80).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "FLOAT" not in shown


@pytest.mark.parametrize("name", sorted(set(commands.commands) - {"run"}))
def test_options_fit_forty_columns(name: str) -> None:
    """Examples are commands to copy, so they stand on one line of any length. `run` is not for people."""
    shown = CliRunner().invoke(commands, [name, "--help"], terminal_width=38).output
    options = shown[shown.index("\n\n", shown.index("Examples:")) :]
    assert [line for line in options.splitlines() if len(line) > 40 and not line.endswith(":")] == []


@pytest.mark.parametrize("columns", [40, 80])
def test_help_cuts_no_summary_and_fits_the_terminal(columns: int) -> None:
    """click ends a summary that has no room with three dots; where it is given it goes on in the next line."""
    lines = balloons("--help", COLUMNS=str(columns)).stdout.splitlines()
    summaries = lines[lines.index("Commands:") + 1 :]
    assert max(map(len, summaries)) <= columns
    assert [line for line in summaries if "..." in line] == []
    joined = re.sub(r"\n {4,}", " ", "\n".join(summaries)).splitlines()
    assert len(joined) == len(commands.commands)
    assert [line for line in joined if not line.endswith(".")] == []


def test_the_first_examples_fit_sixty_columns() -> None:
    """No terminal wraps them: they and their words stay in two columns."""
    lines = balloons("--help", COLUMNS="60").stdout.splitlines()
    assert [line for line in lines if len(line) > 60] == []


def test_an_option_of_other_commands_is_taken_for_that_and_not_for_a_misspelling() -> None:
    """`simulate` takes --add alone; that --pool looks like --to helps nobody."""
    answer = balloons("simulate", "--offline", "--to", "500")
    assert answer.returncode == 2
    assert answer.stderr.splitlines()[0] == "error: no option '--to'; plan and report have it"


def test_bad_option_is_bad_input() -> None:
    answer = balloons("status", "--no-such-option")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "no option '--no-such-option'" in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--metrics-address", "here"), "'--metrics-address': 'here'; accepted: host:port"),
        (("run", "--kubeconfig", "/no/such/file"), "/no/such/file: no such kubeconfig"),
        (("status", "--kubeconfig", "/no/such/file"), "/no/such/file: no such kubeconfig"),
        (("status", "--kubeconfig", "/tmp"), "error: /tmp: is a directory"),
        (("top", "--kubeconfig", "/no/such/file"), "without a cluster: --from FILE, which `balloons dump` wrote"),
        (("doctor", "--kubeconfig", "/no/such/file"), "without a cluster: -f FOLDER of manifests, or --from FILE"),
        (("status", "-w", "-o", "json"), "--watch with --output json"),
        (("status", "-w", "--wait"), "--watch with --wait: accepted is one of them"),
        (("status", "--for", "idle"), "--for without --wait"),
        (("status", "--wait", "--for", "warm"), "--for 'warm' cannot be waited for; accepted: condition=Ready|"),
        (("status", "--wait", "--timeout", "soon"), 'duration "soon'),
        (("status", "--wait", "--timeout", "999h"), "accepted: above 0 and at most 744h"),
        (("status", "--wait", "--from", __file__), "a dump does not change"),
    ],
)
def test_unusable_input_is_one_sentence_and_code_two(arguments: tuple[str, ...], sentence: str) -> None:
    answer = balloons(*arguments)
    assert answer.returncode == 2
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr


def test_environment_gives_options() -> None:
    answer = balloons("run", BALLOONS_INTERVAL="-5")
    assert "'-5'; accepted: a number from 1 to 60" in answer.stderr


@pytest.mark.whole
def test_server_that_is_away_is_a_failure_while_running(tmp_path: Path) -> None:
    config = tmp_path / "config"
    body = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    config.write_text(json.dumps(body))
    answer = balloons("status", "--kubeconfig", str(config))
    assert answer.returncode == 1
    assert answer.stderr.startswith("error: ")
    assert len(answer.stderr.splitlines()) == 1


def test_reader_that_goes_away_is_no_error() -> None:
    """As with `balloons ... | head`: the pipe is closed before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "balloons", "--help"]
    answer = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("version >&-", 0), ("frobnicate 2>&-", 2), ("plan --pods - --from x <&-", 2), ("version <&- >&- 2>&-", 0)],
)
def test_a_stream_that_is_closed_is_no_error(arguments: str, code: int) -> None:
    run = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} -m balloons {arguments}"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, "unexpected" in run.stderr) == (code, False)


@pytest.mark.parametrize(
    ("argv0", "name"),
    [
        ("/usr/local/bin/kubectl-balloons", "kubectl balloons"),
        ("/usr/bin/balloons", "balloons"),
        ("/x/balloons/__main__.py", "balloons"),
    ],
)
def test_program_is_called_what_the_user_called_it(argv0: str, name: str) -> None:
    assert program_name(argv0) == name


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConfigError("file: no user"), ("file: no user", ExitCode.BAD_INPUT)),
        (SettingsError("x 0: accepted 1"), ("x 0: accepted 1", ExitCode.BAD_INPUT)),
        (ForbiddenError("pods is forbidden", status=403), ("pods is forbidden", ExitCode.FAILED)),
        (CommandError("no CRD"), ("no CRD", ExitCode.FAILED)),
        (ExceptionGroup("tasks", [ConfigError("deep")]), ("deep", ExitCode.BAD_INPUT)),
    ],
)
def test_errors_are_explained(error: Exception, expected: tuple[str, ExitCode]) -> None:
    assert explain(error) == expected


def metrics_address(*arguments: str) -> ListenAddress | None:
    """Where `balloons run` with these arguments serves metrics."""
    context = run.make_context("run", [*arguments])
    return cast("ListenAddress | None", context.params["metrics_address"])


def test_metrics_are_for_loopback_unless_in_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert str(metrics_address()) == DEFAULT_ADDRESS
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert str(metrics_address()) == IN_CLUSTER_ADDRESS


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ListenAddress("127.0.0.1", 8080)),
        (":9090", ListenAddress("0.0.0.0", 9090)),
        ("[::1]:0", ListenAddress("::1", 0)),
        ("off", None),
    ],
)
def test_address_is_understood(text: str, address: ListenAddress | None) -> None:
    assert metrics_address("--metrics-address", text) == address


@given(st.text() | st.from_regex(r"\A[0-9a-f.:]{0,9}:[0-9]{1,6}\Z"))
def test_any_other_address_is_refused_and_never_crashes(text: str) -> None:
    with contextlib.suppress(click.BadParameter):
        address = HostPort().convert(text, None, None)
        assert address is None or 0 <= address.port <= 65535


def test_files_for_prometheus_reach_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ServiceSettings] = []

    async def serve(settings: ServiceSettings, version: str) -> bool:
        told.append(settings)
        return True

    monkeypatch.setattr("balloons.service.run.serve", serve)
    files = {name: f"/{name}" for name in ("ca", "token", "cert", "key")}
    options = [f"--prometheus-{name}-file={path}" for name, path in files.items()]
    for arguments in (["--prometheus-url=https://prometheus:9091", *options], []):
        CliRunner().invoke(commands, ["run", *arguments], standalone_mode=False)
    paths = {f"{name}_file": path for name, path in files.items()}
    assert [settings.prometheus for settings in told] == [
        PrometheusAccess(url="https://prometheus:9091", **paths),
        None,
    ]


def test_a_token_without_a_url_is_bad_input() -> None:
    answer = balloons("run", "--prometheus-token-file=/token")
    assert (answer.returncode, answer.stderr.splitlines()[-1]) == (
        2,
        "error: --prometheus-url is not given; accepted: the one URL that the --prometheus-*-file options are for",
    )


@pytest.mark.whole
@pytest.mark.parametrize("module", ["click", "balloons.cli.main", "balloons.preview.forecast", "numpy"])
def test_an_interrupt_while_modules_are_imported_is_no_traceback(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(module=module)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_a_stop_while_modules_are_imported_is_heard_also_by_the_first_process_of_a_container() -> None:
    """For which the kernel ignores it until there is a handler."""
    done = subprocess.run([sys.executable, "-c", TOLD_TO_STOP], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGTERM, "", "")
