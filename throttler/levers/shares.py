"""Splits the allowance of one throttle between its NodePools.

Which pool Karpenter will take for a pending pod cannot be known. Machines that are on their way are evidence of
demand, so a pool's share grows with them; every pool without any counts as one. What a share leaves unused is in the
next allowance again, so a single busy pool soon has all of it.
"""

from collections.abc import Mapping


def shares(allowance: int, booting: Mapping[str, int]) -> dict[str, int]:
    """Pool -> nodes it may order now; they add up to `allowance`. `booting` are the machines on their way."""
    weights = {name: 1 + count for name, count in booting.items()}
    whole = sum(weights.values())
    result = {name: allowance * weight // whole for name, weight in weights.items()}
    rests = sorted(weights, key=lambda name: (-(allowance * weights[name] % whole), -weights[name], name))
    for name in rests[: allowance - sum(result.values())]:
        result[name] += 1
    return result
