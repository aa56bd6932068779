"""Files that commands take, bounded and refused in one sentence; and files that they write, whole or not at all."""

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import yaml

from balloons.cli.terminal import CommandError, ExitCode, reason

MOST_BYTES = 16 * 1024 * 1024
"""Of a file of pods, prices or figures."""
MOST_DOCUMENTS = 10_000
DEEPEST = 64


def documents(path: str) -> list[Any]:
    """The YAML or JSON documents of a file; `-` is stdin. Raises CommandError.

    JSON is read as what it is: YAML knows no surrogate pairs, as which JSON may spell letters beyond the first plane.
    """
    text = _text(path)
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):  # it may still be YAML
            document = json.loads(text)
            if not _is_deeper(document, DEEPEST):
                return [document]
    if _has_aliases(text, path):
        raise _bad(path, "YAML anchors are not accepted")
    try:
        read = [document for document in yaml.load_all(text, _LOADER) if document is not None]
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _bad(path, f"no YAML or JSON: {' '.join(str(error).split())[:200]}") from error
    if not read:
        raise _bad(path, "it is empty")
    if len(read) > MOST_DOCUMENTS:
        raise _bad(path, f"{len(read):,} documents; accepted: at most {MOST_DOCUMENTS:,}, or one List of all objects")
    return read


def only_document(path: str) -> Any:
    """The one document of a file. Raises CommandError, also where there are more: which one is meant?"""
    read = documents(path)
    if len(read) > 1:
        raise _bad(path, f"{len(read):,} documents; accepted: one")
    return read[0]


def prices(path: str | None, price: float | None) -> Mapping[str, float]:
    """Instance type -> price per hour; `*` is what every other one costs."""
    # Imported here: dumps are written without what plans need.
    from balloons.preview.inputs import PRICES_BELOW

    by_type: dict[str, float] = {} if price is None else {"*": price}
    for document in documents(path) if path else ():
        if not isinstance(document, dict):
            raise _bad(path or "", "accepted: a mapping of instance types to prices per hour")
        for name, value in document.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < PRICES_BELOW:
                price_of = f"price of {str(name)[:80]}: {str(value)[:40]!r}"
                raise _bad(path or "", f"{price_of}; accepted: a number, 0 or more, below {PRICES_BELOW:,}")
            by_type[str(name)] = float(value)
    return by_type


def write(path: str, content: str | bytes) -> None:
    """The whole file or none of it; raises CommandError."""
    with written(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def written(path: str, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` once it is whole, with the rights `mode`; raises CommandError.

    A device or a pipe is written to as it is: a file in the place of /dev/null would be everybody's trouble. The draft
    has a name that nobody can lay a link under beforehand.
    """
    target = Path(path)
    draft: Path | None = None
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
            return
        draft = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
        draft.replace(target)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {reason(error)}", ExitCode.BAD_INPUT) from error
    finally:
        if draft is not None:
            with contextlib.suppress(OSError):
                draft.unlink()


def _text(path: str) -> str:
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with open(path, "rb", opener=_at_once) as file:
                raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise _bad(path, reason(error)) from error
    if len(raw) > MOST_BYTES:
        raise _bad(path, f"more than {MOST_BYTES:,} bytes")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise _bad(path, "not UTF-8 text; accepted: YAML or JSON") from error


def _at_once(path: str, flags: int) -> int:
    """A named pipe that nobody writes to is empty, and no reason to wait; one of the shell's (`<(...)`) is read."""
    file = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(file, True)
    return file


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _has_aliases(text: str, path: str) -> bool:
    """Anchors repeat a part of a document, and a few of them in each other fill any memory."""
    depth = 0
    try:
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):
                return True
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _bad(path, f"nested more than {DEEPEST} deep")
    except yaml.YAMLError as error:
        raise _bad(path, f"no YAML or JSON: {' '.join(str(error).split())[:200]}") from error
    return False


def _is_deeper(value: Any, most: int) -> bool:
    """Whether lists and mappings lie in each other more than so many deep."""
    level = [value]
    for _ in range(most):
        level = [part for part in level if isinstance(part, dict | list)]
        level = [inner for part in level for inner in (part.values() if isinstance(part, dict) else part)]
    return any(isinstance(part, dict | list) for part in level)


def _bad(path: str, why: str) -> CommandError:
    return CommandError(f"{path}: {why}", ExitCode.BAD_INPUT)
