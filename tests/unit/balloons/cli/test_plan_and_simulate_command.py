"""`balloons plan` and `simulate` from outside: without a cluster, on a dump, with bad input, and what they import."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import click
import pytest

from balloons.cli.main import balloons as commands
from balloons.cluster.seen_cluster import Listed, Unread
from balloons.reading.read_cluster import read_archive, write_archive
from tests.commands import balloons
from tests.published_schema import problems

MODULES_AFTER = """
import sys
from balloons.cli.main import main
try:
    main({arguments!r})
except SystemExit as ended:
    assert not ended.code, ended.code
print("LOADED", *[m for m in {heavy!r} if m in sys.modules])
"""
HEAVY = ("kubernetes", "aiohttp", "numpy", "matplotlib", "jinja2", "rich", "msgspec", "yaml", "throttler.simulator")
SURE = ("--offline", "--boot", "30s", "--join", "20s", "--servers", "3", "--server-cores", "32", "--daemonsets", "2")


@pytest.mark.parametrize("arguments", [["plan", "--help"], ["simulate", "--help"], ["report", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    code = MODULES_AFTER.format(arguments=arguments, heavy=HEAVY)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "LOADED"


def test_a_dump_is_read_without_the_client_of_a_cluster() -> None:
    code = MODULES_AFTER.format(
        arguments=["explain", "pool", "gpu", "--from", EXAMPLE], heavy=("aiohttp", "kubernetes", "tenacity")
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "LOADED"


@pytest.mark.whole
def test_plans_without_a_cluster_and_says_what_was_assumed() -> None:
    answer = balloons("plan", "--to", "20", *SURE)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "20 nodes more: 0 -> 20" in answer.stdout
    assert "\x1b" not in answer.stdout
    assert "8 of 13 figures are assumed" in answer.stdout
    wide = balloons("plan", "--to", "20", "-o", "wide", *SURE).stdout
    for words in ("WAVE", "machine boot", "--boot", "registration timeout", "assumed"):
        assert words in wide


def test_saves_what_it_prints_for_machines(tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    answer = balloons("plan", "--add", "20", "-o", "json", "--save", str(saved), *SURE)
    printed = json.loads(answer.stdout)
    assert printed == json.loads(saved.read_text())
    assert (printed["kind"], printed["nodesComing"]) == ("Plan", 20)
    assert {each["name"]: each["source"] for each in printed["inputs"]}["boot"] == "stated"


@pytest.mark.whole
def test_a_comparison_has_the_form_that_was_asked_for(tmp_path: Path) -> None:
    saved = str(tmp_path / "plan.json")
    assert balloons("plan", "--from", EXAMPLE, "--add", "20", "--save", saved).returncode == 0
    table, wide, data = (
        balloons("plan", "--compare", saved, "--from", EXAMPLE, *form).stdout
        for form in ((), ("-o", "wide"), ("-o", "json"))
    )
    assert wide == table
    assert table.splitlines()[1] == "Since then no node came"
    assert json.loads(data)["kind"] == "PlanComparison"


@pytest.mark.whole
def test_a_comparison_with_nodes_that_nobody_saw_says_so(tmp_path: Path) -> None:
    """Where nodes may not be listed, and with a dump of last week, it said that no node came."""
    saved, example = tmp_path / "plan.json", read_archive(EXAMPLE)
    assert balloons("plan", "--from", EXAMPLE, "--add", "20", "--save", str(saved)).returncode == 0
    with (tmp_path / "dump").open("wb") as file:
        nodes = Listed(unread=Unread.FORBIDDEN)
        write_archive(replace(example, lists={**example.lists, "nodes": nodes}), file)
    blind = balloons("plan", "--compare", str(saved), "--from", str(tmp_path / "dump"))
    assert (blind.returncode, blind.stdout) == (1, "")
    assert blind.stderr.endswith("a plan is compared with the nodes that came, and no nodes could be read\n")
    saved.write_text(saved.read_text().replace("2026-11-20T14:30:00Z", "2026-11-20T14:30:01Z"))
    early = balloons("plan", "--compare", str(saved), "--from", EXAMPLE)
    assert (early.returncode, early.stdout) == (2, "")
    assert early.stderr.endswith(
        f"error: {saved}: it was made at 2026-11-20 14:30:01 UTC, after this look at the cluster "
        "(2026-11-20 14:30:00 UTC); accepted: a plan that is older\n"
    )


def test_broken_promise_is_code_three() -> None:
    answer = balloons("plan", "--add", "20", "--within", "10s", *SURE)
    assert answer.returncode == 3
    assert answer.stdout.startswith("No: it takes longer than 10s in most cases (1m")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan",), "accepted: one of --to N, --add N, --pods FILE, --job FILE, --compare FILE"),
        (("plan", "--to", "5", "--add", "5"), "--to with --add asked for"),
        (("plan", "--to", "0", "--offline"), "'0'; accepted: a whole number from 1 to 1,000,000"),
        (("plan", "--to", "5", "--offline", "--from", __file__), "--from with --offline, which looks at no cluster"),
        (("simulate", "--offline", "--context", "a"), "--context with --offline, which looks at no cluster"),
        (("plan", "--to", "5", "--offline", "--price", "-3"), "'-3'; accepted: a number, 0 or more"),
        (("plan", "--add", "1000000", "--offline"), "'1000000'; accepted: a whole number from 1 to 150,000"),
        (("plan", "--to", "1000000", "--offline"), "accepted: 1 to 150,000"),
        (("plan", "--to", "5", "--from", "/no/file"), "/no/file: no such file or directory; accepted: a file that"),
        (("plan", "--to", "5", "--from", __file__), "not a dump, or a damaged one"),
        (("report", "--to", "5", "--offline", "--format", "html", "-o", "x.svg"), "which says svg: one of the two"),
        (("explain", "pod"), "which pod? accepted: pod NAME, or pod/NAME"),
        (("plan", "--to", "5", "--offline", "--boot", "soon"), 'duration "soon'),
        (("plan", "--to", "5", "--offline", "--servers", "0"), "--servers 0: accepted: a whole number from 1 to 100"),
        (("plan", "--to", "5", "--offline", "--servers", "nan"), "'nan'; accepted: a whole number from 1 to 100"),
        (("plan", "--to", "5", "--offline", "--pool", "gpu"), "pool 'gpu' is not there"),
        (
            ("plan", "--to", "5", "--offline", "--prices", "/no/file"),
            "/no/file: no such file or directory; accepted: a file",
        ),
        (("plan", "--pods", "/no/file", "--offline"), "/no/file: no such file or directory; accepted: a file"),
        (("plan", "--to", "5", "--kubeconfig", "/no/file"), "without a cluster: --offline"),
        (("plan", "--compare", "/no/file"), "/no/file: no such file or directory; accepted: a file"),
        (("simulate", "--kubeconfig", "/no", "--policy", "fast"), "policy 'fast' is not accepted; accepted: throttle"),
        (
            ("simulate", "--kubeconfig", "/no", "--fault", "fire@3m"),
            "fault 'fire@3m' is not accepted; accepted: loss@AT+FOR",
        ),
        (("simulate", "--kubeconfig", "/no", "--sweep", "servers"), "accepted: NAME=A,B,C"),
        (("simulate", "--offline", "--sweep", "add=nan"), "accepted: NAME=A,B,C"),
        (("simulate", "--offline", "--max-nodes", "9"), "no option '--max-nodes'; plan and report have it"),
        (("simulate", "--offline", "--sweep", "max-nodes=9"), "'max-nodes' cannot be swept; accepted: add, nodes"),
        (("simulate", "--offline", "--sweep", "colour=1,2"), "'colour' cannot be swept; accepted: add, nodes"),
    ],
)
def test_unusable_input_is_one_sentence_and_code_two(arguments: tuple[str, ...], sentence: str) -> None:
    answer = balloons(*arguments)
    assert answer.returncode == 2, answer.stderr
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: &x [1]\nb: *x\n", "YAML anchors are not accepted"),
        ("[" * 200, "nested more than 64 deep"),
        ("{not: [yaml", "no YAML or JSON"),
        ("", "it is empty"),
        ("kind: Secret\n", "kind 'Secret' has no pods"),
        ("- 3\n", "is no object"),
        ("kind: Pod\nspec: {containers: [{resources: {requests: {cpu: lots}}}]}\n", "cpu 'lots' is not a quantity"),
    ],
)
def test_hostile_files_are_refused_before_a_cluster_is_read(text: str, sentence: str) -> None:
    answer = balloons("plan", "--pods", "-", "--kubeconfig", "/no", given=text)
    assert answer.returncode == 2, answer.stderr
    assert sentence in answer.stderr


@pytest.mark.parametrize("shown", ["text", "json"])
def test_a_file_without_the_price_of_the_machine_is_told(shown: str) -> None:
    """A mistyped instance type left the cost out without a word."""
    form = ("-o", "json") if shown == "json" else ()
    answer = balloons("plan", "--add", "5", "--from", EXAMPLE, "--prices", "-", *form, given="gpu-8z: 3\n")
    assert answer.returncode == 0
    assert "-: no price of gpu-8x: the plan has no cost\n" in answer.stderr


def test_prices_are_refused_before_a_cluster_is_read() -> None:
    answer = balloons("plan", "--to", "5", "--prices", "-", "--kubeconfig", "/no", given="gpu: lots\n")
    assert answer.returncode == 2, answer.stderr
    assert "price of gpu: 'lots'" in answer.stderr


def test_pipe_that_nobody_writes_to_is_empty(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    answer = balloons("plan", "--pods", str(tmp_path / "pipe"), "--offline")
    assert (answer.returncode, answer.stderr) == (2, f"error: {tmp_path / 'pipe'}: it is empty\n")


@pytest.mark.whole
def test_simulates_policies_side_by_side_over_a_sweep(tmp_path: Path) -> None:
    figures = tmp_path / "figures.yaml"
    figures.write_text("boot: 30s\njoin: 20\nservers: 3\nserver-cores: 32\n")
    arguments = ("--policy", "none", "--policy", "window=5", "--sweep", "daemonsets=1,60", "-o", "json")
    answer = balloons("simulate", "--offline", "--add", "20", "--file", str(figures), *arguments)
    assert answer.returncode == 0, answer.stderr
    body = json.loads(answer.stdout)
    schema = json.loads((Path(__file__).parents[4] / "docs/schemas/plan-simulation.json").read_text())
    assert problems(body, schema) == []
    runs = body["runs"]
    assert [(run["policy"], run["value"]) for run in runs] == [
        ("none", 1.0),
        ("window=5", 1.0),
        ("none", 60.0),
        ("window=5", 60.0),
    ]
    assert runs[1]["etaSeconds"] > runs[0]["etaSeconds"]
    # 1,200 pods at 20/s take a minute, which begins with the first nodes and not with the last.
    assert runs[2]["etaSeconds"] - runs[0]["etaSeconds"] == pytest.approx(48, abs=12)
    assert runs[2]["limit"] == "controller manager"


EXAMPLE = str(Path(__file__).parents[4] / "docs/example/cluster.tar.gz")


@pytest.mark.parametrize("command", ["plan", "report"])
def test_what_is_there_is_nothing_to_do(command: str) -> None:
    answer = balloons(command, "--to", "5", "--nodes", "9", "--offline")
    assert answer.returncode == 0
    assert answer.stdout.startswith("Nothing to do: 9 nodes are there, and --to 5 asks for no more.\n")


@pytest.mark.whole
def test_pods_that_fit_now_need_no_wait(tmp_path: Path) -> None:
    job = tmp_path / "train.yaml"
    container = {"name": "a", "image": "b", "resources": {"requests": {"cpu": "1m"}}}
    template = {"spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    job.write_text(json.dumps({"kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template}}))
    for path in ("zero.html", "zero.svg", "zero.png"):
        answer = balloons("report", "--from", EXAMPLE, "--job", str(job), "-o", str(tmp_path / path))
        assert answer.returncode == 0, answer.stderr
    page = (tmp_path / "zero.html").read_text()
    assert "Nothing to do: all pods fit nodes that are there." in page
    assert "never" not in page


@pytest.mark.whole
def test_no_comes_first_with_the_command_that_lifts_the_limit() -> None:
    answer = balloons("plan", "--from", EXAMPLE, "--to", "7500")
    assert answer.returncode == 3
    first, second = answer.stdout.splitlines()[:2]
    assert first == "No: 6,000 of 7,436 nodes cannot come: NodePool/gpu leaves room for 1,436."
    assert second.strip().startswith("kubectl patch nodepool gpu --type merge -p")
    assert '"nvidia.com/gpu":"60000"' in second


@pytest.mark.whole
def test_overload_is_a_broken_promise_and_its_times_are_lower_bounds() -> None:
    answer = balloons("plan", "--offline", "--add", "3000", "--servers", "1", "--server-cores", "2")
    assert answer.returncode == 3
    assert answer.stdout.startswith("No: the API servers would refuse ")
    assert "Ready: in > " in answer.stdout


def test_every_command_says_that_it_reads_a_dump_and_how_old_it_is() -> None:
    for words in (("status", "-A"), ("top",), ("explain", "pools/gpu"), ("doctor",), ("plan", "--to", "64")):
        found = balloons(*words, "--from", EXAMPLE)
        assert found.stderr.startswith(f"from a dump, {EXAMPLE}, taken 2026-11-20 14:30:00 UTC ("), found.stderr
        assert " ago)" in found.stderr.splitlines()[0]


def test_the_bill_stands_beside_the_cost_of_waiting() -> None:
    answer = balloons("plan", "--add", "20", "--price", "2.5", *SURE)
    assert "Cost: 50.00/h for 20 nodes; waiting " in answer.stdout


def test_sweeps_of_times_are_printed_as_times() -> None:
    answer = balloons("simulate", "--offline", "--add", "5", "--policy", "none", "--sweep", "boot=1m,90s")
    assert [line.split()[0] for line in answer.stdout.splitlines()[-2:]] == ["1m", "1m30s"]
    assert answer.stdout.startswith("no pacing: hurts nobody\n")


@pytest.mark.whole
def test_disk_that_is_full_is_said_in_plain_words() -> None:
    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "balloons", "version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    assert (answer.returncode, answer.stderr) == (1, "error: the output cannot be written: no space left on device\n")


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (f"balloons plan --from {EXAMPLE} --pool ", {"gpu", "notebooks"}),
        ("balloons doctor --only KB00", {"KB001", "KB002"}),
        ("balloons simulate --policy aimd", {"aimd", "aimd-429"}),
        (f"balloons explain --from {EXAMPLE} throttle d", {"default"}),
        (f"balloons explain --from {EXAMPLE} throttle/d", {"throttle/default"}),
        (f"balloons explain --from {EXAMPLE} pod train-1 -n ", {"jobs", "research"}),
        (f"balloons status --from {EXAMPLE} gpu ", {"default", "notebooks"}),
        (f"balloons status --from {EXAMPLE} -n ", {"kube-balloons"}),
        ("balloons status --wait --for ", {"condition=Ready", "warm=", "idle"}),
        ("balloons simulate --sweep s", {"servers=", "server-cores="}),
        ("balloons simulate --fault ", {"loss@", "slow@"}),
        ("balloons plan --from ", {""}),
        ("balloons plan --compare ", {""}),
        ("balloons report -o ", {""}),
        ("balloons dump ", {""}),
    ],
)
def test_completes_values_names_and_files(line: str, values: set[str]) -> None:
    found = completed(line)
    assert values <= set(found), found
    assert set(found.values()) == ({"file"} if values == {""} else {"plain"})


def test_completes_the_contexts_of_a_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("contexts: [{name: east, context: {}}, {name: west, context: {}}]\n")
    assert completed(f"balloons status --kubeconfig {path} --context ").keys() == {"east", "west"}
    assert completed("balloons status --kubeconfig /nonexistent --context ") == {}


def completed(line: str) -> dict[str, str]:
    """What a shell offers, and whether it is plain or a file."""
    words = line.split()
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - (not line.endswith(" ")))}
    answer = balloons(_BALLOONS_COMPLETE="bash_complete", **asked)
    assert answer.returncode == 0, answer.stderr
    return dict(reversed(offered.split(",", 1)) for offered in answer.stdout.split())


OF_OTHERS = {"--image-pull-secret", "--deployment", "--lease"}
"""Names of objects that no command of ours reads."""


def test_every_option_for_a_file_or_a_name_is_completed() -> None:
    asked = [(name, param) for name, command in commands.commands.items() for param in command.params]
    files = [(name, param) for name, param in asked if param.metavar == "FILE" or param.name == "file"]
    assert len(files) > 30
    assert [(name, param.opts) for name, param in files if not isinstance(param.type, click.Path)] == []
    named = [(name, param) for name, param in asked if "NAME" in (param.metavar or "").split("=")[0].strip("[].")]
    named = [
        (name, param) for name, param in named if not OF_OTHERS & {*param.opts} and "NAMESPACE" not in param.metavar
    ]
    assert len(named) > 20
    assert [(name, param.opts) for name, param in named if param._custom_shell_complete is None] == []


@pytest.mark.parametrize("command", ["plan", "report", "simulate"])
def test_help_has_sections(command: str) -> None:
    text = balloons(command, "--help").stdout
    places = [
        text.index(f"\n{name}:\n") for name in ("What", "Cluster", "Figures of your own, in place of the cluster's")
    ]
    assert places == sorted(places)
    assert places[-1] < text.index("  --boot ") < text.index("\nOutput:\n") < text.index("--color")
