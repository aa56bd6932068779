"""A status condition, as every kind of ours carries it. Pure."""

import msgspec


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A status condition with the meaning kstatus gives it."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str = ""
    observed_generation: int = 0
