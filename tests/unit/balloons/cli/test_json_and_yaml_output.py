"""docs/schemas is the contract of `-o json`, and what is printed keeps it. YAML is the same data."""

import json
from functools import cache
from pathlib import Path

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from balloons.cli.json_and_yaml_output import DOCUMENTS, schema
from balloons.cli.main import balloons
from balloons.cluster import kinds
from balloons.reading.read_cluster import write_archive
from tests.doctor_cases import node, room
from tests.seen_clusters import cluster

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
SCHEMAS = Path(__file__).parents[4] / "docs" / "schemas"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schema_files_are_the_types(name: str) -> None:
    """`python -m balloons.cli.json_and_yaml_output` writes them anew."""
    assert (SCHEMAS / f"{name}.json").read_text() == schema(DOCUMENTS[name])


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> str:
    objects = {kind: [] for kind in kinds.ALL_KINDS} | dict(room(-11)) | {kinds.NODES: [node("n1")]}
    path = tmp_path_factory.mktemp("dump") / "cluster"
    with path.open("wb") as file:
        write_archive(cluster(objects), file)
    return str(path)


@cache
def printed(*words: str) -> str:
    return CliRunner().invoke(balloons, words, standalone_mode=False).stdout


ASKED = {
    "doctor": (),
    "explain": ("node", "n1"),
    "plan": ("--to", "20"),
    "simulate": ("--add", "20", "--policy", "none"),
    "status": ("-A",),
    "top": (),
    "version": ("--server",),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_printed_keeps_the_contract(name: str, dump: str) -> None:
    found = printed(name, *ASKED[name], "--from", dump, "-o", "json")
    assert msgspec.json.decode(found, type=DOCUMENTS[name]).kind


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.whole
def test_yaml_is_the_same_data_as_json_in_the_same_order(name: str, dump: str) -> None:
    """Numbers that JSON has no word for (NaN) would fail here; a program can tell what it got by the kind."""
    texts = [printed(name, *ASKED[name], "--from", dump, "-o", form) for form in ("json", "yaml")]
    told = json.loads(texts[0], parse_constant=pytest.fail)
    assert json.dumps(told) == json.dumps(yaml.load(texts[1], Loader=_LOADER))
    assert texts[0] == json.dumps(told, indent=2) + "\n"
    assert list(told)[:2] == ["apiVersion", "kind"]


def test_every_command_for_programs_is_tried_here() -> None:
    """And takes YAML where it takes JSON; a table has no name, as in kubectl."""
    options = {name: {each.name: each for each in command.params} for name, command in balloons.commands.items()}
    choices = {name: of["output"].type for name, of in options.items() if "output" in of}
    forms = {name: set(kind.choices) for name, kind in choices.items() if isinstance(kind, click.Choice)}
    assert set(forms) == set(ASKED)
    assert all({"json", "yaml"} <= each <= {"wide", "json", "yaml", "name"} for each in forms.values())
