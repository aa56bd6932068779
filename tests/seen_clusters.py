"""Seen clusters from plain objects, as the reader would have made them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from balloons.cluster.kinds import Kind, kept
from balloons.cluster.seen_cluster import Listed, SeenCluster

TAKEN_AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def cluster(objects: Mapping[Kind, Sequence[Mapping[str, Any]]], version: str = "v1.36.3") -> SeenCluster:
    """A cluster with these objects; kinds that are not named were not asked for."""
    lists = {
        kind.name: Listed(tuple(kept(kind, msgspec.json.encode(each)) for each in found))
        for kind, found in objects.items()
    }
    return SeenCluster(taken_at=TAKEN_AT, lists=lists, version=version, context="test")
