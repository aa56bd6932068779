"""`python -m balloons`."""

import sys


def main() -> None:
    """Also while commands are still being imported Ctrl-C is an end, and no traceback."""
    try:
        from balloons.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
