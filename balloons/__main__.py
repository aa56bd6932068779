"""`python -m balloons`."""

from balloons.cli.main import main

if __name__ == "__main__":
    main()
