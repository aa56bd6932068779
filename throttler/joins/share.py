"""One amount shared among several: the cluster's window among throttles, a throttle's budget among NodePools."""

from collections.abc import Mapping, Sequence


def fair_shares(total: int, wants: Mapping[str, int], turn: Sequence[str] = ()) -> dict[str, int]:
    """Give nobody more than it wants, and nobody less than another that got more (max-min fairness).

    What is left over when `total` does not divide goes to names in the order of `turn`, without it in alphabetical
    order, so that nothing flaps.
    """
    shares = dict.fromkeys(turn or sorted(wants), 0)
    left = max(0, total)
    hungry = [name for name in shares if wants.get(name, 0) > 0]
    while left and hungry:
        each = max(1, left // len(hungry))
        for name in hungry:
            given = min(each, left, wants[name] - shares[name])
            shares[name] += given
            left -= given
        hungry = [name for name in hungry if shares[name] < wants[name]]
    return shares
