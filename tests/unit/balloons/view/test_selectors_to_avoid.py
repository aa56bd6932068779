"""Which older pools' nodes a pool's balloons keep off: no more than needed, as a change replaces every balloon."""

import pytest

from balloons.api.pool import PoolNodes
from balloons.view.claim import Claim, Term, selectors_to_avoid
from tests.world import a_pool
from throttler.kube.metadata import ObjectKey
from throttler.kube.selectors import LabelSelector, Requirement

ZONE, OTHER = LabelSelector({"zone": "a"}), LabelSelector({"zone": "b"})
OWN = Requirement("pool", "In", ("gpu",))
NOT_A = Requirement("zone", "NotIn", ("a",))
YOUNG = a_pool("young", created_s=9.0)
OLDER = [a_pool(name, created_s=1.0, nodes=PoolNodes(selector)) for name, selector in (("a", ZONE), ("b", OTHER))]
A, B = (pool.key for pool in OLDER)


def avoided(
    *,
    lost: dict[ObjectKey, int],
    strayed_to: tuple[ObjectKey, ...] = (),
    terms: tuple[Term, ...] = ((OWN,),),
    stored: tuple[Term, ...] = (),
) -> tuple[LabelSelector, ...]:
    claim = Claim(lost=lost, strayed_to=set(strayed_to))
    return selectors_to_avoid(YOUNG, terms, stored, claim, OLDER)


def test_a_deployment_that_is_made_keeps_off_the_pools_that_took_nodes_and_no_others() -> None:
    assert avoided(lost={A: 3}) == (ZONE,)
    assert avoided(lost={B: 1}) == (OTHER,)
    assert avoided(lost={}) == ()


def test_balloons_that_never_strayed_are_not_replaced_for_a_pool_that_took_nodes() -> None:
    stored = ((OWN,),)
    assert avoided(lost={A: 3}, stored=stored) == ()
    assert avoided(lost={A: 3, B: 1}, stored=stored, strayed_to=(B,)) == (OTHER,)
    assert avoided(lost={A: 3}, stored=stored, strayed_to=(B,)) == (), "to a pool that has taken no node"


def test_a_pool_that_was_kept_off_stays_so_while_no_balloon_strays() -> None:
    assert avoided(lost={A: 3}, stored=((OWN, NOT_A),)) == (ZONE,)


def test_one_alternative_of_two_that_keeps_off_a_pool_is_not_all_of_it() -> None:
    two = ((OWN, NOT_A), (OWN,))
    assert avoided(lost={A: 3}, stored=two) == ()
    assert avoided(lost={A: 3}, stored=two, strayed_to=(A,)) == (ZONE,)


@pytest.mark.parametrize(
    ("terms", "keeps_off"),
    [(((OWN, NOT_A),), False), (((OWN, NOT_A), (OWN,)), True), (((OWN,),), True)],
)
def test_what_the_pools_own_selector_rules_out_is_not_said_twice(terms: tuple[Term, ...], keeps_off: bool) -> None:
    assert avoided(lost={A: 3}, terms=terms) == ((ZONE,) if keeps_off else ())
