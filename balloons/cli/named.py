"""How a user names one object: kind NAME or kind/NAME, in a namespace or with one before the name."""

from typing import TYPE_CHECKING

import click

from balloons.cli.complete import names_of
from balloons.cli.failing import CommandError, ExitCode

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

IN_NAMESPACES = ("pod", "pool")
KINDS = {"balloonpool": "pool", "nodepool": "pool", "jointhrottle": "throttle"}
"""What kubectl and `status -o name` call them."""


class Subject(click.Choice[str]):
    """One of them, also in the plural, and as kubectl prints objects: `pod/NAME`."""

    name = "subject"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """`pod`, or `pod/NAME` with the name still on it."""
        kind, slash, name = value.partition("/")
        word = kind.partition(".")[0].removesuffix("s")
        return super().convert(KINDS.get(word, word), param, ctx) + slash + name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        """The kinds; after a slash the names."""
        from click.shell_completion import CompletionItem

        kind, slash, begun = incomplete.partition("/")
        if not slash:
            return super().shell_complete(ctx, param, incomplete)
        found = names_of(ctx, kind.removesuffix("s"), begun)
        return [CompletionItem(f"{kind}/{name}") for name in found]


def named(subject: str, name: str | None, namespace: str | None) -> tuple[str, str, str | None]:
    """Kind, name, and namespace where one was said: of `kind NAME`, `kind/NAME`, and NAMESPACE/NAME in place of NAME.

    Raises click.UsageError where there is no name or two, and CommandError where there are two different namespaces.
    """
    kind, _, slashed = subject.partition("/")
    if bool(slashed) == bool(name):
        raise click.UsageError(f"which {kind}? accepted: {kind} NAME, or {kind}/NAME")
    said = name or slashed
    before, slash, after = said.partition("/")
    if not slash or kind not in IN_NAMESPACES:
        return kind, said, namespace
    if namespace not in (None, before):
        message = f"{kind} {said!r} names another namespace than -n {namespace}; accepted is one of the two"
        raise CommandError(message, ExitCode.BAD_INPUT)
    return kind, after, before
