"""An object with anything at all at any place, from a dump of anybody: every command still answers.

Only that object is judged wrongly, and nothing raises.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloons.cli.doctor_command import diagnosis_document, diagnosis_text, summary
from balloons.cli.terminal import Look
from balloons.cli.top_screen import groups, rows
from balloons.cluster import kinds, seen_cluster
from balloons.cluster.hashed_names import hashed
from balloons.cluster.object_fields_and_flags import name_of
from balloons.doctor.diagnose import diagnose
from balloons.explain import explain_node, explain_pod, explain_pool, explain_throttle
from tests.doctor_cases import CASES
from tests.odd_json import JSON_VALUES, with_value_at
from tests.seen_clusters import cluster

WHOLE = {
    kind: [thing for case in CASES for cases in (case.failing, case.passing) for thing in cases.get(kind, [])]
    for kind in kinds.ALL_KINDS
}


def paths(value: Any, so_far: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a manifest."""
    if so_far:
        yield so_far
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from paths(each, (*so_far, key))


PLACES: Sequence[Any] = [
    (kind, index, path) for kind, things in WHOLE.items() for index, thing in enumerate(things) for path in paths(thing)
]


@pytest.mark.whole
@settings(max_examples=40)
@given(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4), JSON_VALUES)
def test_nothing_raises(places: Sequence[Any], value: Any) -> None:
    objects = {kind: list(things) for kind, things in WHOLE.items()}
    for kind, index, path in places:
        objects[kind][index] = with_value_at(WHOLE[kind][index], path, value)
    seen = cluster(objects)
    found = diagnose(seen)
    shown = "\n".join([*diagnosis_text(found, Look(output="wide")), *summary(found, Look())])
    assert all(char >= " " or char == "\n" for char in shown)
    assert msgspec.json.encode(diagnosis_document(found))
    rows(groups(seen_cluster.nodes(seen), seen_cluster.pods(seen), seen.taken_at.timestamp()))
    for each in seen.plain(kinds.PODS)[:2]:
        explain_pod(seen, "default", name_of(each))
    for each in seen.plain(kinds.NODES)[:2]:
        explain_node(seen, name_of(each))
    explain_pool(seen, "default", "warm")
    explain_pool(seen, "", "general")
    explain_throttle(seen, "joins")


def test_hashing_takes_any_object() -> None:
    chosen = random.Random(7).sample(PLACES, 40)
    for kind, index, path in chosen:
        odd = with_value_at(WHOLE[kind][index], path, {"x": [1, None, "a\x00b"]})
        hashed(cluster({kind: [odd]}), b"key")
