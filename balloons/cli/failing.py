"""How commands fail: one sentence on stderr and an exit code that scripts can rely on.

0 done; 1 failed while running; 2 bad input; 3 findings at or above what was asked; 4 a wait ran out; 130 interrupted.
"""

import enum
import errno
import os
import sys
from collections.abc import Iterator

import click

from balloons.printable import printable


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

    for each in _leaves(error):
        if isinstance(each, CommandError):
            return str(each), each.code
        if isinstance(each, ConfigError | SettingsError):
            return str(each), ExitCode.BAD_INPUT
        if isinstance(each, ApiError):
            return each.message, ExitCode.FAILED
        if isinstance(each, OSError) and each.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG):
            return f"the output cannot be written: {os.strerror(each.errno).lower()}", ExitCode.FAILED
    return f"unexpected {type(error).__name__}: {error}; --debug shows where", ExitCode.FAILED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside groups, as task groups raise them."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error


def fail(error: Exception) -> ExitCode:
    """Say what is wrong; returns the exit code."""
    if isinstance(error, click.ClickException):
        click.echo(f"error: {printable(error.format_message())}", err=True)
        if isinstance(error, click.UsageError) and error.ctx is not None:
            click.echo(f"see {error.ctx.command_path} --help", err=True)
        return ExitCode(error.exit_code)
    sentence, code = explain(error)
    click.echo(f"error: {printable(' '.join(sentence.split()))}", err=True)
    return code


def end_quietly() -> None:
    """Whoever read our output has gone (`| head`): nothing more to say, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
