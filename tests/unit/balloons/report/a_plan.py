"""Plans to draw, as `plan --save` writes them."""

from typing import Any

from balloons.report.document import Document, read_document

EVIL = "<script>alert(1)</script>\x1b[2J\u202e\"'&$\\frac{"


def body(**changes: Any) -> dict[str, Any]:
    """100 nodes come in four minutes, one after the other; the API servers are half busy."""
    found = {
        "apiVersion": "balloons.kube-balloons.github.io/v1",
        "kind": "Plan",
        "createdAt": "2026-11-21T12:00:00Z",
        "madeBy": "0.1.0",
        "request": {"pool": "gpu", "addNodes": 100, "toNodes": 108, "withinSeconds": None, "inWords": "--add 100"},
        "cluster": {"autoscaler": "Karpenter", "nodes": 10, "poolNodes": 8, "warmNodes": 2, "throttle": None},
        "nodesComing": 100,
        "eta": {"medianSeconds": 240.0, "lowSeconds": 230.0, "highSeconds": 260.0, "at": "2026-11-21T12:04:00Z"},
        "firstNode": {"medianSeconds": 62.0, "lowSeconds": 60.0, "highSeconds": 70.0},
        "limit": {"name": "boot time", "because": "BootTime", "meaning": "they boot", "etaWithoutSeconds": 120.0},
        "waves": [wave(0.0, 60.0, 0, 0), wave(60.0, 240.0, 100, 100)],
        "timeline": [moment(5.0 * step, max(0, step - 12), 48) for step in range(49)],
        "killTimer": {"seconds": 900, "lost": 0.0, "lostHigh": 0.0},
        "pacing": {"policy": "none", "sides": [side("none"), side("throttle")]},
        "ceilings": [{"name": "NodePool/gpu", "nodes": 900, "detail": "limits.cpu"}],
        "cost": {"pricePerNodeHour": 3.0, "waiting": 9.6, "warmPerHour": 6.0, "noPriceFor": None},
        "pods": None,
        "inputs": [{"name": "boot", "value": 60.0, "unit": "seconds", "source": "learned", "detail": "8 nodes"}],
        "unseen": [],
        "broken": [],
    }
    return found | changes


def wave(from_s: float, until_s: float | None, nodes: int, ready: int, **changes: Any) -> dict[str, Any]:
    found = {"fromSeconds": from_s, "untilSeconds": until_s, "nodes": nodes, "ready": ready}
    return found | {"limit": "boot time", "because": "BootTime", "object": ""} | changes


def moment(at_s: float, step: int, steps: int) -> dict[str, Any]:
    ready = min(100, 100 * step // (steps - 12))
    joining = min(100 - ready, 5) if step else 0
    stages = {"booting": 100 - ready - joining if at_s >= 10 else 0, "held": 0, "joining": joining, "ready": ready}
    return {"atSeconds": at_s, "waiting": 0, "utilisation": 0.5, **stages}


def side(policy: str) -> dict[str, Any]:
    found = {"policy": policy, "etaSeconds": 240.0, "peakRequestsPerSecond": 500.0}
    course = [
        {"atSeconds": 10.0 * step, "ready": min(100, 5 * step), "utilisation": 0.5, "slowerBy": 1.0 + step / 48}
        for step in range(25)
    ]
    return found | {"peakUtilisation": 0.5, "refusedShare": 0.0, "slowerBy": 1.5, "timeline": course}


def document(**changes: Any) -> Document:
    return read_document(body(**changes))


def evil_document() -> Document:
    """Every text that a cluster or a file can give says the same unpleasant thing."""
    return read_document(_spoilt(body(broken=[EVIL], unseen=[EVIL], pods=evil_pods())))


def evil_pods() -> dict[str, Any]:
    gang = {"name": EVIL, "pods": 3, "fitsNow": False, "podsOnNewNodes": 3}
    nowhere = {"pods": 1, "requests": {"cpu": "1"}, "reason": EVIL}
    return {"pods": 4, "onNodesThere": 0, "onNewNodes": 3, "gangs": [gang], "unplaceable": [nowhere]}


def _spoilt(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _spoilt(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_spoilt(each, key) for each in value]
    return EVIL if isinstance(value, str) and key not in ("apiVersion", "kind", "createdAt") else value
