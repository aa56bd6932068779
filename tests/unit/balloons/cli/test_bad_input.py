"""What a user mistypes: one sentence that names the option, the value and what is accepted, and exit code 2."""

import gzip
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.commands import Ended, balloons

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = str(ROOT / "docs" / "example" / "cluster.tar.gz")
DUMP = "accepted: a file that `balloons dump` wrote"
OFFLINE = ("plan", "--offline", "--add", "20")
COUNT = "accepted: a whole number from 1 to 1,000,000"


def refused(*arguments: str, **environment: str) -> str:
    """The sentence; nothing is printed on stdout."""
    ended: Ended = balloons(*arguments, **environment)
    said = [line for line in ended.stderr.splitlines() if not line.startswith(("from a dump", "see balloons"))]
    assert (ended.returncode, ended.stdout, len(said)) == (2, "", 1), ended.stderr
    return said[0].removeprefix("error: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan", "--from", EXAMPLE, "--to", "nan"), f"Invalid value for '--to': 'nan'; {COUNT}"),
        (("plan", "--from", EXAMPLE, "--to", "1e99"), f"Invalid value for '--to': '1e99'; {COUNT}"),
        (("plan", "--from", EXAMPLE, "--to", "-1"), f"Invalid value for '--to': '-1'; {COUNT}"),
        (("plan", "--from", EXAMPLE, "--to", "1_000"), f"Invalid value for '--to': '1_000'; {COUNT}"),
        (("plan", "--from", EXAMPLE, "--to", "٣"), f"Invalid value for '--to': '٣'; {COUNT}"),
        (("plan", "--from", EXAMPLE, "--add", ""), f"Invalid value for '--add': ''; {COUNT.replace('1,000', '150')}"),
        (
            ("status", "--from", EXAMPLE, "-o", "jsonpath"),
            "Invalid value for '-o' / '--output': 'jsonpath'; accepted: wide, json, yaml, name",
        ),
        (("simulate", "--add", "0"), "Invalid value for '--add': '0'; accepted: a whole number from 1 to 150,000"),
        (
            ("run", "--bound-max-size", "-1"),
            "Invalid value for '--bound-max-size': '-1'; accepted: a whole number from 0 to 1,000,000",
        ),
        (
            ("give-back", "--timeout", "nan"),
            "Invalid value for '--timeout': 'nan'; accepted: a number from 30 to 3,600",
        ),
        (("run", "--interval", "x"), "Invalid value for '--interval': 'x'; accepted: a number from 1 to 60"),
        # The alert KubeBalloonsNotDeciding asks for a decision within two minutes.
        (("run", "--interval", "61"), "Invalid value for '--interval': '61'; accepted: a number from 1 to 60"),
        (
            ("run", "--max-calls-per-second", "nan"),
            "Invalid value for '--max-calls-per-second': 'nan'; accepted: a number from 0.1 to 1,000",
        ),
        ((*OFFLINE, "--price", "nan"), "Invalid value for '--price': 'nan'; accepted: a number, 0 or more, below"),
        (
            (*OFFLINE, "--servers", "nan"),
            "Invalid value for '--servers': 'nan'; accepted: a whole number from 1 to 100",
        ),
        ((*OFFLINE, "--servers", "0"), "--servers 0: accepted: a whole number from 1 to 100"),
        ((*OFFLINE, "--nodes", "1e99"), "--nodes 1e+99: accepted: a whole number from 0 to 1,000,000"),
        ((*OFFLINE, "--launch-rate", "abc"), "Invalid value for '--launch-rate': 'abc'; accepted: a number from 0.001"),
        ((*OFFLINE, "--launch-burst", "5"), "--launch-burst without --launch-rate"),
        (("simulate", "--offline", "--sweep", "launch-burst=1,2"), "--launch-burst without --launch-rate"),
        ((*OFFLINE, "--boot", "0"), "--boot 0s: accepted: 0.1s to 24h00m"),
        ((*OFFLINE, "--kill-timer", "48h"), "--kill-timer 2d00h: accepted: 1s to 24h00m"),
        ((*OFFLINE, "--reaction", ""), "Invalid value for '--reaction': duration \"\" is not accepted; accepted:"),
        ((*OFFLINE, "--within", "s"), "Invalid value for '--within': duration \"s\" is not accepted; accepted:"),
        (("simulate", "--offline", "--sweep", "boot="), "sweep 'boot=' is not accepted; accepted: NAME=A,B,C"),
        (("simulate", "--offline", "--sweep", "add=0,1"), "add 0: accepted: a whole number from 1 to 150,000"),
    ],
)
def test_a_number_that_is_none_is_told_what_is_accepted(arguments: tuple[str, ...], sentence: str) -> None:
    assert refused(*arguments).startswith(sentence)


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--offline", "--file"),
        ("plan", "--from", EXAMPLE, "--compare"),
        ("report", "--plan"),
    ],
)
def test_of_a_file_with_several_documents_none_is_taken_for_the_one(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """All but the first were passed over without a word."""
    path = tmp_path / "figures.yaml"
    path.write_text("boot: 30s\n---\nboot: 300s\n")
    assert refused(*arguments, str(path)) == f"{path}: 2 documents; accepted: one"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("servers: 500", "servers 500: accepted: a whole number from 1 to 100"),
        ("servers: many", "servers 'many': accepted: a whole number from 1 to 100"),
        ("server-cores: [4]", "server-cores '[4]': accepted: a number from 0.1 to 1,000"),
        ("boot: soon", "boot 'soon': accepted: 0.1s to 24h00m"),
        ("kill-timer: 48h", "kill-timer 2d00h: accepted: 1s to 24h00m"),
    ],
)
def test_a_figure_of_a_file_is_told_with_its_file(text: str, sentence: str, tmp_path: Path) -> None:
    """One out of bounds was told as an option that nobody had given."""
    path = tmp_path / "figures.yaml"
    path.write_text(text)
    assert refused("simulate", "--offline", "--file", str(path)) == f"{path}: {sentence}"


@pytest.mark.parametrize("price", ["1000000", "-1", "'3'"])
def test_a_price_of_a_file_is_told_both_of_its_bounds(price: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"p5: {price}")
    bare = price.strip("'")
    accepted = "accepted: a number, 0 or more, below 1,000,000"
    assert refused(*OFFLINE, "--prices", str(path)) == f"{path}: price of p5: {bare!r}; {accepted}"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--pool", "web"), ("--save", "new.json"), ("--boot", "30s"), ("--price", "3"), ("--within", "1m")],
)
def test_a_saved_plan_is_compared_as_it_is(option: str, value: str) -> None:
    """Whoever named another pool was told of the plan's own, and a second plan was not saved."""
    accepted = "accepted: -o, --no-headers, --color, and options that say which cluster to ask"
    told = f"{option} with --compare: a saved plan is compared as it is; {accepted}"
    assert refused("plan", "--from", EXAMPLE, "--compare", EXAMPLE, option, value) == told


def test_a_plan_is_saved_in_a_file() -> None:
    """It was written to one that is called `-`, which no command takes away again without care."""
    told = "--save -: the plan's text goes to stdout; accepted: a file, or -o json without --save"
    assert refused(*OFFLINE, "--save", "-") == told


@pytest.mark.parametrize("text", ["1_000", "٣", " 1"])
def test_a_number_is_written_in_plain_digits(text: str) -> None:
    assert "accepted: a whole number from 1 to 100" in refused(*OFFLINE, "--servers", text)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("status", "--from", "/no/such"), f"Invalid value for '--from': /no/such: no such file or directory; {DUMP}"),
        (("status", "--from", ""), f"Invalid value for '--from': '' is no file; {DUMP}"),
        (("status", "--from", "/tmp"), f"Invalid value for '--from': /tmp: is a directory; {DUMP}"),
        (("plan", "--from", EXAMPLE, "--job", ""), "Invalid value for '--job': '' is no file; accepted: a file"),
        (("plan", "--from", EXAMPLE, "--job", "/no"), "Invalid value for '--job': /no: no such file or directory; acc"),
        (("plan", "--from", EXAMPLE, "--to", "500", "--save", ""), "Invalid value for '--save': '' is no file; accept"),
        (("plan", "--compare", "/tmp"), "Invalid value for '--compare': /tmp: is a directory; accepted: a file"),
        (("report", "--plan", ""), "Invalid value for '--plan': '' is no file; accepted: a file"),
        (("report", "--from", EXAMPLE, "--to", "500", "-o", ""), "Invalid value for '-o' / '--output': '' is no file"),
        (("doctor", "-f", ""), "Invalid value for '-f' / '--filename': '' is no file; accepted: files of"),
        (("doctor", "-f", "/no/such"), "Invalid value for '-f' / '--filename': /no/such: no such file or directory"),
        (("dump", ""), "Invalid value for 'FILE': '' is no file; accepted: a file"),
        (("status", "--kubeconfig", ""), "Invalid value for '--kubeconfig': '' is no file; accepted: a file"),
    ],
)
def test_a_file_that_is_none_is_told_which_option_it_is_of(arguments: tuple[str, ...], sentence: str) -> None:
    """An empty name is what a shell makes of a variable that is not set: nothing is read in its place."""
    assert refused(*arguments).startswith(sentence)


@pytest.mark.parametrize(
    "arguments",
    [
        ("guard", "--once", "--lease-namespace", ""),
        ("run", "--lease-namespace", "$(POD_NAMESPACE)"),
        ("run", "--namespace", "kube-balloons", "--namespace", ""),
        ("give-back", "-n", "Kube_Balloons"),
        ("pause", "pool", "gpu", "--reason", "why", "-n", ""),
        ("status", "--from", EXAMPLE, "-n", "a/b"),
        ("explain", "pool", "gpu", "--from", EXAMPLE, "-n", "n" * 64),
    ],
)
def test_what_cannot_be_a_namespace_is_refused(arguments: tuple[str, ...]) -> None:
    """No Lease is ever there, so a guard of it gave back the gates and taints of a service that was alive."""
    assert refused(*arguments).endswith("; accepted: the name of a namespace, such as kube-balloons")


def test_an_empty_variable_of_the_environment_is_none() -> None:
    assert balloons("status", "--from", EXAMPLE, BALLOONS_KUBECONFIG="").returncode == 0


def archive(path: Path, *members: tarfile.TarInfo) -> str:
    with tarfile.open(path, "w:gz") as file:
        for member in members:
            file.addfile(member, BytesIO(bytes(member.size)))
    return str(path)


def member(name: str, size: int = 0, **about: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size = size
    for key, value in about.items():
        setattr(made, key, value)
    return made


@pytest.mark.whole
def test_a_file_that_is_no_dump_is_told_why_and_what_is_one(tmp_path: Path) -> None:
    whole = Path(EXAMPLE).read_bytes()
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "zeros").write_bytes(gzip.compress(bytes(1 << 26), 1))
    archive(tmp_path / "hostile", member("../../etc/passwd", 1))
    archive(tmp_path / "link", member("cluster.json", type=tarfile.SYMTYPE, linkname="/etc/passwd"))
    archive(tmp_path / "large", member("lists/pods.jsonl", 1 << 26))
    holes = {"GNU.sparse.map": f"{1 << 40},1", "GNU.sparse.size": f"{(1 << 40) + 1}"}
    archive(tmp_path / "sparse", member("cluster.json", 1, pax_headers=holes))
    said = {file.name: refused("status", "--from", str(file)).partition(": ")[2] for file in tmp_path.iterdir()}
    assert said == {
        "empty": f"not a dump, or a damaged one; {DUMP}",
        "cut": "the dump is cut off: copy the whole file, or write it anew with `balloons dump`",
        "noise": f"not a dump, or a damaged one; {DUMP}",
        "zeros": f"it holds no cluster.json; {DUMP}",
        "hostile": f"'../../etc/passwd' is no part of a dump; {DUMP}",
        "link": f"'cluster.json' is not a regular file; {DUMP}",
        "large": f"an object has more than 4,194,304 bytes; {DUMP}",
        "sparse": f"'cluster.json' is not a regular file; {DUMP}",
    }


def test_without_a_command_there_is_help_and_no_error() -> None:
    ended = balloons(COLUMNS="80")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == balloons("--help", COLUMNS="80").stdout


def test_what_has_to_be_chosen_is_one_sentence() -> None:
    assert refused("explain") == "Missing argument '{pod|node|pool|throttle}'. Choose from: pod, node, pool, throttle"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("plan", "--too", "5"), "no option '--too'; did you mean --to, --pool or --boot?"),
        (("plan", "--zzzz"), "no option '--zzzz'"),
        (("pause", "-z"), "no option '-z'"),
        (("pause", "--wait"), "no option '--wait'; status has it"),
    ],
)
def test_an_option_that_is_none_is_told_as_a_command_that_is_none(arguments: tuple[str, ...], sentence: str) -> None:
    assert refused(*arguments) == sentence


def test_a_file_that_is_no_text_is_told_what_is_accepted() -> None:
    assert refused("plan", "--offline", "--pods", EXAMPLE) == f"{EXAMPLE}: not UTF-8 text; accepted: YAML or JSON"
