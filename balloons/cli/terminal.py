"""How commands print and fail: colours, tables and a line while they work, and exit codes that scripts can rely on.

Tables are as kubectl prints them: upper-case headers, two spaces between columns, no borders. Exit codes:
0 done; 1 failed while running; 2 bad input; 3 findings at or above what was asked; 4 a wait ran out; 130 interrupted.
"""

import enum
import errno
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from threading import Event, Thread

import click

from balloons.text_and_colours import RESET, printable

GLYPHS = {"True": "✓", "False": "✗", "Unknown": "?"}
CELL_COLOURS = {"✓ True": "\x1b[32m", "✗ False": "\x1b[31m", "? Unknown": "\x1b[33m"}
AFTER_S = 1.5
EVERY_S = 1.0
MANY = 5_000
"""Nobody needs it sooner, more often, or of fewer nodes."""
SECONDS = len(" (1000 s) ")
"""What stands behind it. A line that the terminal breaks could not be written over."""
GAP, NARROW_GAP = "  ", " "
NONE, SHORT_NONE = "<none>", "-"
"""A cell without a value, as kubectl has it."""
SHORTEST = 20
"""Characters of a text that is cut; codes, times and figures have fewer."""
Row = Mapping[str, str]
"""Header -> cell."""


class ExitCode(enum.IntEnum):
    """The codes of all commands."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    FINDINGS = 3
    TIMED_OUT = 4
    INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot go on; the message is the whole sentence for the user."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def explain(error: BaseException) -> tuple[str, ExitCode]:
    """The sentence and the code for an error that is ours, or that the API server answered."""
    # Imported here: `balloons --help` fails in no way that needs the client.
    from balloons.service.settings import SettingsError
    from throttler.kube.errors import ApiError, ConfigError

    for cause in _leaves(error):
        if isinstance(cause, CommandError):
            return str(cause), cause.code
        if isinstance(cause, ConfigError | SettingsError):
            return str(cause), ExitCode.BAD_INPUT
        if isinstance(cause, ApiError):
            return cause.message, ExitCode.FAILED
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            return f"the output cannot be written: {os.strerror(cause.errno).lower()}", ExitCode.FAILED
    return f"unexpected {type(error).__name__}: {error}; --debug shows where", ExitCode.FAILED


def _no_option(error: click.NoSuchOption) -> str:
    """As of a command that is none; an option that other commands have was hardly misspelt."""
    others = _commands_with(error)
    if others:
        return f"no option {error.option_name!r}; {_listed(others, 'and')} {'has' if len(others) == 1 else 'have'} it"
    meant = f"; did you mean {_listed(error.possibilities, 'or')}?" if error.possibilities else ""
    return f"no option {error.option_name!r}{meant}"


def _listed(names: Sequence[str], last_word: str) -> str:
    """At least one name, as in a sentence."""
    *first, last = names
    return f"{', '.join(first)} {last_word} {last}" if first else last


def _commands_with(error: click.NoSuchOption) -> list[str]:
    """Names of the commands beside this one that have the option."""
    group = error.ctx.parent.command if error.ctx is not None and error.ctx.parent is not None else None
    if not isinstance(group, click.Group):
        return []
    return [
        name
        for name, command in group.commands.items()
        if any(error.option_name in (*option.opts, *option.secondary_opts) for option in command.params)
    ]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside groups, as task groups raise them."""
    if isinstance(error, BaseExceptionGroup):
        for cause in error.exceptions:
            yield from _leaves(cause)
    else:
        yield error


def fail(error: Exception) -> ExitCode:
    """Say what is wrong; returns the exit code."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return ExitCode(error.exit_code)
    if isinstance(error, click.ClickException):
        message = _no_option(error) if isinstance(error, click.NoSuchOption) else error.format_message()
        warn(f"error: {' '.join(message.split())}")
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"see {error.ctx.command_path} --help", err=True)
        return ExitCode(error.exit_code)
    sentence, code = explain(error)
    warn(f"error: {' '.join(sentence.split())}")
    return code


def reason(error: OSError) -> str:
    """What the system says of a file, in the middle of a sentence."""
    return (error.strerror or str(error)).lower()


def warn(sentence: str) -> None:
    """One line on stderr; on a terminal that is narrower words are not cut in two."""
    text = printable(sentence)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        )
    click.echo(text, err=True)


def end_quietly() -> None:
    """Whoever read our output has gone (`| head`): nothing more to say, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@dataclass(frozen=True, slots=True)
class Look:
    """How to print: `output` as the option says, `width` of the terminal (None: no limit)."""

    output: str = ""
    has_headers: bool = True
    width: int | None = None
    is_terminal: bool = False
    is_coloured: bool = False
    is_unicode: bool = True
    """Whether block letters and frames can be written; else there is an ASCII form of them."""

    @classmethod
    def of_terminal(cls, output: str, *, has_headers: bool) -> "Look":
        """What stdout is: a terminal gets colour, where nobody said otherwise, and only the columns that fit."""
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        context = click.get_current_context(silent=True)
        asked = context.color if context else colour_asked("auto", os.environ)
        is_coloured = is_terminal if asked is None else asked
        return cls(output, has_headers, width, is_terminal, is_coloured, _is_unicode(sys.stdout.encoding))

    def without_headers(self) -> "Look":
        """The same for further lines of a table that has begun."""
        return replace(self, has_headers=False)


def colour_asked(choice: str, environment: Mapping[str, str]) -> bool | None:
    """Whether colour is wanted: by --color, else by NO_COLOR, FORCE_COLOR, TERM; None where stdout is to decide."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return False if environment.get("TERM") == "dumb" else None


def _is_unicode(encoding: str | None) -> bool:
    try:
        return bool("░┤✓".encode(encoding or "ascii"))
    except (UnicodeEncodeError, LookupError):
        return False


@contextmanager
def keys_unseen() -> Iterator[None]:
    """For a screen that is drawn in place: a key that the terminal shows would shift it.

    The terminal is as before when the block ends, also by a signal that ends the process, and forgets the keys that
    were pressed meanwhile. A pipe, and a terminal that another process has, are left alone.
    """
    if not _has_the_terminal():
        yield
        return
    # Imported here: the commands that draw nothing in place, and help, need neither.
    import signal
    import termios

    terminal = sys.stdout.fileno()
    before = termios.tcgetattr(terminal)
    silent = [*before]
    silent[3] &= ~termios.ECHO

    def restore() -> None:
        termios.tcsetattr(terminal, termios.TCSAFLUSH, before)

    def end(number: int, _: object) -> None:
        with suppress(termios.error):  # the terminal may be what has ended
            restore()
        # A container's first process has a handler (`balloons.__main__`). Whoever ignores a hang-up has no screen left.
        before_us = handlers[number]
        signal.signal(number, before_us if callable(before_us) else signal.SIG_DFL)
        signal.raise_signal(number)

    handlers = {int(number): signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number in handlers:
        signal.signal(number, end)
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        with suppress(termios.error):
            restore()
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _has_the_terminal() -> bool:
    """Whether stdout is one, and ours to change: in the background the system would stop us for it."""
    try:
        return sys.stdout.isatty() and os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False


@contextmanager
def working(what: str, nodes: int) -> Iterator[None]:
    """Say what takes so long and for how long it has; to a person only, and not of what is done in a moment anyway."""
    if nodes < MANY or not sys.stderr.isatty():
        yield
        return
    done, line = Event(), _shortened(what, shutil.get_terminal_size().columns - SECONDS)
    thread = Thread(target=_tell, args=(line, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(what: str, done: Event) -> None:
    if done.wait(AFTER_S):
        return
    for passed in count():
        sys.stderr.write(f"\r{what} ({AFTER_S + passed * EVERY_S:.0f} s)")
        sys.stderr.flush()
        if done.wait(EVERY_S):
            break
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def table(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    width: int | None = None,
    kept: int = 1,
    first_to_go: Sequence[str] = (),
    is_whole: bool = False,
    has_headers: bool = True,
    colours: Mapping[str, str] | None = None,
) -> list[str]:
    """The lines in at most `width` columns (None: no limit), and one that names the columns without room.

    What is narrow is shortened before a column is left out: `-` for no value, one space between columns, long texts
    cut. Then columns without a value go, then those of `first_to_go` in this order, then the others from the right.
    The first `kept` are names: they stay, and are never cut. Of a table that is to be whole (`-o wide`) nothing is cut
    or left out: texts of the last column go on below it, or else each row becomes a paragraph.
    """
    shown, gap, cells = list(headers), GAP, rows
    if width is not None and _total(shown, rows, GAP) > width:
        gap = NARROW_GAP
        cells = [{name: SHORT_NONE if text == NONE else text for name, text in row.items()} for row in rows]
        if is_whole and _total(shown, cells, gap) > width:
            folded = _folded(shown, cells, width - _total(shown[:-1], cells, gap) - len(gap))
            if folded:
                return lines(shown, folded, has_headers=has_headers, colours=colours, gap=gap)
            return [line for row in cells for line in _paragraph(shown, row, width)]
        cells = _cut(shown, cells, width, kept)
        while len(shown) > kept and _total(shown, cells, gap) > width:
            shown.remove(_least(shown[kept:], cells, first_to_go))
        if _total(shown, cells, GAP) <= width:
            gap = GAP
    missing = [header.upper() for header in headers if header not in shown]
    note = (
        textwrap.wrap(f"(no room for {', '.join(missing)})", width or 80, break_on_hyphens=False)
        if missing and has_headers
        else []
    )
    return [*lines(shown, cells, has_headers=has_headers, colours=colours, gap=gap), *note]


def table_as_asked(
    look: Look, headers: Sequence[str], rows: Sequence[Row], *, kept: int = 1, first_to_go: Sequence[str] = ()
) -> list[str]:
    """The table as its command was asked to print it; whole with `-o wide`."""
    return table(
        headers,
        rows,
        width=look.width,
        kept=kept,
        first_to_go=first_to_go,
        is_whole=look.output == "wide",
        has_headers=look.has_headers,
        colours=CELL_COLOURS if look.is_coloured else None,
    )


def _folded(headers: Sequence[str], rows: Sequence[Row], room: int) -> list[Row]:
    """Rows whose last cell takes at most `room` columns, and goes on in rows of its own; none if that is too narrow."""
    last, folded = headers[-1], list[Row]()
    longest = max((len(word) for row in rows for word in printable(row[last]).split()), default=0)
    for row in rows if room >= max(SHORTEST, longest) else ():
        first, *more = textwrap.wrap(printable(row[last]), room, break_on_hyphens=False) or [""]
        folded += [{**row, last: first}, *({**dict.fromkeys(headers, ""), last: line} for line in more)]
    return folded


def _paragraph(headers: Sequence[str], row: Row, width: int) -> list[str]:
    """Each value behind the name of its column; a pair is broken only where it is longer than a line, a word never."""
    pairs = [f"{header.upper()} {printable(row[header])}" for header in headers if row[header] not in ("", SHORT_NONE)]
    text = GAP.join(pair.replace(" ", "\xa0") if len(pair) <= width - len(GAP) else pair for pair in pairs)
    text_lines = textwrap.wrap(text, width, subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in text_lines]


def _least(headers: Sequence[str], rows: Sequence[Row], first_to_go: Sequence[str]) -> str:
    """The column that is missed least."""
    empty = [header for header in headers if all(row[header] == SHORT_NONE for row in rows)]
    return empty[-1] if empty else next((header for header in first_to_go if header in headers), headers[-1])


def _cut(headers: Sequence[str], rows: Sequence[Row], width: int, kept: int) -> list[Row]:
    """Texts as short as they must be for all columns to fit, and no shorter than they can be understood."""
    over, shorter = _total(headers, rows, NARROW_GAP) - width, list(rows)
    for header in sorted(headers[kept:], key=lambda name: -_width(name, rows)):
        now = _width(header, shorter)
        if over <= 0 or now <= SHORTEST:
            break
        most = max(SHORTEST, len(header), now - over)
        shorter = [{**row, header: _shortened(printable(row[header]), most)} for row in shorter]
        over -= now - most
    return shorter


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def lines(
    headers: Sequence[str],
    rows: Sequence[Row],
    *,
    has_headers: bool = True,
    colours: Mapping[str, str] | None = None,
    gap: str = GAP,
) -> list[str]:
    """The table's lines, without trailing blanks. `colours` maps whole cells to terminal sequences around them."""
    texts = [[header.upper() for header in headers]] if has_headers else []
    texts += [[printable(row[header]) for header in headers] for row in rows]
    widths = [max((len(line[i]) for line in texts), default=0) for i in range(len(headers))]
    return [_line(line, widths, colours or {}, gap) for line in texts]


def _line(cells: Sequence[str], widths: Sequence[int], colours: Mapping[str, str], gap: str) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[-1] = cells[-1]
    return gap.join(_painted(cell, text, colours) for cell, text in zip(cells, padded, strict=True)).rstrip()


def _painted(cell: str, text: str, colours: Mapping[str, str]) -> str:
    return f"{colours[cell]}{text}{RESET}" if cell in colours else text


def _total(headers: Sequence[str], rows: Sequence[Row], gap: str) -> int:
    return sum(_width(header, rows) for header in headers) + len(gap) * (len(headers) - 1)


def _width(header: str, rows: Sequence[Row]) -> int:
    return max([len(header), *(len(printable(row[header])) for row in rows)])
