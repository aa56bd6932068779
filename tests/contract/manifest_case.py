"""One row of a table of manifests that are refused or accepted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_HERE = Path(__file__).parent
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Case:
    """One manifest; `at` and `says` are the service's words, `server` the API server's where they differ."""

    name: str
    manifest: Mapping[str, Any]
    at: str = ""
    says: str = ""
    server: str = ""
    is_for_service_only: bool = False


def rows(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.load((_HERE / file).read_text(encoding="utf-8"), Loader=_LOADER)
    return found


def case(row: Mapping[str, Any], manifest: Mapping[str, Any]) -> Case:
    says = row.get("says", "")
    return Case(row["case"], manifest, row.get("at", ""), says, row.get("server", says), row.get("only") == "service")
