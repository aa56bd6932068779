"""`python -m balloons`."""

import os
import signal
import sys


def main() -> None:
    """Also while commands are still being imported Ctrl-C is an end, and no traceback; and SIGTERM is an end.

    The kernel keeps from a container's first process what it has no handler for. A service that was told to stop while
    it started would lead, and hold, until it was killed.
    """
    if os.getpid() == 1:
        # At once, as SIGTERM ends any other process: modules that are being imported may swallow an exception.
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(128 + number))
    try:
        from balloons.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
