"""The command line: `balloons`, also as `kubectl balloons`. Commands import what they need when they are run."""
