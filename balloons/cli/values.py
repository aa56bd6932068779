"""What the value of an option may be: counts, numbers, prices, times and files.

Each refuses in one sentence that names the value and what is accepted; click puts the option's name before it. Numbers
are written in plain digits: Python's own reading also takes `1_000` and digits of other scripts.
"""

import errno
import os
import re
import stat
from typing import Any

import click

FILE = "FILE"
DUMP_FILE = "a file that `balloons dump` wrote"
PLAN_FILE = "a file that `balloons plan --save FILE` wrote"
_COUNT = re.compile(r"[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,4})?", re.ASCII | re.IGNORECASE)
_ZERO = re.compile(r"0+(\.0+)?s?")


class Choice(click.Choice[str]):
    """One of some words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """What is accepted, as the other types say it."""
        return f"{str(value)[:80]!r}; accepted: {', '.join(self.choices)}"


class Count(click.ParamType[int]):
    """A whole number from `least` to `most`."""

    name = "count"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    @property
    def bounds(self) -> str:
        """For help."""
        return f"{self.least:,} to {self.most:,}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; fails with what is accepted."""
        if _COUNT.fullmatch(str(value)) and self.least <= int(value) <= self.most:
            return int(value)
        return self.fail(f"{str(value)[:80]!r}; accepted: a whole number from {self.bounds}", param, ctx)


class Number(click.ParamType[float]):
    """A finite number; `least` and `most` are accepted, too. Without them the preview has bounds of its own."""

    name = "number"

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least, self.most = least, most

    @property
    def bounds(self) -> str:
        """For help; empty where the preview has them."""
        return "" if self.least is None or self.most is None else f"{self.least:,g} to {self.most:,g}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with what is accepted."""
        number = float(value) if _NUMBER.fullmatch(str(value)) else None
        if number is not None and (self.least is None or self.most is None or self.least <= number <= self.most):
            return number
        return self.fail(f"{str(value)[:80]!r}; accepted: {self._accepted(param)}", param, ctx)

    def _accepted(self, param: click.Parameter | None) -> str:
        if self.bounds:
            return f"a number from {self.bounds}"
        # Imported here: it is heavy, and nothing has failed for whom reads help.
        from balloons.preview.what_if import BOUNDS, accepted

        name = param.name if param else None
        return accepted(name) if name in BOUNDS else "a number"


class Price(click.ParamType[float]):
    """Per hour: 0 or more."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The price; fails with what is accepted."""
        if _NUMBER.fullmatch(str(value)) and 0 <= float(value) < 1e6:
            return float(value)
        return self.fail(f"{str(value)[:80]!r}; accepted: a number, 0 or more, below 1,000,000", param, ctx)


class Seconds(click.ParamType[float]):
    """`90s`, `15m`, `1h30m`, or a number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds; fails with what is accepted."""
        from throttler.kube.quantities_and_durations import DurationError, parse_duration

        if isinstance(value, int | float):
            return float(value)
        if _ZERO.fullmatch(value):
            return 0.0
        try:
            return parse_duration(f"{value}s" if value.replace(".", "", 1).isdecimal() else value)
        except DurationError as error:
            return self.fail(str(error), param, ctx)


class File(click.Path):
    """The name of a file. One that is read has to be there, and to be `accepted`; `-` is a stream.

    An empty name is refused: it is what a shell makes of a variable that is not set, and something else would be read
    in its place.
    """

    def __init__(self, accepted: str = "a file", *, is_read: bool = True, is_or_folder: bool = False) -> None:
        super().__init__(readable=False, allow_dash=True)
        self.accepted, self.is_read, self.is_or_folder = accepted, is_read, is_or_folder

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The name; fails with what is wrong with the file."""
        if not value:
            self.fail(f"'' is no file; accepted: {self.accepted}", param, ctx)
        problem = self._problem(str(value)) if self.is_read and value != "-" else ""
        return self.fail(f"{value}: {problem}; accepted: {self.accepted}", param, ctx) if problem else value

    def _problem(self, name: str) -> str:
        """Why it cannot be read; empty if it can."""
        try:
            mode = os.stat(name).st_mode
        except (OSError, ValueError) as error:
            return (getattr(error, "strerror", None) or "no name of a file").lower()
        if stat.S_ISDIR(mode) and not self.is_or_folder:
            return os.strerror(errno.EISDIR).lower()
        return "" if os.access(name, os.R_OK) else os.strerror(errno.EACCES).lower()
