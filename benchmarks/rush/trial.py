"""One rush: what happened, what work it was, and its file, so that rounds can be measured in parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.rush.work import Work
from lab.demo.rush import RushRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One rush and the work that it was."""

    setting: str
    way: str
    round: int
    """From 0 on."""
    record: RushRecord
    work: Work
    learned: Mapping[str, Any] = field(default_factory=dict)
    """What its throttle wrote into its status; empty where nobody paced. A way that remembers begins with it."""


def keep(trial: Trial, folder: Path) -> None:
    """Write it down."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, trial.setting, trial.way, trial.round)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(trial)))


def kept(folder: Path, setting: str, way: str, round_: int, nodes: int) -> Trial | None:
    """What was measured before; None where there is none, or it was for another number of nodes."""
    path = _path(folder, setting, way, round_)
    if not path.exists():
        return None
    trial = msgspec.json.decode(path.read_bytes(), type=Trial)
    return trial if len(trial.record.usable_s) == nodes else None


def _path(folder: Path, setting: str, way: str, round_: int) -> Path:
    return folder / f"{round_ + 1}, {setting}, {way}.json"
