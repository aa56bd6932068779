"""The entry point: `balloons`, `kubectl balloons` and `python -m balloons`.

Nothing heavy is imported before a command runs: help and completion answer at once.
"""

import io
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from balloons.cli.doctor_command import doctor
from balloons.cli.dump_command import dump
from balloons.cli.explain_command import explain
from balloons.cli.guard_and_give_back_command import give_back, guard
from balloons.cli.options_and_values import Choice
from balloons.cli.pause_and_resume_command import pause, resume
from balloons.cli.plan_and_simulate_command import plan, simulate
from balloons.cli.report_command import report
from balloons.cli.run_command import run
from balloons.cli.status_and_top_command import status, top
from balloons.cli.terminal import ExitCode, end_quietly, fail
from balloons.cli.version_command import own_version, version

_KUBECTL = """\
#!/bin/sh
# Completion of `kubectl balloons`: put this on your PATH as kubectl_complete-balloons and make it executable.
COMP_WORDS="balloons $*" COMP_CWORD="$#" _BALLOONS_COMPLETE=bash_complete balloons | sed 's/^[^,]*,//'
echo ":4"
"""
COMPLETION = "_BALLOONS_COMPLETE"
"""Set by the shell's completion script."""


@click.command(short_help="Print the script by which a shell completes `balloons`.")
@click.argument("shell", type=Choice(["bash", "zsh", "fish", "kubectl"]))
def completion(shell: str) -> None:
    """Print the script by which a shell completes `balloons`.

    \b
    Examples:
      source <(balloons completion bash)
      balloons completion kubectl > ~/.local/bin/kubectl_complete-balloons
    """
    click.echo(_KUBECTL if shell == "kubectl" else _script(shell), nl=False)


def _script(shell: str) -> str:
    from click.shell_completion import get_completion_class

    made_by = get_completion_class(shell)
    if made_by is None:
        raise click.UsageError(f"no completion for {shell}")
    return made_by(balloons, {}, "balloons", COMPLETION).source().strip() + "\n"


LEAST_WIDTH = 30
"""Columns of help; a terminal that is narrower breaks the lines itself."""
LONGEST_COMMAND = 10
"""Letters of `completion`."""


class HelpText(click.HelpFormatter):
    """Help as wide as the terminal, also below the 50 columns that click takes for the least."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns
        width = max(LEAST_WIDTH, min(columns, max_width or columns) - 2) if width is None else width
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Two columns; a name that would take more than two fifths of the line has its text below."""
        super().write_dl(rows, min(col_max, max(LONGEST_COMMAND, self.width * 2 // 5)), col_spacing)


class OwnContext(click.Context):
    """Help in our own format."""

    formatter_class = HelpText


class Commands(click.Group):
    """A group that suggests what a misspelt command may have meant."""

    context_class = OwnContext

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """One whose help looks as the group's."""
        cmd.context_class = self.context_class
        super().add_command(cmd, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; fails naming the nearest ones."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], self.commands, n=3)
            meant = f" did you mean {' or '.join(near)}?" if near else f" accepted: {', '.join(sorted(self.commands))}"
            ctx.fail(f"no command {args[0]!r};{meant}")
        return super().resolve_command(ctx, args)


def _tell_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        click.echo(f"balloons {own_version()}")
        context.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version and exit.",
)
def balloons() -> None:
    """Keep idle nodes warm, pace scale-ups, and predict what a scale-up does.

    \b
    Examples:
      balloons doctor          find what fails silently
      balloons plan --add 500  predict a scale-up
      balloons status -A       show all pools and throttles
    """


for command in (
    completion,
    doctor,
    dump,
    explain,
    give_back,
    guard,
    pause,
    plan,
    report,
    resume,
    run,
    simulate,
    status,
    top,
    version,
):
    balloons.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _stand_in_for_closed_streams()
    _spell_out_what_cannot_be_written()
    sys.exit(_run(arguments, is_debug="--debug" in arguments))


def _stand_in_for_closed_streams() -> None:
    """Whoever starts us without a stream (`>&-`) hears nothing there. No file that we open may take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _spell_out_what_cannot_be_written() -> None:
    """A name of the cluster that this terminal's encoding has no letters for is no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def program_name(argv0: str) -> str:
    """How the user called us: kubectl finds plug-ins by the name kubectl-balloons."""
    name = Path(argv0).name
    if name.startswith("kubectl-"):
        return name.replace("-", " ", 1)
    return "balloons" if name in ("__main__.py", "") else name


def _run(arguments: list[str], *, is_debug: bool) -> int:
    try:
        result = _invoke(arguments)
        sys.stdout.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        end_quietly()
        return ExitCode.DONE
    except Exception as error:  # whatever it is, a user is told in a sentence
        if is_debug and not isinstance(error, click.ClickException):
            raise
        return fail(error)
    return result if isinstance(result, int) else ExitCode.DONE


def _invoke(arguments: list[str]) -> object:
    """Not `balloons.main`, which answers a closed pipe with exit code 1: for `| head` all is well."""
    if COMPLETION in os.environ:
        return balloons.main(arguments, prog_name="balloons")
    with balloons.make_context(program_name(sys.argv[0]), arguments) as context:
        return balloons.invoke(context)
