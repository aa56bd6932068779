"""With how many examples hypothesis tries a property that costs more, or less, than others."""

from hypothesis import settings


def examples(share: float) -> int:
    """So many for each of those that the profile in force gives to others: 100, and 25 in `make unit`."""
    return max(1, round(share * settings().max_examples))
