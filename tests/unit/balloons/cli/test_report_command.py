"""`balloons report` as a user runs it: formats by name, saved and new plans, bad input, and the libraries it needs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import FOR_ALL, balloons
from tests.published_schema import problems
from tests.unit.balloons.report.a_plan import EVIL, body

pytestmark = pytest.mark.whole

EXAMPLE = str(Path(__file__).parents[4] / "docs" / "example" / "cluster.tar.gz")
SURE = ("--offline", "--boot", "30s", "--join", "20s", "--servers", "3", "--server-cores", "32", "--daemonsets", "2")


@pytest.fixture(scope="session")
def fonts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in which the drawing library keeps its list of this machine's fonts."""
    return str(tmp_path_factory.mktemp("fonts"))


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(body()))
    return str(path)


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("r.html", b"<!doctype html>"),
        ("r.HTM", b"<!doctype"),
        ("r.png", b"\x89PNG"),
        ("r.svg", b"<?xml"),
        ("r.txt", b"Yes: 100"),
    ],
)
def test_draws_as_the_name_says(saved: str, tmp_path: Path, fonts: str, name: str, start: bytes) -> None:
    answer = balloons("report", "--plan", saved, "-o", str(tmp_path / name), MPLCONFIGDIR=fonts)
    assert (answer.returncode, answer.stdout) == (0, ""), answer.stderr
    written = (tmp_path / name).read_bytes()
    assert written.startswith(start)
    assert answer.stderr == f"{tmp_path / name}: {len(written):,} bytes\n"


def test_draws_text_without_being_told_and_the_plan_that_was_just_saved(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    balloons("plan", "--add", "20", *SURE, "--save", str(path))
    new, again = balloons("report", "--add", "20", *SURE), balloons("report", "--plan", str(path))
    assert (new.returncode, new.stderr) == (0, "")
    assert new.stdout == again.stdout
    text = new.stdout
    assert text.startswith("Yes: 20 nodes are ready in ")
    assert "20 nodes more: 0 -> 20\n" in text
    for words in ("Nodes over time: █ ready", "Full height: API load", "WAVE  FROM", "boot time"):
        assert words in text
    assert max(len(line) for line in text.splitlines() if "┤" in line) <= 80


def test_dump_and_plan_saved_from_it_give_the_same_page(tmp_path: Path, fonts: str) -> None:
    asked, saved = ("--from", EXAMPLE, "--to", "90"), str(tmp_path / "plan.json")
    assert balloons("plan", *asked, "--save", saved).returncode == 0
    pages = [balloons("report", *of, "--format", "html", MPLCONFIGDIR=fonts) for of in (asked, ("--plan", saved))]
    assert pages[0].stdout.startswith("<!doctype html>")
    assert pages[0].stdout == pages[1].stdout


def test_what_a_terminal_cannot_write_is_spelled_in_ascii(saved: str) -> None:
    command = [sys.executable, "-m", "balloons", "report", "--plan", saved]
    env = {**FOR_ALL, "PYTHONUTF8": "1", "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    text = subprocess.run(command, capture_output=True, env=env, check=True, timeout=60).stdout
    assert text.isascii()
    assert b"# ready  = joining  . booting" in text


def test_plan_that_breaks_its_promise_is_code_three(saved: str) -> None:
    Path(saved).write_text(json.dumps(body(broken=["28 nodes cannot come"])))
    answer = balloons("report", "--plan", saved)
    assert answer.returncode == 3
    assert "No: 28 nodes cannot come." in answer.stdout


def test_letters_beyond_the_first_plane_are_read_and_drawn(saved: str, fonts: str) -> None:
    """JSON spells them as surrogate pairs; the drawing's font has neither them nor Japanese, and says nothing of it."""
    Path(saved).write_text(json.dumps(body(request=body()["request"] | {"pool": "日本 🎈"})))
    assert "of 日本 🎈\n" in balloons("report", "--plan", saved).stdout
    answer = balloons("report", "--plan", saved, "--format", "svg", MPLCONFIGDIR=fonts)
    assert answer.stderr == ""
    assert "日本 🎈" in answer.stdout


def test_home_that_cannot_be_written_to_is_no_news(saved: str, tmp_path: Path) -> None:
    """As in a container; what is drawn is the same."""
    usual, homeless = (
        balloons("report", "--plan", saved, "--format", "svg", HOME=home, TMPDIR=str(tmp_path))
        for home in (str(tmp_path), "/proc/1/nothing")
    )
    assert (homeless.stdout, homeless.stderr) == (usual.stdout, "")


def test_hostile_names_paint_nothing(saved: str) -> None:
    Path(saved).write_text(json.dumps(body(request=body()["request"] | {"pool": EVIL}, broken=[EVIL])))
    text = balloons("report", "--plan", saved).stdout
    assert "\\x1b[2J\\u202e" in text
    assert not any(char in text for char in "\x1b\u202e")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "nothing asked for; accepted: one of --to N, --add N, --pods FILE, --job FILE, --plan FILE"),
        (("--to", "5", "--plan", "SAVED"), "--to with --plan asked for"),
        (("--plan", "SAVED", "--boot", "3s"), "--boot with --plan: a saved plan is drawn as it is"),
        (
            ("--plan", "SAVED", "-o", "r.gif"),
            "--output r.gif: .gif; accepted: .html, .htm, .png, .svg, .txt, or --format",
        ),
        (("--plan", "SAVED", "-o", "report"), "--output report: no suffix; accepted: .html"),
        (("--plan", "SAVED", "--format", "pdf"), "'pdf'; accepted: html, png, svg, text"),
        (("--plan", "SAVED", "-o", "/no/where/r.txt"), "/no/where/r.txt cannot be written: no such file"),
        (("--plan", "/no/file"), "/no/file: no such file or directory; accepted: a file that `balloons plan"),
        (("--plan", "BAD"), "Expected `int`, got `str` - at `$.nodesComing`"),
        (("--to", "5", "--kubeconfig", "/no/file"), "without a cluster: --plan FILE, --offline"),
    ],
)
def test_unusable_input_is_one_sentence_and_code_two(
    saved: str, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(body(nodesComing="many")))
    given = [{"SAVED": saved, "BAD": str(tmp_path / "bad.json")}.get(each, each) for each in arguments]
    answer = balloons("report", *given)
    assert answer.returncode == 2, answer.stderr
    assert sentence in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("suffix", ["html", "png", "svg"])
def test_without_the_extra_it_says_what_to_install(saved: str, tmp_path: Path, suffix: str) -> None:
    """As in the service's image: neither library is there, and text is drawn all the same."""
    code = (
        "import sys, importlib.util as u; find = u.find_spec; "
        "u.find_spec = lambda name, *a: None if name in ('jinja2', 'matplotlib') else find(name, *a); "
        "from balloons.cli.main import main; main(sys.argv[1:])"
    )
    env = {**os.environ, "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", code, "report", "--plan", saved]
    answer = subprocess.run(
        [*command, "-o", str(tmp_path / f"r.{suffix}")],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=60,
    )
    assert answer.returncode == 2
    assert answer.stderr == (
        f"error: {suffix} needs jinja2 and matplotlib: pip install '.[report]' in a checkout; without: --format text\n"
    )
    assert subprocess.run(command, capture_output=True, env=env, check=False, timeout=60).returncode == 0


def test_text_loads_no_drawing_library(saved: str) -> None:
    code = (
        "import sys\nfrom balloons.cli.main import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('matplotlib', 'jinja2', 'kubernetes', 'aiohttp') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, "report", "--plan", saved]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.splitlines()[-1] == "[]"


def test_reader_that_goes_away_is_no_error(saved: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "balloons", "report", "--plan", saved]
    answer = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
    os.close(writer)
    assert (answer.returncode, answer.stderr) == (0, b"")


def test_what_doctor_found_is_kept_with_the_plan_and_drawn(tmp_path: Path, fonts: str) -> None:
    """A plan that was saved draws the same page as the plan itself, findings included; no other plan looks for them."""
    path = tmp_path / "plan.json"
    asked = ("--to", "500", "--from", EXAMPLE)
    assert balloons("plan", *asked, "--save", str(path)).returncode in (0, 3)
    codes = [each["code"] for each in json.loads(path.read_text())["findings"]]
    told = json.loads(balloons("doctor", "--from", EXAMPLE, "-o", "json").stdout)["findings"]
    assert codes == [each["code"] for each in told] != []
    schema = json.loads((Path(__file__).parents[4] / "docs/schemas/plan.json").read_text())
    assert problems(json.loads(path.read_text()), schema) == []
    new, again = (
        balloons("report", *given, "--format", "html", MPLCONFIGDIR=fonts).stdout
        for given in (asked, ("--plan", str(path)))
    )
    assert new == again
    assert "KB011" in new
    assert "findings" not in json.loads(balloons("plan", *asked, "-o", "json").stdout)
