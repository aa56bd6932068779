"""Randomness: one stream of numbers per concern, all from one seed, so that a change in one leaves the others alone."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Streams:
    """Both grains draw boots, scrapes and background alike: an equal seed is the same weather for both."""

    boots: np.random.Generator
    scrapes: np.random.Generator
    background: np.random.Generator
    arrivals: np.random.Generator
    connections: np.random.Generator
    thinking: np.random.Generator

    @classmethod
    def of(cls, seed: int) -> "Streams":
        """The streams of one seed (any integer >= 0)."""
        return cls(*(np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(6)))
