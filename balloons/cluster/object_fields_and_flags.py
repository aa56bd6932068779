"""Reads fields of objects by path, whatever is really there: objects may come from a file that anybody wrote.

Also how a container was started: `--flag=value`, `--flag value` and `--flag`, feature gates, the version.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

Plain = Mapping[str, Any]


def part(value: Any, *path: str) -> Plain:
    """The mapping at the path; an empty one where there is none."""
    leaf = _at(value, path)
    return leaf if isinstance(leaf, dict) else {}


def parts(value: Any, *path: str) -> tuple[dict[str, Any], ...]:
    """The mappings in the list at the path."""
    leaf = _at(value, path)
    return tuple(item for item in leaf if isinstance(item, dict)) if isinstance(leaf, list) else ()


def text(value: Any, *path: str) -> str:
    """The text at the path; numbers and booleans are no text, absent is empty."""
    leaf = _at(value, path)
    return leaf if isinstance(leaf, str) else ""


def texts(value: Any, *path: str) -> tuple[str, ...]:
    """The texts in the list at the path."""
    leaf = _at(value, path)
    return tuple(item for item in leaf if isinstance(item, str)) if isinstance(leaf, list) else ()


def pairs(value: Any, *path: str) -> dict[str, str]:
    """The mapping at the path as labels are: what is no text is left out."""
    return {key: word for key, word in part(value, *path).items() if isinstance(word, str)}


def whole(value: Any, *path: str) -> int | None:
    """The whole number at the path; None where there is none."""
    leaf = _at(value, path)
    return leaf if isinstance(leaf, int) and not isinstance(leaf, bool) else None


def is_true(value: Any, *path: str) -> bool:
    """Whether the path leads to true."""
    return _at(value, path) is True


def moment(value: Any, *path: str) -> datetime | None:
    """The time at the path (RFC 3339), in UTC; None for one that has no place in our calendar."""
    try:
        time = datetime.fromisoformat(text(value, *path))
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def name_of(value: Any) -> str:
    """An object's name."""
    return text(value, "metadata", "name")


def namespace_of(value: Any) -> str:
    """An object's namespace; empty where it has none."""
    return text(value, "metadata", "namespace")


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def flags_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Flag without dashes -> value; "true" where none is given, the last value where a flag is repeated.

    A value may stand apart from its flag, as Go's flag packages allow for all but booleans.
    """
    words = [*texts(container, "command"), *texts(container, "args")]
    flags: dict[str, str] = {}
    for word, following in pairwise([*words, ""]):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            is_apart = following and not following.startswith("-")
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
