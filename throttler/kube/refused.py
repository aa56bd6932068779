"""An object of ours that is stored and breaks a rule. Pure."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from throttler.kube.metadata import Metadata, ObjectKey, key_of

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Refused(Generic[S]):
    """Who it is, the sentence that says why, and the status it carries."""

    metadata: Metadata
    problem: str
    status: S

    @property
    def key(self) -> ObjectKey:
        """Namespace (empty where the kind has none) and name."""
        return key_of(self.metadata)
