"""How the service logs: JSON lines, or readable ones on a terminal, on stderr; never a credential."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO

import structlog

from balloons.text_and_colours import printable

HIDDEN = "(hidden)"
_SECRET_KEYS = re.compile(r"token|authorization|password|secret|client.?key", re.IGNORECASE)
_SECRETS = re.compile(
    r"(?i:bearer|basic)\s+\S+|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bk8s-aws-v1\.[\w-]+"
    r"|(?<=://)[^\s/@]+(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END|\Z)"
    r"|(?i:(?<=token)|(?<=password)|(?<=secret)|(?<=client-key-data))[\"']?\s*[=:]\s*b?[\"']?[^\s\"',]+"
)
"""Authorization headers, tokens of accounts and clouds, users in addresses, keys, and what is said to be a secret."""

Event = MutableMapping[str, Any]


def set_up_logs(style: str, *, is_debug: bool, stream: TextIO | None = None) -> None:
    """Configure structlog; `style` is auto, json or pretty (auto: pretty on a terminal)."""
    stream = stream or sys.stderr
    root = logging.getLogger()
    root.handlers = [handler for handler in root.handlers if not isinstance(handler, _Rerouted)] + [_Rerouted()]
    rendering: list[Any] = [structlog.processors.JSONRenderer()]
    if style == "pretty" or (style == "auto" and stream.isatty()):
        rendering = [make_printable, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            hide_secrets,
            *rendering,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if is_debug else logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )


class _Rerouted(logging.Handler):
    """Lines of libraries, which use Python's own logging, go the same way as ours: no line passes the redaction by."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record as one of ours."""
        if record.levelno >= logging.WARNING:
            level = "error" if record.levelno >= logging.ERROR else "warning"
            told = getattr(structlog.get_logger(), level)
            told(record.getMessage(), logger=record.name, **({"exc_info": record.exc_info} if record.exc_info else {}))


def hide_secrets(logger: Any, method: str, event: Event) -> Event:
    """Replace values under telling names, and what looks like a credential anywhere."""
    return {key: _under(key, value) for key, value in event.items()}


def make_printable(logger: Any, method: str, event: Event) -> Event:
    """Neutralise terminal escapes; the lines of a traceback are kept."""
    return {
        key: "\n".join(map(printable, value.split("\n"))) if isinstance(value, str) else _all_printable(value)
        for key, value in event.items()
    }


def _under(key: str, value: Any) -> Any:
    return HIDDEN if _SECRET_KEYS.search(key) else _without_secrets(value)


def _without_secrets(value: Any) -> Any:
    """Numbers stay; whatever is no text would be written as one behind our back, so it becomes one here."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _under(str(key), part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets(part) for part in value]
    return _SECRETS.sub(HIDDEN, value if isinstance(value, str) else repr(value))


def _all_printable(value: Any) -> Any:
    return [printable(str(part)) for part in value] if isinstance(value, list | tuple) else value
