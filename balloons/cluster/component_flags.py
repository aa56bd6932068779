"""Reads how components of the cluster were started: `--flag=value`, `--flag value` and `--flag`, gates, the version."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from balloons.cluster.object_fields import texts


def flags_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Flag without dashes -> value; "true" where none is given, the last value where a flag is repeated.

    A value may stand apart from its flag, as Go's flag packages allow for all but booleans.
    """
    words = [*texts(container, "command"), *texts(container, "args")]
    flags: dict[str, str] = {}
    for word, following in pairwise([*words, ""]):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            is_apart = not equals and following and not following.startswith("-")
            flags[name] = value if equals else following if is_apart else "true"
    return flags


def gates_of(text: str) -> dict[str, bool]:
    """`A=true,B=false` as a mapping."""
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip().lower() == "true" for name, _, value in pairs}


def image_version(image: str) -> str:
    """The tag (`v1.36.1`), empty where the image is named by digest alone."""
    name = image.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]
