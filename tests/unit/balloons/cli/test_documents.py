"""docs/schemas is the contract of `-o json`, and what is printed keeps it."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from balloons.cli.documents import DOCUMENTS, schema
from balloons.cli.main import balloons
from balloons.cluster import kinds
from balloons.reading.read_cluster import write_archive
from tests.doctor_cases import node, room
from tests.seen_clusters import cluster

SCHEMAS = Path(__file__).parents[4] / "docs" / "schemas"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_schema_files_are_the_types(name: str) -> None:
    """`python -m balloons.cli.documents` writes them anew."""
    assert (SCHEMAS / f"{name}.json").read_text() == schema(DOCUMENTS[name])


@pytest.mark.parametrize("arguments", [["doctor"], ["explain", "node", "n1"], ["top"]], ids=lambda words: words[0])
def test_what_is_printed_keeps_the_contract(arguments: list[str], tmp_path: Path) -> None:
    objects = {kind: [] for kind in kinds.ALL_KINDS} | dict(room(-11)) | {kinds.NODES: [node("n1")]}
    with (tmp_path / "d").open("wb") as file:
        write_archive(cluster(objects), file)
    command = [*arguments, "--from", str(tmp_path / "d"), "-o", "json"]
    found = CliRunner().invoke(balloons, command, standalone_mode=False)
    assert msgspec.json.decode(found.stdout, type=DOCUMENTS[arguments[0]]).kind
