"""Pools that break a rule are refused in the CRD's words; when a schedule's window opens.

The service refuses what the API server refuses, in the same words. Which cron expressions and time zones a schedule
may have.
"""

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from balloons.api.pool import BalloonPool, PoolStatus
from balloons.api.pool_rules import Invalid, decode_pool, is_cron, is_zone
from tests.contract.balloonpool_table import Case, accepted, refused
from tests.odd_json import JSON_VALUES, with_value_at

GOOD = accepted()[0].manifest
PATHS = [
    ("spec",), ("metadata",), ("metadata", "name"), ("metadata", "labels"), ("status",), ("spec", "nodes"),
    ("spec", "mode"), ("spec", "size"), ("spec", "schedules"), ("spec", "shape"), ("spec", "prePull"),
    ("spec", "image"), ("spec", "nodes", "selector"), ("spec", "nodes", "tolerations"), ("spec", "nodes", "notWarm"),
    ("spec", "nodes", "selector", "matchLabels"), ("spec", "nodes", "selector", "matchExpressions"),
]  # fmt: skip


@pytest.mark.parametrize("case", refused(), ids=lambda case: case.name)
def test_refuses_with_field_value_and_what_is_accepted(case: Case) -> None:
    found = decode_pool(json.dumps(case.manifest).encode())
    assert isinstance(found, Invalid)
    assert found.key.name == case.manifest["metadata"]["name"]
    assert case.at in found.message
    assert case.says in found.message
    assert "accepted: " in case.says


@pytest.mark.parametrize("case", accepted(), ids=lambda case: case.name)
def test_takes(case: Case) -> None:
    found = decode_pool(json.dumps(case.manifest).encode())
    assert isinstance(found, BalloonPool), found
    assert found.spec.mode.value == case.manifest["spec"]["mode"]


def test_tells_every_problem_at_once() -> None:
    manifest = {**GOOD, "spec": {"mode": "Headroom", "size": 12, "nodes": {"selector": {}}}}
    found = decode_pool(manifest)
    assert isinstance(found, Invalid)
    assert [part.partition(":")[0] for part in found.message.split("; spec.")] == ["spec.mode", "nodes.selector"]


def test_whole_numbers_are_quantities_too() -> None:
    shape = {"type": "Explicit", "resources": {"cpu": 4, "memory": "8Gi"}}
    found = decode_pool({**GOOD, "spec": {**GOOD["spec"], "shape": shape}})
    assert isinstance(found, BalloonPool)
    assert found.spec.shape.resources == {"cpu": "4", "memory": "8Gi"}


def test_keeps_what_tells_the_object_apart() -> None:
    metadata = {"name": "pool", "namespace": "team-a", "generation": 7}
    found = decode_pool({**GOOD, "metadata": metadata, "spec": {}})
    assert isinstance(found, Invalid)
    assert (str(found.key), found.generation) == ("team-a/pool", 7)


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        (b"", "the text is no JSON"),
        (b'{"metadata": NaN}', "the text is no JSON"),
        (b"\xff{}", "the text is no JSON"),
        (b"[1]", "the text is no object but list"),
        (b"{}", "metadata: "),
        (b'{"metadata": {"name": "pool"}}', "spec: spec is missing"),
        (b'{"metadata": {"name": "pool"}, "spec": 3}', "spec: spec 3 is not accepted"),
        (b"[" * 100_000, "the text is no JSON"),
    ],
)
def test_text_that_is_no_pool_is_a_value_and_no_error(raw: bytes, complaint: str) -> None:
    found = decode_pool(raw)
    assert isinstance(found, Invalid)
    assert complaint in found.message


def test_takes_an_item_of_a_list_as_it_came() -> None:
    items = msgspec.json.decode(json.dumps([GOOD]).encode(), type=list[msgspec.Raw])
    assert isinstance(decode_pool(items[0]), BalloonPool)


@pytest.mark.parametrize("status", [{"warm": "three"}, 5, {"zones": [{"zone": 1}]}, {"observedGeneration": None}])
def test_a_status_of_another_version_does_not_spoil_the_pool(status: Any) -> None:
    found = decode_pool({**GOOD, "status": status})
    assert isinstance(found, BalloonPool)
    assert found.status == PoolStatus()


def test_reads_its_own_status_back() -> None:
    status = {
        "warm": 3,
        "because": "Steady",
        "selector": "a=b",
        "zones": [{"zone": "", "nodes": 4, "busy": 1, "warm": 3}],
    }
    found = decode_pool({**GOOD, "status": status})
    assert isinstance(found, BalloonPool)
    assert (found.status.warm, found.status.because, found.status.zones[0].nodes) == (3, "Steady", 4)


def complaint(spec: dict[str, Any], name: str = "pool") -> str:
    """What is said about it; empty where it is taken."""
    usual = {"nodes": {"selector": {"matchLabels": {"pool": "gpu"}}}, "mode": "Hold", "size": 1, "maxSize": 4}
    whole = {key: value for key, value in {**usual, **spec}.items() if value is not None}
    found = decode_pool({"metadata": {"name": name, "namespace": "team-a"}, "spec": whole})
    return found.message if isinstance(found, Invalid) else ""


def shaped(**amounts: str) -> dict[str, Any]:
    return {
        "shape": {"type": "Explicit", "resources": {name.replace("__", "/"): text for name, text in amounts.items()}}
    }


LONGEST_DEVICE = f"{'d' * 253}/{'r' * 63}"


def tolerating(**toleration: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"pool": "gpu"}}
    return {"nodes": {"selector": selector, "tolerations": [toleration]}}


def scheduled(**schedule: Any) -> dict[str, Any]:
    return {"schedules": [{"cron": "0 8 * * *", "duration": "1h", **schedule}]}


def labelled(key: str, value: str = "a") -> dict[str, Any]:
    return {"template": {"labels": {key: value}}}


HEADROOM = {"mode": "Headroom"}
BUFFER = {**HEADROOM, "strategy": "CapacityBuffer"}
YEAR_S = 31_536_000


@pytest.mark.parametrize(
    ("taken", "refused_one", "at"),
    [
        ({"size": 4}, {"size": 5}, "size 5 is above maxSize 4"),
        ({"size": None, "minSize": 4}, {"minSize": 5}, "minSize 5 is above maxSize 4"),
        ({"size": None, "sizePercent": 50}, {"sizePercent": 50}, "are both set"),
        ({"size": None, "sizePercent": 50}, {"size": None, "sizePercent": 50, "maxSize": None}, "a share of maxSize"),
        (HEADROOM, {**HEADROOM, "size": None}, "mode Headroom has no size"),
        (HEADROOM, {**HEADROOM, "maxSize": None}, "mode Headroom has no maxSize"),
        ({"strategy": "Annotate"}, {**HEADROOM, "strategy": "Annotate"}, "strategy Annotate with mode Headroom"),
        (BUFFER, {"strategy": "CapacityBuffer"}, "strategy CapacityBuffer with mode Hold"),
        ({"image": "a/b:1"}, {**BUFFER, "image": "a/b:1"}, "which alone runs pods"),
        ({"prePull": ["a", "b"]}, {**BUFFER, "prePull": ["a", "b"]}, "prePull names 2 images"),
        ({"prePull": ["a", "b"]}, {"prePull": ["a", "b", "a"]}, 'names "a" 2 times'),
        (labelled("team"), {**BUFFER, **labelled("team")}, "template is set"),
        (shaped(cpu="1m"), shaped(cpu="0"), 'quantity "0" is not accepted'),
        (shaped(memory="1P"), shaped(memory="1001T"), 'quantity "1001T" is not accepted'),
        (shaped(nvidia__gpu="8"), shaped(nvidia__gpu="8500m"), "a device is not divided"),
        (shaped(cpu="8500m"), shaped(gpu="8"), 'resource "gpu" is unknown'),
        ({"shape": {"slack": {"cpu": "0"}}}, {"shape": {"slack": {"cpu": "-1m"}}}, "shape.slack[cpu]"),
        ({"shape": {"devices": ["a.b/c"]}}, {"shape": {"devices": ["cpu"]}}, 'device "cpu"'),
        ({"shape": {"devices": [LONGEST_DEVICE]}}, {"shape": {"devices": [f"x{LONGEST_DEVICE}"]}}, "device"),
        (tolerating(operator="Exists"), tolerating(operator="Equal"), "operator Equal has no key"),
        (
            tolerating(key="a", operator="Exists"),
            tolerating(key="a", operator="Exists", value="b"),
            "operator Exists has the value",
        ),
        (
            tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=YEAR_S),
            tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=YEAR_S + 1),
            "tolerationSeconds 31536001",
        ),
        (
            tolerating(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=0),
            tolerating(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=0),
            "only with effect NoExecute",
        ),
        (scheduled(size=4), scheduled(size=5), "size 5, above maxSize 4"),
        (scheduled(sizePercent=50), scheduled(size=1, sizePercent=50), "are both set"),
        (scheduled(size=0), scheduled(), "has no size"),
        (scheduled(sizePercent=50), {**scheduled(sizePercent=50), "maxSize": None}, "sizePercent 50, a share"),
        (scheduled(size=1, duration="744h"), scheduled(size=1, duration="745h"), 'duration "745h"'),
        (labelled("team"), labelled("kubernetes.io/team"), "accepted: a key outside kubernetes.io"),
        (labelled("x.example.com/team"), labelled("x.k8s.io/team"), "accepted: a key outside kubernetes.io"),
        (labelled("team", "x" * 63), labelled("team", "x" * 64), "text of 0 to 63 characters"),
        (labelled("team", "a-b"), labelled("team", "a-"), "cannot be on a pod"),
        (labelled("x" * 63), labelled("x" * 64), "template.labels"),
    ],
)
def test_a_bound_itself_is_taken_and_what_lies_beyond_it_is_not(
    taken: dict[str, Any], refused_one: dict[str, Any], at: str
) -> None:
    assert complaint(taken) == ""
    assert at in complaint(refused_one)


def test_a_name_is_as_long_as_a_label_at_most() -> None:
    assert complaint({}, "x" * 63) == ""
    assert "has 64 characters" in complaint({}, "x" * 64)


@given(st.sampled_from(PATHS), JSON_VALUES)
def test_no_value_anywhere_raises(path: tuple[str, ...], value: Any) -> None:
    assert isinstance(decode_pool(with_value_at(GOOD, path, value)), BalloonPool | Invalid)


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=70))
def test_no_text_in_a_schedule_raises(cron: str, duration: str, zone: str) -> None:
    schedule = {"cron": cron, "duration": duration, "timeZone": zone, "size": 1}
    found = decode_pool({**GOOD, "spec": {**GOOD["spec"], "schedules": [schedule]}})
    assert isinstance(found, BalloonPool | Invalid)


@pytest.mark.parametrize(
    "text",
    [
        "0 8 * * MON-FRI", "0 8 * * mon-fri", "* * * * *", "*/5 0-23/2 1,15 JAN-MAR 0-7", "00 08 01 01 0",
        "5/10 * * * 7", "0 0 29 2 *", "0 0 31 2 MON", "*,5 * * * *",
    ],
)  # fmt: skip
def test_takes_what_fires(text: str) -> None:
    assert is_cron(text)


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "* * * * * *", " 0 8 * * *", "0 8 * * * ", "0  8 * * *", "0\t8 * * *", "60 * * * *",
        "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8", "* * * FOO *",
        "* * * * MONDAY", "@daily", "*/0 * * * *", "*/100 * * * *", "5-1 * * * *", "0 8 * * FRI-MON", "0 0 30 2 *",
        "0 0 31 4,6 *", "0 0 L * *", "0 0 * * 1#2", "0 0 * * 5L", "? * * * *", "-1 * * * *", "1.5 * * * *",
        "1e1 * * * *", "８ * * * *", "٨ * * * *", "0 8 * * ſUN", "0,  8 * * *", ", * * * *", "1- * * * *",
        "* * * * *\n",
    ],
)  # fmt: skip
def test_refuses_what_never_fires_or_reads_differently_elsewhere(text: str) -> None:
    assert not is_cron(text)


@pytest.mark.parametrize(
    "name", ["Etc/UTC", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "America/Port-au-Prince"]
)
def test_takes_zones_of_the_database(name: str) -> None:
    assert is_zone(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "Mars/Olympus", "America", "../Europe/Berlin", "/etc/passwd", "Europe/../Europe/Berlin", "Europe/Berlin/",
        "Europe//Berlin", "Europe/Berlin\x00", "Europe Berlin", "+02:00", "Ｅurope/Berlin", "x" * 5000,
        "Europe/Berlin\n",
    ],
)  # fmt: skip
def test_refuses_names_that_are_no_zone(name: str) -> None:
    assert not is_zone(name)


def field(least: int, most: int) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    span = st.tuples(number, number).map(lambda ends: f"{min(ends)}-{max(ends)}")
    item = st.just("*") | number.map(str) | span
    stepped = item | st.tuples(item, st.integers(1, 99)).map(lambda parts: f"{parts[0]}/{parts[1]}")
    return st.lists(stepped, min_size=1, max_size=3).map(",".join)


EXPRESSIONS = st.tuples(field(0, 59), field(0, 23), field(1, 28), field(1, 12), field(0, 7)).map(" ".join)


@given(EXPRESSIONS)
def test_what_is_taken_fires_in_every_zone_in_both_directions(text: str) -> None:
    assert is_cron(text)
    moment = datetime(2026, 3, 29, 2, 30, tzinfo=UTC).astimezone(ZoneInfo("Europe/Berlin"))
    assert next(CronSim(text, moment)) > moment
    assert next(CronSim(text, moment, reverse=True)) < moment


CRON_CHARACTERS = "0123456789*/-, LW#?MONFRI"
MISTYPED = st.tuples(EXPRESSIONS, st.integers(0, 20), st.sampled_from(CRON_CHARACTERS)).map(
    lambda typed: typed[0][: typed[1]] + typed[2] + typed[0][typed[1] :]
)


@given(st.text(max_size=130) | st.text(alphabet=CRON_CHARACTERS, max_size=130) | MISTYPED)
def test_any_text_is_judged(text: str) -> None:
    if is_cron(text):
        assert next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
