"""Splits the allowance of one throttle: between the autoscalers where it has a ceiling for each, then between pools.

Which of them will order for a pending pod, and in which pool, cannot be known. Machines that are on their way are
evidence of demand, so a share grows with them; who has none counts as one. What a share leaves unused is in the next
allowance again, so a single busy pool soon has all of it.
"""

from collections.abc import Mapping

from throttler.levers.lever import Room

TURN_S = 30.0
"""What does not divide goes to each autoscaler in turn for so long: both look within ten seconds (facts.md 2.9)."""


def by_autoscaler(room: Room, by_groups: int, now_s: float) -> tuple[int, int]:
    """How many nodes cluster-autoscaler, and how many Karpenter, may order of one allowance.

    `by_groups` of the booting machines are cluster-autoscaler's.
    """
    share, rest = divmod(room.allowance * (1 + min(by_groups, room.booting)), 2 + room.booting)
    share += 1 if rest and int(now_s // TURN_S) % 2 == 0 else 0
    return share, room.allowance - share


def shares(allowance: int, booting: Mapping[str, int]) -> dict[str, int]:
    """Pool -> nodes it may order now; they add up to `allowance`. `booting` are the machines on their way."""
    weights = {name: 1 + count for name, count in booting.items()}
    whole = sum(weights.values())
    result = {name: allowance * weight // whole for name, weight in weights.items()}
    rests = sorted(weights, key=lambda name: (-(allowance * weights[name] % whole), -weights[name], name))
    for name in rests[: allowance - sum(result.values())]:
        result[name] += 1
    return result
