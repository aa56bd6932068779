"""How a user names one object: NAME, NAMESPACE/NAME as our own tables print it, or NAME with -n."""

from balloons.cli.failing import CommandError, ExitCode

IN_NAMESPACES = ("pod", "pool")


def named(subject: str, name: str, namespace: str | None) -> tuple[str, str | None]:
    """Name and namespace, None where none was given; raises CommandError when two different ones were."""
    before, slash, after = name.partition("/")
    if not slash or subject not in IN_NAMESPACES:
        return name, namespace
    if namespace not in (None, before):
        message = f"{subject} {name!r} names another namespace than -n {namespace}; accepted is one of the two"
        raise CommandError(message, ExitCode.BAD_INPUT)
    return after, before
