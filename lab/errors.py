"""The one error that the lab raises at its edge; its message is meant to be read by a person."""


class LabError(Exception):
    """Something the lab needs is missing, broke or did not become ready; the message says what and where."""
